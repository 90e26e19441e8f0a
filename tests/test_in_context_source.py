"""Source `in-context`: learning, costs, failures of models, invalid input, and saved state."""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from commands import invoke, printed, write, write_corpus
from synthetic_corpus import rated_chats

from accord import Conversation, Label, Labels, Question, Scale, Target, Turn
from accord import open as open_project
from accord.cli import (
    commands,  # noqa: F401 - registers the commands
)
from accord.edges import BadInput, BudgetReached, NotFitted, UnknownName
from accord.embedded.minilm import open_sentence_embedder
from accord.evidence import (
    Column,
    EvidenceTable,
    LearnedEvidence,
    Source,
    SourceContext,
    SourceState,
    Training,
    make_source,
    sources,
)
from accord.learning import Calibration
from accord.methods import rivals
from accord.methods.in_context.experiment import InContextFindings
from accord.methods.in_context.prompt_assembly import at_level
from accord.methods.in_context.source import (
    IN_CONTEXT,
    InContext,
)
from accord.methods.in_context.template import prompt_text
from accord.models import (
    Budget,
    Caps,
    Flow,
    Models,
    ModelSettings,
    Prompt,
    ScriptedModel,
    open_embedder,
    run,
    without_requests,
)
from accord.models import ChatMessage as Message
from accord.models.embedders import Remote
from accord.models.requests.drivers import plan
from accord.statistics import Split
from accord.store import Store
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import (
    Respond,
    Wire,
    decisions,
)
from accord.validation import Comparison, compare_held_out
from accord.values import Sample, ScaleKind

SMALL = {
    "candidates": 3, "top_prompts": 2, "demonstrations": 3, "sets": 2, "candidate_sets": 32, "ensemble": 3, "selector": "neighbours",
    "embedder": "endpoint:vectors",
}  # fmt: skip
FEW = {"candidates": 1, "top_prompts": 1, "sets": 1, "ensemble": 2}
"""Fewer requests than `SMALL`, for tests with a server."""
SMALL_TOWERS = {"epochs": 1, "width": 4, "heads": 2}
RUBRIC = rated_chats(4)[2]
OVERALL = RUBRIC.main_question
NOWHERE = "http://127.0.0.1:9/v1"
_SAID = re.compile(r"case (\d+) of kind (\w+) and worth (\d)")
_NUMBERED = re.compile(r"\(version (\d+)\)")


@dataclass(frozen=True)
class Scorer:
    """A script for `ScriptedModel`: answers requests of in-context scoring.

    Attributes:
        farthest: The most that it errs, in units of the scale.
    """

    farthest: float = 2.0

    def __call__(self, prompt: Prompt) -> str:
        """A task prompt, or a score."""
        text = prompt.messages[-1].content
        if text.endswith("Answer with the task prompt alone."):
            number = hashlib.sha256(text.encode()).digest()[0]
            return f"Score the answer from 1 to 5 by how much it helps (version {number})."
        *shown, (_, kind, worth) = _SAID.findall(text)
        alike = sum(each == kind for _, each, _ in shown) / max(len(shown), 1)
        version = _NUMBERED.search(text)
        # Which way it errs follows from the examples, so that sets which share none err apart.
        sign = sum(1 if _coin(number, text[-200:]) else -1 for number, _, _ in shown) / max(len(shown), 1) or 0.4
        error = self.farthest * (1 - alike) * sign + (0.3 if version is None else 0.02 * (int(version[1]) % 7))
        return f"{min(5.0, max(1.0, int(worth) + error)):.2f}"


def _coin(*parts: str) -> bool:
    return hashlib.sha256(" ".join(parts).encode()).digest()[0] % 2 == 0


class Study(NamedTuple):
    """Split, evidence and source of one learned example."""

    split: Split
    learned: EvidenceTable
    source: InContext


def source(**settings: Any) -> InContext:
    made = make_source(IN_CONTEXT, {**SMALL, **settings}, SourceContext(RUBRIC))
    assert isinstance(made, InContext)
    return made


def training(chats: Any = None, labels: Labels | None = None, question: Question = OVERALL) -> Training:
    """Forty rated conversations, or others."""
    own = rated_chats(40)
    chats, labels = own[0] if chats is None else chats, own[1] if labels is None else labels
    by_id = {chat.id: chat for chat in chats}
    samples = tuple(Sample(by_id[target.conversation], target.turn) for target in labels.on(question.id).targets)
    return Training(samples, labels, question)


def study(made: InContext, everything: Training) -> Flow[Study]:
    """Learn on one side, and look at the other."""
    split = made.hold_out(everything)
    learned = yield from made.learn(everything.only(split.train))
    assert isinstance(learned.source, InContext)
    found = yield from learned.source.examine(everything.only(split.test))
    return Study(split, learned.evidence, found)


def held_out(found: Study) -> EvidenceTable:
    assert found.source.held_out_ is not None
    return found.source.held_out_


def figures(found: Study, labels: Labels | None = None) -> Comparison:
    head = partial(Calibration, answer_model="mixed", own_slopes=False)
    labels = labels or rated_chats(40)[1]
    table = found.learned.concat(held_out(found))
    return compare_held_out(IN_CONTEXT, head, OVERALL, table, labels, found.split, found.source.rivals(), draws=50)


def rows_of(shown: Comparison) -> dict[str, dict[str, Any]]:
    return {row["evaluator"]: row for row in (result.to_json() for result in shown.results)}


def answers(request: Mapping[str, Any], script: Any) -> Wire:
    """Chat by a script of prompts, embeddings by the kinds of conversations."""
    if request["_path"].endswith("/embeddings"):
        vectors = [vector_of(text) for text in request["input"]]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return Wire({"object": "list", "data": data, "model": "vectors", "usage": usage})
    return completion(script(Prompt((Message("user", request["messages"][-1]["content"]),))))


def vector_of(text: str) -> list[float]:
    """Return a vector: counts of each kind of word, and noise."""
    rng = np.random.default_rng(len(text))
    counts = [float(text.count(word)) for word in ("roses", "piston", "bow", "dough")]
    return [*counts, *(0.1 * rng.normal(size=4)).tolist()]


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch, api_key: None) -> Iterator[None]:
    """The endpoint that embeds is each test's own server."""
    monkeypatch.setenv("OPENAI_BASE_URL", NOWHERE)
    open_embedder.cache_clear()
    yield
    forget_embedder()


def forget_embedder() -> None:
    """Let go of the endpoint that embeds: the next server is another one."""
    if open_embedder.cache_info().currsize:
        found = open_embedder("endpoint:vectors")
        assert isinstance(found, Remote)
        found.close()
        open_embedder.cache_clear()


class Asked:
    """A server that embeds and answers by a script, and models that ask it within one store."""

    def __init__(self, url: str, server: ChatServer | None, store: Store) -> None:
        self.url, self.server, self.store = url, server, store
        self._opened: list[Models] = []

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        for models in self._opened:
            models.close()

    def models(self, most: int | None = None, **settings: Any) -> Models:
        given = {"model": "m", "base_url": self.url, **settings}
        self._opened.append(Models({"scorer": ModelSettings(**given)}, self.store, Budget(Caps(requests=most), {})))
        return self._opened[-1]

    def given(self, model: ScriptedModel) -> Models:
        """A model of one's own scores and writes; the server only embeds."""
        self._opened.append(Models({}, self.store, given={"scorer": model}))
        return self._opened[-1]

    @property
    def chats(self) -> list[Mapping[str, Any]]:
        assert self.server is not None
        return [request for request in self.server.requests if request["_path"].endswith("/chat/completions")]


def scripted(script: Any = None) -> ScriptedModel:
    """The scripted scorer, or another script, by the name that the server's model has."""
    return ScriptedModel(script or Scorer(), "m")


def texts_of(model: ScriptedModel) -> list[str]:
    return [prompt.messages[0].content for prompt in model.asked]


@pytest.fixture
def nobody(memory: Store) -> Iterator[Asked]:
    """An endpoint that does not exist, for errors before any request."""
    with Asked(NOWHERE, None, memory) as found:
        yield found


def serving(script: Any) -> Respond:
    return lambda request: answers(request, script)


@pytest.fixture
def asked(memory: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """A server with the scripted scorer."""
    with ChatServer(serving(Scorer())) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with Asked(server.url, server, memory) as found:
            yield found


def studied(respond: Respond, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[Study, ChatServer]:
    """A study with a store and a server of its own."""
    with ChatServer(respond) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with closing(Store("sqlite:///:memory:")) as store, Asked(server.url, server, store) as opened:
            try:
                found = run(study(source(**settings), training()), opened.models())
            finally:
                forget_embedder()
    return found, server


def saved(made: InContext) -> SourceState:
    """Return the saved state as a folder returns it: JSON, arrays and files."""
    kept = made.state()
    return SourceState(json.loads(json.dumps(kept.card)), dict(kept.arrays), dict(kept.files))


# --- from the first request to the last ---------------------------------------------------------------------------


def test_from_forty_ratings_to_scores(asked: Asked) -> None:
    models, everything = asked.models(), training()
    priced = plan(study(source(), everything), models)
    assert not asked.chats
    steps: list[str] = []
    found = run(study(source(), everything), models, steps.append)
    told = found.source.describe()
    assert asked.server is not None and priced.requests == len(asked.server.requests)
    assert priced.questions == len(asked.chats) == told["asked"]
    train, test = told["trained"], told["tested"]
    assert train + test == 40 and told["asked"] == 3 + 4 * train + train * 2 * 2 + 3 * train + 4 * test
    assert set(steps) == {
        "prompts written", "prompts tried", "sets tried", "training side asked", "held-out side asked"
    }  # fmt: skip
    assert [prompt["kept"] for prompt in told["prompts"]][:2] == [True, True]
    assert all(prompt["examples"] for prompt in told["prompts"] if prompt["by"] == "m")
    assert told["dimension"] == "overall" and told["level"] == "dialogue" and told["selector"] == "neighbours"
    assert [row["selector"] for row in told["selectors"] if row["chosen"]] == ["neighbours"]
    assert list(found.source.rivals()) == ["by hand, random examples"] and len(held_out(found)) == test
    shown = figures(found)
    rows = rows_of(shown)
    assert rows["in-context"]["rmse"] < rows["annotator-mean"]["rmse"] and rows["in-context"]["spearman"] > 0.6
    assert {"judge-expected", "by hand, random examples", "constant"} <= set(rows) and shown.people is not None
    assert rows["in-context"]["n"] == 2 * test

    embedded = [text for r in asked.server.requests if r["_path"].endswith("/embeddings") for text in r["input"]]
    assert len(embedded) == len(set(embedded)) >= 42  # every conversation and every prompt that was kept, once


def test_scores_of_new_conversations_come_from_what_was_saved(asked: Asked) -> None:
    models = asked.models()
    found = run(study(source(), training()), models)
    restored = source().restored(saved(found.source))
    assert restored.describe() == json.loads(json.dumps(found.source.describe()))
    assert set(saved(restored).files) == {"prompts.yaml", "demonstrations.jsonl"}
    new = [Conversation(f"new-{chat.id}", chat.turns) for chat in rated_chats(60)[0][40:48]]
    new.append(Conversation("silent", (Turn("user", " "), Turn("assistant", " "))))
    samples = [Sample(chat) for chat in new]
    table = run(restored.measure(samples), models)
    assert table.targets == tuple(sample.target for sample in samples)
    assert table.columns == found.learned.columns == held_out(found).columns
    options, shares, known = table.distribution("overall")
    worth = [int(chat.turns[-1].content.split("worth ")[1][0]) for chat in new[:-1]]
    assert np.abs((shares @ np.array(options))[:-1] - worth).mean() < 0.8
    assert known.tolist() == [True] * 8 + [False] and table.values[:8, -1].max() > 0
    assert "empty conversation" in table.absences[Target("silent"), "overall"]
    assert "recipe" in table.columns[0].signature
    note = table.notes[Target(new[0].id)].shown
    recipe = restored.learned
    assert set(note["demonstrations"]) <= {str(example.target) for example in recipe.examples}
    assert 3 <= len(note["demonstrations"]) <= 9 and note["prompt"] in {task.hash for task in recipe.tasks}
    assert Target("silent") not in table.notes
    priced = plan(restored.measure([Sample(chat) for chat in rated_chats(60)[0][48:52]]), models)
    assert priced.questions == 4 * 3
    assert len(run(restored.measure([]), models)) == 0
    one = run(restored.measure(samples[:1]), models)
    assert np.array_equal(one.values, table.values[:1])  # a batch of one is live
    new_one, offline = Sample(rated_chats(60)[0][50]), Models(models.settings, asked.store, asks=False)
    with pytest.raises(BadInput, match="no vector from endpoint:vectors"):
        run(restored.measure([new_one]), offline)
    with pytest.raises(BudgetReached):
        run(restored.measure([new_one]), asked.models(most=1))  # its vector is kept
    unasked = run(restored.measure([new_one]), offline)
    assert not unasked.present.any() and "not asked yet" in next(iter(unasked.absences.values()))


def test_training_evidence_is_out_of_sample(asked: Asked) -> None:
    chats, labels, _ = rated_chats(40)
    chats.append(Conversation("secret", (Turn("user", "my card is 4111 1111"),)))
    chats.append(Conversation("unrated", (Turn("user", "hello"),)))
    labels = Labels([*labels, Label(Target("secret"), "overall", "ann", 2)])
    part = training(chats, labels)
    part = replace(part, samples=(*part.samples, Sample(chats[-1])))
    scorer = scripted()
    learned = run(source(private_patterns=[r"\d{4} \d{4}"]).learn(part), asked.given(scorer))
    table = learned.evidence
    assert set(table.targets) == set(part.targets)
    _, _, known = table.distribution("overall")
    assert {t.conversation for t, k in zip(table.targets, known, strict=True) if not k} == {"secret", "unrated"}
    assert table.absences[Target("secret"), "overall"] == "private"
    assert table.absences[Target("unrated"), "overall"] == "not rated"
    assert learned.source.describe()["left_out"] == {"private": 1} and learned.source.describe()["tested"] == 0
    assert "1 rated examples were excluded: private" in learned.source.describe()["cautions"]
    assert asked.server is not None and not any("4111" in str(request) for request in asked.server.requests)
    assert not any("4111" in text for text in texts_of(scorer))
    count = len(scorer.asked)
    plain = run(source(private_patterns=[r"\d{4} \d{4}"], calibrate=False).learn(part), asked.given(scorer))
    assert len(scorer.asked) == count and plain.evidence.columns == table.columns and not plain.evidence.present.any()
    assert plain.evidence.absences[part.samples[0].target, "overall"] == "not asked"
    # No demonstration comes from the group of the input.
    marks = [f"case {number} " for number in range(40)]
    grouped = replace(part, labels=labels.grouped({Target(f"chat-{n:03d}"): f"g{n // 4}" for n in range(40)}))
    run(source(private_patterns=[r"\d{4} \d{4}"]).learn(grouped), asked.given(scorer))
    for text in [text for text in texts_of(scorer)[count:] if "task prompt alone" not in text]:
        *shown, own = [number for _, number in sorted((text.find(m), n) for n, m in enumerate(marks) if m in text)]
        assert not {number // 4 for number in shown} & {own // 4}


def test_held_out_side_has_whole_groups() -> None:
    everything = training()
    split = source().hold_out(everything)
    assert len(split.test) == 12 and len(split.train) == 28 and not split.train & split.test
    assert source().hold_out(everything) == split != source().hold_out(replace(everything, seed=1))
    chats, labels, _ = rated_chats(40)
    same = [replace(chat, turns=(chats[0].turns[0], chat.turns[1])) if n < 20 else chat for n, chat in enumerate(chats)]
    joined = source(held_out=0.1).hold_out(training(same, labels))
    first = {chat.id for chat in chats[:20]}
    assert first <= joined.train or first <= joined.test  # replies to the same turns
    grouped = labels.grouped({label.target: f"g{int(label.target.conversation[-3:]) // 10}" for label in labels})
    assert source().hold_out(training(chats, grouped)).test <= {"g0", "g1", "g2", "g3"}
    secret = source(private_patterns=["case"]).hold_out(everything)
    assert len(secret.train) == 40 and not secret.test
    with pytest.raises(NotFitted, match="is not fitted"):
        next(source().measure([Sample(chats[0])]))
    with pytest.raises(NotFitted, match="only in the process that fitted it"):
        next(source().examine(everything))


def test_configured_rivals_are_asked(asked: Asked) -> None:
    names = ["by hand, no examples", "by hand, random examples"]
    made = source(selector="auto", towers=SMALL_TOWERS, rivals=names)
    own = scripted()
    models = asked.given(own)
    priced = plan(study(made, training()), models)
    found = run(study(made, training()), models)
    told = found.source.findings_
    assert told is not None and list(found.source.rivals()) == names
    assert [row.selector for row in told.selectors] == ["random", "neighbours", "adoror"]
    assert priced.questions == told.asked == 3 + (4 + 2 * 2 + 3) * told.trained + 5 * told.tested
    assert InContextFindings.from_json(json.loads(json.dumps(told.to_json()))) == told
    bare = [text for text in texts_of(own) if text.startswith("Rate the")]
    assert len(bare) == told.tested and not any("overall score: " in text for text in bare)
    baselines = ["constant", "annotator-mean", "random", "best-column", "judge-argmax", "judge-expected"]
    assert sorted(result.evaluator for result in figures(found).results) == sorted([IN_CONTEXT, *names, *baselines])
    with pytest.raises(UnknownName, match="unknown rival 'magic'"):
        run(source(rivals=["magic"]).learn(training()), models)


def test_plan_and_random_examples_need_no_embedder(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACCORD_MODELS", str(tmp_path))
    open_sentence_embedder.cache_clear()
    models = asked.given(scripted())
    missing = source(**FEW, embedder="minilm-l6")
    assert plan(study(missing, training()), models).questions == 2 * 28 + 28 + 2 * 28 + (2 + 1) * 12 + 1
    with pytest.raises(BadInput, match="accord models pull minilm-l6"):
        run(study(missing, training()), models)
    at_random = source(**FEW, embedder="minilm-l6", selector="random")
    found = run(study(at_random, training()), models)
    restored = at_random.restored(saved(found.source))
    new = [Sample(Conversation("new", chat.turns)) for chat in rated_chats(41)[0][40:]]
    assert run(restored.measure(new), models).present.all() and asked.server is not None and not asked.server.requests
    monkeypatch.setitem(rivals._plugins, "nearest", lambda result: None)
    with pytest.raises(BadInput, match="accord models pull minilm-l6"):  # a rival may compare texts
        run(study(source(**FEW, embedder="minilm-l6", selector="random", rivals=["nearest"]), training()), models)


def test_edited_prompts_need_a_new_fit(asked: Asked, tmp_path: Path) -> None:
    models = asked.given(scripted())
    found = run(study(source(), training()), models)
    kept = saved(found.source)
    text = kept.files["prompts.yaml"]
    assert text.count("hash:") == 2 and "by: m" in text
    edited = re.sub(r"\(version \d+\)", "(version 700)", text, count=1)
    with pytest.raises(BadInput, match=r"prompts.yaml was edited.*prompts: FILE"):
        source().restored(replace(kept, files={**kept.files, "prompts.yaml": edited}))
    file = tmp_path / "mine.yaml"
    file.write_text(edited, encoding="utf-8")
    again = run(study(source(prompts=str(file)), training()), models)
    prompts = again.source.describe()["prompts"]
    [own] = [prompt for prompt in prompts if prompt["by"].startswith("by hand, from s256:")]
    assert "(version 700)" in own["text"] and own["error"] is not None and own["examples"] == []
    assert len(run(source().restored(saved(again.source)).measure(training().samples[:1]), models)) == 1


def test_dimension_of_turns_is_learned(asked: Asked) -> None:
    chats, labels, _ = rated_chats(40)
    warm = Question(id="warm", text="How warm is the reply?", scale=Scale(kind=ScaleKind.REAL, low=0.0, high=10.0))
    marks = [Label(Target(label.target.conversation, 1), "warm", label.annotator, label.value) for label in labels]
    own = scripted()
    models = asked.given(own)
    found = run(study(source(), training(chats, Labels([*labels, *marks]), warm)), models)
    assert found.source.describe()["level"] == "turn" and found.source.describe()["dimension"] == "warm"
    texts = texts_of(own)
    assert all("The last turn, [1]:" in text for text in texts) and any("from 0 to 10" in text for text in texts)
    scored = run(found.source.measure([*map(Sample, chats[:3]), Sample(Conversation("c", ()))]), models)
    assert [target.turn for target in scored.targets] == [1, 1, 1, None]
    options, shares, _ = scored.distribution("warm")
    assert float((shares[:3] @ np.array(options)).max()) > 2
    assert "empty conversation" in scored.absences[Target("c"), "warm"]


def test_mixed_levels_are_an_error_without_a_level(nobody: Asked) -> None:
    chats, labels, _ = rated_chats(40)
    both = Labels([*labels, *(Label(Target(chat.id, 1), "overall", "ann", 3) for chat in chats)])
    with pytest.raises(BadInput, match=r"in-context: \{level: turn\}"):
        source().hold_out(training(chats, both))
    with pytest.raises(BadInput, match=r"in-context: \{level: turn\}"):
        run(source().learn(training(chats, both)), nobody.models())
    assert len(source(level="turn").hold_out(training(chats, both)).test) == 12


# --- distributions ------------------------------------------------------------------------------------------------


def sharp(value: float) -> dict[str, float]:
    weights = {str(option): math.exp(-abs(option - value)) for option in range(1, 6)}
    return {option: 0.98 * weight / sum(weights.values()) for option, weight in weights.items()}


@pytest.mark.parametrize("mode", ["logprobs", "decisions", "systemone"])
def test_distributions_are_read_in_every_mode(mode: str, memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
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
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        settings = {
            "scorer": ModelSettings(model="m", base_url=server.url, mode=mode),  # type: ignore[arg-type]
            "writer": ModelSettings(model="w", base_url=server.url),
        }
        models = Models(settings, memory)
        priced = plan(study(source(**FEW), training()), models)
        found = run(study(source(**FEW), training()), models)
        assert priced.requests == len(server.requests)
        rows = rows_of(figures(found))
        assert rows["judge-expected"]["log_loss"] < 1.5 and rows["in-context"]["spearman"] > 0.5
        count = len(server.requests)
        run(study(source(**FEW), training()), models)
        assert len(server.requests) == count
        writers = {r["model"] for r in server.requests if "task prompt alone" in str(r.get("messages"))}
        models.close()
        assert writers == {"w"} and f"via:{mode}" in str(found.learned.columns[0].signature)
        forget_embedder()


def test_decisions_scorer_needs_another_writer(nobody: Asked) -> None:
    models = nobody.models(mode="decisions")
    with pytest.raises(BadInput, match=r"cannot write prompts.*candidates: 0"):
        run(source().learn(training()), models)
    with pytest.raises(BadInput, match="unknown mode 'verbalised' of the scorer"):
        run(source().learn(training()), nobody.models(mode="verbalised"))


# --- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "reason"),
    [("I would rather not say.", "no number"), ("About 90.", "outside the scale"), ("[0] user:\nTell me 3", "echo")],
)
def test_model_without_any_score_is_an_error(said: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=rf"0 of \d+ requests returned a score: {reason} .*mode: logprobs"):
        studied(serving(lambda prompt: said), monkeypatch, candidates=0)


def test_model_with_some_missing_scores_gets_a_caution(asked: Asked) -> None:
    scorer = Scorer()

    def script(prompt: Prompt) -> str:
        text = prompt.messages[-1].content
        return "nine thousand" if "worth 1" in text[-300:] and "task prompt alone" not in text else scorer(prompt)

    found = run(study(source(), training()), asked.given(scripted(script)))
    told = found.source.describe()
    assert any("had no score on the scale" in caution for caution in told["cautions"])
    assert told["failures"].keys() == {"no number"} and told["again"] == 0
    lost = rows_of(figures(found))["judge-expected"]
    assert lost["unscored"] > 0 and any("no number (3 of 3 requests)" in reason for reason in lost["reasons"])


def test_refused_prompt_is_not_requested_again(asked: Asked) -> None:
    scorer, refused = Scorer(), list[Prompt]()

    def script(prompt: Prompt) -> str:
        said = scorer(prompt)
        if "(version" in said and prompt not in refused and len(refused) < 1:
            refused.append(prompt)
        return "No." if prompt in refused else said

    found = run(study(source(), training()), asked.given(scripted(script)))
    told = found.source.describe()
    assert any("1 of 3 replies were not a prompt: no prompt (1)" in caution for caution in told["cautions"])
    assert told["failures"] == {"no prompt": 1} and told["again"] == 0


def test_few_large_groups_are_rejected_before_any_request(nobody: Asked) -> None:
    chats, labels, _ = rated_chats(40)
    many = Conversation("one", tuple(turn for chat in chats[:38] for turn in chat.turns))
    marks = [Label(Target("one", 2 * n + 1), "overall", "ann", label.value) for n, label in enumerate(labels[:38])]
    rest = [Label(Target(chat.id, 1), "overall", "ann", 2) for chat in chats[38:]]
    part = training([many, *chats[38:]], Labels([*marks, *rest]))
    with pytest.raises(BadInput, match="share a conversation or the turns before the reply"):
        run(source().learn(part), nobody.models())
    with pytest.raises(BadInput, match="share a conversation|rated examples"):
        run(study(source(held_out=0.1), part), nobody.models())


def test_invalid_input_is_one_error(nobody: Asked, tmp_path: Path) -> None:
    def said(part: Training | None = None, context: int | None = None, **settings: Any) -> str:
        with pytest.raises(BadInput) as raised:
            run(study(source(**settings), part or training()), nobody.models(context=context))
        return " ".join(str(raised.value).split())

    (tmp_path / "prompts.yaml").write_text("prompts: []", encoding="utf-8")
    assert "prompts" in said(prompts=str(tmp_path / "prompts.yaml"))
    assert "cannot read" in said(inversion=str(tmp_path / "none.txt"))
    assert "unknown selector 'magic'" in said(selector="magic")
    with pytest.raises(BadInput, match="unknown key 'depth'"):
        source(towers={"depth": 2})
    assert "rated examples" in said(demonstrations=30) and "demonstrations: " in said(demonstrations=30)
    assert "40 private, which are excluded" in said(private_patterns=["case"])
    assert "too long to be shown" in said(demonstrations=12, context=512)
    assert "no embedder 'nope'" in said(embedder="nope")
    chats, labels, _ = rated_chats(40)
    same = Labels(Label(label.target, label.question, label.annotator, 3) for label in labels)
    assert "have the score 3" in said(training(chats, same))
    with pytest.raises(BadInput, match="no model configured for role 'scorer'"):
        run(source().learn(training()), Models({}, nobody.store))
    with pytest.raises(BadInput, match="demonstrations"):
        source(demonstrations=0)
    with pytest.raises((BadInput, UnknownName), match="writer"):
        source(writer="w")  # roles are the project's


def test_example_equal_to_the_input_is_not_shown(asked: Asked) -> None:
    own = scripted()
    models = asked.given(own)
    found = run(study(source(), training()), models)
    recipe = found.source.learned
    twin = Conversation("another-id", recipe.examples[0].sample.conversation.turns)
    assert recipe.left_out_of(Sample(twin)) == [0]
    assert run(found.source.measure([Sample(twin)]), models).present.all()
    reply = twin.turns[-1].content
    about = [text for text in texts_of(own) if reply in text[text.rindex("The conversation:") :]]
    assert len(about) > 3 and all(text.count(reply) == 1 for text in about)


def test_other_model_or_mode_than_in_training_is_rejected(asked: Asked) -> None:
    found = run(study(source(**FEW), training()), asked.models())
    kept, some = saved(found.source), training().samples[:1]
    restored = source(**FEW).restored(kept)
    for settings, match in (({"mode": "logprobs"}, "with mode number"), ({"model": "n"}, "were learned with m")):
        with pytest.raises(BadInput, match=match):
            run(restored.measure(some), asked.models(**settings))
    assert len(run(restored.measure(some), asked.models(mode="number"))) == 1
    lines = kept.files["demonstrations.jsonl"].splitlines(keepends=True)
    for other in (lines[::-1], lines[1:], [*lines, lines[0]]):
        with pytest.raises(BadInput, match="was edited"):
            source(**FEW).restored(replace(kept, files={**kept.files, "demonstrations.jsonl": "".join(other)}))
    with pytest.raises(BadInput, match=r"demonstrations.jsonl of the evaluator is missing"):
        source(**FEW).restored(replace(kept, files={"prompts.yaml": kept.files["prompts.yaml"]}))
    with pytest.raises(BadInput, match="damaged"):
        source(**FEW).restored(replace(kept, card={"format": 2}))
    with pytest.raises(BadInput, match="newer Accord"):
        source(**FEW).restored(replace(kept, card={**kept.card, "format": 3}))
    with pytest.raises(BadInput, match="older Accord; fit again"):
        source(**FEW).restored(replace(kept, card={**kept.card, "format": 1}))
    with pytest.raises(BadInput, match="was edited"):
        source(**FEW).restored(replace(kept, card={**kept.card, "sizes": {**kept.card["sizes"], "ensemble": 4}}))


def test_turn_level_scores_the_last_reply_of_a_conversation() -> None:
    turns = (Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c"), Turn("assistant", "b"), Turn("user", "d"))
    [sample] = at_level([Sample(Conversation("c", turns))], "turn")
    assert sample.turn == 3 and at_level([Sample(Conversation("c", turns), 1)], "turn")[0].turn == 1
    assert at_level([Sample(Conversation("c", turns))], "dialogue")[0].turn is None
    assert at_level([Sample(Conversation("c", ()))], "turn")[0].turn is None
    assert prompt_text(sample).endswith("b")


# --- rivals -----------------------------------------------------------------------------------------------------------


class Guessing(Source):
    """A source without knowledge, with a rival that knows the held-out side."""

    def hold_out(self, train: Training) -> Split:
        names = sorted({train.group_of(target) for target in train.targets})
        return Split(frozenset(names[::2]), frozenset(names[1::2]))

    def learn(self, train: Training) -> Flow[LearnedEvidence]:
        return LearnedEvidence(self, (yield from self.measure(train.samples)))

    def examine(self, test: Training) -> Flow[Guessing]:
        self.truth = {label.target: float(label.value or 0) for label in test.labels}
        return (yield from without_requests(self))

    def rivals(self) -> dict[str, EvidenceTable]:
        columns = [Column(f"overall={n}", "r", "overall", float(n)) for n in range(1, 6)]
        rows = {at: {f"overall={n}": float(n == value) for n in range(1, 6)} for at, value in self.truth.items()}
        return {"oracle": EvidenceTable.from_rows(columns, rows)}

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        guesses = {sample.target: {"guess": float(zlib.crc32(sample.conversation.id.encode()))} for sample in samples}
        return (yield from without_requests(EvidenceTable.from_rows([Column("guess", "g")], guesses)))


def test_better_rival_on_the_held_out_side_is_named(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources._plugins, "guessing", Guessing)
    mine = "evaluator: mine\nevaluators: {mine: {sources: [guessing], head: mixed}}\n"
    write("accord.yaml", f"rubric: rubric.yaml\nmetrics: []\ndraws: 400\n{mine}")
    write_corpus(*rated_chats(40))
    printed("import", "chats.jsonl", "labels.csv")
    caution = "oracle is significantly better on new examples"
    with open_project() as opened:
        assert opened.fit_offline().cautions == [caution]
    assert f"note: {caution}" in invoke("fit").stderr
    printed("report")
    assert caution in Path("report.html").read_text(encoding="utf-8")
