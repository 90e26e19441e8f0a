"""Learning from issues: evidence, marks of people, ratings of dialogues, and the commands from the first to the last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import accord_json, printed, read_rows, refused, write, write_corpus, write_rows
from issue_finder import SIGNS, dialogues, ratings, verdict
from scripted_models import Finder

from accord import Conversation, Label, Labels, Question, Scale, Score, Target, Turn, Unscored, load_evaluator
from accord import open as open_project
from accord.edges import BadInput, UnknownName
from accord.evidence import (
    MEANING,
    Column,
    EvidenceTable,
    SourceContext,
    make_source,
)
from accord.evidence.rubric_answers import judge_samples
from accord.learning import (
    PRESETS,
    Evaluator,
    Head,
    kinds_of,
    make_head,
)
from accord.learning.answer_models.binary import (
    DIRECTIONS,
    ISOTONIC,
    PLATT,
    RIDGE,
    Design,
    best_threshold,
)
from accord.methods import (
    NOT_ASSESSED,
    Issues,
    kind_question,
    postprocess,
    read_verdict,
    settled,
)
from accord.methods.issues.evidence import (
    COUNT,
    CRITICAL,
    assessed,
    issue_table,
    probable,
)
from accord.methods.issues.issue_prompts import ReplyVerdict
from accord.models import (
    Models,
    ModelSettings,
    RecordedJudge,
    ScriptedJudge,
    ScriptedModel,
    memory_models,
    run,
)
from accord.project import Fitted
from accord.report import write_issues_page
from accord.results import document_text
from accord.statistics import (
    Clusters,
    grouped_folds,
    krippendorff_alpha,
)
from accord.statistics.chance_corrected import two_valued_alpha
from accord.store import IssueAnnotations, Store, Studies
from accord.studies import SubmittedAnswer, load_outcomes, open_validation
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import decisions
from accord.validation import (
    cross_validate_labels,
    no_better_than_chance,
    rows_of,
    summarize_issues,
)
from accord.validation.issue_metrics import (
    ABOVE_CHANCE,
    ALWAYS,
    MACRO,
    Called,
)
from accord.values import ISSUE, Issue, IssueAnnotation, Rubric, Sample, load_taxonomy

SODA = load_taxonomy("soda-eval")
QUESTION = Question(id="overall", text="How good?", scale=Scale(options=(1, 2, 3, 4, 5)))


def truth(made: list[Conversation]) -> list[IssueAnnotation]:
    found = []
    for chat in made:
        for place, turn in enumerate(chat.turns):
            if turn.role == "assistant":
                said = read_verdict(json.dumps(verdict(turn.content)))
                assert isinstance(said, ReplyVerdict)
                found.append(settled(postprocess(Target(chat.id, place), said, turn.content, SODA, "truth"), SODA))
    return found


def table(made: list[Conversation], turns: bool = False) -> EvidenceTable:
    found = assessed(truth(made))
    samples = [Sample(chat) for chat in made]
    if turns:
        samples = [
            Sample(chat, place) for chat in made for place, turn in enumerate(chat.turns) if turn.role == "assistant"
        ]
    return issue_table(samples, found, SODA, "truth")


def rated(made: list[Conversation], seed: int = 0) -> Labels:
    rows = ratings(made, seed=seed)
    return Labels(Label(Target(row["conversation"]), "overall", row["annotator"], row["value"]) for row in rows)


CONTEXT = SourceContext(SODA.rubric, 0)


def shown(made: list[Conversation]) -> EvidenceTable:
    """Return the evidence of dialogues with stored annotations, as the preset's head gets it."""
    models = memory_models()
    by = "issues|model:truth|taxonomy:soda-eval|via:recorded"
    IssueAnnotations(models.store).add(replace(each, signature=by) for each in truth(made))
    source = make_source("issues", {"by": "recorded", "model": "truth"}, CONTEXT)
    return run(source.measure([Sample(chat) for chat in made]), models)


def learned(evidence: EvidenceTable, labels: Labels) -> Evaluator:
    """The preset of issues, after learning from evidence that is there."""
    about = PRESETS["issues"]
    head = make_head(about.head, QUESTION, about.settings)
    return Evaluator(QUESTION, (), head, "issues", about.head).fitted_on(evidence, labels)


# --- evidence -----------------------------------------------------------------------------------------------------


def test_issues_of_turns_and_of_dialogues_fill_the_same_columns() -> None:
    chat = Conversation("c", tuple(Turn("user" if n % 2 == 0 else "assistant", "x") for n in range(6)))
    found = assessed(
        [
            IssueAnnotation(
                Target("c", 1), (Issue("Coherence", ""), Issue("Coherence", ""), Issue("Fluency", "")), 2, "", "m"
            ),
            IssueAnnotation(Target("c", 3), (), 5, "", "m"),
        ]
    )
    table = issue_table([Sample(chat, 1), Sample(chat, 3), Sample(chat), Sample(chat, 5)], found, SODA, "m")
    place = {column.name: index for index, column in enumerate(table.columns)}

    def value(row: int, name: str) -> float:
        return float(table.values[row, place[name]])

    assert value(0, "issue:Coherence") == 2 and value(0, "issue:Coherence:worst") == 0.75 and value(0, COUNT) == 3
    assert value(0, CRITICAL) == 2 and value(0, "issues:score") == 2 and value(0, "issue:Coherence:before") == 0
    assert value(1, "issue:Coherence") == 0 and value(1, "issue:Coherence:before") == 2
    assert value(2, "issue:Coherence") == 1 and value(2, "issues:score") == 3.5 and value(2, "issues:lowest") == 2
    assert not table.present[3].any() and table.absences[Target("c", 5), COUNT] == NOT_ASSESSED
    assert kinds_of(table) == list(SODA.names)


def test_a_decisions_judge_gives_a_probability_a_kind(store: Store) -> None:
    chat = dialogues(1)[0]
    judge = ScriptedJudge(
        lambda sample, question: {"1": 0.8, "0": 0.2} if question.id == ISSUE + "Fluency" else {"1": 0.1, "0": 0.9}
    )
    answers = judge_samples(judge, SODA.rubric, [Sample(chat, 1), Sample(chat, 3)], store)
    table = issue_table([Sample(chat), Sample(chat, 3)], probable(answers, SODA), SODA, "judge", scored=False)
    place = {column.name: index for index, column in enumerate(table.columns)}
    assert table.values[0, place["issue:Fluency"]] == pytest.approx(0.8) and "issues:score" not in place
    assert table.values[1, place["issue:Fluency:before"]] == pytest.approx(0.8)
    assert table.values[0, place[COUNT]] == pytest.approx(0.8 + 0.9)


class _Placed:
    name = identity = "placed"

    def embed(self, text: str) -> np.ndarray:  # type: ignore[type-arg]
        return np.array([len(text), text.count("a"), 1.0]) / 10

    def prepare(self, texts: object) -> None:
        pass


def test_embeddings_are_reduced_to_few_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    made = dialogues(20)
    samples = [Sample(chat, place) for chat in made for place in (1, 3, 5)]
    monkeypatch.setattr("accord.models.requests.drivers.open_embedder", lambda name: _Placed())
    source = make_source("meaning", {"embedder": "placed"}, CONTEXT)
    meaning = run(source.measure(samples), memory_models())
    assert [column.name for column in meaning.columns] == [f"{MEANING}{place}" for place in range(3)]
    design = Design.fit(table(made, turns=True).join(meaning), "issue:Coherence")
    assert design.directions.shape == (3, 2)  # the third dimension never varies
    inputs = design.of(table(made, turns=True).join(meaning))
    assert np.allclose(inputs.mean(axis=0), 0, atol=1e-9) and np.allclose(inputs[:, -2:].std(axis=0), 1)
    nobody = Sample(Conversation("x", (Turn("user", "hi"), Turn("assistant", " "))), 1)
    silent = run(source.measure([samples[0], nobody]), memory_models())
    assert silent.present[0].all() and not silent.present[1].any() and DIRECTIONS == 24
    rng = np.random.default_rng(0)
    wide = EvidenceTable(
        tuple(Target(f"c{n}") for n in range(50)),
        tuple(Column(f"{MEANING}{n}", "m") for n in range(40)),
        rng.normal(size=(50, 40)),
        np.ones((50, 40), dtype=bool),
    )
    assert Design.fit(wide, "").of(wide).shape == (50, DIRECTIONS)


# --- marks --------------------------------------------------------------------------------------------------------


def found_in(columns: dict[str, np.ndarray], groups: list[str]) -> EvidenceTable:  # type: ignore[type-arg]
    """Evidence of turns: a finding of the kind `odd`, and other columns."""
    values = np.column_stack(list(columns.values()))
    targets = tuple(Target(group, place) for place, group in enumerate(groups))
    return EvidenceTable(
        targets, tuple(Column(name, "m") for name in columns), values, np.ones(values.shape, dtype=bool)
    )


def marks_of(evidence: EvidenceTable, marked: np.ndarray) -> Labels:  # type: ignore[type-arg]
    return Labels(Label(t, "odd", "ann", int(mark)) for t, mark in zip(evidence.targets, marked, strict=True))


def learned_marks(evidence: EvidenceTable, marked: np.ndarray) -> Head:  # type: ignore[type-arg]
    return make_head("issue-labels", kind_question("odd"), {}).fit(evidence, marks_of(evidence, marked))


def chances(head: Head, evidence: EvidenceTable) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([score.value for score in head.predict(evidence)])  # type: ignore[union-attr]


def drawn(count: int, seed: int) -> tuple[EvidenceTable, np.ndarray]:  # type: ignore[type-arg]
    """A finding that is half right, a second clue, and marks that follow both."""
    rng = np.random.default_rng(seed)
    own = (rng.random(count) < 0.3).astype(float)
    clue = rng.normal(size=count)
    chance = 1 / (1 + np.exp(-(-2.0 + 1.5 * own + 1.5 * clue)))
    groups = [f"c{n // 5}" for n in range(count)]
    return found_in({"issue:odd": own, "clue": clue}, groups), rng.random(count) < chance


def test_best_calibration_is_chosen() -> None:
    evidence, marked = drawn(2000, 0)
    head = learned_marks(evidence, marked)
    assert head.describe()["mode"] == RIDGE
    new, new_marked = drawn(4000, 1)
    chance = chances(head, new)
    for low in (0.0, 0.2, 0.4, 0.6):
        inside = (chance >= low) & (chance < low + 0.2)
        assert new_marked[inside].mean() == pytest.approx(chance[inside].mean(), abs=0.08)
    # Without the clue the finding's own rates are all there is to know.
    alone = learned_marks(evidence.select([0]), marked)
    found = chances(alone, found_in({"issue:odd": np.array([0.0, 1.0])}, ["x", "y"]))
    own = evidence.values[:, 0]
    assert found == pytest.approx([marked[own == 0].mean(), marked[own == 1].mean()], abs=0.03)
    assert set(alone.describe()["losses"]) >= {PLATT, ISOTONIC}


def test_isotonic_fits_a_non_logistic_curve() -> None:
    rng = np.random.default_rng(0)
    own = rng.choice([0.0, 0.3, 0.6, 0.9], size=4000)
    marked = rng.random(4000) < np.select([own < 0.5, own < 0.7], [0.02, 0.6], 0.62)
    head = learned_marks(found_in({"issue:odd": own}, [f"c{n % 50}" for n in range(4000)]), marked)
    assert head.describe()["mode"] == ISOTONIC
    new = found_in({"issue:odd": np.array([0.1, 0.6])}, ["x", "y"])
    assert chances(head, new) == pytest.approx([0.02, 0.6], abs=0.04)


def test_calls_are_those_above_the_threshold_of_the_held_out_probabilities() -> None:
    evidence, marked = drawn(400, 0)
    head = learned_marks(evidence, marked)
    scores = [score for score in head.predict(evidence) if isinstance(score, Score)]
    threshold = head.describe()["threshold"]
    assert 0.2 < threshold < 0.6
    assert [score.notes["called"] for score in scores] == [score.value >= threshold for score in scores]


def test_threshold_is_half_of_the_best_expected_f1() -> None:
    rng = np.random.default_rng(0)
    chance = rng.beta(0.5, 2.0, size=20_000)
    marked = rng.random(20_000) < chance
    at = best_threshold(chance)

    def f1(threshold: float) -> float:
        called = chance >= threshold
        return float(2 * (called & marked).sum() / (called.sum() + marked.sum()))

    assert f1(at) >= max(f1(t) for t in np.linspace(0.05, 0.95, 50)) - 0.01
    assert at == pytest.approx(f1(at) / 2, abs=0.02)


@pytest.mark.parametrize(
    ("marked", "groups"),
    [(np.arange(200) < 4, None), (np.arange(200) < 196, None), (np.arange(200) < 100, ["one"] * 200)],
)
def test_too_few_labels_are_not_learned(marked: np.ndarray, groups: list[str] | None) -> None:  # type: ignore[type-arg]
    evidence, _ = drawn(200, 0)
    names = groups or [target.conversation for target in evidence.targets]
    with pytest.raises(BadInput, match="5 of each in 4 conversations are needed"):
        learned_marks(found_in({"issue:odd": evidence.values[:, 0]}, names), marked)


def test_turns_that_were_not_assessed_are_not_learned_from() -> None:
    evidence, marked = drawn(400, 0)
    is_known = np.arange(400) < 300
    partly = replace(evidence, present=evidence.present & (is_known[:, None] | [False, True]))
    head = learned_marks(partly, marked)
    only = learned_marks(evidence.take(np.flatnonzero(is_known)), marked[is_known])
    assert head.describe()["losses"] == only.describe()["losses"]
    scores = head.predict(partly)
    assert [isinstance(score, Score) for score in scores] == is_known.tolist()
    assert "issue-labels" in str(scores[0].signature)


def test_kinds_of_marks_have_two_options() -> None:
    evidence, marked = drawn(200, 0)
    question = Question(id="odd", text="How odd is it?", scale=Scale(options=(0, 1, 2)))
    with pytest.raises(BadInput, match="a mark of 'odd' is 0 or 1; the question has 3 options"):
        make_head("issue-labels", question, {}).fit(evidence, marks_of(evidence, marked))


def test_labels_are_cross_validated_by_dialogue() -> None:
    made = dialogues(60, rate=0.3)
    evidence = table(made, turns=True)
    rng = np.random.default_rng(0)
    labels = Labels(
        Label(target, "Coherence", person, int((SIGNS["Coherence"].lower() in text.lower()) != (rng.random() < 0.1)))
        for chat in made
        for place, text in ((place, turn.content) for place, turn in enumerate(chat.turns) if turn.role == "assistant")
        for target in [Target(chat.id, place)]
        for person in ("ann", "bob")
    )
    calibrated, raw = cross_validate_labels(evidence, labels, list(grouped_folds([chat.id for chat in made])))
    assert set(calibrated) == {"Coherence"} and len(calibrated["Coherence"].marked) == len(labels)
    rows = {(row.system, row.issue): row.to_json() for row in rows_of(calibrated, raw)}
    ours, found = rows["issues", "Coherence"], rows["raw finding", "Coherence"]
    assert (
        ours["f1"] == pytest.approx(found["f1"], abs=0.03)
        and ours["calibration_error"] < 0.06 < found["calibration_error"] + 0.06
    )
    assert ours["f1_low"] < ours["f1"] < ours["f1_high"] and ours["alpha"] > 0.5
    assert rows["issues", "macro"]["f1"] == ours["f1"]
    # Two positive labels, two positive predictions, one in common.
    marked, called = np.array([True, True, False, False]), np.array([True, False, True, False])
    row = Called(marked, called, np.array([0.9, 0.2, 0.8, 0.1]), list("abcd")).row("raw finding", "Coherence")
    assert (row.precision, row.recall, row.f1) == (0.5, 0.5, 0.5) and row.alpha == pytest.approx(0.125)
    assert len(Clusters(list("abcd"))) == 4


def test_uninformative_finder_is_named() -> None:
    made = dialogues(60, rate=0.3)
    evidence, rng = table(made, turns=True), np.random.default_rng(0)
    told, drawn_ = "Coherence", "Repetition"
    labels = Labels(
        Label(Target(chat.id, place), kind, "ann", int(said if kind == told else rng.random() < 0.3))
        for chat in made
        for place, turn in enumerate(chat.turns)
        if turn.role == "assistant"
        for said in [SIGNS[told].lower() in turn.content.lower()]
        for kind in (told, drawn_)
    )
    found = rows_of(*cross_validate_labels(evidence, labels, list(grouped_folds([chat.id for chat in made]))))
    rows = {(row.system, row.issue): row.to_json() for row in found}
    share = rows["issues", drawn_]["marked"]
    assert rows[ALWAYS, drawn_]["f1"] == pytest.approx(2 * share / (1 + share)) and rows[ALWAYS, drawn_]["called"] == 1
    assert rows["issues", drawn_]["called"] > 0.5 > rows["issues", told]["called"]  # the threshold of highest F1
    assert rows["issues", drawn_]["alpha_low"] <= 0 < rows["issues", told]["alpha_low"]
    assert no_better_than_chance(found) == [drawn_]
    both = rows["issues", told]["f1"] + rows["issues", drawn_]["f1"]
    assert rows["issues", MACRO]["f1"] == pytest.approx(both / 2)
    assert rows["issues", ABOVE_CHANCE]["f1"] == rows["issues", told]["f1"]
    assert rows[ALWAYS, ABOVE_CHANCE]["f1"] == rows[ALWAYS, told]["f1"]
    question = kind_question(told)
    fitted = Fitted(Evaluator(question, (), make_head("issue-labels", question, {})), labels=found)
    text = document_text(fitted.document())
    assert f"{drawn_}: agreement with annotators is not above chance" in text and f"{told}: agreement" not in text
    for kind, is_uninformative in ((told, False), (drawn_, True)):
        head = make_head("issue-labels", kind_question(kind), {}).fit(evidence, labels)
        again = make_head("issue-labels", kind_question(kind), {}).restore(*head.state())
        warnings = {score.warning for score in again.predict(evidence)}  # type: ignore[union-attr]
        assert any("agreement with people is not above chance" in str(each) for each in warnings) == is_uninformative


def test_alpha_of_calls_is_krippendorffs() -> None:
    rng = np.random.default_rng(1)
    for rate in (0.1, 0.5):
        marked, called = rng.random(50) < rate, rng.random(50) < 0.5
        units = [{"a": float(m), "b": float(c)} for m, c in zip(marked, called, strict=True)]
        counts = (np.array([each.sum()], dtype=float) for each in (marked & called, marked, called))
        assert two_valued_alpha(*counts, np.array([50.0]))[0] == pytest.approx(krippendorff_alpha(units, "nominal"))


def test_labels_of_another_taxonomy_are_translated() -> None:
    def mark(kind: str, value: int | None, person: str = "ann") -> Label:
        return Label(Target("c", 1), kind, person, value)

    labels = Labels(
        [mark("self contradiction", 0), mark("issue:partner contradiction", 1), mark("redundant", 0), mark("redundant", 1, "bob"),
         mark("incorrect fact", None), mark("overall", 4)]
    )  # fmt: skip
    source = make_source("issues", {"labels": "abc-eval"}, CONTEXT)
    found = {(label.question, label.annotator): label.value for label in source.read_labels(labels)}
    assert found == {("overall", "ann"): 4, ("Coherence", "ann"): 1, ("Repetition", "ann"): 0, ("Repetition", "bob"): 1}
    with pytest.raises(UnknownName, match="counterpart"):
        make_source("issues", {"taxonomy": "abc-eval", "labels": "soda-eval"}, CONTEXT).read_labels(labels)


def test_label_is_0_or_1() -> None:
    evidence = table(dialogues(2), turns=True)
    labels = Labels([Label(Target("dialogue-000", 1), "Coherence", "ann", 2)])
    with pytest.raises(BadInput, match="'ann' on dialogue-000#1.*got 2, allowed: 0, 1"):
        make_head("issue-labels", kind_question("Coherence"), {}).fit(evidence, labels)


# --- the evaluator ------------------------------------------------------------------------------------------------


def test_attributions_name_the_cost_of_each_issue(tmp_path: Path) -> None:
    made = dialogues(60)
    evidence, labels = shown(made), rated(made)
    evaluator = learned(evidence, labels)
    scores = evaluator.head.predict(evidence)
    worst = min(scores, key=lambda score: score.value)  # type: ignore[union-attr]
    assert dict(worst.attributions) and min(dict(worst.attributions).values()) < -0.2  # type: ignore[union-attr]
    clean = next(score for chat, score in zip(made, scores, strict=True) if not any(a.issues for a in truth([chat])))
    assert clean.attributions == () and clean.value > worst.value  # type: ignore[union-attr]
    evaluator.save(tmp_path)
    loaded = load_evaluator(tmp_path)
    assert loaded.head.predict(evidence) == scores and loaded.describe() == evaluator.describe()
    elsewhere = evaluator.in_new_domain().head.predict(evidence, "ann")
    assert elsewhere != evaluator.head.predict(evidence, "ann") and "domain:" in str(elsewhere[0].signature)
    assert evaluator.head.predict(evidence) == scores


def test_labels_of_a_kind_are_learned_and_saved(tmp_path: Path) -> None:
    made = dialogues(40, rate=0.3)
    evidence = table(made, turns=True)
    labels = Labels(
        Label(each.target, "Repetition", "ann", int(any(issue.type == "Repetition" for issue in each.issues)))
        for each in truth(made)
    )
    question = kind_question("Repetition")
    evaluator = Evaluator(question, (), make_head("issue-labels", question, {}), "Repetition", "issue-labels")
    evaluator = evaluator.fitted_on(evidence, labels)
    scores = evaluator.head.predict(evidence)
    called = {score.target for score in scores if score.notes["called"]}
    assert called == {label.target for label in labels if label.value == 1}
    assert all((score.value > 0.5) == (score.target in called) for score in scores)  # type: ignore[union-attr]
    evaluator.save(tmp_path)
    loaded = load_evaluator(tmp_path)
    assert loaded.head.predict(evidence) == scores
    unknown = EvidenceTable.from_rows(list(evidence.columns), {Target("new", 1): {}})
    [score] = loaded.head.predict(unknown)
    assert isinstance(score, Unscored) and score.reason == "no evidence"


def test_finder_without_issues_is_learned_and_loaded(tmp_path: Path) -> None:
    made = dialogues(40, rate=0.5)
    evidence = table(made, turns=True)
    silent = np.isin([column.name for column in evidence.columns], ["issue:Coherence", "issue:Coherence:worst"])
    evidence = replace(evidence, values=np.where(silent, 0.0, evidence.values))
    labels = Labels(Label(t, "Coherence", "ann", place % 2) for place, t in enumerate(evidence.targets))
    question = kind_question("Coherence")
    fitted = Evaluator(question, (), make_head("issue-labels", question, {}), "Coherence", "issue-labels")
    fitted = fitted.fitted_on(evidence, labels)
    fitted.save(tmp_path)
    assert load_evaluator(tmp_path).head.predict(evidence) == fitted.head.predict(evidence)


def test_missing_evidence_is_named() -> None:
    made = dialogues(10)
    nothing = EvidenceTable.from_rows([Column("x", "m")], {Target("a"): {"x": 1.0}})
    with pytest.raises(BadInput, match="no evidence of issue 'Coherence'. Available: none"):
        make_head("issue-labels", kind_question("Coherence"), {}).fit(nothing, Labels([]))
    with pytest.raises(BadInput, match="0 labels on 'Coherence' have evidence"):
        make_head("issue-labels", kind_question("Coherence"), {}).fit(table(made, turns=True), Labels([]))
    with pytest.raises(BadInput, match="'overall'"):
        learned(shown(made), Labels([]))
    with pytest.raises(BadInput, match="issue:Coherence"):
        learned(shown(made), rated(made)).head.predict(nothing)


def test_recorded_decisions_on_abc_eval_are_better_after_calibration(data: Path, memory: Store) -> None:
    from accord.formats import read
    from accord.values import Taxonomy
    from accord.values.issues import IssueType

    kinds = ("irrelevant", "incorrect fact", "redundant")
    behaviours = Taxonomy(name="abc", issues=tuple(IssueType(name=name, definition=name) for name in kinds))
    records = list(read(data / "abc_eval", format="abc-eval"))
    labels = Labels(label for record in records for label in record.labels)
    chats = {record.conversation.id: record.conversation for record in records}
    samples = [Sample(chats[target.conversation], target.turn) for target in labels.targets]
    judge = RecordedJudge.read([data / "abc_eval"], "gpt-3.5-turbo (ChatGPT, 2023)")
    evidence = issue_table(
        samples,
        probable(judge_samples(judge, behaviours.rubric, samples, memory), behaviours),
        behaviours,
        "r",
        scored=False,
    )
    assert evidence.present.all()
    rows = {
        (r.system, r.issue): r.to_json()
        for r in rows_of(*cross_validate_labels(evidence, labels, list(grouped_folds(list(chats), 2))))
    }
    assert rows["raw finding", "irrelevant"]["f1"] == pytest.approx(0.406, abs=0.005)  # the whole set, by hand
    for kind in kinds:
        ours, raw = rows["issues", kind], rows["raw finding", kind]
        assert ours["calibration_error"] < 0.06 < raw["calibration_error"] and ours["f1"] > raw["f1"] - 0.04
    head = make_head("issue-labels", kind_question("irrelevant"), {}).fit(evidence, labels)
    assert all(isinstance(score, Score) for score in head.predict(evidence))


# --- the commands -------------------------------------------------------------------------------------------------

PLAIN = "rubric: rubric.yaml\nmetrics: []\ndraws: 50\nfolds: 3\nevaluators: {default: {head: mixed}}\n"
FINDER = "models: {finder: {model: m}}"
BY_JUDGE = "sources: {issues: {by: judge}}"
MADE = dialogues(40, rate=0.25)


@pytest.fixture
def project(working_folder: Path, api_key: None) -> None:
    """A project with a finder, and rated dialogues that are not imported yet."""
    write_corpus(MADE, rated(MADE), Rubric(name="r", main="overall", questions=(QUESTION,)))
    write("accord.yaml", PLAIN + FINDER)


@pytest.fixture
def annotated(project: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """The project after `judge`, with the finder's server; it refuses dialogue 77, and cannot judge turn 3 of 78."""
    finder = Finder()

    def respond(request):  # type: ignore[no-untyped-def]
        text = request["messages"][0]["content"]
        if "dialogue 77" in text:
            return completion("", refusal="I will not look at this.")
        if "dialogue 78" in text and "[3]" in text.rsplit("\nJudge ", 1)[-1]:
            return completion("no verdict here")
        return finder(request)

    with ChatServer(respond) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        printed("import", "chats.jsonl", "labels.csv")
        assert "no turn is annotated yet" in refused("validate")
        assert "120 annotated now" in printed("judge", "--source", "issues", "--longest")
        assert finder.asked == ["turn"] * 120
        yield server


def test_unrecorded_kinds_are_missing(project: None) -> None:
    kinds = "[{name: rude, definition: It is rude.}, {name: vague, definition: It is vague.}]"
    write("two.yaml", f"name: two\nissues: {kinds}\n")
    recorded = "models: {judge: {mode: recorded, paths: [judge.jsonl]}}"
    write("accord.yaml", f"{PLAIN}{recorded}\nsources: {{issues: {{by: judge, taxonomy: two.yaml}}}}\n")
    printed("import", "chats.jsonl", "labels.csv")
    turns = [str(Target(chat.id, place)) for chat in MADE for place in (1, 3, 5)]
    names = [*turns, *(chat.id for chat in MADE)]
    write_rows("judge.jsonl", ({"item_id": n, "question": "rude", "judge_model": "m", "value": 1} for n in names))
    said = accord_json("judge", "--source", "issues")
    assert said["answered"] == len(turns) == said["unanswered"]["not recorded"] and said["known"] == {"issues": 40}
    with open_project() as opened:
        found = opened.measure([opened.source("issues")], [Sample(each) for each in opened.store.conversations()])
    present = dict(zip([column.name for column in found.columns], found.present.any(axis=0), strict=True))
    assert present["issue:rude"] and not present["issue:vague"]


def test_a_context_in_several_dialogues_is_planned_and_requested_once(
    project: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dialogue is stored after each of its replies, and each copy of a reply is annotated."""
    [chat] = dialogues(1, turns=6, rate=0.5)
    write_rows("chats.jsonl", (replace(chat, id=f"until-{end}", turns=chat.turns[:end]).to_json() for end in (2, 4, 6)))
    monkeypatch.setattr("accord.project.judges.judging._BATCH_SIZE", 1)
    finder = Finder()
    with ChatServer(finder) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        printed("import", "chats.jsonl")
        plan = accord_json("judge", "--source", "issues", "--all", "--longest", "--plan")
        assert "6 annotated now" in printed("judge", "--source", "issues", "--all", "--longest")
    assert finder.asked == ["turn"] * 3
    assert plan["requests"] == plan["min_requests"] == plan["questions"] == 3 and plan["max_requests"] == 3 * 6


def test_odd_dialogues_are_counted(tmp_path: Path, store: Store) -> None:
    odd = [
        Conversation("one", (Turn("user", "hi"),)),
        Conversation("three", (Turn("user", "hi", "Ann"), Turn("user", "ho", "Bo"), Turn("assistant", "yes", "Cy"))),
        Conversation("empty", (Turn("user", "hi"), Turn("assistant", ""), Turn("assistant", "You fool."))),
        Conversation("huge", (Turn("user", "a " * 50_000), Turn("assistant", "b " * 50_000))),
        Conversation(
            "forged",
            (Turn("user", json.dumps(verdict("fine"))), Turn("assistant", json.dumps({"score": 5, "issues": []}))),
        ),
        Conversation("nobody", ()),
    ]
    model = ScriptedModel(lambda prompt: json.dumps(verdict("You fool.")))
    settings = {"finder": ModelSettings(model="m", context=4096)}
    models, source = Models(settings, store, given={"finder": model}), make_source("issues", {}, CONTEXT)
    assert isinstance(source, Issues)
    counts = run(source.detect(odd), models).counts
    assert counts.assessed == 4 and counts.skipped == {"no turn before it": 1, "empty": 1, "no reply in it": 1}
    assert counts.odd == {"more than two speakers": 1} and counts.made_up_quotes == 3
    asked = len(model.asked)
    again = run(source.detect(odd), models).counts
    assert again.assessed == 0 and again.known == 4 and len(model.asked) == asked


@pytest.mark.parametrize(
    ("config", "arguments", "says"),
    [
        ("models: {finder: {}}", ["judge", "--source", "issues"], "no model for role 'finder'"),
        (FINDER + "\nsources: {issues: {taxonomy: soda-evil}}", ["judge"], "Did you mean 'soda-eval'"),
        (FINDER, ["judge", "--source", "issues", "--batch"], "--batch"),
        (BY_JUDGE, ["judge", "--source", "issues"], "'judge'.*models: {judge: "),
        ("sources: {issues: {by: recorded, model: gpt-9}}", ["fit", "issues"], "0 sets of annotations by 'gpt-9'"),
        ("sources: {issues: {by: recorded}}", ["issues"], "by: recorded, model: NAME"),
        (FINDER, ["issues"], "no turn is annotated yet"),
    ],
)  # fmt: skip
def test_invalid_input_is_one_line(project: None, config: str, arguments: list[str], says: str) -> None:
    printed("import", "chats.jsonl", "labels.csv")
    write("accord.yaml", f"{PLAIN}{config}\n")
    assert re.search(says, refused(*arguments))


def test_imported_annotations_are_learned_from(project: None) -> None:
    write_rows(
        "gpt4.jsonl",
        (
            {"dialogue_id": each.target.conversation, "turn_index": each.target.turn, **each.to_json()}
            for each in truth(MADE)
        ),
    )
    with Path("labels.csv").open("a", encoding="utf-8") as stream:  # labels of two kinds of issues for each reply
        for each in truth(MADE):
            there = {issue.type for issue in each.issues}
            for kind in ("Coherence", "Engagement"):
                stream.write(f"{each.target.conversation},{each.target.turn},{kind},ann,{int(kind in there)}\n")
        stream.write(f"{MADE[0].id},,Coherence,ann,1\n")  # a label of the conversation is not one of a turn
    write("accord.yaml", f"{PLAIN}sources: {{issues: {{by: recorded, model: gpt-4-1106-preview}}}}\n")
    printed("import", "chats.jsonl", "labels.csv")
    said = printed("import", "gpt4.jsonl")
    assert "120 assessments of turns imported" in said and "0 conversations imported" in said
    fitted = accord_json("fit", "issues")
    systems = {row["evaluator"]: row["rmse"] for row in fitted["comparison"]["rows"]}
    assert systems["issues"] < systems["lowest-turn"] < systems["constant"] and "mean-turn" in systems
    assert {row["issue"] for row in fitted["labels"]} == {"Coherence", "Engagement", MACRO, ABOVE_CHANCE}
    printed("score", "chats.jsonl", "--evaluator", "evaluators/issues", "--out", "s.jsonl")
    turns = [row for each in read_rows("s.jsonl") for row in each["notes"]["turns"]]
    assert {row["question"] for row in turns} == {"Coherence", "Engagement"} and len(turns) == 2 * 120
    assert {row["turn"] for row in turns} == {each.target.turn for each in truth(MADE)}
    assert all(row["called"] == (row["value"] > 0.5) for row in turns)
    assert "no source of the project asks a model" in refused("judge", "--source", "issues")
    assert accord_json("issues")["quotes_made_up"] == 0  # the dialogues were there already


def issues_page(folder: Path, text: str) -> str:
    """The page of issues with a text in each place that is imported."""
    chat = Conversation(
        text, (Turn(text, text, name=text), Turn("assistant", f"Well {text}")), metadata={"system": text, "time": text}
    )
    issues = (Issue("Coherence", text, text, (5, 5 + len(text)), text), Issue("X", "", "gone"))
    found = [IssueAnnotation(Target(text, 1), issues, 1, text, text, (text,))]
    return write_issues_page(
        summarize_issues(found, [chat], SODA), found, [chat], SODA, folder / "page.html"
    ).read_text(encoding="utf-8")


def test_page_escapes_imported_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    html = issues_page(tmp_path, evil)
    assert "<script" not in html and f"<mark>{escape(evil)}</mark>" in html and "which is not in the turn" in html
    html = issues_page(tmp_path, "a\x1b[31m\x07\x9b\u202e\ud800")
    assert not [letter for letter in html if letter != "\n" and not letter.isprintable()]
    assert "\\u001b[31m\\u0007" in html


def test_validation_by_annotators_is_on_the_page(annotated: ChatServer) -> None:
    refused("validate", "detection", "--outcome")
    opened = open_project()
    studies = Studies(opened.store)
    for flow in ("detection", "overall"):
        study = open_validation(opened, flow, studies, 6, 2, 100)
        for person in ("ann", "bob"):
            while (at := study.take(person)) is not None:
                for question in study.view(at).questions:
                    sent = {"assignment": at.id, "id": f"{at.id[:16]}-{at.stage}-{person}", "value": 2}
                    study.answer(person, SubmittedAnswer.from_json({**sent, "question": question.id}))
                study.finish(person, at.id)
    studies.close()
    found = {each.flow: each.to_json() for each in load_outcomes(opened)}
    opened.close()
    assert found["detection"]["examples"] == found["overall"]["examples"] == 6
    assert found["detection"]["majority"]["value"] == 1.0 and found["overall"]["revisions"]["share"]["value"] == 0.0
    for flow in ("detection", "overall"):
        assert "6 of 6 turns have answers" in printed("validate", flow, "--outcome")
    assert "Engagement" in printed("issues")
    html = Path("issues.html").read_text(encoding="utf-8")
    assert "Validation by annotators" in html and "<mark>" in html and "<script" not in html
    assert "http" not in html.replace("http://www.w3.org", "").replace("http-equiv", "")


def test_scores_name_issues_and_turns_without_annotation(annotated: ChatServer) -> None:
    def row(name: str, *said: str) -> dict[str, Any]:
        roles = ("user", "assistant") * len(said)
        return {"id": name, "messages": [{"role": r, "content": text} for r, text in zip(roles, said, strict=False)]}

    printed("fit", "issues")
    known = row("dialogue-000", "Hi", "You fool.")  # other words than under this id in the store
    write_rows(
        "new.jsonl", [row("refused", "Hi", "Line 1 of dialogue 77."), known, row("0", "hi"), row("1", "hi", " ")]
    )
    said = printed("score", "new.jsonl", "--evaluator", "evaluators/issues", "--out", "s.jsonl", code=5)
    assert "2 unscored: no evidence; not assessed yet" in said
    lost, other, *_ = read_rows("s.jsonl")
    assert lost["unscored"] == "no evidence; not assessed: refused" and other["value"] is not None
    [issue] = other["notes"]["issues"]
    assert {"turn", "type", "comment", "quote", "span", "score"} <= issue.keys() and issue["type"] == "Antisocial"
    write_rows("part.jsonl", [row("part", *(f"Line {n} of dialogue 78." for n in range(4)))])
    before = len(annotated.requests)
    said = printed("score", "part.jsonl", "--evaluator", "evaluators/issues", "--out", "s.jsonl")
    assert len(annotated.requests) - before == 3  # one for each turn, one repeated
    assert "1 with a warning: assessed in part" in said
    assert read_rows("s.jsonl")[0]["warning"].startswith("assessed in part: 1 of 2 turns have no annotation")


def test_decisions_judge_finds_issues_beside_an_adaptive_rubric(project: None, monkeypatch: pytest.MonkeyPatch) -> None:
    write("accord.yaml", f"{PLAIN}models: {{judge: {{mode: decisions, model: finder}}}}\n{BY_JUDGE}\n")
    finder = Finder()

    def respond(request):  # type: ignore[no-untyped-def]
        if all(question["type"] == "predicate" for question in request["questions"]):
            return finder(request)
        about = [
            {"type": "score", "name": question.get("name"), "score": 3.0, "confidence": 0.5, "probabilities": [
                {"label": level["label"], "value": place, "probability": 0.2}
                for place, level in enumerate(question["levels"])
            ]}
            for question in request["questions"]
        ]  # fmt: skip
        return decisions(request["model"], about)

    with ChatServer(respond) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        printed("import", "chats.jsonl", "labels.csv")
        plan = accord_json("judge", "--source", "issues", "--plan")
        assert plan["requests"] == 120 and plan["questions"] == 1200
        printed("judge", "--source", "issues")
        assert finder.asked == ["decisions"] * 120  # all kinds of one turn in one request
        printed("judge")
        printed("fit", "default")
        printed("score", "chats.jsonl", "--out", "s.jsonl", "--ask", "1")
        before = len(server.requests)
        assert accord_json("judge", "--source", "issues")["known"]["issues"] == 40 and len(server.requests) == before
