"""Learning to score in context: the whole run and what stops it, the commands, models that misbehave, wrong input."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from accord import Conversation, Label, Labels, Target, Turn, load_evaluator
from accord.cli import commands  # noqa: F401 - registers the commands
from accord.cli.app import app  # noqa: F401 - registers the commands
from accord.cli.in_context_study import folder_of
from accord.learning import InContext
from accord.methods import load_recipe, prompt_text
from accord.models import ChatMessage as Message
from accord.models import Prompt, Remote, open_embedder
from accord.pipeline import Figures, at_level, figures_of
from accord.testing import ChatServer, Misbehaving, Respond, Scorer, Wire, completion, decisions, rated_chats
from accord.values import Sample, dump_rubric

SMALL = (
    "candidates: 3, kept: 2, demonstrations: 3, sets: 2, ranked: 32, ensemble: 3, selector: neighbours, "
    "embedder: 'endpoint:vectors'"
)


def answers(request: Mapping[str, Any], script: Any) -> Wire:
    """Chat by a script of prompts, embeddings by the kinds of conversations."""
    if request["_path"].endswith("/embeddings"):
        vectors = [vector_of(text) for text in request["input"]]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return Wire({"object": "list", "data": data, "model": "vectors", "usage": usage})
    return completion(script(Prompt((Message("user", request["messages"][-1]["content"]),))))


def vector_of(text: str) -> list[float]:
    """A text's vector: how often each kind of thing is in it, and a little of its own."""
    rng = np.random.default_rng(len(text))
    counts = [float(text.count(word)) for word in ("roses", "piston", "bow", "dough")]
    return [*counts, *(0.1 * rng.normal(size=4)).tolist()]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Intervals of the tables from fewer draws: nothing here is about them."""

    def quick(*args: Any) -> Figures:
        return figures_of(*args[:-2], 50, args[-1])

    monkeypatch.setattr("accord.pipeline.in_context_study.figures_of", quick)
    open_embedder.cache_clear()
    yield
    forget_embedder()


def forget_embedder() -> None:
    """Let go of the endpoint that embeds: the next server is another one."""
    if open_embedder.cache_info().currsize:
        embedder = open_embedder("endpoint:vectors")
        assert isinstance(embedder, Remote)
        embedder.close()
        open_embedder.cache_clear()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_key: None) -> Path:
    """A folder with rated conversations that were imported; the endpoint is named by each test."""
    monkeypatch.chdir(tmp_path)
    chats, labels, rubric = rated_chats(40)
    write(tmp_path, chats, labels)
    (tmp_path / "rubric.yaml").write_text(dump_rubric(rubric))
    return tmp_path


def write(folder: Path, chats: Sequence[Conversation], labels: Labels) -> None:
    rows = [{"id": c.id, "messages": [{"role": t.role, "content": t.content} for t in c.turns]} for c in chats]
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (folder / "labels.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["conversation", "turn", "question", "annotator", "value"])
        for label in labels:
            turn = "" if label.target.turn is None else label.target.turn
            out.writerow([label.target.conversation, turn, label.question, label.annotator, label.value])


def configure(folder: Path, url: str, more: str = SMALL, rest: str = "") -> None:
    (folder / "accord.yaml").write_text(
        f"rubric: rubric.yaml\nin_context: {{model: m, base_url: '{url}', {more}}}\nevaluator: {{method: in-context}}\n"
        f"{rest}"
    )


def run(*command: str) -> Any:
    result = CliRunner().invoke(app, list(command))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def imported(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, more: str = SMALL) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    configure(folder, url, more)
    assert run("import", "chats.jsonl", "labels.csv").exit_code == 0


def serving(script: Any) -> Respond:
    return lambda request: answers(request, script)


# --- from the first command to the last ---------------------------------------------------------------------------


def test_from_forty_ratings_to_scores(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(serving(Scorer())) as server:
        imported(project, server.url, monkeypatch)
        plan = json.loads(run("fit", "in-context", "--plan", "--json").output)
        assert not [request for request in server.requests if request["_path"].endswith("/chat/completions")]
        learned = run("fit", "in-context", "--json")
        assert learned.exit_code == 0, learned.output
        found = json.loads(learned.stdout)
        asked = [request for request in server.requests if request["_path"].endswith("/chat/completions")]
        assert plan["requests"] == len(asked) == found["asked"]
        train, test = found["trained"], found["tested"]
        assert train + test == 40 and found["asked"] == 3 + 4 * train + train * 2 * 2 + 3 * train + 4 * test
        assert [prompt["kept"] for prompt in found["prompts"]][:2] == [True, True] and found["prefix_shared"] > 0.3
        assert all(prompt["examples"] for prompt in found["prompts"] if prompt["by"] == "m")
        rows = {row["system"]: row for row in found["rows"]}
        assert rows["in-context"]["rmse"] < rows["annotator-mean"]["rmse"] and rows["in-context"]["spearman"] > 0.6

        again = run("fit", "in-context")
        assert again.exit_code == 0 and "Who picks the examples" in again.output and "neighbours *" in again.output
        assert len([r for r in server.requests if r["_path"].endswith("/chat/completions")]) == len(asked)
        embedded = [text for r in server.requests if r["_path"].endswith("/embeddings") for text in r["input"]]
        assert len(embedded) == len(set(embedded)) >= 42  # every conversation and every prompt that was kept, once

        configure(project, server.url, rest="metrics: [lexical]\n")
        (project / "accord.yaml").write_text(
            (project / "accord.yaml").read_text().replace("in-context}", "calibration}")
        )
        assert run("report").exit_code == 0
        page = (project / "report.html").read_text()
        assert "Scoring in context: overall" in page and "by hand, random examples" in page

        new = [Conversation(f"new-{chat.id}", chat.turns) for chat in rated_chats(60)[0][40:48]]
        new.append(Conversation("silent", (Turn("user", " "), Turn("assistant", " "))))
        write(project, new, Labels([]))
        scored = run("score", "chats.jsonl", "--evaluator", "evaluators/in-context", "--out", "scores.jsonl")
        assert scored.exit_code == 5 and "1 unscored" in scored.output
        scores = [json.loads(line) for line in (project / "scores.jsonl").read_text().splitlines()]
        worth = [int(chat.turns[-1].content.split("worth ")[1][0]) for chat in new[:-1]]
        assert np.abs(np.array([row["value"] for row in scores[:-1]]) - worth).mean() < 0.8
        assert all(1 <= row["low"] <= row["high"] <= 5 and row["band_low"] < row["band_high"] for row in scores[:-1])
        assert "recipe" in scores[0]["signature"] and "nothing was said" in scores[-1]["unscored"]


def test_compare_asks_for_every_way_to_pick_examples(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(serving(Scorer())) as server:
        more = SMALL.replace("selector: neighbours", "selector: auto, towers: {epochs: 1}")
        imported(project, server.url, monkeypatch, more)
        result = run("compare")
        assert result.exit_code == 0, result.output
        for system in ("by hand, no examples", "best prompt, bm25", "all prompts", "adoror, one request", "utility"):
            assert system in result.output
        assert "other people" in result.output and not (project / "evaluators").exists()
        assert "too small for --by" in run("compare", "--by", "annotator").output


def test_edited_prompts_enter_the_contest_and_are_not_used_behind_the_selector_s_back(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatServer(serving(Scorer())) as server:
        imported(project, server.url, monkeypatch)
        assert run("fit", "in-context").exit_code == 0
        file = project / "evaluators" / "in-context" / "prompts.yaml"
        text = file.read_text()
        assert text.count("hash:") == 2 and "by: m" in text
        file.write_text(re.sub(r"\(version \d+\)", "(version 700)", text, count=1))
        refused = run("score", "chats.jsonl", "--out", "scores.jsonl")
        assert refused.exit_code == 1 and "was edited" in refused.output and "--prompts" in refused.output
        learned = run("fit", "in-context", "--prompts", str(file), "--json")
        assert learned.exit_code == 0, learned.output
        prompts = json.loads(learned.stdout)["prompts"]
        [edited] = [prompt for prompt in prompts if prompt["by"].startswith("by hand, from s256:")]
        assert "(version 700)" in edited["text"] and edited["error"] is not None and edited["examples"] == []
        assert run("score", "chats.jsonl", "--out", "scores.jsonl").exit_code == 0


def test_a_dimension_of_turns_is_learned_beside_the_main_question(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats, labels, _ = rated_chats(40)
    marks = [Label(Target(label.target.conversation, 1), "warm", label.annotator, label.value) for label in labels]
    write(project, chats, Labels([*labels, *marks]))
    rubric = (project / "rubric.yaml").read_text()
    (project / "rubric.yaml").write_text(
        rubric + "- {id: warm, text: 'How warm is the reply?', scale: real, low: 0, high: 10}\n"
    )
    with ChatServer(serving(Scorer())) as server:
        imported(project, server.url, monkeypatch)
        learned = run("fit", "in-context", "--dimension", "warm", "--json")
        assert learned.exit_code == 0, learned.output
        found = json.loads(learned.stdout)
        assert found["level"] == "turn" and found["folder"] == "evaluators/in-context-warm"
        asked = [r["messages"][0]["content"] for r in server.requests if r["_path"].endswith("/chat/completions")]
        assert all("The last turn, [1]:" in text for text in asked) and any("from 0 to 10" in text for text in asked)
        assert run("score", "chats.jsonl", "--evaluator", found["folder"], "--out", "s.jsonl").exit_code == 0
        scores = [json.loads(line) for line in (project / "s.jsonl").read_text().splitlines()]
        assert {row["turn"] for row in scores} == {1} and max(row["value"] for row in scores) > 3
        assert isinstance(load_evaluator(found["folder"]), InContext)
    assert folder_of("Uses Knowledge", "overall").name == "in-context-uses-knowledge"


# --- distributions ------------------------------------------------------------------------------------------------


def sharp(value: float) -> dict[str, float]:
    weights = {str(option): math.exp(-abs(option - value)) for option in range(1, 6)}
    return {option: 0.98 * weight / sum(weights.values()) for option, weight in weights.items()}


@pytest.mark.parametrize("mode", ["logprobs", "decisions", "systemone"])
def test_distributions_are_read_where_the_model_gives_them(
    mode: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = Scorer()

    def respond(request: Mapping[str, Any]) -> Wire:
        path = request["_path"]
        if path.endswith(("/decisions", "/systemone")):
            text = request.get("input") or request["state"]
            mass = sharp(float(scorer(Prompt((Message("user", text),)))))
            if path.endswith("/systemone"):
                return Wire({"answers": {"overall": {"probabilities": list(mass.values())}}, "model": "m"})
            parts = [{"value": place, "label": o, "probability": p} for place, (o, p) in enumerate(mass.items())]
            likeliest = max(range(5), key=lambda place: parts[place]["probability"])
            answer = {"name": "overall", "type": "score", "probabilities": parts, "value": likeliest}
            return decisions("m", [answer])
        if request.get("logprobs"):
            text = request["messages"][-1]["content"]
            mass = sharp(float(scorer(Prompt((Message("user", text),)))))
            return completion(max(mass, key=mass.__getitem__), mass)
        return answers(request, scorer)

    with ChatServer(respond) as server:
        imported(project, server.url, monkeypatch, f"mode: {mode}, writer: w, {SMALL}")
        learned = run("fit", "in-context", "--json")
        assert learned.exit_code == 0, learned.output
        rows = {row["system"]: row for row in json.loads(learned.stdout)["rows"]}
        assert rows["in-context, as answered"]["log_loss"] < 1.5 and rows["in-context"]["spearman"] > 0.5
        count = len(server.requests)
        assert run("fit", "in-context").exit_code == 0 and len(server.requests) == count
        writers = {r["model"] for r in server.requests if "task prompt alone" in str(r.get("messages"))}
        assert writers == {"w"}


def test_a_writer_is_needed_where_a_decisions_endpoint_scores(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported(project, "http://127.0.0.1:9/v1", monkeypatch, f"mode: decisions, {SMALL}")
    result = run("fit", "in-context")
    assert result.exit_code == 1 and "writes no prompts" in result.output and "candidates: 0" in result.output


# --- what goes wrong ----------------------------------------------------------------------------------------------


def test_a_budget_stops_it_and_it_goes_on_from_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(serving(Scorer())) as server:
        imported(project, server.url, monkeypatch)
        whole = json.loads(run("fit", "in-context", "--plan", "--json").output)["requests"]
        stopped = run("fit", "in-context", "--max-requests", "100")
        assert stopped.exit_code == 4 and "budget" in stopped.output and not (project / "evaluators").exists()
        asked = len([r for r in server.requests if r["_path"].endswith("/chat/completions")])
        assert asked == 100
        left = json.loads(run("fit", "in-context", "--plan", "--json").output)
        assert left["requests"] == whole - 100
        assert run("fit", "in-context").exit_code == 0
        assert len([r for r in server.requests if r["_path"].endswith("/chat/completions")]) == whole


def test_models_misbehave_and_nothing_is_lost(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = json.loads(_fitted(project, monkeypatch, serving(Scorer())).stdout)
    (project / "accord.db").unlink()
    faults = ("429", "500", "truncated", "half-closed")
    misbehaving = Misbehaving(serving(Scorer()), kinds=faults, share=0.1)
    found = json.loads(_fitted(project, monkeypatch, misbehaving).stdout)
    assert found["rows"] == clean["rows"] and found["recipe"] != "" and found["failures"] == {}


def _fitted(project: Path, monkeypatch: pytest.MonkeyPatch, respond: Respond) -> Any:
    with ChatServer(respond) as server:
        imported(project, server.url, monkeypatch)
        result = run("fit", "in-context", "--json")
        assert result.exit_code == 0, result.output
        forget_embedder()
        return result


@pytest.mark.parametrize(
    ("said", "reason"),
    [("I would rather not say.", "no number"), ("About 90.", "outside the scale"), ("[0] user:\nTell me 3", "echo")],
)
def test_a_model_that_ignores_the_scale_or_echoes_is_told_of(
    said: str, reason: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatServer(serving(lambda prompt: said)) as server:
        imported(project, server.url, monkeypatch, SMALL.replace("candidates: 3", "candidates: 0"))
        result = run("fit", "in-context")
        assert result.exit_code == 1 and f"gave a score: {reason}" in result.output.replace("\n", " ")
        assert "Traceback" not in result.output


def test_a_model_that_sometimes_gives_no_score_is_cautioned_about(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = Scorer()

    def script(prompt: Prompt) -> str:
        text = prompt.messages[-1].content
        return "nine thousand" if "worth 1" in text[-300:] and "task prompt alone" not in text else scorer(prompt)

    with ChatServer(serving(script)) as server:
        imported(project, server.url, monkeypatch)
        result = run("fit", "in-context")
        assert result.exit_code == 0 and "held no score on the scale" in result.output
        assert "unscored" in result.output and "no number" in result.output


def test_a_writer_s_reply_that_is_no_prompt_is_not_asked_for_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, refused = Scorer(), list[Prompt]()

    def script(prompt: Prompt) -> str:
        said = scorer(prompt)
        if "(version" in said and prompt not in refused and len(refused) < 1:
            refused.append(prompt)
        return "No." if prompt in refused else said

    with ChatServer(serving(script)) as server:
        imported(project, server.url, monkeypatch)
        result = run("fit", "in-context")
        assert result.exit_code == 0 and "were no prompt: no prompt (1)" in result.output


def test_few_large_groups_are_refused_before_anything_is_paid_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats, labels, _ = rated_chats(40)
    many = Conversation("one", tuple(turn for chat in chats[:38] for turn in chat.turns))
    marks = [Label(Target("one", 2 * n + 1), "overall", "ann", label.value) for n, label in enumerate(labels[:38])]
    rest = [Label(Target(chat.id, 1), "overall", "ann", 2) for chat in chats[38:]]
    write(project, [many, *chats[38:]], Labels([*marks, *rest]))
    imported(project, "http://127.0.0.1:9/v1", monkeypatch, f"{SMALL}, held_out: 0.1")
    result = run("fit", "in-context")
    assert result.exit_code == 1 and "spent" not in result.output
    assert "of one conversation" in result.output or "rated examples" in result.output


def test_wrong_input_is_said_in_one_line(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chats, labels, _ = rated_chats(40)
    (project / "accord.yaml").write_text("rubric: rubric.yaml\n")
    assert "in_context: {model: NAME}" in run("fit", "in-context").output.replace("\n", " ")
    imported(project, "http://127.0.0.1:9/v1", monkeypatch)

    def said(*command: str) -> str:
        result = run("fit", "in-context", *command)
        assert result.exit_code == 1 and "Traceback" not in result.output, result.output
        return " ".join(result.output.split())

    assert "unknown dimension 'overal'" in said("--dimension", "overal") and "overall" in said("--dimension", "overal")
    rubric = (project / "rubric.yaml").read_text()
    (project / "rubric.yaml").write_text(rubric + "- {id: warm, text: 'How warm?', options: [1, 2]}\n")
    assert "nobody has rated the dimension 'warm'; rated are: overall (80)" in said("--dimension", "warm")
    (project / "prompts.yaml").write_text("prompts: []")
    assert "prompts" in said("--prompts", "prompts.yaml")
    configure(project, "http://127.0.0.1:9/v1", SMALL.replace("neighbours", "magic"))
    assert "unknown selector 'magic'" in said()
    configure(project, "http://127.0.0.1:9/v1", SMALL.replace("demonstrations: 3", "demonstrations: 30"))
    assert "rated examples" in said() and "demonstrations: " in said()
    configure(project, "http://127.0.0.1:9/v1", f"{SMALL}, private: ['case']")
    assert "40 private, which are left out" in said()
    narrow = SMALL.replace("demonstrations: 3", "demonstrations: 12")
    configure(project, "http://127.0.0.1:9/v1", f"{narrow}, context: 512")
    assert "too long to be shown" in said()
    configure(project, "http://127.0.0.1:9/v1", SMALL.replace("endpoint:vectors", "nope"))
    told = said()
    assert "no embedder 'nope'" in told and "spent" not in told
    assert "are for in-context" in " ".join(run("fit", "calibration", "--dimension", "overall").output.split())

    (project / "accord.db").unlink()
    write(project, chats, Labels(Label(label.target, label.question, label.annotator, 3) for label in labels))
    imported(project, "http://127.0.0.1:9/v1", monkeypatch)
    assert "have the score 3" in said()


def test_an_example_that_is_the_input_is_not_shown_beside_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(serving(Scorer())) as server:
        imported(project, server.url, monkeypatch)
        assert run("fit", "in-context").exit_code == 0
        recipe = load_recipe("evaluators/in-context")
        twin = Conversation("another-id", recipe.examples[0].sample.conversation.turns)
        assert recipe.left_out_of(Sample(twin)) == [0]
        write(project, [twin], Labels([]))
        assert run("score", "chats.jsonl", "--out", "scores.jsonl").exit_code == 0
        own = twin.turns[-1].content
        asked = [r["messages"][0]["content"] for r in server.requests if r["_path"].endswith("/completions")]
        about = [text for text in asked if own in text[text.rindex("The conversation:") :]]
        assert len(about) > 3 and all(text.count(own) == 1 for text in about)


def test_another_model_or_way_than_the_recipe_s_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(serving(Scorer())) as server:
        imported(project, server.url, monkeypatch)
        assert run("fit", "in-context").exit_code == 0
        for more, match in ((f"mode: logprobs, {SMALL}", "by way of number"), (SMALL, "")):
            configure(project, server.url, more)
            if not match:
                text = (project / "accord.yaml").read_text()
                (project / "accord.yaml").write_text(text.replace("model: m,", "model: n,"))
                match = "were tried with m"
            refused = run("score", "chats.jsonl", "--out", "s.jsonl")
            assert refused.exit_code == 1 and match in " ".join(refused.output.split())
        shown = project / "evaluators" / "in-context" / "demonstrations.jsonl"
        lines = shown.read_text().splitlines(keepends=True)
        configure(project, server.url)
        for other in (lines[::-1], lines[1:], [*lines, lines[0]]):
            shown.write_text("".join(other))
            refused = run("score", "chats.jsonl", "--out", "s.jsonl")
            assert refused.exit_code == 1 and "was edited" in refused.output
        shown.write_text("".join(lines))
        taken = run("fit", "in-context", "--dimension", "overall", "--out", "evaluators/in-context")
        assert taken.exit_code == 0
    card = project / "evaluators" / "in-context" / "selector.json"
    card.write_text(card.read_text()[:40])
    configure(project, "http://127.0.0.1:9/v1")
    assert "damaged" in run("score", "chats.jsonl", "--out", "s.jsonl").output


def test_of_a_conversation_the_last_reply_is_scored_where_turns_are() -> None:
    turns = (Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c"), Turn("assistant", "b"), Turn("user", "d"))
    [sample] = at_level([Sample(Conversation("c", turns))], "turn")
    assert sample.turn == 3 and at_level([Sample(Conversation("c", turns), 1)], "turn")[0].turn == 1
    assert at_level([Sample(Conversation("c", turns))], "dialogue")[0].turn is None
    assert at_level([Sample(Conversation("c", ()))], "turn")[0].turn is None
    assert prompt_text(sample).endswith("b")
