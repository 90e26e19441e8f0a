"""Redaction on every path to a model and into a store, with servers whose host name is not one of loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

import pytest
from commands import accord, write_rows
from live_evaluator import learned, support_chats
from misbehaving_endpoint import answer_any
from served_workbench import open_workbench
from serving import TOKEN, serving
from test_embedders import serve as embed
from test_workbench_talk import Talker
from test_workbench_talk import project as talk_project
from waiting import PATIENCE

from accord import Project
from accord import open as open_project
from accord.edges import is_local_address
from accord.models import open_embedder, run
from accord.project.config_sections import PrivacyConfig
from accord.store import Chats
from accord.testing import ChatServer, completion
from accord.testing.server import Batches, Wire, spoken
from accord.values import Sample

CANARIES = ("kanarie.vogel@birds.example", "+49 30 5550199", "4111 1111 1111 1111", "sk-canary0123456789abcdef")
EVERY = " ".join(CANARIES)
PLACEHOLDERS = "<EMAIL_1> <PHONE_1> <CARD_1> <SECRET_1>"
KINDS = ["email", "phone", "card", "secret"]


def other_machine(url: str) -> str:
    """Return a URL of a loopback server by a name that does not say that it is one, as a gateway would have."""
    port = urlsplit(url).port
    for name in (socket.gethostname(), "127.1"):
        try:
            reached = {each[4][0] for each in socket.getaddrinfo(name, port, socket.AF_INET)}
        except OSError:
            continue
        if reached == {"127.0.0.1"} and not is_local_address(f"http://{name}:{port}/v1"):
            return f"http://{name}:{port}/v1"
    pytest.skip("no name of this machine leads to 127.0.0.1, so no server here counts as another machine")


def quoting(request: Mapping[str, Any]) -> Wire:
    """Return an annotation whose quote is the conversation's personal data as the model sees them."""
    text = json.dumps(request, ensure_ascii=False)
    if request["_path"].endswith("/embeddings"):
        return embed(request)
    if "issues" in json.dumps(request.get("response_format", "")):
        quote = next((each for each in (PLACEHOLDERS, EVERY) if each in text), "")
        found = [{"type": "Coherence", "comment": f"It repeats {quote}.", "quote": quote}] if quote else []
        return completion(json.dumps({"issues": found, "comment": f"Names {quote}.", "score": 3}))
    return answer_any(request)


def settings(folder: Path, url: str, when: str) -> dict[str, Any]:
    model = {"model": "m1", "base_url": url}
    return {
        "store": f"sqlite:///{folder}/accord.db", "metrics": ["cosine-user@endpoint:small"],
        "models": {"judge": {**model, "mode": "sampling", "samples": 2}, "finder": model, "likelihood": model},
        "privacy": {"redact": KINDS, "when": when},
    }  # fmt: skip


def chats(count: int = 2) -> list[dict[str, Any]]:
    return [
        {
            "id": f"c{place}", "documents": [{"text": f"File {place} of {EVERY}."}],
            "messages": [
                {"role": "user", "content": f"My data {place}: {EVERY}, please keep them."},
                {"role": "assistant", "content": f"I have noted {place}: {EVERY}, thanks."},
            ],
            "ratings": [{"annotator": "p1", "question": "Q0", "value": 1 + place, "level": "dialogue"}],
        }
        for place in range(count)
    ]  # fmt: skip


def holding(folder: Path) -> list[str]:
    """Return the files of a folder, of any depth, that hold a canary."""
    marks = [each.encode() for each in CANARIES]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(folder)) for path in files if any(mark in path.read_bytes() for mark in marks))


def received(server: ChatServer) -> list[str]:
    """Return the canaries that a server received, in JSON or in a form."""
    assert server.requests, "the test sends nothing"
    texts = [repr(dict(request)) + json.dumps(request, ensure_ascii=False, default=repr) for request in server.requests]
    return [each for each in CANARIES if any(each in text for text in texts)]


def judge(folder: Path) -> None:
    accord("judge")


def judge_in_batches(folder: Path) -> None:
    for code in (5, 5, 0):
        accord("judge", "--batch", code=code)


def find_issues(folder: Path) -> None:
    accord("judge", "--source", "issues", "--all")
    with open_project(folder / "accord.yaml") as project:
        issues = [each for each in project.store.annotations() if each.quote]
        turns = {each.id: each.turns for each in project.store.conversations()}
        placed = [
            turns[each.target.conversation][each.target.turn or 0].content[slice(*each.span or (0, 0))]
            for each in issues
        ]
    assert issues and placed == [each.quote for each in issues], "a quote is found again in the stored turn"


def measure(*sources: str) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        with open_project(folder / "accord.yaml") as project:
            samples = [Sample(each) for each in project.store.conversations()]
            for name in sources:
                table = run(project.source(name).measure(samples), project.models)
                assert table.present.any() and all("redacted" in column.signature for column in table.columns)

    return work


WORK: dict[str, Callable[[Path], None]] = {
    "judge": judge, "batch": judge_in_batches, "issues": find_issues, "embedder": measure("metrics"),
    "likelihood": measure("likelihood"),
}  # fmt: skip


@pytest.mark.parametrize("when", ["send", "import"])
@pytest.mark.parametrize("name", WORK)
def test_a_server_of_another_machine_receives_no_canary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_key: None, name: str, when: str
) -> None:
    folder, inputs = tmp_path / "project", tmp_path / "inputs"
    folder.mkdir()
    inputs.mkdir()
    monkeypatch.chdir(folder)
    open_embedder.cache_clear()  # its vectors come from the endpoint of another test
    with ChatServer(Batches(quoting)) as server:
        url = other_machine(server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("ACCORD_TRUST", "1")
        Path("accord.yaml").write_text(json.dumps(settings(folder, url, when)), encoding="utf-8")
        accord("import", write_rows(str(inputs / "chats.jsonl"), chats()))
        WORK[name](folder)
        assert received(server) == []
    held = holding(folder)
    assert held == [] if when == "import" else any(each.startswith("accord.db") for each in held)


def test_a_server_at_a_loopback_address_receives_the_text_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_key: None
) -> None:
    monkeypatch.chdir(tmp_path)
    with ChatServer(quoting) as server:
        Path("accord.yaml").write_text(json.dumps(settings(tmp_path, server.url, "send")), encoding="utf-8")
        accord("import", write_rows("chats.jsonl", chats()))
        judge(tmp_path)
        assert received(server) == [*CANARIES], "the test of the canaries can fail"


@pytest.mark.parametrize("when", ["send", "import"])
def test_chats_of_the_workbench_stream_placeholders_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_key: None, when: str
) -> None:
    monkeypatch.setenv("ACCORD_TRUST", "1")

    def repeat(request: Mapping[str, Any]) -> Wire:
        text = request["messages"][-1]["content"]
        return spoken([text[place : place + 3] for place in range(0, len(text), 3)])

    with ChatServer(repeat) as server:
        made = talk_project(tmp_path, other_machine(server.url))
        made = Project(made.config.model_copy(update={"privacy": PrivacyConfig(redact=tuple(KINDS), when=when)}))
        with open_workbench(made, people=()) as bench:
            browser = Talker(bench.port)
            browser.say(browser.begin(), f"I am {EVERY}.")
            browser.settled()
            [talk] = Chats(bench.studies).all_chats("chat")
        assert received(server) == []
        said = [message.content for message in talk.messages]
    expected = f"I am {PLACEHOLDERS if when == 'import' else EVERY}."
    assert expected in said[0] and expected in said[-1]


@pytest.mark.parametrize("command", ["follow", "serve"])
def test_live_messages_leave_no_canary_in_store_rows_and_monitoring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    folder, inputs = tmp_path / "project", tmp_path / "inputs"
    folder.mkdir()
    inputs.mkdir()
    monkeypatch.chdir(folder)
    learned(support_chats()[:12]).save(folder / "evaluators" / "live")
    own = {"store": "sqlite:///accord.db", "mart": "mart", "evaluator": "live", "privacy": {"redact": KINDS}}
    Path("accord.yaml").write_text(json.dumps(own), encoding="utf-8")
    rows = [
        {"conversation_id": each["id"], "documents": [d["text"] for d in each["documents"]], **message}
        for each in chats()
        for message in each["messages"]
    ]
    if command == "follow":
        accord("follow", write_rows(str(inputs / "log.jsonl"), rows), "--out", "rows.jsonl", "--once")
    else:
        with serving(folder, "--out", "rows.jsonl") as server:
            for row in rows:
                sent = json.dumps({"conversation": row.pop("conversation_id"), **row}).encode()
                head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
                address = f"http://127.0.0.1:{server.port}/v1/scores"
                with urlopen(UrlRequest(address, sent, head), timeout=PATIENCE) as answer:
                    assert answer.status == 200
    scored = [
        row
        for row in map(json.loads, Path("rows.jsonl").read_text(encoding="utf-8").splitlines())
        if row["status"] == "scored"
    ]
    assert len(scored) == 2 and (folder / "mart").exists() and holding(folder) == []


def test_scoring_a_file_writes_no_canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, inputs = tmp_path / "project", tmp_path / "inputs"
    folder.mkdir()
    inputs.mkdir()
    monkeypatch.chdir(folder)
    learned(support_chats()[:12]).save(folder / "evaluators" / "live")
    own = {"store": "sqlite:///accord.db", "mart": "mart", "evaluator": "live", "privacy": {"redact": KINDS}}
    Path("accord.yaml").write_text(json.dumps(own), encoding="utf-8")
    source = write_rows(str(inputs / "chats.jsonl"), chats())
    for out in ("scores.jsonl", "scores.csv"):
        accord("score", source, "--out", out, "--evaluator", "evaluators/live")
    assert holding(folder) == [] and len(Path("scores.jsonl").read_text(encoding="utf-8").splitlines()) >= 2
