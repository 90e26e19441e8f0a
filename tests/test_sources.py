"""Contract of every registered source, on one synthetic corpus, with one endpoint for all roles."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from misbehaving_endpoint import answer_any

from accord.edges import BadInput, NotFitted
from accord.evidence import Source, SourceContext, Training, make_source, sources
from accord.models import Models, open_embedder, plan, run
from accord.project import Project, config_from
from accord.testing import ChatServer, Wire, check_source, completion
from accord.values import Conversation, Document, Label, Labels, Question, Rubric, Sample, Scale, Target, Turn

ROLES = ("judge", "writer", "scorer", "finder", "likelihood")
TOPICS = ("router", "refund", "parcel", "login", "invoice", "printer", "battery", "screen")
GOOD, BAD = "Here is what the policy says about your {}.", "No idea about a {}. Ask somebody else."
LITTLE: Mapping[str, Mapping[str, Any]] = {
    "in-context": {
        "candidates": 4, "top_prompts": 2, "sets": 2, "ensemble": 2, "towers": {"epochs": 1, "width": 4, "heads": 2}
    },
    "learned-rubric": {"reasons": 2, "pool_size": 12},
}  # fmt: skip
QUESTION = Question(id="main", text="How good is the reply?", scale=Scale(options=(1, 2, 3, 4)))
RUBRIC = Rubric(
    name="planted",
    questions=(QUESTION, Question(id="polite", text="Is it polite?", scale=Scale(kind="binary", options=(0, 1)))),
    main="main",
)


def corpus(conversations: int = 32) -> Training:
    """Return good and bad replies with ratings of two annotators, most of them with documents."""
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
    """Return a valid answer to any request; equal requests get equal answers."""
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
    """Return bytes derived from a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def instance(schema: Mapping[str, Any], seed: str) -> Any:
    """Return a value that a JSON Schema allows."""
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


def made(name: str) -> Source:
    """Return a source with the endpoint's embedder and small settings."""
    takes = sources.get(name).settings_type.model_fields
    embedder = {"embedder": "endpoint:m1"} if "embedder" in takes else {}
    return make_source(name, {**embedder, **LITTLE.get(name, {})}, SourceContext(RUBRIC))


class Tried(NamedTuple):
    """A source's name, its models and their server."""

    name: str
    models: Models
    server: ChatServer


@pytest.fixture(scope="module", params=sources.names())
def tried(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """Each registered source in turn; a source with a missing local model is skipped."""
    open_embedder.cache_clear()
    store = tmp_path_factory.mktemp(request.param) / "a.db"
    with pytest.MonkeyPatch.context() as environment, ChatServer(answer) as server:
        environment.setenv("OPENAI_API_KEY", "none")
        environment.setenv("OPENAI_BASE_URL", server.url)
        named = {role: {"model": "m1", "base_url": server.url, "mode": "logprobs"} for role in ("judge", "scorer")}
        named |= {role: {"model": "m1", "base_url": server.url} for role in ("writer", "finder", "likelihood")}
        with Project(config_from({"store": f"sqlite:///{store}", "models": named})) as project:
            try:
                run(made(request.param).measure(corpus().samples[:2]), project.models)
            except NotFitted:
                pass  # it learns before it measures
            except BadInput as error:
                if "accord models pull" not in str(error):
                    raise
                pytest.skip(str(error))
            yield Tried(request.param, project.models, server)


@pytest.mark.slow
def test_every_source_keeps_the_contract(tried: Tried) -> None:
    table = check_source(lambda: made(tried.name), corpus(), tried.models)
    assert table.present.any(), "it knows something of the corpus"


@pytest.mark.slow
def test_plan_of_every_source_equals_its_requests(tried: Tried) -> None:
    learned = run(made(tried.name).learn(corpus()), tried.models).source
    fresh = [Sample(Conversation("new", (Turn("user", "My lamp is new."), Turn("assistant", "Is it a lamp?"))))]
    planned = plan(learned.measure(fresh), tried.models).requests
    before = len(tried.server.requests)
    run(learned.measure(fresh), tried.models)
    assert len(tried.server.requests) - before == planned
