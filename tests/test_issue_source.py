"""Learning from issues: evidence, marks of people, ratings of dialogues, and the commands from the first to the last."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from issue_finder import SIGNS, dialogues, ratings, verdict
from misbehaving_endpoint import Misbehaving
from scripted_models import Finder
from typer.testing import CliRunner

import accord
from accord import Conversation, Label, Labels, Question, Scale, Score, Target, Turn, Unscored, load_evaluator
from accord.cli import (
    app,  # noqa: F401 - registers the commands
    commands,  # noqa: F401 - registers the commands
    fitted_text,
)
from accord.edges import BadInput, BudgetReached, UnknownName
from accord.evidence import MEANING, Column, EvidenceTable, SourceContext, judge_samples, make_source
from accord.learning import (
    DIRECTIONS,
    ISOTONIC,
    PLATT,
    PRESETS,
    RIDGE,
    Design,
    Evaluator,
    IssueLabels,
    best_threshold,
    kinds_of,
    labels_of,
    learn_calibration,
    make_head,
)
from accord.methods import (
    COUNT,
    CRITICAL,
    NOT_ASSESSED,
    Issues,
    Verdict,
    assessed,
    issue_table,
    kind_question,
    postprocess,
    probable,
    read_verdict,
    settled,
)
from accord.models import (
    Failure,
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
from accord.statistics import Clusters, grouped_folds, krippendorff_alpha, two_valued_alpha
from accord.store import IssueAnnotations, Store, Studies
from accord.studies import SubmittedAnswer, load_outcomes, open_validation
from accord.testing import ChatServer, Wire, completion
from accord.validation import ABOVE_CHANCE, ALWAYS, MACRO, Called, cross_validate_labels, no_better_than_chance, rows_of
from accord.values import ISSUE, Issue, IssueAnnotation, Sample, load_taxonomy

SODA = load_taxonomy("soda-eval")
QUESTION = Question(id="overall", text="How good?", scale=Scale(options=(1, 2, 3, 4, 5)))


def truth(made: list[Conversation]) -> list[IssueAnnotation]:
    found = []
    for chat in made:
        for place, turn in enumerate(chat.turns):
            if turn.role == "assistant":
                said = read_verdict(json.dumps(verdict(turn.content)))
                assert isinstance(said, Verdict)
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
    monkeypatch.setattr("accord.models.drivers.open_embedder", lambda name: _Placed())
    source = make_source("meaning", {"embedder": "placed"}, CONTEXT)
    meaning = run(source.measure(samples), memory_models())
    assert [column.name for column in meaning.columns] == [f"{MEANING}{place}" for place in range(3)]
    design = Design.fit(table(made, turns=True).join(meaning))
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
    assert Design.fit(wide).of(wide).shape == (50, DIRECTIONS)


# --- marks --------------------------------------------------------------------------------------------------------


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:  # type: ignore[type-arg]
    """A finding that is half right, a second clue, and marks that follow both."""
    rng = np.random.default_rng(seed)
    own = (rng.random(count) < 0.3).astype(float)
    clue = rng.normal(size=count)
    chance = 1 / (1 + np.exp(-(-2.0 + 1.5 * own + 1.5 * clue)))
    return own, np.column_stack([own, clue]), rng.random(count) < chance, [f"c{n // 5}" for n in range(count)]


def test_best_calibration_is_chosen() -> None:
    own, inputs, marked, groups = drawn(2000, 0)
    marks = learn_calibration(own, inputs, marked, groups)
    assert marks is not None and marks.mode == RIDGE
    new_own, new_inputs, new_marked, _ = drawn(4000, 1)
    chance = marks.probabilities(new_own, new_inputs)
    for low in (0.0, 0.2, 0.4, 0.6):
        inside = (chance >= low) & (chance < low + 0.2)
        assert new_marked[inside].mean() == pytest.approx(chance[inside].mean(), abs=0.08)
    # Without the clue the finding's own rates are all there is to know.
    alone = learn_calibration(own, own[:, None], marked, groups)
    assert alone is not None
    found = alone.probabilities(np.array([0.0, 1.0]), np.array([[0.0], [1.0]]))
    assert found[0] == pytest.approx(marked[own == 0].mean(), abs=0.03) and found[1] == pytest.approx(
        marked[own == 1].mean(), abs=0.03
    )
    assert set(alone.losses) >= {PLATT, ISOTONIC}


def test_isotonic_fits_a_non_logistic_curve() -> None:
    rng = np.random.default_rng(0)
    own = rng.choice([0.0, 0.3, 0.6, 0.9], size=4000)
    marked = rng.random(4000) < np.select([own < 0.5, own < 0.7], [0.02, 0.6], 0.62)
    marks = learn_calibration(own, np.zeros((4000, 0)), marked, [f"c{n % 50}" for n in range(4000)])
    assert marks is not None and marks.mode == ISOTONIC
    assert marks.probabilities(np.array([0.1, 0.6]), np.zeros((2, 0))) == pytest.approx([0.02, 0.6], abs=0.04)


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


def test_too_few_labels_are_not_learned() -> None:
    own, inputs, marked, groups = drawn(200, 0)
    assert learn_calibration(own, inputs, np.zeros(200, dtype=bool), groups) is None
    assert learn_calibration(own, inputs, np.ones(200, dtype=bool), groups) is None
    assert learn_calibration(own, inputs, marked, ["one"] * 200) is None


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
    row = Called([True, True, False, False], [True, False, True, False], [0.9, 0.2, 0.8, 0.1], list("abcd")).figures()
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
    text = fitted_text(Fitted(Evaluator(question, (), IssueLabels(question)), labels=found))
    assert f"{drawn_}: agreement with annotators is not above chance" in text and f"{told}: agreement" not in text
    for kind, warning in ((told, None), (drawn_, "agreement with people is not above chance")):
        head = IssueLabels(kind_question(kind)).fit(evidence, labels)
        again = IssueLabels(kind_question(kind)).restore(*head.state())
        assert {score.notes.get("warning") for score in again.predict(evidence)} == {warning}  # type: ignore[union-attr]


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
    with pytest.raises(BadInput, match="a mark of 'Coherence' must be 0 or 1, got 2"):
        labels_of(evidence, Labels([Label(Target("dialogue-000", 1), "Coherence", "ann", 2)]), "Coherence")
    elsewhere = Labels([Label(Target("nowhere", 1), ISSUE + "Coherence", "ann", 1)])
    assert len(labels_of(evidence, elsewhere, "Coherence")[0]) == 0


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
    assert isinstance(loaded.head, IssueLabels) and loaded.head.predict(evidence) == scores
    unknown = EvidenceTable.from_rows(list(evidence.columns), {Target("new", 1): {}})
    [score] = loaded.head.predict(unknown)
    assert isinstance(score, Unscored) and score.reason == "not assessed"


def test_finder_without_issues_is_learned_and_loaded(tmp_path: Path) -> None:
    made = dialogues(40, rate=0.5)
    evidence = table(made, turns=True)
    silent = np.isin([column.name for column in evidence.columns], ["issue:Coherence", "issue:Coherence:worst"])
    evidence = replace(evidence, values=np.where(silent, 0.0, evidence.values))
    labels = Labels(Label(t, "Coherence", "ann", place % 2) for place, t in enumerate(evidence.targets))
    question = kind_question("Coherence")
    fitted = Evaluator(question, (), IssueLabels(question), "Coherence", "issue-labels").fitted_on(evidence, labels)
    fitted.save(tmp_path)
    assert load_evaluator(tmp_path).head.predict(evidence) == fitted.head.predict(evidence)


def test_missing_evidence_is_named() -> None:
    made = dialogues(10)
    nothing = EvidenceTable.from_rows([Column("x", "m")], {Target("a"): {"x": 1.0}})
    with pytest.raises(BadInput, match="no evidence of issue 'Coherence'. Available: none"):
        IssueLabels(kind_question("Coherence")).fit(nothing, Labels([]))
    with pytest.raises(BadInput, match="0 assessed turns are labelled 'Coherence'.*5 of each"):
        IssueLabels(kind_question("Coherence")).fit(table(made, turns=True), Labels([]))
    with pytest.raises(BadInput, match="'overall'"):
        learned(shown(made), Labels([]))
    with pytest.raises(BadInput, match="issue:Coherence"):
        learned(shown(made), rated(made)).head.predict(nothing)


@pytest.mark.slow
def test_recorded_decisions_on_abc_eval_are_better_after_calibration(data: Path, memory: Store) -> None:
    from accord.formats import read
    from accord.values import IssueType, Taxonomy

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
    head = IssueLabels(kind_question("irrelevant")).fit(evidence, labels)
    assert all(isinstance(score, Score) for score in head.predict(evidence))


# --- the commands -------------------------------------------------------------------------------------------------


def invoke(*arguments: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, list(arguments))


PLAIN = "rubric: rubric.yaml\nmetrics: []\ndraws: 50\nfolds: 3\nevaluators: {calibration: {head: mixed}}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    made = dialogues(40, rate=0.25)
    with Path("chats.jsonl").open("w") as stream:
        for chat in made:
            messages = [{"role": turn.role, "content": turn.content} for turn in chat.turns]
            stream.write(json.dumps({"id": chat.id, "messages": messages, "system": chat.system}) + "\n")
    with Path("labels.csv").open("w") as stream:
        rows = csv.writer(stream)
        rows.writerow(["conversation", "turn", "question", "annotator", "value"])
        rows.writerows([row["conversation"], "", "overall", row["annotator"], row["value"]] for row in ratings(made))
    Path("rubric.yaml").write_text(
        "name: r\nmain: overall\nquestions:\n- {id: overall, text: How good, options: [1, 2, 3, 4, 5]}\n"
    )
    Path("accord.yaml").write_text(f"{PLAIN}models: {{finder: {{model: finder}}}}\n")
    return tmp_path


def mark(*kinds: str) -> None:
    """Add labels of these kinds of issues for each reply to the ratings of dialogues."""
    with Path("labels.csv").open("a") as stream:
        rows = csv.writer(stream)
        for each in truth(dialogues(40, rate=0.25)):
            there = {issue.type for issue in each.issues}
            rows.writerows(
                [each.target.conversation, each.target.turn, kind, "ann", int(kind in there)] for kind in kinds
            )


FINDER = "models: {finder: {model: m}}"


def served(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1")


@pytest.mark.slow
def test_from_dialogues_to_scores_with_issues(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark(*SIGNS)
    finder = Finder()
    with ChatServer(finder) as server:
        served(monkeypatch, server.url)
        assert invoke("import", "chats.jsonl", "labels.csv").exit_code == 0
        plan = json.loads(invoke("judge", "--source", "issues", "--plan", "--json").stdout)
        assert plan["requests"] == plan["questions"] == 40 and not finder.asked
        done = invoke("judge", "--source", "issues", "--longest")
        assert done.exit_code == 0 and "120 annotated now" in done.stdout and finder.asked == ["turns"] * 40
        again = invoke("judge", "--source", "issues")
        assert "0 annotated now" in again.stdout and len(finder.asked) == 40
        fitted = invoke("fit", "issues", "--json")
        assert fitted.exit_code == 0, fitted.output
        result = json.loads(fitted.stdout)
        systems = {row["system"]: row for row in result["comparison"]["rows"]}
        assert systems["issues"]["rmse"] < systems["lowest-turn"]["rmse"] < systems["constant"]["rmse"]
        assert "mean-turn" in systems and {row["issue"] for row in result["labels"]} == {*SIGNS, MACRO, ABOVE_CHANCE}
        assert len(finder.asked) == 40
        scored = invoke("score", "chats.jsonl", "--evaluator", "evaluators/issues", "--out", "scores.jsonl")
        assert scored.exit_code == 0, scored.output
        new = dialogues(3, seed=9, rate=0.5)[2]
        messages = [{"role": turn.role, "content": turn.content} for turn in new.turns]
        Path("new.jsonl").write_text(json.dumps({"id": "new", "messages": messages}) + "\n")
        for name in ("new-scores.jsonl", "new.csv", "new.parquet"):
            assert invoke("score", "new.jsonl", "--evaluator", "evaluators/issues", "--out", name).exit_code == 0
        assert len(finder.asked) == 41  # the new one alone, once
        said = json.loads(Path("scores.jsonl").read_text().splitlines()[0])
        assert said["notes"]["issues"]
        for issue in said["notes"]["issues"]:
            assert {"turn", "type", "comment", "quote", "span", "score"} <= issue.keys()
        chances = {(row["turn"], row["question"]): row for row in said["notes"]["turns"]}
        assert {question for _, question in chances} == set(SIGNS)
        for issue in said["notes"]["issues"]:  # each with the probability that people label it so
            assert chances[issue["turn"], issue["type"]]["value"] > 0.5
            assert chances[issue["turn"], issue["type"]]["called"] is True
        page = invoke("issues", "--out", "issues.html")
        assert page.exit_code == 0 and "Engagement" in page.stdout
    html = Path("issues.html").read_text()
    assert (
        "<mark>" in html
        and "<script" not in html
        and "sk-secret-1" not in html
        and "http" not in html.replace("http://www.w3.org", "").replace("http-equiv", "")
    )
    assert invoke("compare", "--only", "issues").exit_code == 0


@pytest.mark.slow
def test_a_decisions_judge_finds_issues_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark(*SIGNS)
    Path("accord.yaml").write_text(
        f"{PLAIN}models: {{judge: {{mode: decisions, model: finder}}}}\nsources: {{issues: {{by: judge}}}}\n"
    )
    finder = Finder()
    with ChatServer(finder) as server:
        served(monkeypatch, server.url)
        assert invoke("import", "chats.jsonl", "labels.csv").exit_code == 0
        plan = json.loads(invoke("judge", "--source", "issues", "--plan", "--json").stdout)
        assert plan["requests"] == 120 and plan["questions"] == 1200
        assert invoke("judge", "--source", "issues").exit_code == 0
        assert finder.asked == ["decisions"] * 120  # all kinds of one turn in one request
        fitted = json.loads(invoke("fit", "issues", "--json").stdout)
        assert next(row["f1"] for row in fitted["labels"] if row["issue"] == "macro") > 0.95
        assert invoke("issues").exit_code == 1


def test_unrecorded_kinds_are_missing(project: Path) -> None:
    Path("two.yaml").write_text(
        "name: two\nissues: [{name: rude, definition: It is rude.}, {name: vague, definition: It is vague.}]\n"
    )
    Path("accord.yaml").write_text(
        "rubric: rubric.yaml\nmetrics: []\nmodels: {judge: {mode: recorded, paths: [judge.jsonl]}}\n"
        "sources: {issues: {by: judge, taxonomy: two.yaml}}\n"
    )
    assert invoke("import", "chats.jsonl", "labels.csv").exit_code == 0
    chats = [json.loads(line) for line in Path("chats.jsonl").read_text().splitlines()]
    turns = [
        str(Target(chat["id"], place))
        for chat in chats
        for place, turn in enumerate(chat["messages"])
        if turn["role"] == "assistant"
    ]
    rows = [
        {"item_id": turn, "question": "rude", "judge_model": "m", "value": 1}
        for turn in turns + [chat["id"] for chat in chats]
    ]
    Path("judge.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = invoke("judge", "--source", "issues", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["answered"] == len(turns) == said["unanswered"]["not recorded"] and said["known"] == {"issues": 40}
    with accord.open("accord.yaml") as opened:
        found = opened.measure([opened.source("issues")], [Sample(each) for each in opened.store.conversations()])
    present = dict(zip([column.name for column in found.columns], found.present.any(axis=0), strict=True))
    assert present["issue:rude"] and not present["issue:vague"]


@pytest.mark.slow
def test_faults_of_an_endpoint_lose_no_turn(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = Finder()
    with ChatServer(Misbehaving(finder, share=0.3)) as server:
        served(monkeypatch, server.url)
        invoke("import", "chats.jsonl", "labels.csv")
        first = invoke("judge", "--source", "issues", "--json")
        assert first.exit_code in {0, 5}, first.output
        assert any(invoke("judge", "--source", "issues").exit_code != 5 for _ in range(50))
        store = Store("sqlite:///accord.db")
        assert sum(IssueAnnotations(store).makers().values()) == 120
        store.close()


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


def test_no_request_after_the_budget_is_spent(store: Store) -> None:
    model = ScriptedModel(lambda prompt: Failure("out of budget", "spent"))
    models = Models({"finder": ModelSettings(model="m", concurrency=1)}, store, given={"finder": model})
    with pytest.raises(BudgetReached):
        run(make_source("issues", {}, CONTEXT).measure([Sample(chat) for chat in dialogues(20)]), models)
    assert len(model.asked) <= 2


@pytest.mark.parametrize(
    ("config", "arguments", "says"),
    [
        ("", ["judge", "--source", "issues"], "models: {finder: {model: NAME}}"),
        ("models: {finder: {}}", ["judge", "--source", "issues"], "no model for role 'finder'"),
        (FINDER + "\nsources: {issues: {taxonomy: soda-evil}}", ["judge"], "Did you mean 'soda-eval'"),
        (FINDER, ["judge", "--source", "issues", "--batch"], "--batch"),
        ("sources: {issues: {by: judge}}", ["judge", "--source", "issues"], "'judge'.*models: {judge: "),
        ("sources: {issues: {by: recorded, model: gpt-9}}", ["fit", "issues"], "0 sets of annotations by 'gpt-9'"),
        ("sources: {issues: {by: recorded}}", ["issues"], "by: recorded, model: NAME"),
        (FINDER, ["issues"], "no turn is annotated yet"),
        ("models: {finder: {modle: m}}", ["issues"], "unknown key 'modle'.*model,"),
        ("issues: {model: m}", ["issues"], "models: {finder: {model: ...}} and sources: {issues: {...}}"),
    ],
)  # fmt: skip
def test_invalid_input_is_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, config: str, arguments: list[str], says: str
) -> None:
    served(monkeypatch, "http://127.0.0.1:9/v1")
    invoke("import", "chats.jsonl", "labels.csv", "--config", "accord.yaml")
    Path("accord.yaml").write_text(f"rubric: rubric.yaml\nmetrics: []\ndraws: 50\n{config}\n")
    done = invoke(*arguments)
    assert done.exit_code == 1, done.output
    *_, line = done.stderr.strip().splitlines()
    assert not any(other.startswith("accord: ") for other in done.stderr.strip().splitlines()[:-1]), "one error"
    import re

    assert re.search(says, line), line


@pytest.mark.slow
def test_imported_annotations_are_learned_from(project: Path) -> None:
    mark("Coherence")
    made = dialogues(40, rate=0.25)
    rows = [
        {"dialogue_id": each.target.conversation, "turn_index": each.target.turn, **each.to_json()}
        for each in truth(made)
    ]
    Path("gpt4.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("accord.yaml").write_text(f"{PLAIN}sources: {{issues: {{by: recorded, model: gpt-4-1106-preview}}}}\n")
    assert invoke("import", "chats.jsonl", "labels.csv").exit_code == 0
    done = invoke("import", "gpt4.jsonl")
    assert done.exit_code == 0 and "120 assessments of turns imported" in done.stdout, done.output
    assert "0 conversations imported" in done.stdout
    assert invoke("fit", "issues").exit_code == 0
    asked = invoke("judge", "--source", "issues")  # recorded annotations need no request
    assert asked.exit_code == 1 and "no source of the project asks a model" in asked.stderr
    page = invoke("issues", "--json")
    assert page.exit_code == 0 and json.loads(page.stdout)["quotes_made_up"] == 0  # the dialogues were there already


def test_page_escapes_imported_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    chat = Conversation("c", (Turn("user", evil), Turn("assistant", f"Well {evil}")), metadata={"system": evil})
    found = [
        IssueAnnotation(
            Target("c", 1),
            (Issue("Coherence", evil, evil, (5, 5 + len(evil)), evil), Issue("X", "", "gone")),
            1,
            evil,
            evil,
        )
    ]
    from accord.validation import summarize_issues

    path = write_issues_page(summarize_issues(found, [chat], SODA), found, [chat], SODA, tmp_path / "page.html")
    html = path.read_text()
    assert "<script" not in html and f"<mark>{evil.replace('<', '&lt;').replace('>', '&gt;')}</mark>" in html
    assert "which is not in the turn" in html


def test_page_shows_control_characters_of_every_text(tmp_path: Path) -> None:
    odd = "a\x1b[31m\x07\x9b\u202e\ud800"
    chat = Conversation(odd, (Turn(odd, odd, name=odd), Turn("assistant", odd)), metadata={"system": odd, "time": odd})
    issues = (Issue(odd, odd, odd, (0, 3), odd), Issue("X", "", "gone"))
    found = [IssueAnnotation(Target(odd, 1), issues, 1, odd, odd, (odd,))]
    from accord.validation import summarize_issues

    html = write_issues_page(
        summarize_issues(found, [chat], SODA), found, [chat], SODA, tmp_path / "page.html"
    ).read_text()
    assert not [letter for letter in html if letter != "\n" and not letter.isprintable()]
    assert "\\u001b[31m\\u0007" in html


def test_prose_reply_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter(["Sure!", json.dumps(verdict("whatever"))])
    asked = []

    def respond(request):  # type: ignore[no-untyped-def]
        asked.append(request)
        return completion(next(said)) if len(asked) < 3 else Wire({}, status=500)

    from accord.models import ClientOptions, open_uncached

    with ChatServer(respond) as server:
        import asyncio

        served(monkeypatch, server.url)
        model = open_uncached("m", server.url, ClientOptions())

        async def run() -> object:
            from accord.methods import IssuePromptBuilder, annotate
            from accord.models import drive

            try:
                return await drive(annotate(dialogues(1)[0], [1], IssuePromptBuilder(SODA), "m"), model)
            finally:
                await model.close()

        [found] = asyncio.run(run())  # type: ignore[misc]
    assert isinstance(found, IssueAnnotation) and found.issues[0].type == "Engagement" and len(asked) == 2


@pytest.mark.slow
def test_validation_by_annotators_is_on_the_page(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(Finder()) as server:
        served(monkeypatch, server.url)
        invoke("import", "chats.jsonl", "labels.csv")
        assert "no turn is annotated yet" in invoke("validate").stderr
        invoke("judge", "--source", "issues")
    assert invoke("validate", "detection", "--outcome").exit_code == 1
    opened = accord.open()
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
        said = invoke("validate", flow, "--outcome")
        assert said.exit_code == 0 and "6 of 6 turns have answers" in said.stdout
    assert invoke("issues").exit_code == 0 and "Validation by annotators" in Path("issues.html").read_text()


@pytest.mark.slow
def test_unscored_row_has_the_reason_of_its_turns(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = Finder()

    def respond(request):  # type: ignore[no-untyped-def]
        if "dialogue 77" in json.dumps(request["messages"]):
            return completion("", refusal="I will not look at this.")
        return finder(request)

    with ChatServer(respond) as server:
        served(monkeypatch, server.url)
        invoke("import", "chats.jsonl", "labels.csv")
        invoke("judge", "--source", "issues")
        assert invoke("fit", "issues").exit_code == 0
        turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Line 1 of dialogue 77."}]
        fine = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "You fool."}]
        rows = [{"id": "refused", "messages": turns}, {"id": "dialogue-000", "messages": fine}]
        Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        done = invoke("score", "new.jsonl", "--evaluator", "evaluators/issues", "--out", "s.jsonl")
    assert done.exit_code == 5, done.output
    refused, other = map(json.loads, Path("s.jsonl").read_text().splitlines())
    assert refused["unscored"] == "no evidence; not assessed: refused"
    # An id that the store knows with other words is judged by its own words.
    assert [issue["type"] for issue in other["notes"]["issues"]] == ["Antisocial"] and other["value"] is not None


@pytest.mark.slow
def test_rows_without_turns_are_unscored_and_partial_ones_have_a_warning(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = Finder()

    def respond(request):  # type: ignore[no-untyped-def]
        asked = request["messages"][0]["content"].rsplit("\nJudge ", 1)[-1]
        if "[3]" in asked and "dialogue 77" in request["messages"][0]["content"]:
            return completion("no verdict here")
        return finder(request)

    with ChatServer(respond) as server:
        served(monkeypatch, server.url)
        invoke("import", "chats.jsonl", "labels.csv")
        invoke("judge", "--source", "issues")
        invoke("fit", "issues")
        odd = [
            [{"role": "user", "content": "hi"}],
            [{"role": "user", "content": "hi"}, {"role": "assistant", "content": " "}],
        ]
        Path("odd.jsonl").write_text(
            "".join(json.dumps({"id": f"odd-{n}", "messages": m}) + "\n" for n, m in enumerate(odd))
        )
        done = invoke("score", "odd.jsonl", "--evaluator", "evaluators/issues", "--out", "s.jsonl")
        assert done.exit_code == 5 and "2 unscored: no evidence; not assessed yet" in done.stdout, done.output
        turns = [{"role": r, "content": f"Line {n} of dialogue 77."} for n, r in enumerate(["user", "assistant"] * 2)]
        Path("part.jsonl").write_text(json.dumps({"id": "part", "messages": turns}) + "\n")
        before = len(server.requests)
        done = invoke("score", "part.jsonl", "--evaluator", "evaluators/issues", "--out", "s.jsonl")
        assert done.exit_code == 0, done.output
        assert len(server.requests) - before == 4  # one for both, one for each, one repeated
        said = json.loads(Path("s.jsonl").read_text())
        assert said["warning"].startswith("assessed in part: 1 of 2 turns have no annotation")
        assert "1 with a warning: assessed in part" in done.stdout


@pytest.mark.slow
def test_run_annotates_before_it_fits(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark("Coherence")
    finder = Finder()
    with ChatServer(finder) as server:
        served(monkeypatch, server.url)
        done = invoke("run", "chats.jsonl", "labels.csv", "--out", "whole")
        assert done.exit_code == 0 and "lowest-turn" in done.stdout and "unscored" not in done.stdout, done.output
        assert finder.asked == ["turns"] * 40


@pytest.mark.slow
def test_adaptive_rubric_keeps_issues(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("accord.yaml").write_text(
        f"{PLAIN}models: {{judge: {{mode: decisions, model: finder}}}}\nsources: {{issues: {{by: judge}}}}\n"
    )

    def respond(request):  # type: ignore[no-untyped-def]
        from accord.testing import decisions

        if all(question["type"] == "predicate" for question in request["questions"]):
            return Finder()(request)
        about = [
            {"type": "score", "name": question.get("name"), "score": 3.0, "confidence": 0.5, "probabilities": [
                {"label": level["label"], "value": place, "probability": 0.2}
                for place, level in enumerate(question["levels"])
            ]}
            for question in request["questions"]
        ]  # fmt: skip
        return decisions(request["model"], about)

    with ChatServer(respond) as server:
        served(monkeypatch, server.url)
        invoke("import", "chats.jsonl", "labels.csv")
        assert invoke("judge", "--source", "issues").exit_code == 0 and invoke("judge").exit_code == 0
        assert invoke("fit", "calibration").exit_code == 0
        done = invoke("score", "chats.jsonl", "--out", "s.jsonl", "--ask", "1")
        assert done.exit_code == 0, done.output
        before = len(server.requests)
        known = json.loads(invoke("judge", "--source", "issues", "--json").stdout)
        assert known["known"]["issues"] == 40 and len(server.requests) == before
