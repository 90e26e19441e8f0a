"""Main questions on long, real and comparative scales."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import accord_json, printed, read_rows, refused, write, write_rows
from small_sample import sources

from accord import Evaluator, Label, Labels, Question, Scale, Score, Target, compare, load_evaluator, load_rubric
from accord.edges import BadInput
from accord.evidence import (
    Column,
    EvidenceTable,
    in_pairs,
    ratings,
)
from accord.evidence.rating_rows import differences
from accord.learning import Calibration
from accord.learning.calibration.levels import (
    MOST_LEVELS,
    ScaleLevels,
)
from accord.statistics import (
    Clusters,
    Paired,
    diagrams,
    pearson,
    range_names,
)
from accord.statistics.agreement import smece_by_option
from accord.testing import planted
from accord.values.rubric import Applies

REAL = Question(id="main", text="How good is it, from -1 to 1?", scale=Scale(kind="real", low=-1, high=1))
SLIDER = Question(id="main", text="How good is it, from 0 to 100?", scale=Scale(options=tuple(range(101))))


def on(question: Question, conversations: int = 120) -> tuple[EvidenceTable, Labels, np.ndarray]:
    """Planted corpus with labels on another scale, and each conversation's latent quality."""
    drawn = planted(conversations=conversations, annotators=4, noise=0.4)
    quality = drawn.evidence.values @ drawn.weights
    rng, row = np.random.default_rng(1), {target: i for i, target in enumerate(drawn.evidence.targets)}
    labels = []
    for label in drawn.labels:
        value = np.clip((quality[row[label.target]] + drawn.levels[label.annotator] + rng.normal(scale=0.3)) / 3, -1, 1)
        real = question.scale.kind == "real"
        said = float(value) if real else int(np.rint(50 * (value + 1)))
        labels.append(Label(label.target, "main", label.annotator, said))
    return drawn.evidence, Labels(labels), quality


@pytest.mark.parametrize("question", [REAL, SLIDER], ids=["real", "slider"])
def test_long_scale_is_learned_predicted_saved_and_compared(question: Question, tmp_path: Path) -> None:
    evidence, labels, quality = on(question)
    evaluator = Calibration(question, "mixed").fit(evidence, labels)
    scores = [score for score in evaluator.predict(evidence, "p1") if isinstance(score, Score)]
    assert len(scores[0].probabilities) == 101 and sum(scores[0].probabilities) == pytest.approx(1)
    assert (pearson(quality, np.array([score.value for score in scores])) or 0) > 0.95
    assert scores[0].band is not None and question.scale.numbers[0] <= scores[0].band[0] < scores[0].band[1]
    Evaluator(question, (), evaluator, head_name="mixed").save(tmp_path / "e")
    again = load_evaluator(tmp_path / "e").head.predict(evidence, "p1")
    assert [score.to_json() for score in again] == [score.to_json() for score in scores]
    found = compare(evidence, labels, question, draws=40, factories={"default": lambda q: Calibration(q, "mixed")})
    assert (found["default"].values["pearson"] or 0) > 0.8 > (found["constant"].values["pearson"] or 0)
    assert (found["default"].values["log_loss"] or 9) < (found["constant"].values["log_loss"] or 0) - 0.3
    assert 0.8 < (found["default"].values["coverage"] or 0) <= 1
    assert len(found["default"].smece) == 5


def test_network_learns_a_long_scale() -> None:
    pytest.importorskip("jax", reason="networks are trained with accord[networks]")
    evidence, labels, quality = on(SLIDER)
    settings = {"members": 1, "pooling": 10.0, "decay": 0.3}
    evaluator = Calibration(SLIDER, "network", network=settings).fit(evidence, labels)
    values = [score.value for score in evaluator.predict(evidence) if isinstance(score, Score)]
    assert (pearson(quality, np.array(values)) or 0) > 0.9


def test_levels_are_balanced_and_cover_every_option() -> None:
    evidence, labels, _ = on(SLIDER)
    rated = ratings(evidence, labels, SLIDER)
    levels = ScaleLevels.fit(rated)
    coarse = levels.coarse(rated)
    counts = np.bincount(coarse.answer)
    assert len(coarse.options) == len(counts) == MOST_LEVELS and counts.min() > 0.5 * counts.mean()
    assert (np.diff(coarse.options) > 0).all() and (coarse.value == rated.value).all()
    shares = np.random.default_rng(0).dirichlet(np.ones(MOST_LEVELS), size=3)
    fine = levels.fine(shares)
    assert fine.sum(axis=1) == pytest.approx(np.ones(3))
    assert np.stack([fine[:, levels.of == level].sum(axis=1) for level in range(MOST_LEVELS)], 1) == pytest.approx(
        shares
    )


def test_levels_of_equal_answers_and_of_short_scales() -> None:
    evidence, labels, _ = on(SLIDER)
    for value in (0, 50, 100):
        same = ratings(evidence, Labels(Label(x.target, x.question, x.annotator, value) for x in labels), SLIDER)
        levels = ScaleLevels.fit(same)
        assert levels.of.max() >= 1 and levels.within[levels.of == 0].sum() == pytest.approx(1)
    drawn = planted()
    rated = ratings(drawn.evidence, drawn.labels, drawn.question)
    assert ScaleLevels.fit(rated).coarse(rated) is rated


@pytest.mark.parametrize("last", [5, 10, 100])
@pytest.mark.parametrize("labels", [10, 20, 40, 80])
def test_imagined_ratings_do_not_move_scores_of_long_scales(last: int, labels: int) -> None:
    first = 1 if last == 5 else 0
    question = Question(id="main", text="How good is it?", scale=Scale(options=tuple(range(first, last + 1))))
    rng = np.random.default_rng(labels)
    given = np.clip(np.rint(last * (0.85 + rng.normal(0, 0.08, labels))), first, last).astype(int)
    targets = tuple(Target(f"c{place}") for place in range(labels))
    evidence = EvidenceTable(targets, (Column("x", "x"),), np.ones((labels, 1)), np.ones((labels, 1), dtype=bool))
    said = [Label(target, "main", "p", int(value)) for target, value in zip(targets, given, strict=True)]
    rated = ratings(evidence, Labels(said), question)
    levels = ScaleLevels.fit(rated)
    coarse = levels.coarse(rated)
    shares = np.bincount(coarse.answer, minlength=len(coarse.options)) / labels
    mean = float((levels.fine(shares[None]) @ rated.options)[0])
    assert mean == pytest.approx(given.mean(), abs=0.03 * (last - first)), "levels keep the mean rating"
    assert (levels.within > 0).all(), "every option stays possible"


def test_real_answers_are_rounded_to_a_hundredth_of_the_scale() -> None:
    evidence, labels, _ = on(REAL)
    rated = ratings(evidence, labels, REAL)
    said = np.array([label.value for label in rated.labels], dtype=float)
    assert np.abs(rated.value - said).max() <= 0.01 + 1e-9 and (rated.options[rated.answer] == rated.value).all()


def test_long_scales_are_shown_in_ranges() -> None:
    options = np.linspace(0, 1, 101)
    assert range_names(options) == ["0 to 0.19", "0.2 to 0.39", "0.4 to 0.59", "0.6 to 0.79", "0.8 to 1"]
    assert range_names(np.arange(1.0, 5)) == ["1", "2", "3", "4"]
    rng = np.random.default_rng(0)
    answer = rng.integers(101, size=200)
    paired = Paired(options, answer, np.full((200, 101), 1 / 101), options[answer])
    assert len(smece_by_option(paired)) == 5 and paired.in_ranges().probabilities.sum(axis=1) == pytest.approx(1)
    assert paired.step == pytest.approx(0.1)
    assert [d.option for d in diagrams(paired, Clusters([str(i) for i in range(200)]), 5)] == range_names(options)


def test_a_long_scale_may_be_uneven() -> None:
    options = np.array([1.0, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144])
    assert range_names(options) == ["1 to 21", "34 to 55", "89", "144"]
    paired = Paired(options, np.arange(11), np.full((11, 11), 1 / 11), options)
    assert np.isfinite(paired.in_ranges().options).all() and len(smece_by_option(paired)) == 4


def test_invalid_scales_are_rejected() -> None:
    for low, high in ((0, float("inf")), (float("nan"), 1), (1, 1)):
        with pytest.raises(ValueError, match="two finite ends"):
            Scale(kind="real", low=low, high=high)
    with pytest.raises(ValueError, match="2 to 101 options"):
        Scale(options=tuple(range(102)))
    with pytest.raises(ValueError, match="nominal scale has 2 to 10"):
        Scale(kind="nominal", options=tuple(f"o{i}" for i in range(11)))


# --- comparisons ---------------------------------------------------------------------------------------------------

BETTER = Question(
    id="better", text="Which is better?", scale=Scale(kind="binary", options=(0, 1)), applies=Applies.PAIRS
)


def compared(pairs: int = 150, ring: bool = False) -> tuple[EvidenceTable, Labels, np.ndarray]:
    """Four people compare pairs of planted conversations; those of a ring share one with the next pair."""
    drawn = planted(conversations=2 * pairs)
    quality, rng = drawn.evidence.values @ drawn.weights, np.random.default_rng(2)
    labels = []
    for k in range(pairs):
        first, second = (k, (k + 1) % pairs) if ring else (2 * k, 2 * k + 1)
        for person in range(4):
            won = quality[first] - quality[second] + rng.normal(scale=0.4) > 0
            a, b = drawn.evidence.targets[first], drawn.evidence.targets[second]
            labels.append(Label(a, "better", f"p{person}", int(won), against=b))
    return drawn.evidence, Labels(labels), quality


def test_comparisons_are_learned_and_single_conversations_scored_against_the_average() -> None:
    evidence, labels, quality = compared()
    table, said = in_pairs(evidence, labels, BETTER)
    assert len(table) == 150 and len(said) == 600
    found = compare(table, said, BETTER, draws=40, factories={"default": lambda q: Calibration(q, "mixed")})
    assert (found["default"].values["accuracy"] or 0) > 0.8
    evaluator = Calibration(BETTER, "mixed").fit(table, said)
    values = np.array([score.value for score in evaluator.predict(evidence) if isinstance(score, Score)])
    assert (pearson(quality, values) or 0) > 0.9 and abs(np.median(values) - 0.5) < 0.1
    targets = evidence.targets
    both = evaluator.predict(differences(evidence, [(targets[0], targets[1]), (targets[1], targets[0])]))
    one, other = (score.value for score in both if isinstance(score, Score))
    assert one + other == pytest.approx(1, abs=0.1)


def test_pairs_that_share_a_conversation_stay_in_one_fold() -> None:
    evidence, labels, _ = compared(ring=True)
    table, said = in_pairs(evidence, labels, BETTER)
    assert len({target.conversation for target in table.targets}) == 1 and len(set(table.targets)) == 150
    with pytest.raises(BadInput, match="1 group of conversations"):
        compare(table, said, BETTER, draws=10)


def test_pairs_have_their_own_names() -> None:
    drawn = planted(conversations=4)
    ids = ["a | b", "c", "a", "b | c"]
    table = EvidenceTable(
        tuple(map(Target, ids)), drawn.evidence.columns, drawn.evidence.values, drawn.evidence.present
    )
    named = differences(table, [(Target("a | b"), Target("c")), (Target("a"), Target("b | c"))]).targets
    assert len(set(named)) == 2


def test_a_network_of_distributions_scores_single_conversations_after_comparisons() -> None:
    pytest.importorskip("jax", reason="networks are trained with accord[networks]")
    evidence, labels, _ = compared(40)
    blocks = tuple(Column(f"h={o}", "judge", "h", float(o)) for o in (1, 2))
    shares = np.column_stack([1 / (1 + np.exp(-evidence.values[:, 0])), 1 / (1 + np.exp(evidence.values[:, 0]))])
    answers = EvidenceTable(evidence.targets, blocks, shares, np.ones(shares.shape, dtype=bool))
    settings = {"like": "paper", "finetune": 2, "pretrain": 1}
    evaluator = Calibration(BETTER, "network", network=settings).fit(*in_pairs(answers, labels, BETTER))
    assert all(isinstance(score, Score) for score in evaluator.predict(answers))


def test_incomplete_comparisons_are_reported() -> None:
    evidence, labels, _ = compared(4)
    one_sided = Labels([Label(evidence.targets[0], "better", "ann", 1)])
    with pytest.raises(BadInput, match="give the other in a column `against`"):
        in_pairs(evidence, one_sided, BETTER)
    with pytest.raises(BadInput, match="nowhere has no evidence"):
        differences(evidence, [(evidence.targets[0], Target("nowhere"))])
    unknown = Labels([*labels, Label(evidence.targets[0], "better", "ann", 1, against=Target("nowhere"))])
    assert len(in_pairs(evidence, unknown, BETTER)[1]) == len(labels)


RUBRIC = """
name: pairs
main: better
questions:
  - id: better
    text: Which of the two conversations helped the user more?
    scale: ordinal
    options: {0: the second, 1: about the same, 2: the first}
    applies: pairs
  - id: clear
    text: Is the answer clear?
    options: {1: no, 2: partly, 3: mostly, 4: yes}
"""


def test_comparisons_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chats, _ = sources()
    names = [json.loads(line)["id"] for line in Path(str(chats)).read_text(encoding="utf-8").splitlines()]
    printed("init")
    write("rubric.yaml", RUBRIC)
    write("accord.yaml", "rubric: rubric.yaml\ndraws: 20\nfolds: 3\nevaluators: {default: {head: mixed}}\n")
    rng = np.random.default_rng(0)
    rows = [
        {"conversation": a, "against": b, "annotator": who, "value": said}
        for a, b in zip(names[::2], names[1::2], strict=False)
        for who in ("ann", "bo")
        for said in [("first", "second", "tie", a, b)[rng.integers(5)]]
    ]
    write_rows("labels.jsonl", rows)
    printed("import", str(chats), "labels.jsonl")
    printed("fit", "default")
    shown = accord_json("compare")
    assert shown["ratings"] == len(rows) and shown["question"] == "better"
    printed("score", str(chats), "--out", "scores.jsonl")
    scores = read_rows("scores.jsonl")
    assert len(scores) == len(names) and all(0 <= row["value"] <= 2 for row in scores)
    printed("report", "--out", "report.html")
    assert "A comparison" in Path("report.html").read_text(encoding="utf-8")
    assert "compares two conversations" in refused("label", "next")


def test_numbers_are_answers_before_names(tmp_path: Path) -> None:
    from accord.formats import read_labels

    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    rows = [
        "4,2,ann,better,2",
        "1,0,ann,better,1",
        "7,x,ann,better,x",
        "y,second,ann,better,second",
        "a,b,ann,better,tie",
    ]
    (tmp_path / "labels.csv").write_text(
        "\n".join(["conversation,against,annotator,question,value", *rows]), encoding="utf-8"
    )
    found = list(read_labels(tmp_path / "labels.csv", load_rubric(tmp_path / "rubric.yaml")))
    assert [label.value for label in found] == [2, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("c,,ann,better,first", "give the other|name the other one"),
        ("c,d,ann,clear,2", "is about one conversation"),
        ("c,d,ann,better,third", "allowed: 0, 1, 2"),
    ],
)
def test_wrong_comparisons_are_named(row: str, says: str, tmp_path: Path) -> None:
    from accord.formats import read_labels

    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "labels.csv").write_text(f"conversation,against,annotator,question,value\n{row}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=says):
        list(read_labels(tmp_path / "labels.csv", load_rubric(tmp_path / "rubric.yaml")))
