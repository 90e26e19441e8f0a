"""ADOROR's study: systems in a planted world, baselines on Topical-USR, and the same tables on a project."""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import accord, accord_json, printed, write, write_corpus
from scipy import stats
from synthetic_corpus import rated_chats

from accord import Conversation, Label, Labels, Question, Scale, Target, Turn
from accord import open as open_project
from accord.edges import UnknownName
from accord.evidence import Training
from accord.methods import rivals
from accord.methods.in_context.selectors import (
    Neighbours,
    TowerSettings,
    by_cost,
    random_nodes,
)
from accord.methods.in_context.template import examples_of
from accord.models import open_embedder
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import Wire
from accord.values import Document, Sample
from accord_papers import StudyInput, open_paper, run_parts
from accord_papers.adoror import (
    metrics,
    more_systems,
    prefixes,
    published,
    simulated_world,
    simulation,
    system_answers,
    systems,
    tables_and_figures,
)

DATA = os.environ.get("ACCORD_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="ACCORD_DATA names no folder of benchmark data")
TINY = simulation.Sizes(40, 20, 3, 16, 16, TowerSettings(width=8, heads=2, feed_forward=16, epochs=2))
PARTS = {part.name: part for part in open_paper("adoror").parts}


# --- systems ----------------------------------------------------------------------------------------------------------


def test_systems_are_registered_only_while_a_part_runs() -> None:
    before = by_cost()
    with systems.registered():
        assert set(by_cost()) - set(before) == {"bm25", "diverse", "utility"}
        assert all(callable(rivals.get(name)) for name in systems.TABLE_1)
    assert by_cost() == before
    with pytest.raises(UnknownName):
        rivals.get(next(iter(systems.RIVALS)))


def test_perfect_selector_beats_every_other_system_in_the_planted_world() -> None:
    world = simulated_world.planted_utility(1, examples=60, unseen=60, topics=3, width=16)
    nodes = random_nodes(np.random.default_rng(0), range(60), 4, 5, 256)
    weights = np.stack([world.utility(query, nodes) for query in world.unseen])
    pairs = simulation.answers(0, world, nodes, weights)
    errors = {system: np.mean([abs(answer - true) for answer, true in each]) for system, each in pairs.items()}
    assert {"Auto-P-Selected with BM25", simulation.ENSEMBLE} < set(errors) and len(errors) == 9
    alone = np.mean([1 - world.utility(query, nodes).max() for query in world.unseen])
    assert errors[simulation.NO_SUBGRAPH] == pytest.approx(alone)
    assert errors[systems.ADOROR] == min(errors[name] for name in errors if "authors" not in name)
    assert errors[simulation.FIVE_SETS] < errors["Auto-P-Selected"]
    assert simulation.answers(0, world, nodes, weights, only=[systems.ADOROR]) == {
        systems.ADOROR: pairs[systems.ADOROR]
    }


def test_rows_of_a_planted_world_have_all_folds() -> None:
    pytest.importorskip("jax", reason="needs accord[networks]")
    rows = list(simulation.system_rows(2, TINY))
    assert {row["fold"] for row in rows} == set(range(10, 15)) and len(rows) == 9 * 5
    table = {row["system"]: row for row in system_answers.table_1(rows)}
    assert all(row["n"] == 20 and row["folds"] == 5 for row in table.values())
    ablated = list(simulation.ablation_rows(2, TINY, TINY))
    assert {row["system"] for row in ablated} == set(published.TABLE_3) | {systems.ADOROR}
    assert {row["dimension"] for row in ablated} == {"all", *(f"{part} alone" for part in simulation.PARTS.values())}
    assert all((row["recovered"] is None) == (row["dimension"] == "all") for row in ablated)
    ours = [next(r["answers"] for r in part if r["system"] == systems.ADOROR) for part in (rows, ablated)]
    assert ours[0] == ours[1]
    cells = simulation.sensitivity_cells(0, TINY, (1,), (8, 16), (3,))
    spread = {row["system"]: row for row in simulation.sensitivity_rows(cells)}
    assert len(cells) == 2 and spread["zeta 8"]["cells"] == 1 and spread["k 3"]["cells"] == 2
    values = [cell["improvement"] for cell in cells]
    assert (spread["all cells"]["least"], spread["all cells"]["most"]) == (min(values), max(values))


def test_prompts_that_err_less_on_many_examples_err_less_on_new_inputs() -> None:
    rhos = [row["spearman"] for row in simulation.prompt_rows(0, 60)]
    assert rhos == sorted(rhos) and rhos[-1] > 0.8


# --- tables -----------------------------------------------------------------------------------------------------------


def test_spearman_has_an_interval_over_contexts() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 6, 120).astype(float)
    pairs = list(zip((truth + rng.normal(size=120)).tolist(), truth.tolist(), strict=True))
    row = system_answers.spearman_interval(pairs, [f"c{place // 4}" for place in range(120)], "overall")
    assert row["overall"] == pytest.approx(stats.spearmanr(*np.array(pairs).T).statistic)
    assert row["overall_low"] < row["overall"] < row["overall_high"]
    assert system_answers.spearman_interval([(1.0, 2.0)] * 5, list("abcde")) == {"spearman": None}


def test_wilcoxon_compares_equal_folds_and_dimensions() -> None:
    about = {"split": "s", "dimension": "d"}
    ours, theirs = [0.5, 0.7, 0.6, 0.9, 0.8, 0.7], [0.4, 0.5, 0.5, 0.4, None, 0.6]
    rows = [{**about, "fold": fold, "system": name, "rho": rho}
            for name, rhos in ((systems.ADOROR, ours), ("other", theirs)) for fold, rho in enumerate(rhos)]  # fmt: skip
    [test] = system_answers.wilcoxon(rows)
    gains = [0.1, 0.2, 0.1, 0.5, 0.1]
    assert test["cells"] == 5 and test["improvement"] == pytest.approx(np.mean(gains))
    assert test["relative"] == pytest.approx(np.mean(gains) / 0.48)
    assert test["p"] == pytest.approx(stats.wilcoxon([a - b for a, b in zip(ours, theirs, strict=True) if b]).pvalue)
    assert system_answers.signed_rank_p([0.0, 0.0]) == 1.0


def test_requests_share_most_text_if_inputs_share_sets() -> None:
    chats, labels, rubric = rated_chats(120)
    found = examples_of(rubric.main_question, map(Sample, chats), labels, None, lambda chat: False)
    shared = [row["shared"] for row in prefixes.prefix_rows(found)]
    assert len(shared) == 6 and shared[0] == max(shared) > 0.75


# --- baselines --------------------------------------------------------------------------------------------------------


def test_metric_that_repeats_the_document_correlates_with_ratings_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sacrebleu", reason="needs accord[references]")
    words = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "beside", "a", "river"]
    samples, labels = [], []
    for number in range(10):
        reply = " ".join(words[: number + 3] + ["plum"] * (9 - number))
        turns = (Turn("user", f"case {number}"), Turn("assistant", reply))
        samples.append(Sample(Conversation(f"c{number}", turns, (Document(" ".join(words)),)), 1))
        labels.append(Label(Target(f"c{number}", 1), "q", "ann", 1 + number // 2))
    question = Question(id="q", text="?", scale=Scale(options=(1, 2, 3, 4, 5)))
    rated = examples_of(question, samples, Labels(labels), "turn", lambda chat: False)
    monkeypatch.setattr(metrics, "METRICS", ("bleu", "rouge-l", "bertscore-f1@none"))
    monkeypatch.setitem(metrics.SHOWN, "bertscore-f1@none", "BERTScore")
    rows = metrics.metric_rows({"spearman": rated}, "the documents", lambda sample: sample)
    assert [row["system"] for row in rows] == ["BLEU", "ROUGE-L", "BERTScore"]
    assert all(row["spearman"] > 0.95 and row["n"] == 10 for row in rows[:2])
    assert rows[2]["source"].startswith("absent: no embedder 'none'") and "spearman" not in rows[2]


@needs_data
def test_recorded_judges_correlate_as_their_source_states(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DATA is not None
    monkeypatch.setattr(metrics, "METRICS", ("rouge-l",))
    [result] = run_parts([PARTS["table-1"]], StudyInput(Path(DATA)))
    assert result.table is not None and result.status == "partial"
    rows = {(row["system"], row["source"].partition(":")[0]): row for row in result.table.rows}
    models = ("Baichuan2-13B-Chat", "ChatGLM3-6B", "Llama-2-13B-Chat", "Qwen-14B-Chat", "Vicuna-13B")
    found = [rows[model, "recorded (ADE)"]["overall"] for model in models]
    assert found == pytest.approx([0.310, 0.256, 0.350, 0.238, 0.385], abs=6e-4)
    assert rows["UniEval-dialog (T5-large)", "recorded (UniEval)"]["groundness"] == pytest.approx(0.575, abs=6e-4)
    assert {name for name, source in rows if source == "absent"} >= set(metrics.ABSENT)
    assert rows["D-score", "absent"]["overall_published"] == 0.478


@needs_data
def test_folds_of_topical_usr_have_a_source_and_two_sides() -> None:
    assert DATA is not None
    question = Question(id="Overall", text="?", scale=Scale(options=(1, 2, 3, 4, 5)))
    everything = Training(*system_answers.responses_of(Path(DATA) / "topical_usr", "Overall", 36), question)
    sides = list(system_answers.folds_of(everything, "context"))
    contexts = {target.conversation.rsplit("-", 1)[0] for target in everything.targets}
    assert len(sides) == min(system_answers.FOLDS, len(contexts))
    for train, test in sides:
        assert not set(train.targets) & set(test.targets)
        assert set(train.targets) | set(test.targets) == set(everything.targets)


@needs_data
def test_table_5_counts_topical_usr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert DATA is not None
    monkeypatch.setenv("ACCORD_MODELS", str(tmp_path))
    details, skipped = run_parts([PARTS["table-5"], PARTS["table-1-systems"]], StudyInput(Path(DATA)))
    assert details.table is not None
    values = {row["system"]: (row["value"], row["value_published"]) for row in details.table.rows}
    assert values["instances"] == ("360", "360") and values["annotations"] == ("6,480", "6,480")
    assert skipped.status == "skipped" and "accord models pull smollm2-135m" in skipped.reason


# --- a project --------------------------------------------------------------------------------------------------------

_CASE = re.compile(r"case (\d+) of kind (\w+) and worth (\d)")


def respond(request: Mapping[str, Any]) -> Wire:
    """Embed by the kind of a conversation; write prompts; score with an error that examples of its kind reduce."""
    if request["_path"].endswith("/embeddings"):
        vectors = [
            [1.0, *(float(word in text) for word in ("roses", "piston", "rosin", "dough"))] for text in request["input"]
        ]
        rows = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return Wire(
            {"object": "list", "data": rows, "model": "vectors", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        )
    text = request["messages"][-1]["content"]
    if text.endswith("Answer with the task prompt alone."):
        return completion(
            f"Score the answer from 1 to 5 by its worth (version {hashlib.sha256(text.encode()).hexdigest()[:3]})."
        )
    *shown, (_, kind, worth) = _CASE.findall(text)
    alike = sum(each == kind for _, each, _ in shown) / max(len(shown), 1)
    error = 2 * (1 - alike) * (zlib.crc32(text.encode()) % 200 / 100 - 1)
    return completion(f"{min(5.0, max(1.0, int(worth) + error)):.2f}")


@pytest.fixture
def project(working_folder: Path, monkeypatch: pytest.MonkeyPatch, api_key: None) -> Iterator[ChatServer]:
    """A project of 40 rated conversations with a scripted scorer."""
    with ChatServer(respond) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        open_embedder.cache_clear()
        write_corpus(*rated_chats(40))
        write("accord.yaml", project_file(server.url))
        printed("import", "chats.jsonl", "labels.csv")
        yield server
        open_embedder.cache_clear()


def project_file(url: str, budget: str = "") -> str:
    settings = (
        "candidates: 2, top_prompts: 1, sets: 1, candidate_sets: 16, ensemble: 2, demonstrations: 3, "
        "selector: neighbours, embedder: 'endpoint:vectors'"
    )
    model = f"{{model: m, base_url: '{url}'}}"
    return f"rubric: rubric.yaml\nmetrics: []\nmodels: {{scorer: {model}}}\nsources: {{in-context: {{{settings}}}}}\n{budget}"


def run_on_project(*names: str, repeats: int = 1) -> dict[str, Any]:
    with open_project() as opened:
        given = StudyInput(project=opened, repeats=repeats)
        return {result.part.name: result for result in run_parts(open_paper("adoror").parts, given, names)}


def test_project_needs_a_budget_before_any_request(project: ChatServer) -> None:
    found = run_on_project("table-1-systems")["table-1-systems"]
    assert found.status == "skipped" and re.search(
        r"sends about \d+ requests.*has 0 left.*budget: {requests: \d+}", found.reason
    )
    assert not project.requests


def test_without_a_scorer_the_other_parts_run(project: ChatServer) -> None:
    write("accord.yaml", "rubric: rubric.yaml\nmetrics: []\n")
    given = ["paper", "adoror", "--project", "accord.yaml"]
    rows = {part["part"]: part for part in accord_json(*given, "--list")["parts"]}
    asking = {"table-1-systems", "figure-2", "table-3", "table-4", "table-6", "carry-over"}
    assert {name for name, part in rows.items() if part["missing_models"] == ["scorer"]} == asking
    said = accord(*given, "--only", "prefixes,table-6")
    assert "run on this project without further models: prefixes. For table-6, add" in said
    assert "models: {scorer: {model: NAME}}" in said and not project.requests


def test_tables_of_a_project(project: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    write("accord.yaml", project_file(project.url, "budget: {requests: 5000}\n"))
    monkeypatch.setattr(simulation, "GAMMAS", (1, 2))
    monkeypatch.setattr(simulation, "ZETAS", (8,))
    monkeypatch.setattr(simulation, "SHOTS", (2,))
    cheap = dict.fromkeys(systems.ABLATIONS, lambda seed, towers: Neighbours(seed, towers))
    monkeypatch.setattr(more_systems, "ABLATIONS", cheap)  # towers take seconds to compile
    monkeypatch.setattr(tables_and_figures, "ABLATED", "neighbours")
    found = run_on_project(repeats=2)
    status = {name: result.status for name, result in found.items()}
    assert status == {
        "table-1": "skipped", "table-1-systems": "partial", "table-1-planted": "skipped", "figure-2": "partial",
        "table-2": "impossible", "table-3": "partial", "table-4": "partial", "table-5": "skipped", "table-6": "partial", "carry-over": "partial",
        "prefixes": "works",
    }, {name: result.reason for name, result in found.items()}  # fmt: skip
    assert "no rated sample has a document" in found["table-1"].reason
    rows = {row["system"]: row for row in found["table-1-systems"].table.rows}
    assert (
        set(rows) == {systems.ADOROR, "Human-P (z.s)", "Human-P (few)", *systems.RIVALS}
        and rows[systems.ADOROR]["n"] == 24
    )
    assert rows[systems.ADOROR]["spearman"] > rows["Auto-P-Random"]["spearman"]
    assert {row["cells"] for row in found["table-6"].table.rows} == {2}
    assert [row["system"] for row in found["table-3"].table.rows] == [
        systems.ADOROR, simulation.NO_SUBGRAPH, *more_systems.TABLE_3.values()
    ]  # fmt: skip
    assert [(row["system"], row["n"]) for row in found["figure-2"].table.rows] == [
        ("prompts", 3), ("draws of the demonstrations", more_systems.DRAWS)
    ]  # fmt: skip
    assert len(found["figure-2"].table.charts) == 2
    [everything, *_] = found["table-4"].table.rows
    assert everything["cells"] == (2 + 1) * 2 and everything["least"] <= everything["most"]
    prompts = found["carry-over"].table
    assert len(prompts.rows) == 3 and all(row["held-out error"] is not None for row in prompts.rows)
    assert prompts.charts and "Spearman's ρ" in prompts.note
    count = len(project.requests)
    again = run_on_project("table-1-systems", repeats=2)["table-1-systems"]
    assert again.table.rows == found["table-1-systems"].table.rows and len(project.requests) == count
