"""Synthetic conversations are excluded everywhere unless they are requested by name."""

from __future__ import annotations

import json
import re
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
from commands import accord_json, invoke, printed, read_rows, refused

from accord import Conversation, Project, Turn, read
from accord.edges import BadInput
from accord.formats import ConversationWriter
from accord.live.messages import HistoryDeduplicator
from accord.project import Config
from accord.scoring import NOT_COUNTED, BatchScorer, latest_scores
from accord.statistics import (
    TwoSampleResult,
    two_sample_test,
)
from accord.store import Store
from accord.studies import sample_items
from accord.values import SYNTHETIC, Label, StudySettings, Synthetic, Target
from accord.verbs.gate import check_gate

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
    (tmp_path / "accord.yaml").write_text(json.dumps(SETTINGS), encoding="utf-8")
    return tmp_path


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


@pytest.mark.parametrize(
    ("command", "sign"),
    [
        ("compare --only plain", f"{MADE} of 52 rated conversations are synthetic"),
        ("report plain --out made.html", f"{MADE} of 52 rated conversations are synthetic"),
        ("estimate", "DS4 (synthetic)"),
        ("export made.csv", "synth-1"),
        ("label next -n 400 --out made.csv", "synth-1"),
    ],
)
def test_every_verb_leaves_synthetic_conversations_out_unless_asked(folder: Path, command: str, sign: str) -> None:
    """The sign is in the output or the written file of the verb if synthetic conversations are counted."""

    def shown(*more: str) -> tuple[str, str]:
        done = invoke(*command.split(), *more)
        said = done.stdout + "".join(path.read_text(encoding="utf-8") for path in Path().glob("made.*"))
        return re.sub("<style>.*?</style>", "", said.replace(folder.name, ""), flags=re.DOTALL), done.stderr

    said, notes = shown()
    assert sign not in said and "synth" not in said and f"{MADE} synthetic conversations left out" in notes
    said, notes = shown("--synthetic", "with", *(["--force"] if "made" in command else []))
    assert sign in said and "left out" not in notes


def test_gate_ignores_runs_with_synthetic_conversations(folder: Path) -> None:
    printed("compare", "--only", "plain", "--synthetic", "with")
    assert "nothing was compared yet" in refused("gate", "--min-agreement", "-1")
    assert "passed" in printed("gate", "--min-agreement", "-1", "--synthetic", "with", "--allow-unproven")
    assert "without" in refused("compare", "--synthetic", "yes")


def test_scoring_a_file_skips_synthetic_conversations(folder: Path) -> None:
    with opened("with") as project, ConversationWriter(Path("all.jsonl")) as writer:
        writer.write(project.store.conversations())
    printed("fit", "plain", "--out", "fitted")
    score = ["score", "all.jsonl", "--evaluator", "fitted", "--out"]
    assert f"{MADE} left out by --synthetic" in printed(*score, "s.jsonl")
    rows = read_rows("s.jsonl")
    assert len(rows) == 40 and not any(row["conversation"].startswith("synth-") for row in rows)
    only = accord_json(*score, "o.jsonl", "--synthetic", "only")
    assert (only["scored"], only["left_out"]) == (MADE, 40)
    with opened("with") as project:
        store, mart = project.store, project.mart
        assert len(latest_scores(store, mart)) == 40 and len(latest_scores(store, mart, "only")) == MADE
        checks = [check_gate(project, None, -10.0, **more)[0] for more in ({"training": True}, {"synthetic": "only"})]
        assert checks[0].value != checks[1].value
    counts = accord_json(*score, "parts", "--workers", "1")["counts"]
    assert (counts["scored"], counts["unscored"]) == (40, {NOT_COUNTED: MADE})
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    frame = pl.DataFrame({"messages": [json.dumps(said)]})
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


def compared(
    values: np.ndarray, made: np.ndarray, groups: Sequence[str] | None = None, seed: int = 0
) -> TwoSampleResult:
    names = [f"g{place}" for place in range(len(values))] if groups is None else groups
    metrics = [f"m{place}" for place in range(values.shape[1])]
    return two_sample_test(metrics, values, np.isfinite(values), names, made.tolist(), seed)


@pytest.fixture
def rng() -> Iterator[np.random.Generator]:
    yield np.random.default_rng(7)


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


def test_without_a_difference_p_is_uniform_even_within_groups(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few of 60 comparisons of equal systems in groups of four have a small p: 3 expected, 9 very unlikely."""
    module = sys.modules[two_sample_test.__module__]
    monkeypatch.setattr(module, "PERMUTATIONS", 199)  # p is uniform over its steps, however fine they are
    monkeypatch.setattr(module, "DETAIL_DRAWS", 20)  # and the interval excludes it
    small = 0
    for seed in range(60):
        group = np.repeat(np.arange(20), 4)
        values = rng.normal(size=(20, 3))[group] + 0.1 * rng.normal(size=(80, 3))
        made = np.repeat(rng.permutation(20) < 10, 4)
        small += compared(values, made, [f"g{each}" for each in group], seed).p < 0.05
    assert small < 9


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


def test_the_check_of_a_store_names_metrics(folder: Path) -> None:
    with opened("with") as project:
        made = [
            Conversation(f"odd-{place}", (Turn("user", f"Question {place}?"), Turn("assistant", f"No {place}!")),
                         metadata={SYNTHETIC: {"how": "DS1"}, "system": "DS1", "topic": str(place)})
            for place in range(15)
        ]  # fmt: skip
        project.store.add_conversations(made)
    said = printed("synth", "--check", "--method", "DS1")
    assert "The metrics tell 15 synthetic conversations from 40 real ones" in said and "effect (SD)" in said
    found = accord_json("synth", "--check", "--method", "DS1")
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
        keys = {
            name: add_person(studies, name, role, returns=True)
            for name, role in (("ann", "annotator"), ("lee", "lead"))
        }
        studies.close()
        with served(opened) as port:
            lee, ann = Browser(port), Browser(port)
            for name, browser in (("lee", lee), ("ann", ann)):
                assert browser.post("/in", key=keys[name])[0] == 303
            page = ann.get("/rate/look")
            assert ann.status == 200 and "Question" in page
            assert not any(word in page for word in ("ynthetic", "synth-", "DS4"))
            assert "3 of 3 conversations are synthetic" in lee.get("/lead/look")
            assert ">synthetic</span>" in lee.get("/lead/look/disagree?question=Q0")
