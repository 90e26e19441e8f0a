"""Prediction-powered means of systems: coverage of intervals for various labels, scores, annotators and topics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import accord_json, printed, refused, write, write_rows
from scipy.stats import ttest_ind, ttest_rel
from synthetic_corpus import planted_turns

from accord import Conversation, Label, Labels, Score, Target, Turn
from accord.edges import BadInput
from accord.evidence import Column, EvidenceTable
from accord.learning import Calibration
from accord.statistics import (
    LabeledSystem,
    MeanDifference,
    SystemMean,
    estimate_systems,
    groups_of,
    label_plans,
    mean_differences,
    stratified_means,
)
from accord.statistics.corrected_means import estimate_system
from accord.testing import planted
from accord.validation import system_means
from accord.validation.estimation import labeled_systems
from accord.values import Question, Rubric, Sample, Scale, Signature, dump_rubric, score_from

QUESTION = Question(id="main", text="How good is it?", scale=Scale(options=(1, 2, 3, 4, 5, 6, 7, 8, 9)))


def mixed(question: object) -> Calibration:
    return Calibration(question, answer_model="mixed")  # type: ignore[arg-type]


def test_prediction_powered_intervals_hold_and_are_shorter() -> None:
    rng = np.random.default_rng(0)
    inside, shorter, useless = 0, 0, 0
    for _ in range(300):
        quality = rng.normal(size=640)
        said_, scored = quality + rng.normal(scale=0.5, size=640), 0.7 * quality + 1.3  # biased, on another scale
        found = estimate_system("s", said_[:40], scored[:40], scored[40:])
        inside += found.low <= 0 <= found.high
        shorter += found.worth > 1
        blind = estimate_system("s", said_[:40], rng.normal(size=40), rng.normal(size=600))
        useless += blind.low <= 0 <= blind.high
    assert inside >= 0.92 * 300 and useless >= 0.92 * 300 and shorter >= 0.95 * 300
    alone = estimate_system("s", said_[:40], scored[:40], np.zeros(0))
    assert (alone.mean, alone.low, alone.trust) == pytest.approx((alone.label_mean, alone.label_low, 0))
    with pytest.raises(BadInput, match="needs at least 5"):
        estimate_system("s", said_[:4], scored[:4], scored[40:])


def test_systems_are_compared_by_all_their_conversations() -> None:
    corpus = planted(conversations=400, annotators=4, noise=0.4)
    quality = corpus.evidence.values @ corpus.weights
    system = {
        t.conversation: ("good" if q > 0 else "poor") for t, q in zip(corpus.evidence.targets, quality, strict=True)
    }
    few = Labels(label for label in corpus.labels if label.target.conversation < "c0120")
    good, poor = system_means(corpus.evidence, few, corpus.question, mixed, system)
    assert (good.system, poor.system) == ("good", "poor") and good.scored + poor.scored == 400
    assert good.worth > 1 and poor.worth > 1
    [gap] = mean_differences([good, poor])
    assert gap.difference == pytest.approx(good.mean - poor.mean) and gap.low > 0 and gap.p_holm < 0.001


def test_equal_systems_differ_no_more_often_than_the_level() -> None:
    rng, n = np.random.default_rng(5), 5
    draws, found = 600, 0
    for _ in range(draws):
        worlds = []
        for name in "ab":
            quality = rng.normal(size=n + 200)
            said_, scored = quality + rng.normal(scale=0.5, size=n + 200), 0.7 * quality + 1.3
            worlds.append(LabeledSystem(name, said_[:n], scored[:n], scored[n:]))
        [gap] = mean_differences(estimate_systems(worlds))
        assert gap.p_holm is not None
        found += gap.p_holm < 0.05
    assert found <= 0.055 * draws


def test_without_scores_the_gap_is_that_of_welch_and_of_the_paired_t() -> None:
    rng = np.random.default_rng(0)
    topic = rng.normal(size=9)
    first, second = topic + rng.normal(scale=0.3, size=9), topic + 0.2 + rng.normal(scale=0.3, size=9)
    few, nothing = 3 * rng.normal(size=6), np.zeros(0)
    [gap] = mean_differences(
        estimate_systems([LabeledSystem("a", first, first, nothing), LabeledSystem("b", few, few, nothing)])
    )
    welch = ttest_ind(first, few, equal_var=False)
    assert gap.p_holm == pytest.approx(welch.pvalue) and gap.shared == 0
    assert (gap.low, gap.high) == pytest.approx(tuple(welch.confidence_interval()))
    names = [f"topic {place}" for place in range(9)]
    pair = [
        LabeledSystem("a", first, first, nothing, names, []),
        LabeledSystem("b", second, second, nothing, names, []),
    ]
    [paired] = mean_differences(estimate_systems(pair))
    test = ttest_rel(first, second)
    assert paired.p_holm == pytest.approx(test.pvalue) and paired.shared == 9
    assert (paired.low, paired.high) == pytest.approx(tuple(test.confidence_interval()))
    [alone] = mean_differences(
        estimate_systems([LabeledSystem("a", first, first, nothing), LabeledSystem("b", second, second, nothing)])
    )
    assert width(paired) < 0.6 * width(alone)


@pytest.mark.parametrize("systems", [1, 3])
def test_means_of_turns_vary_between_conversations(systems: int) -> None:
    inside, widths = 0, []
    for seed in range(5):
        world = planted_turns(conversations=90, turns=5, spread=0.5, seed=seed)
        system = {f"c{place:04d}": "abc"[place % systems] for place in range(90)}
        few = Labels(label for label in world.labels if label.target.conversation < "c0030")
        found = system_means(world.evidence, few, world.question, mixed, system, folds=2)
        assert [each.scored for each in found] == [450 // systems] * systems
        assert [each.labelled for each in found] == [150 // systems] * systems
        for each in found:
            true = np.mean([x.value for x in world.labels if system[x.target.conversation] == each.system])
            inside += each.low <= true <= each.high  # type: ignore[operator]
            rated = [x.value for x in few if system[x.target.conversation] == each.system]
            widths.append((each.label_high - each.label_low) / (3.92 * np.std(rated) / len(rated) ** 0.5))  # type: ignore[operator]
    assert inside >= 0.8 * 5 * systems
    assert np.mean(widths) > 1.3, "turns of a conversation are no independent ratings"


def test_turns_of_one_system_need_five_labels_and_two_conversations() -> None:
    world = planted_turns(conversations=40, turns=4)
    system = {f"c{place:04d}": "new" if place == 0 else "old" for place in range(40)}

    def means(*rated: int) -> list[SystemMean]:
        labels = Labels(label for place, label in enumerate(world.labels) if place in rated)
        return system_means(world.evidence, labels, world.question, lambda q: Calibration(q, "constant"), system)

    with pytest.raises(BadInput, match="4 labeled turns of 'new'"):
        means(*range(40))
    with pytest.raises(BadInput, match="the ratings belong to 1 group"):
        means(*range(4))
    system["c0000"] = "old"
    [mean] = means(*range(24))
    assert (mean.labelled, mean.scored, mean.reason) == (24, 160, None) and mean.low < mean.mean < mean.high  # type: ignore[operator]
    both = EvidenceTable(
        (*world.evidence.targets[:-1], Target("whole")), world.evidence.columns, world.evidence.values,
        world.evidence.present,
    )  # fmt: skip
    with pytest.raises(BadInput, match="both turns and whole conversations"):
        system_means(both, world.labels, world.question, mixed, system)


def chat(place: int) -> dict[str, Any]:
    """A conversation of two replies by one of three systems."""
    said = [
        f"question {place} about topic {place * 7 % 11}",
        "a" * (5 + place % 4),
        f"more on {place}",
        "b " * (place % 5),
    ]
    roles = ("user", "assistant", "user", "assistant")
    messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=True)]
    return {"id": f"c{place:02d}", "system": f"bot-{place % 3}", "messages": messages}


def label(place: int, turn: int | None, value: int) -> dict[str, Any]:
    about = {} if turn is None else {"turn": turn}
    return {"conversation": f"c{place:02d}", "question": "main", "annotator": "ann", "value": value, **about}


@pytest.mark.parametrize("level", ["turn", "conversation"])
def test_estimate_at_the_level_of_the_labels(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    turns = (1, 3) if level == "turn" else (None,)
    labels = [label(place, turn, 1 + (place + (turn or 0)) % 5) for place in range(18) for turn in turns]
    write(
        "accord.yaml",
        "rubric: rubric.yaml\nfolds: 3\ndraws: 20\nevaluator: rated\nevaluators: {rated: {head: mixed}}\n",
    )
    write("rubric.yaml", dump_rubric(Rubric(name="r", questions=(QUESTION,), main="main")))
    printed("import", write_rows("chats.jsonl", map(chat, range(60))), write_rows("labels.jsonl", labels))
    found = accord_json("estimate")
    each = 20 * len(turns)
    assert (found["level"], found["evaluator"], found["scores"]) == (level, "rated", 3 * each)
    assert [(row["system"], row["labelled"], row["scored"]) for row in found["systems"]] == [
        (f"bot-{place}", 6 * len(turns), each) for place in range(3)
    ]
    assert len(found["differences"]) == 3 and all(row["low"] < row["mean"] < row["high"] for row in found["systems"])
    unit = f"{level}s"
    assert f"scores: {3 * each} {unit}, predicted by rated from evidence in the store" in printed("estimate")
    other = label(1, 1 if level == "conversation" else None, 3)
    printed("import", write_rows("other.jsonl", [other]))
    assert "both turns and whole conversations are rated on one question" in refused("estimate")
    write(
        "accord.yaml",
        f"rubric: rubric.yaml\nfolds: 3\ndraws: 20\nevaluator: rated\nevaluators: {{rated: {{head: mixed, level: {level}}}}}\n",
    )
    assert accord_json("estimate")["scores"] == 3 * each


def rated_project(labels: Sequence[dict[str, Any]], **fields: Any) -> None:
    """Import 30 conversations of three versions with two replies each, and labels."""
    write(
        "accord.yaml",
        "rubric: rubric.yaml\nfolds: 2\ndraws: 20\nevaluator: rated\nevaluators: {rated: {head: constant}}\n",
    )
    write("rubric.yaml", dump_rubric(Rubric(name="r", questions=(QUESTION,), main="main")))
    chats = [{**chat(place), **fields} for place in range(30)]
    printed("import", write_rows("chats.jsonl", chats), write_rows("labels.jsonl", labels))


MARKED, LAST = "the reply that its file marks", "the last reply of each conversation, as all labels are"
FIRST = "the first reply of each conversation, as all labels are"


@pytest.mark.parametrize(
    ("fields", "turns", "scored", "said"),
    [
        ({"level": "turn"}, [3], 10, MARKED),
        ({"level": "turn", "response_index": 1}, [1], 10, MARKED),
        ({}, [3], 10, LAST),
        ({}, [1], 10, FIRST),
        ({}, [1, 3], 20, ""),
    ],
    ids=["last reply is marked", "first reply is marked", "last is rated", "first is rated", "any is rated"],
)
def test_only_replies_that_people_could_have_rated_belong_to_a_version(
    fields: dict[str, Any], turns: list[int], scored: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other replies are context, which is often by another assistant."""
    monkeypatch.chdir(tmp_path)
    rated_project([label(place, turns[place % len(turns)], 1 + place % 4) for place in range(18)], **fields)
    found = accord_json("estimate")
    assert [(row["labelled"], row["scored"]) for row in found["systems"]] == [(6, scored)] * 3
    assert (found["units"], found["scores"]) == (said, 3 * scored)
    assert said in printed("estimate")
    suggested = {row["turn"] for row in accord_json("label", "next", "--count", "40", "--for", "agreement")["labels"]}
    assert suggested == set(turns), "these labels are a random part of the replies that are estimated"


def test_scores_of_files_count_the_reply_in_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rated_project([label(place, 3, 1 + place % 4) for place in range(18)], level="turn")
    rows = [
        {"conversation": f"n{place}", "turn": turn, "value": 9.0 if turn == 1 else 2.0, "signature": "far"}
        for place in range(40) for turn in (1, 3)
    ]  # fmt: skip
    write_rows("far.jsonl", rows)
    found = accord_json("estimate", "--scores", "far.jsonl=bot-0")
    assert (found["from_files"], [row["scored"] for row in found["systems"]]) == (40, [50, 10, 10])
    write_rows("odd.jsonl", [{**rows[0], "turn": "three"}])
    assert "the turn 'three' is not a whole number" in refused("estimate", "--scores", "odd.jsonl=bot-0")


def test_labels_that_are_no_random_part_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the conversations with the lowest scores are labeled."""
    monkeypatch.chdir(tmp_path)
    write(
        "accord.yaml",
        "rubric: rubric.yaml\nmetrics: [words]\nfolds: 2\nevaluator: rated\nevaluators: {rated: {head: ridge}}\n",
    )
    write("rubric.yaml", dump_rubric(Rubric(name="r", questions=(QUESTION,), main="main")))

    def talk(place: int) -> dict[str, Any]:
        messages = [{"role": "user", "content": f"question {place}"},
                    {"role": "assistant", "content": f"{place} " * (1 + place // 3)}]  # fmt: skip
        return {"id": f"c{place:02d}", "system": f"bot-{place % 2}", "messages": messages}

    chats = write_rows("chats.jsonl", map(talk, range(60)))
    low = [label(place, None, 1 + (place // 3 + place % 3) % 9) for place in range(24)]
    printed("import", chats, write_rows("labels.jsonl", low))
    assert set(accord_json("estimate")["cautions"]) == {"bot-0", "bot-1"}
    assert "bot-1: caution: the scores of its labeled conversations differ" in printed("estimate")


def test_versions_with_few_labels_are_named_and_the_others_are_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [label(place, None, 1 + place // 3 % 4) for place in range(30) if place % 3 < 2 or place == 2]
    rated_project(rows)
    found = accord_json("estimate")
    assert [row["system"] for row in found["systems"]] == ["bot-0", "bot-1"] and len(found["differences"]) == 1
    assert found["left_out"] == {"bot-2": "1 labeled conversation; a mean with an interval needs at least 5"}
    assert "bot-2: no mean: 1 labeled conversation; a mean with an interval needs at least 5" in printed("estimate")


def test_estimate_without_labels_names_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("accord.yaml", "rubric: rubric.yaml\nfolds: 3\ndraws: 20\n")
    write("rubric.yaml", dump_rubric(Rubric(name="r", questions=(QUESTION,), main="main")))
    printed("import", write_rows("chats.jsonl", map(chat, range(6))))
    assert "no conversation has a label on 'main'; choose some to label: accord label next" in refused("estimate")


def width(found: MeanDifference | SystemMean) -> float:
    assert found.low is not None and found.high is not None
    return found.high - found.low


def test_equal_labels_say_nothing_of_others() -> None:
    rng = np.random.default_rng(0)
    scored = rng.normal(size=(3, 100))
    worlds = [LabeledSystem("same", np.full(6, 3.0), scored[0, :6], scored[0, 6:])]
    worlds += [
        LabeledSystem(name, scored[row, :6], scored[row, :6], scored[row, 6:]) for row, name in ((1, "b"), (2, "c"))
    ]
    same, b, _ = found = estimate_systems(worlds)
    assert (same.label_mean, same.low, same.high, same.worth) == (3, None, None, None)
    assert same.reason is not None and "all 6 labels are 3" in same.reason and b.reason is None and b.low is not None
    assert [gap.p_holm is None for gap in mean_differences(found)] == [True, True, False]
    one = LabeledSystem("one", scored[1, :6], scored[1, :6], scored[1, 6:], ["a topic"] * 6, ["others"] * 94)
    assert "one group" in str(estimate_systems([one])[0].reason)


class Column0:
    """Scores that are the first column of the evidence, and learn nothing."""

    annotators: Sequence[str] = ()

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Column0:
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score]:
        options, by = (1.0, 9.0), Signature("column")
        return [
            score_from(target, "anybody", options, (1 - x, x), by)
            for target, x in zip(evidence.targets, evidence.values[:, 0], strict=True)
        ]


def rated_by(of: dict[str, list[str]], mean: dict[str, float], strict: dict[str, float], seed: int) -> list[SystemMean]:
    """Each system's estimate: `of` gives the annotators of its conversations in turn, `mean` its mean."""
    rng = np.random.default_rng(seed)
    labels, system = [], {}
    for name, people in of.items():
        for place in range(30):
            conversation = f"{name}{place:02d}"
            system[conversation] = name
            for who in {people[place % len(people)], people[(place + 1) % len(people)]}:
                value = mean[name] + strict[who] + rng.normal(scale=0.5)
                labels.append(Label(Target(conversation), "main", who, int(np.clip(round(value), 1, 9))))
    targets = tuple(Target(name) for name in system)
    table = EvidenceTable(targets, (Column("x", "x"),), rng.random((60, 1)), np.ones((60, 1), dtype=bool))
    return system_means(table, Labels(labels), QUESTION, lambda _: Column0(), system)


def test_a_strict_annotator_is_no_worse_system() -> None:
    strict = {"mild": 1.5, "middle": 0.0, "strict": -1.5}
    mostly = {
        "a": ["strict", "middle", "strict", "middle", "mild"],
        "b": ["mild", "middle", "mild", "middle", "strict"],
    }
    differences, lengths = [], []
    for seed in range(5):
        fair = rated_by(mostly, {"a": 5.0, "b": 5.0}, strict, seed)
        [gap] = mean_differences(fair)
        raw = rated_by({"a": ["one"], "b": ["one"]}, {"a": 5.0, "b": 5.0}, {"one": 0.0}, seed)
        differences.append(gap.difference)
        lengths.append(width(gap) / width(mean_differences(raw)[0]))
    assert abs(np.mean(differences)) < 0.15, "their annotators alone differ by .6"
    assert np.mean(lengths) < 1.25, "as if one person had rated"


def test_annotators_of_one_system_each_leave_its_difference() -> None:
    apart = rated_by(
        {"a": ["p", "q"], "b": ["r", "s"]}, {"a": 4.0, "b": 6.0}, {"p": 0.2, "q": -0.2, "r": 0.2, "s": -0.2}, 0
    )
    assert mean_differences(apart)[0].difference == pytest.approx(-2.0, abs=0.3)


def test_conversations_that_answer_one_input_belong_together() -> None:
    def sample(name: str, system: str, asked: str) -> Sample:
        turns = (Turn("system", "Be kind."), Turn("user", asked), Turn("assistant", f"{name} says"))
        return Sample(Conversation(name, turns, metadata={"system": system}))

    asked = [
        ("a1", "a", "Name a river."),
        ("b1", "b", "name a river"),
        ("a2", "a", "hi"),
        ("a3", "a", "hi"),
        ("b2", "b", "hi"),
    ]
    found = groups_of([sample(*each) for each in asked], by_input=True)
    assert {target.conversation: group for target, group in found.of.items()} == {"a1": "a1", "b1": "a1"}
    assert not groups_of([sample(*each) for each in asked]).of


def test_equal_labels_stay_equal_although_annotators_differ() -> None:
    names = [f"a{place}" for place in range(6)] + [f"b{place:02d}" for place in range(20)]
    evidence = EvidenceTable.from_rows([Column("count", "v1")], {Target(name): {"count": 1.0} for name in names})
    equal = [Label(Target(name), "main", "mild" if place % 2 else "strict", 5) for place, name in enumerate(names[:6])]
    others = [
        Label(Target(name), "main", person, value + place % 3)
        for place, name in enumerate(names[6:])
        for person, value in (("mild", 6), ("strict", 2))
    ]
    system = {name: name[0] for name in names}
    first, second = system_means(
        evidence, Labels([*equal, *others]), QUESTION, lambda question: Calibration(question, "constant"), system
    )
    assert (first.mean, first.label_mean, first.low, first.labelled) == (5.0, 5.0, None, 6)
    assert first.reason is not None and first.reason.startswith("all 6 labels are 5,")
    assert second.reason is None and second.label_mean == pytest.approx(np.mean([4 + place % 3 for place in range(20)]))


class Levels:
    """Predicts the first column plus the mean of each system's training labels, as an evaluator with group shifts."""

    annotators: Sequence[str] = ()

    def __init__(self, system_of: dict[str, str]) -> None:
        self.system_of = system_of

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Levels:
        said: dict[str, list[float]] = {}
        for each in labels:
            said.setdefault(self.system_of[each.target.conversation], []).append(float(each.value or 0))
        self.level = {name: float(np.mean(values)) for name, values in said.items()}
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score]:
        options, by = (1.0, 9.0), Signature("levels")
        at = [
            np.clip(self.level.get(self.system_of[target.conversation], 5.0) + x, 1, 9)
            for target, x in zip(evidence.targets, evidence.values[:, 0], strict=True)
        ]
        return [
            score_from(target, "anybody", options, ((9 - x) / 8, (x - 1) / 8), by)
            for target, x in zip(evidence.targets, at, strict=True)
        ]


@pytest.mark.parametrize("unlabelled", [60, 0])
def test_the_level_of_an_evaluator_does_not_hide_what_it_knows(unlabelled: int) -> None:
    """A fold with low labels is predicted by an evaluator with a high level; λ is that of the scores within a fold."""
    rng, ratios, inside = np.random.default_rng(3), [], 0
    for seed in range(12):
        names = [f"{system}{place:03d}" for system in "ab" for place in range(20 + unlabelled)]
        system = {name: name[0] for name in names}
        x = rng.normal(size=len(names))
        value = np.clip(np.round(5 + x + rng.normal(size=len(names))), 1, 9)
        table = EvidenceTable(
            tuple(Target(name) for name in names), (Column("x", "x"),), x[:, None], np.ones((len(names), 1), dtype=bool)
        )
        labels = Labels(
            Label(Target(name), "main", "ann", int(value[place]))
            for place, name in enumerate(names) if int(name[1:]) < 20
        )  # fmt: skip
        more = {name: [(f"new {name}{n}", 5 + y) for n, y in enumerate(rng.normal(size=200))] for name in "ab"}
        scored = {} if unlabelled else more
        given = labeled_systems(table, labels, QUESTION, lambda _, of=system: Levels(of), system, 5, seed, scored)
        for mean in estimate_systems(given, seed):
            ratios.append(mean.width / mean.label_width)  # type: ignore[operator]
            inside += mean.low <= 5 <= mean.high  # type: ignore[operator]
    best = (1 - 0.5 * (unlabelled or 200) / ((unlabelled or 200) + 20)) ** 0.5
    assert np.mean(ratios) < best + 0.08, "the scores explain half of the variance"
    assert inside >= 21, "23 of 24 are expected"


def curved(rng: np.random.Generator, labelled: int, others: int = 300) -> LabeledSystem:
    """A system whose labels follow the square of its scores."""
    f = rng.normal(size=labelled + others)
    y = f**2 + rng.normal(scale=0.5, size=len(f))
    return LabeledSystem("s", y[:labelled], f[:labelled], f[labelled:])


def test_strata_follow_a_curve_of_labels_on_scores() -> None:
    rng, ratios, inside = np.random.default_rng(0), [], 0
    for seed in range(100):
        given = curved(rng, 40)
        [strata], [line] = stratified_means.stratified_means([given]), estimate_systems([given], seed)
        ratios.append(strata.width / line.width)  # type: ignore[operator]
        inside += strata.low <= 1 <= strata.high  # type: ignore[operator]
    assert np.mean(ratios) < 0.85 and inside >= 0.88 * 100
    alone = LabeledSystem("s", given.said, given.predicted, np.zeros(0))
    [same] = stratified_means.stratified_means([alone])
    assert (same.mean, same.low) == pytest.approx((same.label_mean, same.label_low))


def test_planned_labels_show_the_asked_difference() -> None:
    rng = np.random.default_rng(1)

    def two(labelled: int, apart: float, others: int = 2000) -> list[SystemMean]:
        given = []
        for name, shift in (("a", 0.0), ("b", apart)):
            f = rng.normal(size=labelled + others)
            y = shift + 0.7 * f + rng.normal(scale=0.7, size=len(f))
            given.append(LabeledSystem(name, y[:labelled], f[:labelled], f[labelled:]))
        return estimate_systems(given)

    plan = label_plans.difference_plan(*two(60, 0.0), asked=0.4)
    assert plan is not None and plan.needed is not None and plan.fewest < plan.needed_alone < 2 * plan.needed + 60
    found = [mean_differences(two(round(plan.fewest / 2), 0.4))[0].p_holm for _ in range(80)]
    assert 0.65 < np.mean(np.array(found) < 0.05) < 0.93, "the power is 80%"
    again = label_plans.difference_plan(*two(round(plan.fewest / 2), 0.0), asked=0.4)
    assert again is not None and again.smallest == pytest.approx(0.4, rel=0.25)
    few = label_plans.difference_plan(*two(60, 0.0, others=30), asked=0.05)
    assert few is not None and few.needed is None and few.fewest == few.needed_alone
    equal = estimate_systems([LabeledSystem(n, np.full(6, 3.0), np.arange(6.0), np.arange(9.0)) for n in "ab"])
    assert label_plans.difference_plan(*equal, asked=0.2) is None
