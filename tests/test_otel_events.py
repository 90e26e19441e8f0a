"""Scores as OpenTelemetry log records, at a collector that receives them, and at collectors that do not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import TOKEN, free_port, running

pytest.importorskip("opentelemetry.sdk._logs", reason="needs accord[otel]")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs accord[otel]")
pytest.importorskip("fastapi", reason="needs accord[serve]")
from collector import collecting
from commands import accord
from decision_service import CHAT, fitted_project
from test_service import Client, span

from accord import Project
from accord.hosts.otel import EVENT, EvaluationEvents, EventSink, emit_rows, open_events
from accord.live import make_app, open_service
from accord.values import ScoreRow

SECRETS = ("return an opened router", "45 days")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("otel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with fitted_project(folder) as found:
            yield found


@pytest.fixture(autouse=True)
def environment(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the project, and quick batches."""
    monkeypatch.chdir(Path(project.folder()).parents[1])
    monkeypatch.setenv("OTEL_BLRP_SCHEDULE_DELAY", "50")
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def replay(project: Project, url: str | None, requests: list[tuple[str, object, dict[str, str]]]) -> list[str]:
    """Serve the project with events, send requests, and return the reports."""
    said: list[str] = []
    with open_events(url, said.append) as events:
        assert events is not None, said
        sinks = [EventSink(events, project.store)]
        with (
            open_service(project, project.folder(), sinks=sinks) as service,
            running(make_app(service, TOKEN), lifespan="on") as port,
        ):
            for path, body, headers in requests:
                status, answer = Client(port).post(body, path, **headers)
                assert status == 200, answer
    return said


def test_each_new_live_score_is_a_record_without_texts(project: Project) -> None:
    chat = {"conversation": "c1", "messages": [{**CHAT[0]}, {**CHAT[1]}]}
    empty = {"conversation": "c2", "role": "assistant", "content": "?!", "id": "m9"}
    with collecting() as (url, collector):
        said = replay(project, url, [("/v1/scores", chat, {}), ("/v1/scores", chat, {}), ("/v1/scores", empty, {})])
    evaluator = project.load()
    scored, unscored = collector.attributes()
    assert not said and [record.event_name for record in collector.records] == [EVENT, EVENT]
    assert scored["gen_ai.evaluation.name"] == "useful" and scored["gen_ai.conversation.id"] == "c1"
    assert 1 <= scored["accord.score.low"] <= scored["accord.score.high"] <= 4
    assert 1 < scored["gen_ai.evaluation.score.value"] < 4 and "error.type" not in scored
    assert scored["accord.evaluator.id"] == "default" and scored["accord.evaluator.version"] == evaluator.digest()
    assert unscored["error.type"] == "unscored" and unscored["gen_ai.response.id"] == "m9"
    assert unscored["gen_ai.evaluation.explanation"] and "gen_ai.evaluation.score.value" not in unscored
    assert {each["service.name"] for each in collector.resources} == {"accord"}
    sent = str(collector.records)
    assert not any(text in sent for text in SECRETS)


def test_record_belongs_to_the_span_of_its_request_message_or_export(project: Project) -> None:
    other = PARENT.replace("b7ad", "ffff")
    message = {"conversation": "t1", "role": "assistant", "content": "Within 45 days.", "traceparent": other}
    plain = {"conversation": "t2", "role": "assistant", "content": "Within 45 days."}
    decision = {"model": "accord", "state": "Within a week.", "questions": {"short": {"type": "noul"}}}
    chat = json.dumps([CHAT[1]])
    exported = span(
        7,
        {
            "gen_ai.output.messages": chat,
            "gen_ai.input.messages": json.dumps([CHAT[0]]),
            "gen_ai.operation.name": "chat",
        },
    )
    export = {"resourceSpans": [{"scopeSpans": [{"spans": [exported]}]}]}
    header = {"traceparent": PARENT}
    with collecting() as (url, collector):
        replay(project, url, [("/v1/scores", message, header), ("/v1/scores", plain, header), ("/v1/systemone", decision, header),
                              ("/v1/traces", export, header), ("/v1/scores", {**plain, "conversation": "t3"}, {"traceparent": "zz"})])  # fmt: skip
    found = [(record.trace_id.hex(), record.span_id.hex()) for record in collector.records]
    trace = PARENT[3:35]
    assert found == [
        (trace, "ffff6b7169203331"),
        (trace, PARENT[36:52]),
        (trace, PARENT[36:52]),
        (f"{7:032}", f"{7:016}"),
        ("", ""),
    ]


def test_batch_scores_are_records_with_the_digest_of_the_card(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    rows = [{"id": name, "messages": CHAT} for name in ("b1", trace)]
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with project.store.run("card", {}) as record:
        record.results.update({"card": "s256:abc", "evaluator": project.load().digest()})
    with collecting() as (url, collector):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret-key")
        accord("score", "new.jsonl", "--out", "scores.jsonl")
    values = [json.loads(line)["value"] for line in Path("scores.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(each["gen_ai.evaluation.score.value"] for each in collector.attributes()) == sorted(values)
    assert {each["accord.card.digest"] for each in collector.attributes()} == {"s256:abc"}
    assert {record.trace_id.hex() for record in collector.records} == {"", trace}
    assert collector.headers[0]["x-key"] == "secret-key"


def test_parts_are_records_once_with_their_band_and_without_invalid_rows(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        rows = [{"id": f"{name}-{place}", "messages": CHAT} for place in range(3)]
        Path(f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows) + '{"id": "broken"}\n', encoding="utf-8"
        )
    with collecting() as (url, collector):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", url)
        accord("score", "one.jsonl", "--out", "parts", "--workers", "1", code=5)
        first = len(collector.records)
        accord("score", "one.jsonl", "two.jsonl", "--out", "parts", "--workers", "1", code=5)
    found = collector.attributes()
    assert first == 3 and [each["gen_ai.conversation.id"] for each in found] == [
        f"{name}-{place}" for name in ("one", "two") for place in range(3)
    ]
    bands = {(each["accord.score.band_low"], each["accord.score.band_high"]) for each in found}
    assert {each["accord.score.band_level"] for each in found} == {0.9} and all(low <= high for low, high in bands)


def test_batches_larger_than_the_queue_arrive_and_end_at_the_first_failure(project: Project) -> None:
    row, evaluator = project.score([{"id": "q", "messages": CHAT}]).scores[0], project.load()
    for fault, rows, expected in (("none", 5_000, 5_000), ("refuse", 5_000, 0), ("page", 5_000, 0)):
        read, said = [], list[str]()

        def given(count: int = rows, read: list[int] = read) -> Iterator[ScoreRow]:
            for place in range(count):
                read.append(place)
                yield row

        with collecting(fault) as (url, collector):
            events = EvaluationEvents(url, said.append)
            emit_rows(events, evaluator, {}, given())
            events.close()
        assert len(collector.records) == expected, fault
        assert (len(read) == rows and not said) if fault == "none" else (len(read) < 1_000 and len(said) == 1)


@pytest.mark.attack
@pytest.mark.parametrize("fault", ["error", "refuse", "hang", "garbage", "page", "close", "dead"])
def test_scores_do_not_depend_on_the_collector(project: Project, fault: str) -> None:
    chat = {"messages": CHAT}
    with collecting("none" if fault == "dead" else fault) as (url, collector):
        address = f"http://user:secret@127.0.0.1:{free_port()}/v1/logs" if fault == "dead" else url
        said: list[str] = []
        with open_events(address, said.append) as events:
            assert events is not None
            sinks = [EventSink(events, project.store)]
            with (
                open_service(project, project.folder(), sinks=sinks) as service,
                running(make_app(service, TOKEN), lifespan="on") as port,
            ):
                client = Client(port)
                found = [client.post({**chat, "conversation": f"{fault}-{place}"}) for place in range(20)]
            started = time.monotonic()
        assert time.monotonic() - started < 30, "the end waits for a limited time"
    assert all(status == 200 and rows["scores"][-1]["status"] == "scored" for status, rows in found)
    reported = ["evaluation events do not reach the OpenTelemetry collector; scoring goes on without them"]
    assert said == ([] if fault == "garbage" else reported), "an answer of status 200 is checked for a web page only"
    assert collector.records == []


def test_queue_is_bounded_while_the_collector_hangs(project: Project) -> None:
    row = project.score([{"id": "q", "messages": CHAT}]).scores[0]
    with collecting("hang") as (url, collector):
        events = EvaluationEvents(url)
        for _ in range(20_000):
            events.emit(row, "useful", {})
        collector.over.set()
        events.close()
        assert len(collector.records) <= 20_000


@pytest.mark.parametrize(
    ("variables", "note"),
    [
        ({}, ""), ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_LOGS_EXPORTER": "none"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTLP over grpc; allowed: http/protobuf"),
    ],
)  # fmt: skip
def test_events_are_off_unless_a_collector_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], note: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    with open_events(None, said.append) as events:
        assert events is None and note in "".join(said) and bool(note) == bool(said)


def test_attributes_have_the_names_of_the_conventions() -> None:
    conventions = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    source = Path(__import__("accord.hosts.otel", fromlist=["otel"]).__file__).read_text(encoding="utf-8")
    names = ("NAME", "SCORE_VALUE", "SCORE_LABEL", "EXPLANATION")
    assert all(getattr(conventions, f"GEN_AI_EVALUATION_{name}") in source for name in names)
    assert conventions.GEN_AI_RESPONSE_ID in source and conventions.GEN_AI_CONVERSATION_ID in source
