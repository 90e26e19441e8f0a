"""Synthetic conversations are excluded everywhere unless they are requested by name."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import small_sample

from accord import Conversation, Turn, read
from accord.cli import main
from accord.edges import BadInput
from accord.evidence import Column, EvidenceTable
from accord.formats import ConversationWriter
from accord.live import HistoryDeduplicator
from accord.project import Config, Project, export_annotations
from accord.report import check_gate
from accord.scoring import NOT_COUNTED, BatchScorer, latest_scores
from accord.store import Store
from accord.studies import sample_items
from accord.synth import TwoSampleResult, two_sample_test
from accord.values import SYNTHETIC, Label, StudySettings, Synthetic, Target

MADE = 12
SETTINGS: Any = {
    "draws": 20,
    "folds": 3,
    "evaluator": "plain",
    "evaluators": {"plain": {"sources": ["metrics"], "head": "mixed"}},
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the small sample, and a dozen of its conversations again as synthetic ones, with other ratings."""
    path = tmp_path_factory.mktemp("both") / "accord.db"
    with Project(Config(store=f"sqlite:///{path}")) as project:
        project.import_(small_sample.sources())
        found = list(project.store.conversations())[:MADE]
        told = ({"how": "DS4", "topic": "t"}, "DS4")
        made = [
            replace(each, id=f"synth-{place}", metadata={**each.metadata, SYNTHETIC: told[0], "system": told[1]})
            for place, each in enumerate(found)
        ]
        project.store.add_conversations(made)
        question, value = project.question.id, project.question.scale.options[0]
        labels = [Label(Target(each.id), question, name, value) for each in made for name in ("ann", "bea")]
        project.store.add_labels(labels)
    return path


@pytest.fixture
def folder(both: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same store, to be written to."""
    monkeypatch.chdir(tmp_path)
    with closing(Store(f"sqlite:///{both}")):
        (tmp_path / "accord.db").write_bytes(both.read_bytes())
    (tmp_path / "accord.yaml").write_text(json.dumps(SETTINGS))
    return tmp_path


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return the exit code, standard output and standard error of a command."""
    capsys.readouterr()
    sys.argv = ["accord", *words]
    with pytest.raises(SystemExit) as ended:
        main()
    found = capsys.readouterr()
    return int(ended.value.code or 0), found.out, found.err


def opened(which: Synthetic) -> Project:
    return Project(Config(store="sqlite:///accord.db", synthetic=which, **SETTINGS))


# --- the one place ----------------------------------------------------------------------------------------------------


def chats() -> list[Conversation]:
    def chat(name: str, **metadata: Any) -> Conversation:
        return Conversation(name, (Turn("user", "a"), Turn("assistant", "b")), metadata=metadata)

    return [
        chat("1"),
        chat("2", synthetic={"how": "DS1"}),
        chat("3", synthetic=None),
        chat("4", synthetic={"how": "DS4"}),
    ]


@pytest.mark.parametrize(
    ("which", "ids"), [("without", ["1", "3"]), ("only", ["2", "4"]), ("with", ["1", "2", "3", "4"])]
)
def test_store_filters_synthetic_conversations(database: str, which: Synthetic, ids: list[str]) -> None:
    with closing(Store(database, which)) as store:
        store.add_conversations(chats())
        store.add_labels([Label(Target(name), "Q", "ann", 1) for name in "1234"])
        assert [each.id for each in store.conversations()] == list(store.conversation_ids()) == ids
        assert [label.target.conversation for label in store.labels()] == ids
        assert [each.target.conversation for each in store.annotations()] == ids
        assert store.count_conversations(which) == len(ids) and store.count_conversations() == 4
        assert store.synthetic_among("134x") == {"4"}
        assert [each.id for each in store.conversations(["1", "2"])] == ["1", "2"], "those that are named are given"
        assert len(list(store.annotations(conversations=["2"]))) == 1


def test_pairs_with_a_synthetic_conversation_are_excluded(memory: Store) -> None:
    memory.add_conversations(chats())
    pairs = [("1", "3"), ("1", "2"), ("2", "3")]
    memory.add_labels([Label(Target(a), "Q", "ann", 1, against=Target(b)) for a, b in pairs])
    assert [(label.target.conversation, label.against) for label in memory.labels()] == [("1", Target("3"))]


# --- project methods ---------------------------------------------------------------------------------------------------


def test_synthetic_conversations_are_not_learned_or_suggested(folder: Path) -> None:
    with opened("without") as project:
        own, _ = project.training(project.evaluator())
        every = [sample.conversation.id for sample in project.all_samples()]
        suggested = {each.conversation for each in project.label_next(20)}
    with opened("with") as project:
        mixed, _ = project.training(project.evaluator())
    assert not any(sample.conversation.is_synthetic for sample in own.samples)
    assert sum(sample.conversation.is_synthetic for sample in mixed.samples) == MADE
    assert not any(name.startswith("synth-") for name in [*every, *suggested]) and len(every) == 40


@pytest.mark.slow
def test_comparison_reports_synthetic_conversations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, said = command(capsys, "compare", "--only", "plain")
    assert code == 0 and f"{MADE} synthetic conversations left out; --synthetic with counts them" in said
    assert "synthetic" not in out
    _, out, said = command(capsys, "compare", "--only", "plain", "--synthetic", "with")
    assert f"{MADE} of 52 rated conversations are synthetic" in out and "counted with" in said
    code, _, said = command(capsys, "compare", "--synthetic", "yes")
    assert code == 1 and "synthetic" in said and "without" in said


@pytest.mark.slow
def test_gate_ignores_runs_with_synthetic_conversations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(capsys, "compare", "--only", "plain", "--synthetic", "with")
    code, _, said = command(capsys, "gate", "--min-agreement", "-1")
    assert code == 1 and "nothing was compared yet" in said
    code, out, _ = command(capsys, "gate", "--min-agreement", "-1", "--synthetic", "with")
    assert code == 0 and "passed" in out


@pytest.mark.slow
def test_estimate_separates_synthetic_systems(folder: Path) -> None:
    with opened("without") as project:
        plain = [each.system for each in project.estimate().systems]
    with opened("with") as project:
        both = [each.system for each in project.estimate().systems]
    assert set(both) - set(plain) == {"DS4 (synthetic)"}


@pytest.mark.slow
def test_report_marks_synthetic_conversations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "report", "plain")[0] == 0
    assert "ynthetic" not in Path("report.html").read_text()
    assert command(capsys, "report", "plain", "--synthetic", "only", "--out", "only.html")[0] == 0
    page = Path("only.html").read_text()
    assert f"{MADE} of {MADE} rated conversations are synthetic" in page and "Synthetic conversation." in page


def test_export_excludes_labels_of_synthetic_conversations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for which, count in (("without", 1143), ("only", 2 * MADE), ("with", 1143 + 2 * MADE)):
        with opened(which) as project:  # type: ignore[arg-type]
            assert export_annotations(project.store, Path(f"{which}.jsonl"))["person"] == count
    code, _, said = command(capsys, "export", "labels.csv")
    assert code == 0 and "left out" in said and "synth-" not in Path("labels.csv").read_text()


@pytest.mark.slow
def test_scoring_a_file_skips_synthetic_conversations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened("with") as project, ConversationWriter(Path("all.jsonl")) as writer:
        writer.write(project.store.conversations())
    assert command(capsys, "fit", "plain", "--out", "fitted")[0] == 0
    code, out, _ = command(capsys, "score", "all.jsonl", "--out", "s.jsonl", "--evaluator", "fitted")
    assert code == 0 and f"{MADE} left out by --synthetic" in out
    rows = [json.loads(line) for line in Path("s.jsonl").read_text().splitlines()]
    assert len(rows) == 40 and not any(row["conversation"].startswith("synth-") for row in rows)
    code, out, _ = command(
        capsys, "score", "all.jsonl", "-o", "o.jsonl", "--evaluator", "fitted", "--synthetic", "only", "--json"
    )
    assert (json.loads(out)["scored"], json.loads(out)["left_out"]) == (MADE, 40)
    with opened("with") as project:
        store, mart = project.store, project.mart
        assert len(latest_scores(store, mart)) == 40 and len(latest_scores(store, mart, "only")) == MADE
        assert (
            check_gate(project, None, -10.0, training=True)[0].value
            != check_gate(project, None, -10.0, synthetic="only")[0].value
        )
    code, out, _ = command(
        capsys, "score", "all.jsonl", "--out", "parts", "--evaluator", "fitted", "--workers", "1", "--json"
    )
    counts = json.loads(out)["counts"]
    assert code == 0 and (counts["scored"], counts["unscored"]) == (40, {NOT_COUNTED: MADE})
    frame = pl.DataFrame(
        {"messages": [json.dumps([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])]}
    )
    assert BatchScorer("fitted")(frame)["value"].null_count() == 0


def test_live_scoring_skips_synthetic_conversations() -> None:
    said: list[str] = []
    row = {"id": "1", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    ours = HistoryDeduplicator(on_skipped=said.append)
    heard, _ = ours.messages(row, "log")
    none, _ = ours.messages({**row, "id": "2", SYNTHETIC: {"how": "DS1"}}, "log")
    assert len(heard) == 2 and not none and said == ["synthetic conversations are not scored live"]


@pytest.mark.parametrize(
    ("items", "count"),
    [({}, 40), ({"synthetic": "only"}, MADE), ({"synthetic": "with"}, 40 + MADE), ({"ids": ["synth-1"]}, 1)],
)
def test_study_includes_synthetic_conversations_by_name(both: Path, items: dict[str, Any], count: int) -> None:
    study = StudySettings.model_validate({"items": items})
    with closing(Store(f"sqlite:///{both}")) as store:
        assert len(list(sample_items("s", study, store, 1))) == count


def test_imported_synthetic_conversations_stay_synthetic(folder: Path) -> None:
    with opened("only") as project, ConversationWriter(Path("made.jsonl")) as writer:
        first = list(project.store.conversations())
        writer.write(first)
    assert [record.conversation for record in read("made.jsonl")] == first
    with Project(Config(store="sqlite:///other.db")) as other:
        other.import_(["made.jsonl"])
        assert not list(other.store.conversations()) and other.store.count_conversations("only") == MADE
    with pytest.raises(BadInput, match=r"the suffix is \.jsonl"):
        ConversationWriter(Path("made.csv"))


# --- how unlike -------------------------------------------------------------------------------------------------------


def table(values: np.ndarray) -> EvidenceTable:
    """Rows of numbers as metrics of conversations."""
    targets = tuple(Target(f"c{place:03}") for place in range(len(values)))
    columns = tuple(Column(f"m{place}", "test") for place in range(values.shape[1]))
    return EvidenceTable(targets, columns, values, np.isfinite(values))


def compared(
    values: np.ndarray, made: np.ndarray, groups: Sequence[str] | None = None, seed: int = 0
) -> TwoSampleResult:
    names = [f"g{place}" for place in range(len(values))] if groups is None else groups
    return two_sample_test(table(values), names, made.tolist(), seed)


@pytest.fixture
def rng() -> Iterator[np.random.Generator]:
    yield np.random.default_rng(7)


@pytest.mark.slow
def test_a_planted_difference_is_found_with_its_sign_and_size(rng: np.random.Generator) -> None:
    made = np.arange(200) < 100
    values = rng.normal(size=(200, 5))
    values[:, 2] -= 1.5 * made
    found = compared(values, made)
    # Two normal distributions 1.5 apart: AUC is Φ(1.5/√2) = .856.
    assert 0.75 < found.auc < 0.92 and found.low < found.auc < found.high and found.p < 0.01
    first = found.features[0]
    assert first.metric == "m2" and -2 < first.effect < -1 and first.higher < 0.25 and first.p_holm < 0.05
    assert all(each.p_holm > 0.05 for each in found.features[1:]) and "the metrics tell" in str(found)


def test_a_difference_of_spread_is_found(rng: np.random.Generator) -> None:
    made = np.arange(200) < 100
    values = rng.normal(size=(200, 2)) * np.where(made, 0.2, 1.0)[:, None]
    assert compared(values, made).p < 0.01


@pytest.mark.slow
def test_without_a_difference_p_is_uniform_even_within_groups(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few of 60 comparisons of equal systems in groups of four have a small p: 3 expected, 9 very unlikely."""
    module = sys.modules[two_sample_test.__module__]
    monkeypatch.setattr(module, "PERMUTATIONS", 199)  # p is uniform over its steps, however fine they are
    monkeypatch.setattr(module, "DRAWS", 20)  # and the interval excludes it
    small = 0
    for seed in range(60):
        group = np.repeat(np.arange(20), 4)
        values = rng.normal(size=(20, 3))[group] + 0.1 * rng.normal(size=(80, 3))
        made = np.repeat(rng.permutation(20) < 10, 4)
        small += compared(values, made, [f"g{each}" for each in group], seed).p < 0.05
    assert small < 9


@pytest.mark.slow
def test_missing_and_constant_metrics_break_nothing(rng: np.random.Generator) -> None:
    made = np.arange(60) < 30
    values = rng.normal(size=(60, 4))
    values[:, 0], values[:, 1] = 3.0, np.nan
    values[made, 2] = np.where(rng.random(30) < 0.9, np.nan, 1.0)
    found = compared(values, made)
    assert {each.metric for each in found.features} == {"m3"} and found.auc > 0.8, "that a metric is missing tells too"
    assert all(np.isfinite(value) for value in (found.auc, found.low, found.high, found.p))


@pytest.mark.parametrize(
    ("made", "said"), [(5, "5 independent synthetic conversations"), (55, "5 independent real conversations")]
)
def test_too_few_are_an_error(rng: np.random.Generator, made: int, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        compared(rng.normal(size=(60, 2)), np.arange(60) < made)


def test_empty_store_is_an_error(tmp_path: Path) -> None:
    with (
        Project(Config(store=f"sqlite:///{tmp_path}/accord.db")) as project,
        pytest.raises(BadInput, match="0 independent synthetic .* make some with accord synth"),
    ):
        project.check_synth()


@pytest.mark.slow
def test_the_check_of_a_store_names_metrics(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened("with") as project:
        made = [
            Conversation(f"odd-{place}", (Turn("user", f"Question {place}?"), Turn("assistant", f"No {place}!")),
                         metadata={SYNTHETIC: {"how": "DS1"}, "system": "DS1", "topic": str(place)})
            for place in range(15)
        ]  # fmt: skip
        project.store.add_conversations(made)
    code, out, _ = command(capsys, "synth", "--check", "--how", "DS1")
    assert code == 0 and "The metrics tell 15 synthetic conversations from 40 real ones" in out and "effect (SD)" in out
    _, out, _ = command(capsys, "synth", "--check", "--how", "DS1", "--json")
    found = json.loads(out)
    assert found["auc"] > 0.95 and found["p"] < 0.05 and found["features"][0]["p_holm"] < 0.05


# --- pages ------------------------------------------------------------------------------------------------------------


def test_lead_sees_synthetic_marks_and_raters_do_not(tmp_path: Path) -> None:
    from served_workbench import Browser, chats, project, served, submitted

    from accord.store import Studies
    from accord.studies import StudySession
    from accord.studies.study_progress import StudyProgress
    from accord.web import add_person

    about = {SYNTHETIC: {"how": "DS4", "models": {"user": "tea"}}, "system": "DS4"}
    made = [replace(each, id=f"synth-{each.id}", metadata={**each.metadata, **about}) for each in chats(3)]
    with project(tmp_path, items={"synthetic": "only"}) as opened:
        opened.store.add_conversations(made)
        studies = Studies(opened.store)
        look = StudySession(opened, "look", studies)
        assert look.begin() == 3
        for place, person in enumerate(("ann", "bob")):
            taken = look.take(person)
            assert taken is not None
            look.answer(person, submitted(taken.id, value=1 + 3 * place, id=f"{person:a>20}"))
        assert "3 of 3 conversations are synthetic" in StudyProgress(look).sentence()
        keys = {name: add_person(studies, name, role) for name, role in (("ann", "annotator"), ("lee", "lead"))}
        studies.close()
        with served(opened) as port:
            lee, ann = Browser(port), Browser(port)
            for name, browser in (("lee", lee), ("ann", ann)):
                assert browser.post("/in", key=keys[name])[0] == 303
            page = ann.get("/rate/look")
            assert ann.status == 200 and "Question" in page
            assert not any(word in page for word in ("ynthetic", "synth-", "DS4"))
            assert "3 of 3 conversations are synthetic" in lee.get("/lead/look")
            assert "<b>synthetic</b>" in lee.get("/lead/look/disagree?question=Q0")
