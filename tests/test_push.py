"""Scores sent to tracing platforms: once each, about the right object, without texts, in spite of faults and kills."""

from __future__ import annotations

import ast
import json
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NotRequired, get_origin, get_type_hints

import polars as pl
import pytest
from commands import accord, accord_json, read_rows, refused, write, write_rows
from host_servers import CUT, KEYS, HostServer
from special_files import make_link
from waiting import until

from accord import Question, Rubric, Scale, Score, Target, Unscored, read
from accord import open as open_project
from accord.edges import BadInput
from accord.formats import ScoreWriter, answer_to
from accord.hosts.shared.push import HostScore, HostSender, Place, host_named, host_score
from accord.hosts.shared.push_live import LivePusher, live_pushers
from accord.project.config_sections import HostConfig
from accord.values import ScaleKind, Signature, dump_rubric, score_from

SECRET_TEXT = "My card number is 4111"
HOSTS = ("langfuse", "phoenix", "langsmith")
SETTINGS = {
    "langfuse": {"public_key": "${LANGFUSE_PUBLIC_KEY}", "secret_key": "${LANGFUSE_SECRET_KEY}"},
    "phoenix": {"api_key": "${PHOENIX_API_KEY}"},
    "langsmith": {"api_key": "${LANGSMITH_API_KEY}"},
}
RUN, PROJECT = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def trace_id(number: int) -> str:
    return f"{number:032x}"


def span(trace: str, id: str, session: str | None, said: str, start: int) -> dict[str, Any]:
    named = {} if session is None else {"session.id": session}
    messages = [{"role": "user", "content": said}], [{"role": "assistant", "content": "Noted."}]
    attributes = {"gen_ai.input.messages": json.dumps(messages[0]), "gen_ai.output.messages": json.dumps(messages[1])}
    return {
        "traceId": trace,
        "spanId": id,
        "startTimeUnixNano": str(start * 10**9),
        "attributes": {**attributes, **named},
    }


EXPORTS: dict[str, list[dict[str, Any]]] = {
    "langfuse": [
        {"id": "t1", "sessionId": "s1", "input": SECRET_TEXT, "output": "Noted.", "timestamp": "2026-03-01T10:00:00Z", "scores": []},
        {"id": "t2", "sessionId": "s1", "input": "And now?", "output": "Done.", "timestamp": "2026-03-01T10:01:00Z", "scores": []},
        {"id": "t3", "sessionId": None, "input": "Hi", "output": "Hello", "timestamp": "2026-03-01T11:00:00Z", "scores": []},
    ],
    "phoenix": [
        span(trace_id(1), f"{1:016x}", "s1", SECRET_TEXT, 1_772_000_000), span(trace_id(2), f"{2:016x}", "s1", "And now?", 1_772_000_060),
        span(trace_id(3), f"{3:016x}", None, "Hi", 1_772_000_120),
    ],
    "langsmith": [
        {"id": RUN, "trace_id": RUN, "session_id": PROJECT, "run_type": "chain", "start_time": "2026-03-01T10:00:00",
         "inputs": {"messages": [{"role": "user", "content": SECRET_TEXT}]}, "outputs": {"output": "Noted."}},
    ],
}  # fmt: skip


def score(conversation: str, value: float = 2.4, turn: int | None = None) -> Score:
    shares = [1 - value / 4, value / 4]
    band = (max(value - 0.8, 0.0), min(value + 0.7, 4.0))
    signature = Signature.of("calibration", coverage=0.9)
    return score_from(Target(conversation, turn), "population", [0, 4], shares, signature, band)


def unscored(conversation: str) -> Unscored:
    return Unscored(Target(conversation), "population", "no evidence", Signature("calibration"))


def write_scores(name: str, scores: Sequence[Score | Unscored]) -> str:
    with ScoreWriter(Path(name)) as writer:
        writer.write(each.to_json() for each in scores)
    return name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    names = {"LANGFUSE_PUBLIC_KEY": KEYS["langfuse"][0], "LANGFUSE_SECRET_KEY": KEYS["langfuse"][1],
             "PHOENIX_API_KEY": KEYS["phoenix"], "LANGSMITH_API_KEY": KEYS["langsmith"]}  # fmt: skip
    for name, value in names.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr("accord.hosts.shared.push.FIRST_WAIT", 0.01)
    return tmp_path


def write_settings(*servers: HostServer, **settings: Any) -> None:
    """Write a project that sends to some servers; JSON is YAML."""
    push = {each.host: {"url": each.url, **SETTINGS[each.host], **settings} for each in servers}
    write("accord.yaml", json.dumps({"push": push}))


def project(server: HostServer, export: str | None = None, **settings: Any) -> None:
    """Write a project that sends to a server, and import an export of its host."""
    write_settings(server, **settings)
    if export is not None:
        accord("import", write_rows("export.jsonl", EXPORTS[export]))


def pushed(server: HostServer, *arguments: str, code: int | None = 0) -> dict[str, Any]:
    [run] = accord_json("push", *arguments, "--to", server.host, code=code)["hosts"]
    return dict(run)


PLACES = [
    ("langfuse", score("s1"), "sessionId", "s1"),
    ("langfuse", score("s1", turn=3), "traceId", "t2"),
    ("langfuse", score("s1", turn=2), "sessionId", "s1"),  # no trace led to the user's message
    ("langfuse", score("t3"), "traceId", "t3"),
    ("phoenix", score("s1"), "session_id", "s1"),
    ("phoenix", score("s1", turn=1), "span_id", f"{1:016x}"),
    ("phoenix", score(trace_id(3)), "trace_id", trace_id(3)),
    ("langsmith", score(RUN), "run_id", RUN),
    ("langsmith", score(RUN, turn=1), "run_id", RUN),
]


@pytest.mark.parametrize(("host", "scored", "field", "target"), PLACES)
def test_score_is_about_the_session_trace_or_span_of_the_import(
    folder: Path, host: str, scored: Score, field: str, target: str
) -> None:
    with HostServer(host, {target}) as server:
        project(server, host)
        run = pushed(server, write_scores("scores.jsonl", [scored]))
    [row] = server.stored.values()
    assert row[field] == target and run["sent"] == 1 and not server.invalid
    text = json.dumps(row)
    assert (
        ", 90% band 1.6 to 3.1" in text
        and '"band_level": 0.9' in text
        and "calibration" in text
        and SECRET_TEXT not in text
    )
    assert not {"distribution", "attributions", "notes"} & set(re_keys(row))


def test_labels_are_not_sent_as_scores(folder: Path) -> None:
    labels = [{"conversation": "s1", "turn": 1, "annotator": "ann", "question": "useful", "value": 3}]
    write_rows("labels.jsonl", labels)
    with HostServer("langfuse", {"s1"}) as server:
        project(server, "langfuse")
        assert "labels.jsonl holds no scores of an evaluator" in refused(
            "push", "labels.jsonl", "--to", "langfuse", "--ids", "session"
        )
        assert not server.stored


def test_commands_that_send_nothing_need_no_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    keys = {"public_key": "${NO_SUCH_KEY}", "secret_key": "${NO_SUCH_KEY}"}
    Path("accord.yaml").write_text(json.dumps({"push": {"langfuse": keys}}), encoding="utf-8")
    scores = write_scores("scores.jsonl", [score("s1")])
    assert "1 score would be sent" in accord("push", scores, "--to", "langfuse", "--ids", "session", "--plan")
    assert "push.langfuse has no public_key and no secret_key: set the environment" in refused(
        "push", str(scores), "--to", "langfuse"
    )
    urls = {"langfuse": {"url": "${NO_SUCH_KEY}"}}
    Path("accord.yaml").write_text(json.dumps({"push": urls}), encoding="utf-8")
    assert "push.langfuse.url: an environment variable" in refused("push", scores, "--to", "langfuse", "--plan")


def test_band_without_a_level_is_named_without_one() -> None:
    row = {**score("s1").to_json(), "signature": "other|questions:3"}
    sent = host_score(row, Place("session", "s1"), "useful")
    assert isinstance(sent, HostScore) and ", band 1.6 to 3.1" in sent.comment and "band_level" not in sent.details


def re_keys(row: Any) -> Iterator[str]:
    """Names of all keys of nested objects."""
    if isinstance(row, dict):
        for name, inner in row.items():
            yield name
            yield from re_keys(inner)


@pytest.mark.parametrize("host", HOSTS)
def test_bodies_are_valid_for_the_client_of_the_host(host: str) -> None:
    place = Place("trace", RUN, "2026-03-01T10:00:00+00:00", RUN, PROJECT)
    made = host_score(score(RUN).to_json(), place, "helpful")  # type: ignore[arg-type]
    assert isinstance(made, HostScore)
    [*bodies] = host_named(host).bodies([made])
    if host == "langfuse":
        types = pytest.importorskip("langfuse.api.scores", reason="the langfuse client is not installed")
        utilities = pytest.importorskip("langfuse.api.core.pydantic_utilities")
        request = utilities.parse_obj_as(types.CreateScoreRequest, bodies[1])
        assert (request.id, request.trace_id, request.value) == (made.id, RUN, made.value) and bodies[0] == [bodies[1]]
        assert not request.model_extra and request.timestamp is not None
    elif host == "phoenix":
        types = pytest.importorskip("phoenix.client.__generated__.v1", reason="the phoenix client is not installed")
        for kind in ("Session", "Trace", "Span"):
            [body] = host_named(host).bodies([replace(made, kind=kind.lower())])  # type: ignore[arg-type]
            [row] = body["data"]
            hints = get_type_hints(getattr(types, f"{kind}AnnotationData"), include_extras=True)
            assert (
                {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
                <= row.keys()
                <= hints.keys()
            )
            assert row["result"].keys() <= get_type_hints(types.AnnotationResult).keys()
    else:
        schemas = pytest.importorskip("langsmith.schemas", reason="the langsmith client is not installed")
        assert bodies[0].keys() <= schemas.FeedbackCreate.model_fields.keys()
        feedback = schemas.FeedbackCreate(**bodies[0])
        assert (str(feedback.run_id), str(feedback.session_id), feedback.score) == (RUN, PROJECT, made.value)


@pytest.mark.parametrize("host", HOSTS)
def test_second_run_sends_changed_scores_only_and_replaces_them(folder: Path, host: str) -> None:
    names = {"langfuse": ["s1", "t3"], "phoenix": ["s1", trace_id(3)], "langsmith": [RUN]}[host]
    with HostServer(host, set(names), has_conflicts=True) as server:
        project(server, host)
        file = write_scores("scores.jsonl", [score(name) for name in names])
        assert pushed(server, file)["sent"] == len(names)
        again = pushed(server, file)
        assert (again["sent"], again["unchanged"]) == (0, len(names))
        write_scores(file, [score(names[0], 3.2), *(score(name) for name in names[1:])])
        changed = pushed(server, file)
        assert (changed["sent"], changed["unchanged"]) == (1, len(names) - 1)
        Path(f"{file}.pushed-{host}.jsonl").unlink()
        assert pushed(server, file)["sent"] == len(names)
    assert len(server.stored) == len(names) and not server.invalid
    assert "3.2" in json.dumps(list(server.stored.values()))


def test_rows_without_score_or_id_are_counted_with_their_reason(folder: Path) -> None:
    with HostServer("langfuse", {"s1", "chat-9"}) as server:
        project(server, "langfuse")
        file = write_scores("scores.jsonl", [score("s1"), unscored("t3"), score("chat-9")])
        plan = pushed(server, file, "--plan", code=5)
        assert plan["is_plan"] and plan["sent"] == 1 and not server.bodies
        assert not Path("scores.jsonl.pushed-langfuse.jsonl").exists()
        run = pushed(server, file, code=5)
        assert run["skipped"]["unscored: no evidence"] == 1 and sum(run["skipped"].values()) == 2
        assert any("was not imported from an export" in reason for reason in run["skipped"])
        assert pushed(server, file, "--ids", "session")["sent"] == 1
    assert {key[-1] for key in server.stored} == {"s1", "chat-9"}
    assert all(row["value"] == 2.4 for row in server.stored.values())


def test_ids_come_from_the_traces_that_were_scored(folder: Path) -> None:
    with HostServer("phoenix", {"s1"}) as server:
        project(server)
        file = write_scores("scores.jsonl", [score("s1")])
        export = write_rows("traces.jsonl", EXPORTS["phoenix"])
        assert pushed(server, file, "--from", export)["kinds"] == {"session": 1}


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "parts"])
def test_every_file_of_scores_is_read(folder: Path, suffix: str) -> None:
    rows = [score("=s1"), unscored("s2"), score("s3", turn=1)]  # a formula is escaped in tables
    with HostServer("langfuse", {"=s1", "s3"}) as server:
        project(server, ids="session")
        if suffix == "parts":
            frame = write_scores("rows.parquet", rows)
            Path("scores").mkdir()
            pl.read_parquet(frame).write_parquet("scores/part-aa.parquet")
            file = "scores"
        else:
            file = write_scores(f"scores.{suffix}", rows)
        assert pushed(server, file)["sent"] == 2
    assert {(key[-1], row["value"]) for key, row in server.stored.items()} == {("=s1", 2.4), ("s3", 2.4)}


FAULTS: list[tuple[str, list[Any]]] = [
    ("rate limit", [429, 429]), ("server errors", [500, 503, 502]), ("cut connections", [CUT, CUT]), ("slow", [0.2]),
    ("all of them", [429, 500, CUT, 0.1, 429]),
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("name", "faults"), FAULTS, ids=[name for name, _ in FAULTS])
def test_faults_of_the_host_are_waited_out(folder: Path, host: str, name: str, faults: list[Any]) -> None:
    names = [str(uuid.UUID(int=number)) for number in range(3)]
    with HostServer(host, set(names)) as server:
        project(server, ids="trace")
        server.faults.extend(faults)
        server.retry_after = "0"
        assert pushed(server, write_scores("scores.jsonl", list(map(score, names))))["sent"] == 3
    assert len(server.stored) == 3 and not server.invalid


def test_retry_after_of_the_host_is_respected(folder: Path) -> None:
    waits: list[float] = []

    class Stop:
        def is_set(self) -> bool:
            return False

        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            return False

    with HostServer("phoenix", {"s1"}) as server:
        server.faults.append(429)
        server.retry_after = "7"
        sender = HostSender("phoenix", HostConfig(url=server.url, api_key=KEYS["phoenix"]), Stop(), first_wait=0.0)  # type: ignore[arg-type]
        made = host_score(score("s1").to_json(), Place("session", "s1"), "helpful")  # type: ignore[arg-type]
        assert isinstance(made, HostScore) and sender.send([made]).confirmed == [made]
    assert [round(seconds) for seconds in waits] == [7]


@pytest.mark.parametrize("features", [{}, {"is_old": True}], ids=["batches", "server without batches"])
@pytest.mark.parametrize("host", ["langfuse", "phoenix"])
def test_refused_score_does_not_hold_back_others(folder: Path, host: str, features: dict[str, Any]) -> None:
    names = [f"s{number}" for number in range(120)]
    with HostServer(host, set(names) - {"s7", "s90"}, **features) as server:
        project(server, ids="session")
        file = write_scores("scores.jsonl", list(map(score, names)))
        run = pushed(server, file, code=5)
        assert (run["sent"], sum(run["refused"].values()), run["left"]) == (118, 2, 0)
        server.known |= {"s7", "s90"}
        assert (pushed(server, file)["sent"], len(server.stored)) == (2, 120)


@pytest.mark.parametrize(
    ("fault", "said"),
    [(401, "denied access with status 401; check the keys"), (302, "redirects (status 302)"), (500, "did not take scores (status 500)"),
     (CUT, "did not take scores")],
)  # fmt: skip
def test_dead_host_leaves_scores_and_other_hosts_get_theirs(folder: Path, fault: Any, said: str) -> None:
    with HostServer("langfuse", {"s1"}) as dead, HostServer("phoenix", {"s1"}) as server:
        dead.faults.extend([fault] * 100)
        write_settings(dead, server, ids="session")
        file = write_scores("scores.jsonl", [score("s1")])
        found = accord_json("push", file, "--to", "langfuse", "--to", "phoenix", code=5)["hosts"]
        assert [(run["sent"], run["left"]) for run in found] == [(0, 1), (1, 0)]
        assert said in found[0]["problem"]
        assert "send those that are left by the same command" in accord("push", file, "--to", "langfuse", code=5)
        dead.faults.clear()
        assert pushed(dead, file)["sent"] == 1


PAGE = b"<!DOCTYPE html><html><body>Sign in to continue</body></html>"
NO_CONFIRMATIONS: dict[str, tuple[int, bytes]] = {
    "login page": (200, PAGE), "no content": (204, b""), "empty": (200, b""), "broken JSON": (200, b'{"id": "8'),
    "other JSON": (200, b'{"ok": true}'), "another id": (200, b'{"id": "8f14e45f-ea5a-4d2a-9c5e-000000000000"}'),
    "list": (200, b"[1]"), "text": (200, b'"ok"'), "nothing": (200, b"null"), "deep": (200, b"[" * 9000),
    "message of another": (202, b'{"message": "Queued"}'), "data": (200, b'{"data": [{"name": "x"}]}'),
    "counts": (207, b'{"accepted": "all"}'), "missing page": (404, PAGE), "refusing page": (400, b"\n<html>Forbidden</html>"),
}  # fmt: skip


@pytest.mark.attack
@pytest.mark.parametrize("host", HOSTS)
def test_reply_that_names_no_score_confirms_none(folder: Path, host: str) -> None:
    """A proxy with a login page answers with status 200, and the scores would never be sent again."""
    names = [str(uuid.UUID(int=number)) for number in range(3)]
    with HostServer(host, set(names)) as server:
        project(server, ids="trace")
        file = write_scores("scores.jsonl", list(map(score, names)))
        for name, reply in NO_CONFIRMATIONS.items():
            server.faults.extend([reply] * 20)
            run = pushed(server, file, code=5)
            assert (run["sent"], run["left"], run["refused"]) == (0, 3, {}), name
            assert f"answered with status {reply[0]} and no confirmation" in run["problem"]
            assert f"check push.{host}.url" in run["problem"] and "Sign in" not in run["problem"]
            server.faults.clear()
        assert pushed(server, file)["sent"] == 3 and len(server.stored) == 3


@pytest.mark.parametrize(
    ("host", "status", "reply", "is_accepted"),
    [
        ("langfuse", 202, {"message": "Accepted"}, True), ("langfuse", 207, {"accepted": 2, "rejected": 0, "errors": []}, True),
        ("langfuse", 207, {"accepted": 1, "rejected": 1, "errors": [{"message": "x"}]}, False),
        ("phoenix", 200, {"data": [{"id": "U3Bhbg=="}, {"id": "U3Bhbh=="}]}, True), ("phoenix", 200, {"data": [{"id": "U3Bhbg=="}]}, False),
    ],
)  # fmt: skip
def test_documented_replies_of_a_host_confirm_or_reject_a_batch(
    host: str, status: int, reply: Any, is_accepted: bool
) -> None:
    made = [host_score(score(name).to_json(), Place("session", name), "helpful") for name in ("s1", "s2")]  # type: ignore[arg-type]
    assert host_named(host).is_accepted(status, reply, made) == is_accepted  # type: ignore[arg-type]


@pytest.mark.posix
def test_killed_run_continues_where_it_was(folder: Path) -> None:
    names = [str(uuid.UUID(int=number)) for number in range(60)]
    with HostServer("langsmith", set(names)) as server:
        project(server, ids="trace")
        file = write_scores("scores.jsonl", list(map(score, names)))
        server.faults.extend([0.02] * 60)
        ran = subprocess.Popen([sys.executable, "-m", "accord", "push", file, "--to", "langsmith", "-q"])
        until(lambda: len(server.stored) >= 20)
        ran.send_signal(signal.SIGKILL)
        ran.wait()
        server.faults.clear()
        confirmed = len(read_rows(f"{file}.pushed-langsmith.jsonl")) - 1
        run = pushed(server, file)
        assert 0 < confirmed == run["unchanged"] and run["sent"] == 60 - confirmed
    assert len(server.stored) == 60 and sum(server.writes.values()) - 60 <= 4 * 2  # requests under way at the kill


@pytest.mark.parametrize(
    ("settings", "arguments", "said"),
    [
        ("{}", ["--to", "langfuse"], "accord.yaml has no push.langfuse"),
        ("{langfuse: {}}", ["--to", "langfuse"], "push.langfuse has no public_key and no secret_key"),
        ("{langsmith: {}}", ["--to", "langsmith"], "push.langsmith has no api_key"),
        ("{phoenix: {url: 'ftp://x'}}", ["--to", "phoenix"], "begins with http:// or https://"),
        ("{}", ["--to", "arize"], "arize"),
        ("{phoenix: {url: 'https://collector.example.org'}}", ["--to", "phoenix"], "nothing was sent to https://collector.example.org"),
    ],
)  # fmt: skip
def test_bad_settings_are_explained(folder: Path, settings: str, arguments: list[str], said: str) -> None:
    write("accord.yaml", f"push: {settings}\n")
    assert said in refused("push", write_scores("scores.jsonl", [score("s1")]), *arguments)


def test_file_without_scores_and_damaged_ledger_are_errors(folder: Path) -> None:
    with HostServer("phoenix", set()) as server:
        project(server)
        chats = write_rows("chats.jsonl", [{"id": "c1", "messages": [{"role": "user", "content": "Hi"}]}])
        assert "holds no scores of an evaluator" in refused("push", chats, "--to", "phoenix")
        assert not Path(f"{chats}.pushed-phoenix.jsonl").exists()
        file = write_scores("scores.jsonl", [score("s1")])
        write(f"{file}.pushed-phoenix.jsonl", '{"time": "2026-03-01"}\nno line\n\n')
        assert "line 2: no line of a ledger" in refused("push", file, "--to", "phoenix")


@pytest.mark.attack
@pytest.mark.posix
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("link", "is a link; a ledger is a file of its own"), ("broken link", "is a link; a ledger is a file of its own"),
        ("folder", "is a folder, not a file"), ("[" * 9000 + "\n{}\n", "line 1: no line of a ledger"),
        ('{"time": "2026-03-01"}\n' + "[" * 9000 + "\n{}\n", "line 2: no line of a ledger"),
        ('{"time": "yesterday"}\n{}\n', "line 1: no line of a ledger"), ('{"time": ' + "9" * 9000 + "}\n{}\n", "line 1: no line of a ledger"),
    ],
    ids=["link", "broken link", "folder", "deep", "deep row", "no time", "number"],
)  # fmt: skip
def test_ledger_that_is_no_ledger_is_refused(folder: Path, content: str, said: str) -> None:
    with HostServer("phoenix", {"s1"}) as server:
        project(server, ids="session")
        file = write_scores("scores.jsonl", [score("s1")])
        ledger, other = Path(f"{file}.pushed-phoenix.jsonl"), folder / "other.jsonl"
        if content == "link":
            write("other.jsonl", '{"time": "2026-03-01"}\n')
        if content in ("link", "broken link"):
            make_link(ledger, other)
        elif content == "folder":
            ledger.mkdir()
        else:
            write(str(ledger), content)
        before = other.read_bytes() if other.exists() else None
        assert said in refused("push", file, "--to", "phoenix") and not server.stored
        assert (other.read_bytes() if other.exists() else None) == before


def test_secrets_of_hosts_are_in_no_output_and_no_file(folder: Path) -> None:
    with HostServer("langsmith", {RUN}) as server:
        project(server, "langsmith")
        server.faults.extend([403])
        file = write_scores("scores.jsonl", [score(RUN)])
        said = accord("push", file, "--to", "langsmith", "-v", code=5) + accord("push", file, "--to", "langsmith")
        assert "denied access" in said
    texts = [said, *(path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file())]
    assert not any(str(KEYS["langsmith"]) in text for text in texts)


# --- live scores ----------------------------------------------------------------------------------------------------


def live_row(conversation: str, value: float = 2.4, turn: int = 1) -> dict[str, Any]:
    return {"status": "scored", "id": "m", "system": "bot", **score(conversation, value, turn).to_json()}


@pytest.fixture
def pusher(tmp_path: Path) -> Callable[[HostServer], LivePusher]:
    def made(server: HostServer) -> LivePusher:
        settings = HostConfig(url=server.url, api_key=KEYS["phoenix"])
        return LivePusher("phoenix", settings, tmp_path / "spool", "helpful", said.append, first_pause=0.05)

    said: list[str] = []
    made.said = said  # type: ignore[attr-defined]
    return made


def test_live_scores_wait_for_a_host_that_is_down_also_over_a_restart(
    pusher: Callable[[HostServer], LivePusher], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord.hosts.shared.push.FIRST_WAIT", 0.01)
    names = [f"s{number}" for number in range(30)]
    with HostServer("phoenix", set(names)) as server:
        pass  # the port is known, and nothing listens
    with pusher(server) as live:
        live.add([live_row(name) for name in names[:20]])
        until(lambda: any("wait in" in text for text in pusher.said))  # type: ignore[attr-defined]
        live.add([live_row(name) for name in names[20:]])
    kept = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "spool").iterdir())
    assert all(f'"{name}"' in kept for name in names) and "distribution" not in kept
    server.start()
    with pusher(server):
        until(lambda: len(server.stored) == 30)
        until(lambda: not list((tmp_path / "spool").iterdir()))
    server.stop()
    assert not server.invalid and set(server.writes.values()) == {1}


def test_live_scores_are_sent_again_when_the_host_comes_back(
    pusher: Callable[[HostServer], LivePusher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord.hosts.shared.push.FIRST_WAIT", 0.01)
    with HostServer("phoenix", {"s1", "s2"}) as server, pusher(server) as live:
        server.faults.extend([500] * 2 + [CUT] * 2 + [429] * 2)
        live.add([live_row("s1"), {**live_row("lost"), **unscored("lost").to_json()}, live_row("unknown")])
        until(lambda: len(server.stored) == 1)
        live.add([live_row("s2"), live_row("s1", 3.2)])
        until(lambda: len(server.stored) == 2)
    assert {key[2] for key in server.stored} == {"s1", "s2"}
    assert any("refused with status 404" in text for text in pusher.said)  # type: ignore[attr-defined]


@pytest.mark.attack
def test_live_scores_stay_in_the_spool_while_a_login_page_answers(
    pusher: Callable[[HostServer], LivePusher], tmp_path: Path
) -> None:
    with HostServer("phoenix", {"s1"}) as server:
        server.faults.extend([(200, PAGE)] * 3)
        with pusher(server) as live:
            live.add([live_row("s1")])
            until(lambda: any("wait in" in text for text in pusher.said))  # type: ignore[attr-defined]
            until(lambda: len(server.stored) == 1)
        assert not server.faults


@pytest.mark.attack
def test_deep_file_of_the_spool_is_set_aside(pusher: Callable[[HostServer], LivePusher], tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "0.jsonl").write_text("[" * 9000, encoding="utf-8")
    with HostServer("phoenix", {"s1"}) as server, pusher(server) as live:
        live.add([live_row("s1")])
        until(lambda: len(server.stored) == 1)
    assert (tmp_path / "spool" / "0.damaged").is_file()


@pytest.mark.attack
def test_spool_that_is_a_link_out_of_a_received_project_is_not_used(folder: Path) -> None:
    (folder / "mine").mkdir()
    write("mine/notes.jsonl", "mine\n")
    (folder / "project" / "push-spool").mkdir(parents=True)
    make_link(folder / "project" / "push-spool" / "phoenix", folder / "mine")
    write("project/accord.yaml", "push: {phoenix: {}}\n")
    said: list[str] = []
    with open_project(folder / "project" / "accord.yaml") as opened, live_pushers(opened, said.append) as sinks:
        assert not sinks
    assert [path.name for path in (folder / "mine").iterdir()] == ["notes.jsonl"]
    assert "live scores are not sent to phoenix: nothing was written to" in said[0]


def test_full_queue_drops_scores_with_a_message_and_never_waits(
    pusher: Callable[[HostServer], LivePusher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord.hosts.shared.push_live.MAX_QUEUED", 3)
    with HostServer("phoenix", {"s1"}) as server:
        live = pusher(server)  # its thread does not run
        live.add([live_row("s1")] * 5)
    [text] = pusher.said  # type: ignore[attr-defined]
    assert "accord push --to phoenix" in text


def test_missing_key_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="push.langsmith has no api_key"):
        LivePusher("langsmith", HostConfig(), tmp_path, "helpful", print)


# --- predictions for annotation tools -------------------------------------------------------------------------------

SCALES: dict[str, tuple[str, list[Any]]] = {
    "stars": ("ordinal", [1, 2, 3, 4, 5]), "from zero": ("ordinal", [0, 2, 4]), "halves": ("ordinal", [0.5, 1.5, 4.5]),
    "real": ("real", []),
}  # fmt: skip


@pytest.fixture(params=SCALES)
def rubric(request: pytest.FixtureRequest, folder: Path) -> Question:
    """A project whose question has a scale, and two conversations."""
    kind, options = SCALES[request.param]
    scale = Scale(kind=ScaleKind(kind), low=0.0, high=5.0) if kind == "real" else Scale(options=tuple(options))
    question = Question(id="helpful", text='Was it "helpful" & kind?', scale=scale)
    write("rubric.yaml", dump_rubric(Rubric(name="r", questions=(question,), main="helpful")))
    write("accord.yaml", "rubric: rubric.yaml\n")
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<b>Hello</b>"}]
    accord("import", write_rows("chats.jsonl", [{"id": name, "messages": messages} for name in ("c1", "c2")]))
    return question


def written(tool: str, code: int = 0) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The records of a file of predictions, and the counts."""
    rows = [score("c1"), unscored("c2"), score("c2", turn=1), score("c3")]
    file = write_scores("scores.jsonl", rows)
    [counts] = accord_json("push", file, "--to", tool, "--out", "tasks.json", code=code)["hosts"]
    return json.loads(Path("tasks.json").read_text(encoding="utf-8")), counts


@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
def test_predictions_of_a_tool_are_read_as_unanswered_conversations(rubric: Question, tool: str) -> None:
    [record], counts = written(tool, code=5)
    assert counts["sent"] == 1 and sum(counts["skipped"].values()) == 3 and "helpful" in counts["hint"]
    found = next(read(Path("tasks.json")))
    assert found.conversation.id == "c1" and [turn.content for turn in found.conversation.turns] == [
        "Hi",
        "<b>Hello</b>",
    ]
    assert not found.labels and not found.annotations
    said = accord("import", "tasks.json", code=None)
    assert "Traceback" not in said


def test_label_studio_accepts_its_tasks(rubric: Question) -> None:
    objects = pytest.importorskip("label_studio_sdk.label_interface", reason="label-studio-sdk is not installed")
    from accord.hosts import label_studio

    [task], _ = written("label-studio", code=5)
    interface = objects.LabelInterface(label_studio.interface(rubric))
    interface.validate()
    [prediction] = task["predictions"]
    assert interface.validate_prediction(prediction, return_errors=True) == []
    # An annotator who accepts the prediction gives an answer that is on the scale.
    write_rows("export.jsonl", [{**task, "annotations": [{**prediction, "completed_by": 7}]}])
    found = next(read(Path("export.jsonl")))
    [answer] = [*found.labels, *found.annotations]
    assert rubric.scale.holds(answer_to(rubric, answer.value, "helpful")) and answer.annotator == "7"


def test_argilla_accepts_its_records(rubric: Question) -> None:
    argilla = pytest.importorskip("argilla", reason="argilla is not installed")
    [record], counts = written("argilla", code=5)
    read_back = argilla.Record.from_dict(record)
    assert read_back.id == "c1" and read_back.suggestions["helpful"].value == record["suggestions"]["helpful"]["value"]
    options = re.search(r"(?:values|labels)=(\[.*?\])", counts["hint"])
    assert options is None or record["suggestions"]["helpful"]["value"] in ast.literal_eval(options[1])


def test_predictions_without_conversations_write_no_file_and_name_the_next_step(folder: Path) -> None:
    write("accord.yaml", "push: {}\n")
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    chats = write_rows("chats.jsonl", [{"id": "c1", "messages": messages}])
    command = ["push", write_scores("scores.jsonl", [score("c1")]), "--to", "label-studio", "--out", "tasks.json"]
    said = accord(*command, code=5)
    assert "0 predictions of 1 row; tasks.json was not written" in said and "--from FILE" in said
    assert "some scores were not written, each with its reason" in said
    assert not Path("tasks.json").exists()
    assert "1 prediction of 1 row in tasks.json" in accord(*command, "--from", chats)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "label-studio"], "--out names the file"),
        (["--to", "phoenix", "--out", "x.json"], "--out names the file"),
        (["--to", "argilla", "--to", "phoenix", "--out", "x.json"], "leave out other hosts"),
        (["--to", "argilla", "--plan", "--out", "x.json"], "leave out other hosts and --plan"),
    ],
)
def test_options_that_do_not_suit_a_tool_are_refused(folder: Path, arguments: list[str], said: str) -> None:
    write("accord.yaml", "push: {}\n")
    assert said in refused("push", write_scores("scores.jsonl", [score("s1")]), *arguments)
