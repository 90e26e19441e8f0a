"""Every source: its contract, and every verb of the command line on an evaluator that learns from it."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
import yaml
from commands import accord_json, invoke, printed, read_rows, refused, write, write_corpus, write_rows
from misbehaving_endpoint import Misbehaving, answer_any
from scaled import row_of

from accord import Project
from accord import open as open_project
from accord.edges import BadInput, NotFitted
from accord.evidence import Source, SourceContext, Training, make_source, sources
from accord.learning import load_evaluator
from accord.models import (
    Models,
    open_embedder,
    run,
)
from accord.models.requests.drivers import plan
from accord.project import config_from
from accord.testing import (
    ChatServer,
    check_source,
    completion,
)
from accord.testing.server import (
    Respond,
    Wire,
)
from accord.values import (
    Conversation,
    Document,
    Label,
    Labels,
    Question,
    Rubric,
    Sample,
    Scale,
    Score,
    Target,
    Turn,
)

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


def with_calls(training: Training) -> Training:
    """Return conversations in which the assistant first calls a tool."""
    call = {"id": "x", "function": {"name": "find", "arguments": '{"word": "lamp"}'}}
    asked, found = Turn("assistant", "", extra={"tool_calls": [call]}), Turn("tool", "7", extra={"tool_call_id": "x"})
    samples = []
    for sample in training.samples:
        first, *rest = sample.conversation.turns
        samples.append(Sample(replace(sample.conversation, turns=(first, asked, found, *rest))))
    return Training(tuple(samples), training.labels, training.question)


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


def roles(url: str, **more: Any) -> dict[str, dict[str, Any]]:
    """Return the settings of a model for each role."""
    about = {"model": "m1", "base_url": url, **more}
    distributions = dict.fromkeys(("judge", "scorer"), {**about, "mode": "logprobs"})
    return {**distributions, **dict.fromkeys(("writer", "finder", "likelihood"), about)}


# --- the contract -----------------------------------------------------------------------------------------------------


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
        with Project(config_from({"store": f"sqlite:///{store}", "models": roles(server.url)})) as project:
            try:
                run(made(request.param).measure(corpus().samples[:2]), project.models)
            except NotFitted:
                pass  # it learns before it measures
            except BadInput as error:
                if "accord models pull" not in str(error):
                    raise
                pytest.skip(str(error))
            yield Tried(request.param, project.models, server)


def test_every_source_keeps_the_contract(tried: Tried) -> None:
    known = with_calls(corpus()) if tried.name == "steps" else corpus()
    table = check_source(lambda: made(tried.name), known, tried.models)
    assert table.present.any(), "it knows something of the corpus"


def test_plan_of_every_source_equals_its_requests(tried: Tried) -> None:
    learned = run(made(tried.name).learn(corpus()), tried.models).source
    fresh = [Sample(Conversation("new", (Turn("user", "My lamp is new."), Turn("assistant", "Is it a lamp?"))))]
    planned = plan(learned.measure(fresh), tried.models).requests
    before = len(tried.server.requests)
    run(learned.measure(fresh), tried.models)
    assert len(tried.server.requests) - before == planned


# --- the verbs --------------------------------------------------------------------------------------------------------

ASKING = ("rubric", "likelihood", "in-context", "learned-rubric", "issues")
"""Sources that ask a model."""
LEARNED = {"in-context", "learned-rubric"}
"""Sources that ask while they learn, and have findings."""
QUICK: Mapping[str, Mapping[str, Any]] = {
    "in-context": {
        "candidates": 1, "top_prompts": 1, "sets": 1, "ensemble": 2, "selector": "neighbours", "embedder": "endpoint:m1",
    },
    "learned-rubric": LITTLE["learned-rubric"],
}  # fmt: skip
SECRET = "sk-never-written"
EVALUATORS = {name: {"sources": [name], "head": "mixed"} for name in (*ASKING, "metrics")}
EVALUATORS["mixture"] = {"sources": ["metrics"], "head": "curves"}


@dataclass
class Place:
    """The working folder: a project with the corpus, a server that answers every role, and an evaluator."""

    name: str
    server: ChatServer
    planned: dict[str, Any] = field(default_factory=dict)
    learned: dict[str, Any] = field(default_factory=dict)

    @property
    def asking(self) -> list[str]:
        """The command that asks the models."""
        return ["judge", "--source", self.name] if self.name in set(ASKING) - LEARNED else ["fit", "mine"]

    def configure(self, models: Mapping[str, Any]) -> None:
        """Write `accord.yaml`."""
        own = {self.name: QUICK.get(self.name, {})} if self.name in ASKING else {}
        settings = {
            "rubric": "rubric.yaml", "models": models, "folds": 4 if self.name == "mixture" else 2, "draws": 20,
            "metrics": ["bank"], "sources": own,
            "evaluators": {"mine": {**EVALUATORS[self.name], "plausibility": False}}, "evaluator": "mine",
        }  # fmt: skip
        write("accord.yaml", yaml.safe_dump(settings))

    def plan(self) -> dict[str, Any]:
        """Return the requests and costs of `asking`."""
        return dict(accord_json(*self.asking, "--plan"))

    def fit(self) -> dict[str, Any]:
        """Ask for evidence, unless learning does, and fit the evaluator."""
        if self.asking[0] == "judge":
            printed(*self.asking)
        return dict(accord_json("fit", "mine"))


def opened(name: str, server: ChatServer, environment: pytest.MonkeyPatch, folder: Path, **models: Any) -> Place:
    """Return a project in a folder, with everything imported."""
    open_embedder.cache_clear()
    environment.chdir(folder)
    environment.delenv("ACCORD_STORE", raising=False)
    environment.setenv("OPENAI_API_KEY", SECRET)
    environment.setenv("OPENAI_BASE_URL", server.url)
    place, train = Place(name, server), corpus()
    place.configure(roles(server.url, **models))
    write_corpus((sample.conversation for sample in train.samples), train.labels, RUBRIC)
    assert "32 conversations imported" in printed("import", "chats.jsonl", "labels.csv")
    return place


@pytest.fixture(scope="module", params=EVALUATORS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Each kind of evaluator in turn, planned and fitted once."""
    with pytest.MonkeyPatch.context() as environment, ChatServer(answer) as server:
        found = opened(request.param, server, environment, tmp_path_factory.mktemp(request.param))
        found.planned = found.plan()
        assert not server.requests
        found.learned = found.fit()
        yield found


def test_plan_bounds_requests_and_stored_answers_cost_nothing(place: Place) -> None:
    sent = len(place.server.requests)
    assert place.planned["min_requests"] <= sent <= max(place.planned["requests"], place.planned["max_requests"])
    assert (sent > 0) == (place.name in ASKING)
    assert place.plan()["requests"] == 0
    assert place.fit()["comparison"]["rows"] == place.learned["comparison"]["rows"]
    assert len(place.server.requests) == sent


def test_compare_score_report_and_gate_need_no_key_for_stored_answers(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    sent = len(place.server.requests)
    compared = accord_json("compare", "--only", "mine")
    assert {"mine", "constant"} <= {row["evaluator"] for row in compared["rows"]}
    for ending in ("jsonl", "csv", "parquet"):
        assert "32 conversations scored" in printed("score", "chats.jsonl", "--out", f"scores.{ending}")
    values = [row["value"] for row in read_rows("scores.jsonl")]
    assert (
        pl.read_csv("scores.csv")["value"].to_list() == values == pl.read_parquet("scores.parquet")["value"].to_list()
    )
    with open_project() as project:
        again = run(load_evaluator("evaluators/mine").predict(list(project.all_samples())), project.models)
    assert {str(score.target): score.value for score in again if isinstance(score, Score)} == {
        row["conversation"]: row["value"] for row in read_rows("scores.jsonl")
    }
    assert "report in report.html" in printed("report")
    conditions = ["gate", "--min-agreement=-1", "--include-training", "--allow-unproven", "--min-mean"]
    assert "passed" in printed(*conditions, "1")
    assert "gate failed: 1 of" in refused(*conditions, "4", code=3)
    assert len(place.server.requests) == sent
    assert SECRET not in "".join(
        path.read_text(errors="ignore", encoding="utf-8") for path in Path().rglob("*") if path.is_file()
    )


def test_findings_are_shown_in_terminal_and_report(place: Place) -> None:
    said = printed("fit", "mine")
    printed("report", "--out", "findings.html")
    page = Path("findings.html").read_text(encoding="utf-8")
    assert "saved in evaluators/mine" in said and "<script" not in page
    with open_project() as project:
        findings = project.fit_offline("mine").findings
    assert set(findings) == set(place.learned["findings"]) == {place.name} & LEARNED
    for name, found in findings.items():
        section = found.section()
        assert section.heading in said and section.heading in page and section.lead in said
        assert found.to_json() == place.learned["findings"][name]


def test_new_conversations_are_scored_and_paid_once(place: Place) -> None:
    new = [Conversation(f"new{n}", (Turn("user", f"Lamp {n}?"), Turn("assistant", "A lamp."))) for n in range(2)]
    write_rows("new.jsonl", map(row_of, new))
    before = len(place.server.requests)
    printed("score", "new.jsonl", "--out", "new-scores.jsonl")
    paid = len(place.server.requests) - before
    assert (paid > 0) == (place.name in ASKING)
    assert all(1 <= row["value"] <= 4 and row["low"] <= row["high"] for row in read_rows("new-scores.jsonl"))
    printed("score", "new.jsonl", "--out", "new-scores.csv")
    assert len(place.server.requests) - before == paid


def test_damaged_evaluator_folder_is_refused(place: Place) -> None:
    folder = Path("evaluators/mine")
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        assert refused("score", "chats.jsonl", "--out", "s.jsonl")
        path.unlink()
        assert "missing" in refused("score", "chats.jsonl", "--out", "s.jsonl")
        path.write_bytes(content)
    printed("score", "chats.jsonl", "--out", "s.jsonl")


@pytest.mark.parametrize("place", ["rubric", "likelihood", "in-context", "issues"], indirect=True)
def test_faults_of_an_endpoint_lose_nothing(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Misbehaving(answer, share=0.1, kinds=("429", "500", "truncated", "half-closed", "wrong content type"))
    with ChatServer(faults) as server:
        found = opened(place.name, server, monkeypatch, tmp_path).fit()
    assert found["comparison"]["rows"] == place.learned["comparison"]["rows"] and sum(faults.met.values()) > 0


Start = Any
"""Function that starts a server and a project of a source."""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    servers: list[ChatServer] = []

    def begun(name: str, respond: Respond = answer, **models: Any) -> Place:
        servers.append(ChatServer(respond).__enter__())
        return opened(name, servers[-1], monkeypatch, tmp_path, **models)

    yield begun
    for server in servers:
        server.__exit__(None, None, None)


@pytest.mark.parametrize("name", ASKING)
def test_budget_stops_asking_and_next_run_continues(name: str, start: Start) -> None:
    place = start(name)
    assert "the budget of 5 requests" in refused(*place.asking, "--max-requests", "5", code=4)
    assert len(place.server.requests) == 5
    place.fit()
    assert place.plan()["requests"] == 0
    shutil.rmtree("evaluators")
    assert "holds no evaluator" in refused("score", "chats.jsonl", "--out", "s.jsonl")


@pytest.mark.parametrize("name", ASKING)
def test_failed_requests_end_with_5_and_are_repeated(name: str, start: Start) -> None:
    numbers, failing = count(1), True

    def respond(request: Mapping[str, Any]) -> Wire:
        is_chat = not request["_path"].endswith("/embeddings")
        return Wire({"error": {}}, status=500) if failing and is_chat and next(numbers) % 9 == 0 else answer(request)

    place = start(name, respond, attempts=1)
    printed(*place.asking, code=5)
    failing, before = False, len(place.server.requests)
    place.fit()
    assert len(place.server.requests) > before and place.plan()["requests"] == 0


@pytest.mark.parametrize("name", ["in-context", "learned-rubric", "issues"])
def test_useless_replies_stay_within_the_plan(name: str, start: Start) -> None:
    place = start(
        name, lambda request: completion("no") if request["_path"].endswith("chat/completions") else answer(request)
    )
    planned = place.plan()
    ended = invoke(*place.asking, code=None)
    assert ended.exit_code in {1, 5} and 0 < len(place.server.requests) <= planned["max_requests"]


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("rubric", "models: {judge: {model: NAME}}"), ("likelihood", "models: {likelihood: {model"),
        ("in-context", "models: {scorer: {model: NAME}}"), ("learned-rubric", "no model configured for role 'writer'"),
        ("issues", "models: {finder: {model: NAME}}"),
    ],
)  # fmt: skip
def test_missing_model_is_named_before_any_request(name: str, missing: str, start: Start) -> None:
    place = start(name)
    place.configure({})
    for more in ((), ("--plan",)):
        assert missing in refused(*place.asking, *more)
    assert not place.server.requests
