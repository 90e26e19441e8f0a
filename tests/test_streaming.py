"""Streamed replies: the wire and its faults, the budget, the embedded model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tiny_models import write_tiny_gguf

from accord.edges import BudgetReached, ModelError
from accord.embedded.catalogue import pull
from accord.embedded.chat import EmbeddedChat
from accord.embedded.language_model import (
    LanguageModel,
    open_language_model,
)
from accord.models import (
    Budget,
    CallFailed,
    Caps,
    ChatMessage,
    ClientOptions,
    Prompt,
    Reply,
    ScriptedModel,
    StreamingClient,
    open_streaming,
    stream_reply,
)
from accord.models.requests.wrappers import Limit
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import (
    Wire,
    spoken,
)

ASKED = Prompt((ChatMessage("user", "Hello?"),), max_tokens=50)


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no key is needed here")


def heard(server: ChatServer, attempts: int = 1, caps: Caps | None = None, streams: bool = True) -> tuple[Any, Budget]:
    """Return the pieces of a reply, the failure after them, and the spent tokens."""
    terms = ClientOptions(attempts=attempts, budget=Budget(caps or Caps(), {}))

    async def run() -> list[Any]:
        chat, found = open_streaming("m1", server.url, terms, streams), list[Any]()
        try:
            async with aclosing(chat.stream(ASKED)) as pieces:
                async for piece in pieces:
                    found.append(piece)
        except (CallFailed, ModelError, BudgetReached) as error:
            found.append(error)
        finally:
            await chat.close()
        return found

    found = asyncio.run(run())
    assert not terms.budget._reserved.total, "nothing stays set aside"
    return found, terms.budget


def test_reply_arrives_in_pieces_with_usage() -> None:
    with ChatServer(lambda _: spoken(["Hel", "lo ", "wörld"], usage=(10, 7))) as server:
        found, budget = heard(server)
    assert found[:-1] == ["Hel", "lo ", "wörld"] and found[-1].text == "Hello wörld"
    assert (budget.spent.input_tokens, budget.spent.output_tokens, budget.requests) == (10, 7, 1)
    [asked] = server.requests
    assert asked["stream"] is True and asked["stream_options"] == {"include_usage": True}


def test_reply_without_streaming_is_one_piece() -> None:
    with ChatServer(lambda _: completion("Hello.")) as server:
        for streams in (True, False):
            found, _ = heard(server, streams=streams)
            assert [found[0], found[1].text] == ["Hello.", "Hello."]
    assert [request.get("stream") for request in server.requests] == [True, None]


EVENTS = {"Content-Type": "text/event-stream"}


def cut(request: Mapping[str, Any]) -> Wire:
    return Wire(b"", headers=EVENTS, parts=spoken(["Some of it "], ends=False).parts, close_after=0)


@pytest.mark.parametrize(
    ("respond", "came", "reason"),
    [
        (cut, ["Some of it "], "cut off"),
        (lambda _: spoken(["Some "], ends=False), ["Some "], "cut off"),
        (lambda _: spoken([], ends=False), [], "unreachable"),
        (lambda _: Wire(b"data: {no\n\n", headers=EVENTS), [], "malformed"),
        (lambda _: Wire(b"data: 7\n\n", headers=EVENTS), [], "malformed"),
        (lambda _: Wire(b'data: {"choices": 3}\n\n', headers=EVENTS), [], "malformed"),
        (lambda _: Wire(b'data: {"error": {"message": "no\\nroom"}}\n\n', headers=EVENTS), [], "server"),
        (lambda _: Wire(b'data: {"choices": [{"delta": {"refusal": "No."}}]}\n\n', headers=EVENTS), [], "refused"),
        (
            lambda _: Wire(b'data: {"choices": [{"delta": {}, "finish_reason": "content_filter"}]}\n\n', headers=EVENTS),
            [], "filtered",
        ),
        (lambda _: Wire(b"data: " + b"x" * 1_100_000, headers=EVENTS), [], "too large"),
        (lambda _: Wire({"error": {}}, 429, {"Retry-After": "1000"}), [], "rate-limited"),
        (lambda _: Wire({"error": {}}, 503), [], "server"),
        (lambda _: Wire({"error": {"code": "context_length_exceeded"}}, 400), [], "too long"),
    ],
)  # fmt: skip
def test_fault_has_a_reason_and_keeps_received_pieces(respond: Any, came: list[str], reason: str) -> None:
    with ChatServer(respond) as server:
        found, _ = heard(server)
    assert found[:-1] == came
    assert isinstance(found[-1], CallFailed) and found[-1].failure.reason == reason
    assert "\n" not in str(found[-1])


def test_wrong_key_and_redirect_are_model_errors() -> None:
    for wire in (Wire({"error": {}}, 401), Wire(b"", 307, {"Location": "http://127.0.0.2:9/v1/chat/completions"})):
        with ChatServer(lambda _, wire=wire: wire) as server:  # type: ignore[misc]
            found, _ = heard(server)
        assert isinstance(found[-1], ModelError), found


def test_stream_is_retried_until_the_first_piece() -> None:
    with ChatServer(
        lambda _: Wire({"error": {}}, 503, {"Retry-After": "0"}) if len(server.requests) < 3 else spoken(["At last."])
    ) as server:
        found, budget = heard(server, attempts=5)
    assert found[0] == "At last." and budget.requests == 3
    with ChatServer(cut) as server:
        found, budget = heard(server, attempts=5)
    assert len(server.requests) == 1, "a reply that has begun is not requested again"
    assert budget.spent.output_tokens > 0 and budget.spent.input_tokens > 0, "received pieces are counted"


def test_budget_stops_a_stream_before_sending() -> None:
    with ChatServer(lambda _: spoken(["Hello"])) as server:
        found, _ = heard(server, caps=Caps(tokens=20))
        assert isinstance(found[0], BudgetReached) and not server.requests


def test_closed_stream_ends_and_counts_received_pieces() -> None:
    gone = threading.Event()

    def pieces() -> Iterator[str]:
        yield "One "
        gone.wait(60)
        yield "two"

    terms = ClientOptions(attempts=1)

    async def run() -> None:
        chat = open_streaming("m1", server.url, terms)
        async with aclosing(chat.stream(ASKED)) as found:
            assert await anext(found) == "One "
        await chat.close()

    with ChatServer(lambda _: spoken(pieces())) as server:
        asyncio.run(run())
        gone.set()
    assert terms.budget.spent.output_tokens == 2 and terms.budget.spent.input_tokens > 2
    assert not terms.limit(server.url + "/").running, "and its place is free"


def test_model_without_streaming_is_asked() -> None:
    class Mute:
        name = "mute"

        async def ask(self, prompt: Prompt) -> Reply:
            return Reply("All at once.", "mute")

        async def close(self) -> None:
            """Do nothing."""

    async def run(model: Any) -> list[Any]:
        return [piece async for piece in stream_reply(model, ASKED)]

    assert asyncio.run(run(Mute())) == ["All at once.", Reply("All at once.", "mute")]
    said = asyncio.run(run(ScriptedModel(["One by one."])))
    assert said[:-1] == ["One ", "by ", "one."]
    limited = StreamingClient(Mute(), Limit(1), Budget(Caps(), {}), 1)  # type: ignore[arg-type]

    async def wrapped() -> list[Any]:
        return [piece async for piece in limited.stream(ASKED)]

    assert asyncio.run(wrapped())[0] == "All at once."


@pytest.fixture
def tiny_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LanguageModel]:
    monkeypatch.setenv("ACCORD_MODELS", str(tmp_path / "models"))
    pull("tiny", str(write_tiny_gguf(tmp_path / "tiny.gguf")))
    yield open_language_model("tiny")
    open_language_model.cache_clear()


def test_embedded_model_streams_and_stops(tiny_model: LanguageModel) -> None:
    chat = EmbeddedChat(tiny_model)
    prompt = Prompt((ChatMessage("user", "Hi"),), max_tokens=40, temperature=1.0, repeat=3)

    async def run(most: int) -> list[Any]:
        found: list[Any] = []
        async with aclosing(chat.stream(prompt)) as pieces:
            async for piece in pieces:
                found.append(piece)
                if len(found) >= most:
                    break
        return found

    async def asked() -> Reply:
        return await chat.ask(prompt)

    whole = asyncio.run(run(1000))
    reply = whole[-1]
    assert isinstance(reply, Reply) and reply == asyncio.run(asked()), "the same reply, however it is taken"
    assert "".join(whole[:-1]) == reply.text and len(whole) > 3
    assert asyncio.run(run(2)) == whole[:2]
