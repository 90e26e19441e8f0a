"""Keys never come back out: an endpoint that repeats them, whole or in part, shows nothing at any edge."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from misbehaving_endpoint import answer_any
from small_sample import sources

import accord
from accord import Store
from accord.edges import AccordError, redact, redact_message, register_secret, register_url_secrets, secrets
from accord.models import (
    CallFailed,
    ChatMessage,
    ClientOptions,
    Prompt,
    wait,
)
from accord.models.factory import open_chat
from accord.models.requests.client import ChatCompletions
from accord.models.requests.wrappers import reply_key
from accord.store import StoreError
from accord.testing import ChatServer
from accord.testing.server import (
    Batches,
    Wire,
)

KEY = "sk-proj-Zq81vLr5TwXy77bn"
PROMPT = Prompt((ChatMessage("user", "hello"),))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """API key with no part in any other text; registrations are undone after each test."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(secrets, "_registered", set())


def is_clean(text: str) -> bool:
    return not any(KEY[at : at + 8] in text for at in range(len(KEY) - 7))


def test_secrets_and_their_parts_are_redacted_and_nothing_else() -> None:
    assert redact(f"key {KEY}!") == "key [secret]!"
    assert redact(f"{KEY[:10]}...{KEY[-9:]}") == "[secret]...[secret]"
    assert redact(f"{KEY[3:12]}{KEY[3:12]}") == "[secret]", "parts that touch are one"
    assert redact(f"seven letters {KEY[:7]} stay") == f"seven letters {KEY[:7]} stay"
    assert redact("nothing of it") == "nothing of it"


def test_secrets_of_a_url_are_registered() -> None:
    register_url_secrets("https://ada:love%21lace@one.test/v1?api-key=abcdefghij&api-version=2024-02-01")
    register_url_secrets("https://tokentoken@one.test/v1")
    register_url_secrets("https://[::1")
    register_secret("short")
    for text in ("love%21lace", "love!lace", "abcdefghij", "tokentoken"):
        assert redact(text) == "[secret]"
    for text in ("2024-02-01", "short", "ada"):
        assert redact(text) == text


def test_messages_redact_credentials() -> None:
    shown = redact_message("postgresql://ada:pw@host/db?sslmode=no&password=pw failed: password=pw, api_key=pw")
    assert shown.count("[secret]") == 4 and "pw" not in shown.replace("password", "") and "sslmode=no" in shown
    assert str(AccordError(f"{KEY} at http://pw@host/x")) == "[secret] at http://[secret]@host/x"


@pytest.mark.parametrize("part", [KEY, KEY[:12], KEY[-8:]])
@pytest.mark.attack
def test_key_repeated_by_an_endpoint_is_redacted(part: str, memory: Store) -> None:
    body = json.loads(json.dumps(answer_any({"_path": "/chat/completions", "messages": [{"content": "x"}]}).body))
    body["model"] = f"m1 {part}"
    body["choices"][0]["message"]["content"] = f"my key is {part}"
    refusal = json.loads(json.dumps(body))
    refusal["choices"][0]["message"]["refusal"] = f"no: {part}"
    error = {"error": {"message": part, "code": part, "type": part}}
    with ChatServer(lambda request: Wire(body)) as server:
        model = open_chat("m1", server.url, memory, ClientOptions(attempts=1))
        reply = wait(model.ask(PROMPT))
        kept = memory.reply(reply_key(f"{server.url}/", "m1", PROMPT))
        wait(model.close())
    assert reply.model == "m1 [secret]" and reply.text == "my key is [secret]"
    assert kept is not None and is_clean(kept)
    for wire in (Wire(refusal), *(Wire(error, status) for status in (400, 401, 404, 422, 429, 500))):
        with ChatServer(lambda request, wire=wire: wire) as server:
            wires = ChatCompletions("m1", server.url)
            with pytest.raises(AccordError) as caught:
                wait(wires.ask(PROMPT))
            wait(wires.close())
            assert is_clean(str(caught.value))
            assert not isinstance(caught.value, CallFailed) or is_clean(str(caught.value.failure))


@pytest.mark.attack
def test_models_check_shows_no_key() -> None:
    def repeating(request: Mapping[str, Any]) -> Wire:
        if request["_path"].endswith("/chat/completions"):
            return Wire({**answer_any(request).body, "model": KEY})  # type: ignore[dict-item]
        return Wire({"error": {"message": KEY, "code": KEY}}, 400)

    with ChatServer(repeating) as server:
        for more in ([], ["--json"]):
            result = invoke("models", "check", "m1", "--base-url", server.url, *more)
            assert "[secret]" in result.stdout
            assert is_clean(result.stdout + result.stderr)


@pytest.mark.parametrize("url", ["postgresql://ada:{pw}@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db?password={pw}"])
@pytest.mark.parametrize("password", ["pw1", KEY])
@pytest.mark.attack
def test_errors_do_not_contain_store_passwords(url: str, password: str, tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(StoreError) as caught:
        Store(url.format(pw=password))
    assert password not in str(caught.value) and "127.0.0.1" in str(caught.value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_STORE", url.format(pw=password))
    result = invoke("report", code=1)
    assert password not in result.stdout + result.stderr


def test_secrets_of_the_configuration_are_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from accord.project import load_config

    monkeypatch.setenv("TEAM_WEBHOOK", "https://hooks.test/services/T0/abcdefgh")
    Path(tmp_path, "accord.yaml").write_text("monitoring: {webhook: '${TEAM_WEBHOOK}'}\n", encoding="utf-8")
    load_config(tmp_path / "accord.yaml")
    assert redact("posted to services/T0/abcdefgh") == "posted to [secret]"


class RepeatingBatches(Batches):
    """A batch wire that repeats the key and a terminal escape in one place of its answers."""

    def __init__(self, place: str) -> None:
        super().__init__(answer_any, looks=0)
        self.place, self.said = place, f"{KEY}\x1b[31m"

    def _looked(self, name: str) -> Wire:
        body = dict(super()._looked(name).body)  # type: ignore[arg-type]
        if self.place == "message":
            body |= {
                "status": "failed",
                "errors": {"object": "list", "data": [{"code": self.said, "message": self.said}]},
            }
        elif self.place in {"id", "status", "output_file_id"}:
            body[self.place] = KEY
        return Wire(body)

    def _answer(self, batch: dict[str, Any]) -> None:
        super()._answer(batch)
        name = batch["output_file_id"]
        lines = [json.loads(line) for line in self.files[name].splitlines()]
        for line in lines:
            if self.place == "line":
                line.update(response=None, error={"code": KEY, "message": self.said})
            elif self.place == "body":
                line["response"] = {"status_code": 400, "body": {"error": {"code": KEY, "message": self.said}}}
            elif self.place == "reply":
                line["response"]["body"]["model"] = self.said
                line["response"]["body"]["choices"][0]["message"]["content"] = self.said
                top = line["response"]["body"]["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
                top[-1]["token"] = KEY
            elif self.place == "refusal":
                line["response"]["body"]["choices"][0]["message"]["refusal"] = self.said
        self.files[name] = "\n".join(map(json.dumps, lines)).encode()


@pytest.mark.parametrize(
    "place", ["message", "id", "status", "output_file_id", "line", "body", "reply", "refusal"]
)  # fmt: skip
@pytest.mark.attack
def test_batch_replies_do_not_store_the_key(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ChatServer(RepeatingBatches(place)) as server:
        settings = f"models: {{judge: {{mode: logprobs, model: m1, base_url: '{server.url}', attempts: 1}}}}\n"
        Path("accord.yaml").write_text(settings, encoding="utf-8")
        for command in (["import", *map(str, sources())], *[["judge", "--batch", "--limit", "2"]] * 3):
            result = invoke(*command, code=None)
            assert is_clean(result.output) and "\x1b" not in result.output
    invoke("store", "backup", "copy.db")
    for path in tmp_path.rglob("*"):
        content = path.read_bytes().decode(errors="replace") if path.is_file() else ""
        assert is_clean(content), path
    with closing(Store("sqlite:///accord.db")) as store:
        assert "\\u001b" not in json.dumps([run["results"] for run in store.runs()])


# --- nothing bypasses the edge modules ------------------------------------------------------------------------------------

NETWORK_CLIENTS = ("openai", "httpx", "httpx2", "urllib.request", "fsspec", "requests", "aiohttp")
"""Packages whose exceptions and responses contain text from other machines."""
EDGES = {
    "models/requests/client.py": "`failures` converts the HTTP library's exceptions",
    "models/requests/web_request.py": "scores for hosts, webhooks, downloads; errors show status and kind only",
    "hosts/otel.py": "a session for the exporter of OpenTelemetry; its errors are not shown",
    "formats/files/object_storage.py": "object stores; errors become BadInput",
}
RAW = re.compile(r"\b(?:response|error|exc)\.(?:body|text|content|message|reason_phrase|headers|request|args)\b")
READ_RAW = {
    ("models/requests/client.py", "response.content"): "of an error: redacted by `_reason_in` and `error_code`",
    ("models/requests/client.py", "response.request"): "the client's own request",
    ("models/requests/client.py", "response.headers"): "parsed, or shown by `shorten` and `_origin` only",
    ("models/requests/web_request.py", "response.headers"): "returned; callers parse `Retry-After`",
}
SOURCE = Path(accord.__file__).parent


def source_files() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("testing/"):
            yield name, path.read_text(encoding="utf-8")


def imported_by(code: str) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.repository
def test_only_edge_modules_import_network_clients() -> None:
    importing = {name for name, code in source_files() if any(
        module == each or module.startswith(f"{each}.") for module in imported_by(code) for each in NETWORK_CLIENTS)}  # fmt: skip
    assert importing == set(EDGES)


def test_only_edge_modules_read_raw_provider_texts() -> None:
    read = {(name, found[0]) for name, code in source_files() if name.startswith(("models/", "formats/files/object_storage.py"))
            for found in RAW.finditer(code)}  # fmt: skip
    assert read <= set(READ_RAW), "redact provider texts first, then list the place in READ_RAW"
