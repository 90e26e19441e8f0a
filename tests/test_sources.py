"""The contract every source keeps, on one planted corpus, with every role answered by one endpoint."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from accord.evidence import Source, SourceContext, Training, make_source, sources
from accord.models import Models, open_embedder, plan, run
from accord.project import Project, config_from
from accord.testing import ChatServer, Wire, answer_any, check_source, completion
from accord.values import (
    BadInput,
    Conversation,
    Document,
    Label,
    Labels,
    NotFitted,
    Question,
    Rubric,
    Sample,
    Scale,
    Target,
    Turn,
)

ROLES = ("judge", "writer", "scorer", "finder", "likelihood")
TOPICS = ("router", "refund", "parcel", "login", "invoice", "printer", "battery", "screen")
GOOD, BAD = "Here is what the policy says about your {}.", "No idea about a {}. Ask somebody else."
QUESTION = Question(id="main", text="How good is the reply?", scale=Scale(options=(1, 2, 3, 4)))
RUBRIC = Rubric(
    name="planted",
    questions=(QUESTION, Question(id="polite", text="Is it polite?", scale=Scale(kind="binary", options=(0, 1)))),
    main="main",
)


def corpus(conversations: int = 60) -> Training:
    """Good and bad replies, two people who rate them, documents behind every other one."""
    draw = random.Random(0)
    samples, labels = [], []
    for place in range(conversations):
        topic, is_good = draw.choice(TOPICS), place % 2 == 0
        said = (GOOD if is_good else BAD).format(topic) + " " + " ".join(draw.sample(TOPICS, 3))
        turns = (Turn("user", f"My {topic} number {place} does not work, what now?"), Turn("assistant", said))
        documents = (Document(f"The policy on every {topic} is to repair it."),) if place % 3 else ()
        conversation = Conversation(f"c{place}", turns, documents, {"system": "ab"[place % 2]})
        samples.append(Sample(conversation))
        for person in ("ann", "ben"):
            value = (4 if is_good else 1) if draw.random() < 0.8 else 2
            labels.append(Label(Target(conversation.id), "main", person, value))
    return Training(tuple(samples), Labels(labels), QUESTION)


def answer(request: Mapping[str, Any]) -> Wire:
    """Whatever is asked, an answer of the form that is asked for; equal requests get equal answers."""
    if request["_path"].endswith("/embeddings"):
        given = request["input"] if isinstance(request["input"], list) else [request["input"]]
        vectors = [[digest(text)[k] / 255 + 0.01 for k in range(4)] for text in given]
        rows = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return Wire({"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}})
    if "response_format" in request:
        seed = json.dumps(request["messages"], sort_keys=True)
        return completion(json.dumps(instance(request["response_format"]["json_schema"]["schema"], seed)))
    return answer_any(request)


def digest(text: str) -> bytes:
    """Bytes that follow from a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def instance(schema: Mapping[str, Any], seed: str) -> Any:
    """A value that a JSON Schema allows."""
    draw = random.Random(seed)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    if "anyOf" in schema:
        return instance(schema["anyOf"][0], seed)
    match schema.get("type"):
        case "object":
            return {name: instance(inner, seed + name) for name, inner in schema.get("properties", {}).items()}
        case "array":
            count = max(schema.get("minItems", 0), min(3, schema.get("maxItems", 3)))
            return [instance(schema["items"], f"{seed}{place}") for place in range(count)]
        case "integer":
            return draw.randint(schema.get("minimum", 1), schema.get("maximum", 5))
        case "number":
            return draw.uniform(schema.get("minimum", 0.0), schema.get("maximum", 1.0)) / 4
        case "boolean":
            return draw.random() < 0.5
        case _:
            return "The reply names the " + " and the ".join(draw.sample(TOPICS, 2))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    open_embedder.cache_clear()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ChatServer(answer) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


@pytest.fixture
def models(server: ChatServer, tmp_path: Path) -> Models:
    named = {role: {"model": "m1", "base_url": server.url, "mode": "logprobs"} for role in ("judge", "scorer")}
    named |= {role: {"model": "m1", "base_url": server.url} for role in ("writer", "finder", "likelihood")}
    with Project(config_from({"store": f"sqlite:///{tmp_path}/a.db", "models": named})) as project:
        yield project.models


def made(name: str) -> Source:
    """The source, with the endpoint's vectors wherever it takes any."""
    takes = sources.get(name).settings_type.model_fields
    return make_source(name, {"embedder": "endpoint:m1"} if "embedder" in takes else {}, SourceContext(RUBRIC))


@pytest.fixture(params=sources.names())
def name(request: pytest.FixtureRequest, models: Models) -> str:
    """Each registered source in turn; one that needs a model of this machine is skipped where that is not there."""
    try:
        run(made(request.param).measure(corpus().samples[:2]), models)
    except NotFitted:
        pass  # it learns before it measures
    except BadInput as error:
        if "accord models pull" not in str(error):
            raise
        pytest.skip(str(error))
    return str(request.param)


@pytest.mark.slow
def test_every_source_keeps_the_contract(name: str, models: Models) -> None:
    table = check_source(lambda: made(name), corpus(), models)
    assert table.present.any(), "it knows something of the corpus"


@pytest.mark.slow
def test_a_plan_of_every_source_is_what_it_asks(name: str, models: Models, server: ChatServer) -> None:
    learned = run(made(name).learn(corpus()), models).source
    fresh = [Sample(Conversation("new", (Turn("user", "My lamp is new."), Turn("assistant", "Is it a lamp?"))))]
    planned = plan(learned.measure(fresh), models).requests
    before = len(server.requests)
    run(learned.measure(fresh), models)
    assert len(server.requests) - before == planned
