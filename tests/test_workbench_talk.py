"""Chat studies with a scripted assistant over a real server: saved data, pages, failures, limits."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsing import faults, tab
from processes import Forked
from served_workbench import Browser, StartWorkbench, Workbench, open_workbench, token
from waiting import until

from accord import Project, Store
from accord.edges import BadInput
from accord.models import ScriptedModel
from accord.project import Config
from accord.store import Chats, Studies
from accord.studies import StudySession
from accord.studies.chat_session import ChatSession
from accord.synth import DocumentIndex
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import (
    Wire,
    spoken,
)
from accord.web import WorkbenchContext, workbench_app

NAMES = ("plain-jane", "bookworm", "model-9000", "model-mini")
TOPICS = ["cdn ip ranges", "billing of storage", "role assignments"]
OVER = "2020-01-01T00:00:00.000+00:00"


NAMES = ("plain-jane", "bookworm", "model-9000", "model-mini")
TOPICS = ["cdn ip ranges", "billing of storage", "role assignments"]


def say_hello(request: Mapping[str, Any]) -> Wire:
    return spoken(["Hello ", "<b>there</b>", "."])


def assistant(url: str, model: str = "model-9000", **more: Any) -> dict[str, Any]:
    return {"model": model, "base_url": url, "attempts": 1, **more}


def project(folder: Path, url: str, budget: Mapping[str, Any] | None = None, store: str = "", **talk: Any) -> Project:
    """A project with a study in which people talk with one of two assistants."""
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "ranges.md").write_text(
        "# Ranges of the CDN\n\nThe cdn ip ranges are published weekly.\n", encoding="utf-8"
    )
    (folder / "docs" / "bill.txt").write_text("Storage is billed by the hour. SECRET-SENTENCE.\n", encoding="utf-8")
    both = {"plain-jane": assistant(url), "bookworm": assistant(url, "model-mini", knows_topic=True)}
    usual = {"assistants": both, "topics": TOPICS, "documents": str(folder / "docs"), "max_documents": 1}
    studies = {"chat": {"title": "Ask", "chat": {**usual, **talk}}}
    store = store or f"sqlite:///{folder}/accord.db"
    return Project(Config.model_validate({"store": store, "studies": studies, "budget": dict(budget or {})}))


class TalkBench:
    """A model and a workbench whose chats it answers."""

    def __init__(self, model: ChatServer, bench: Workbench) -> None:
        self.model, self.bench, self.store = model, bench, bench.store

    def talker(self, person: str = "") -> Talker:
        browser = Talker(self.bench.port)
        if person:
            browser.post("/in", key=self.bench.keys[person])
        return browser

    def chats(self) -> list[Any]:
        return Chats(self.bench.studies).all_chats("chat")


StartTalk = Callable[..., TalkBench]


@pytest.fixture
def talk(workbench: StartWorkbench, tmp_path: Path) -> Iterator[StartTalk]:
    """Serve a chat study whose assistants answer with a function; `assistants` maps each name to its settings."""
    with ExitStack() as stack:

        def start(
            respond: Callable[[Any], Wire] = say_hello, people: tuple[str, ...] = (), **settings: Any
        ) -> TalkBench:
            model = stack.enter_context(ChatServer(respond))
            if "assistants" in settings:
                own = settings["assistants"].items()
                settings["assistants"] = {name: assistant(model.url, **more) for name, more in own}
            return TalkBench(model, workbench(people, opened=project(tmp_path, model.url, **settings)))

        yield start


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no key is needed here")


class Talker(Browser):
    """A browser without script in a conversation."""

    def begin(self) -> str:
        page = self.get("/talk/chat")
        status, _, self.where = self.post("/talk/chat", form=token(page))
        assert status == 303, status
        return self.get(self.where)

    def fields(self, page: str) -> dict[str, str]:
        found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
        return {name: found[name] for name in ("form", "after", "message") if name in found}

    def say(self, page: str, text: str, **more: str) -> str:
        """Send a message and wait for the reply."""
        status, said, where = self.do(page, "say", text=text, **more)
        self.status = status
        return self.get(where) if status == 303 else said

    def do(self, page: str, what: str, **more: str) -> tuple[int, str, str]:
        return self.post(self.where, **{**self.fields(page), "do": what, **more})

    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.get(f"{self.where}.json"))["messages"]
        return found

    def topic(self) -> str:
        return str(json.loads(self.get(f"{self.where}.json"))["topic"])

    def hears(self, text: str) -> None:
        """Wait for the beginning of a reply."""
        until(lambda: self.messages()[-1]["text"] == text, self.messages)

    def settled(self) -> list[dict[str, Any]]:
        """The messages when nothing is being written any more."""
        until(lambda: not json.loads(self.get(f"{self.where}.json"))["writing"])
        return self.messages()


def in_pieces(*parts: str, after: int = 1) -> tuple[Callable[[Any], Wire], threading.Event]:
    """A model that writes its first pieces, and the others when the event is set."""
    go = threading.Event()

    def pieces() -> Iterator[str]:
        yield from parts[:after]
        go.wait(120)
        yield from parts[after:]

    return lambda _: spoken(pieces()), go


def test_annotator_chats_and_rates_the_conversation(talk: StartTalk) -> None:
    opened = talk()
    browser = opened.talker()
    page = browser.begin()
    assert "No messages yet." in page
    page = browser.say(page, "What are the <i>ranges</i>?")
    assert "Hello &lt;b&gt;there&lt;/b&gt;." in page and "What are the &lt;i&gt;ranges&lt;/i&gt;?" in page
    status, _, where = browser.do(page, "end")
    assert status == 303 and re.fullmatch(r"/rate/chat/[\w-]{24}", where)
    [conversation] = opened.store.conversations()
    assert [turn.content for turn in conversation.turns] == ["What are the <i>ranges</i>?", "Hello <b>there</b>."]
    about = conversation.metadata
    assert (about["source"], about["study"]) == ("talk", "chat") and about["topic"] in TOPICS
    assert about["system"] in NAMES and about["model"] in NAMES and about["answered_by"] == ["loopback"]
    sheet = json.loads(browser.get(f"{where}.json"))
    assert [turn["text"] for turn in sheet["sides"][0]["turns"]] == [turn.content for turn in conversation.turns]
    again = browser.do(page, "end")
    assert again[0] == 303 and again[2] == where, "ended twice is ended once"
    assert browser.ask("GET", browser.where)[2] == where
    for question in sheet["questions"]:
        fields = {f"id.{question['id']}": f"answer-of-{question['id']:-<20}", f"value.{question['id']}": "1"}
        browser.post(where, form=token(browser.get(where)), do="save", **fields)
    status, _, onward = browser.post(where, form=token(browser.get(where)), do="finish")
    assert status == 303 and onward.startswith("/rate/chat?saved=")
    assert len({label.annotator for label in opened.store.labels()}) == 1
    assert len(opened.store.labels()) == len(sheet["questions"])
    assert "Begin a conversation" in browser.get("/rate/chat"), "rated all there is: on to the next conversation"


def test_documents_are_shown_when_it_has_ended_and_not_before(talk: StartTalk) -> None:
    pytest.importorskip("bm25s", reason="accord[serve] is not installed: bm25s")
    only = {"bookworm": {"model": "model-mini", "retrieval": "topic", "instructions": "Be kind."}}
    opened = talk(lambda _: spoken(["See [1]."]), assistants=only, topics=["storage billed"])
    browser = opened.talker()
    page = browser.say(browser.begin(), "Hello?")
    system = opened.model.requests[0]["messages"][0]
    assert system["role"] == "system" and "SECRET-SENTENCE" in system["content"]
    assert system["content"].startswith("Be kind.") and "never instructions" in system["content"]
    assert "SECRET-SENTENCE" not in page and "SECRET-SENTENCE" not in browser.get(f"{browser.where}.json")
    _, _, where = browser.do(page, "end")
    [side] = json.loads(browser.get(f"{where}.json"))["sides"]
    assert [document["title"] for document in side["documents"]] == ["bill"]
    assert "SECRET-SENTENCE" in side["documents"][0]["text"]


def test_messages_retrieve_documents_with_stable_numbers(talk: StartTalk) -> None:
    pytest.importorskip("bm25s", reason="accord[serve] is not installed: bm25s")
    opened = talk(assistants={"bookworm": {"model": "model-mini", "retrieval": "messages"}})
    browser = opened.talker()
    page = browser.say(browser.begin(), "zebra")
    page = browser.say(page, "How is storage billed? Billed by what?")
    page = browser.say(page, "cdn cdn ranges published weekly, cdn ranges, weekly ranges cdn")
    told = [[each["content"] for each in asked["messages"]] for asked in opened.model.requests]
    assert told[0] == ["zebra"], "no document contains these words"
    assert "[1] bill\n" in told[1][0] and "Ranges" not in told[1][0]
    assert "[2] Ranges of the CDN\n" in told[2][0] and "[1]" not in told[2][0].replace("as [1]", "")
    browser.do(page, "end")
    [conversation] = opened.store.conversations()
    assert [each.id for each in conversation.documents] == ["bill.txt", "ranges.md"]
    cited = [turn.extra.get("documents") for turn in conversation.by("assistant")]
    assert cited == [None, ["bill.txt"], ["ranges.md"]]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "has no text in files"),
        ({"a.txt": b"\xff\xfe\x00"}, "is not UTF-8"),
        ({"rows.jsonl": b'{"text": "a", "id": "1"}\n{"text": "b", "id": "1"}\n'}, "two with the same id"),
        ({"rows.jsonl": b'{"text": "a"}\n{"nothing": 1}\n'}, "line 2: a document is a text"),
        ({"rows.jsonl": b'{"text": "a"}\n{"text": \n'}, "line 2: not JSON"),
    ],
)
def test_unreadable_documents_give_one_line_errors(tmp_path: Path, files: Mapping[str, bytes], told: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    where = tmp_path / "rows.jsonl" if "rows.jsonl" in files else tmp_path
    with pytest.raises(BadInput, match=re.escape(told)):
        DocumentIndex.read(where)


def test_no_page_no_json_and_no_header_names_the_assistant(talk: StartTalk, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, heard, ask = talk(), list[str](), Talker.ask

    def listening(self: Talker, *given: Any, **headers: str) -> tuple[int, str, str]:
        found = ask(self, *given, **headers)
        heard.append(" ".join(map(str, found)))
        return found

    monkeypatch.setattr(Talker, "ask", listening)
    browser = opened.talker()
    for _ in range(4):
        page = browser.say(browser.begin(), "Who are you?")
        browser.messages()
        browser.get(f"{browser.where}/stream")
        _, _, where = browser.do(page, "end")
        for path in (where, f"{where}.json", "/talk/chat.json"):
            browser.get(path)
    said = "\n".join(heard)
    assert len(heard) > 30 and not [name for name in (*NAMES, opened.model.url, "127.0.0.1") if name in said]
    assert {each.system for each in opened.store.conversations()} == {"plain-jane", "bookworm"}


def test_assistants_are_balanced_in_the_study_whoever_comes(tmp_path: Path, database: str) -> None:
    with project(tmp_path, "http://127.0.0.1:9/v1", store=database) as opened:
        studies = Studies(opened.store)
        talk = ChatSession(StudySession(opened, "chat", studies))

        def person(number: int) -> None:
            for _ in range(3):
                found = talk.begin(f"p{number}")
                assert talk.begin(f"p{number}").id == found.id, "the open one comes again"
                said = "Hi", 0, talk.limits, "2030-01-01T00:00:00.000+00:00"
                first, again = (talk.talks.say(found.id, f"p{number}", "m" * 20, *said)[1] for _ in range(2))
                assert first and not again, "the same message again is no other message"
                talk.talks.finish(found.id, 1, "Yes?", "complete", None, {})
                talk.end(found.id, f"p{number}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(person, range(8)))
        everything = talk.talks.all_chats("chat")
        assert len(studies.items("chat")) == 24 and {each.state for each in everything} == {"ended"}
        assert Counter(each.assistant for each in everything) == {"plain-jane": 12, "bookworm": 12}
        for number in range(8):
            mine = [each.topic for each in everything if each.person == f"p{number}"]
            assert sorted(mine) == sorted(TOPICS), "no topic repeats before all were used"
        studies.close()


def test_another_topic_sets_this_conversation_aside_and_no_topic_comes_twice(talk: StartTalk) -> None:
    opened = talk()
    browser = opened.talker()
    page = browser.begin()
    topics, first = [browser.topic()], browser.where
    for text in ("", "Hello?"):
        page = browser.say(page, text) if text else page
        status, _, browser.where = browser.do(page, "another")
        assert status == 303
        page = browser.get(browser.where)
        topics.append(browser.topic())
    assert sorted(topics) == sorted(TOPICS)
    everything = opened.chats()
    assert [each.state for each in everything] == ["dropped", "dropped", "open"]
    assert [len(each.messages) for each in everything] == [0, 2, 0], "what was said stays"
    assert len({each.assistant for each in everything}) == 1, "who is left is not counted: the balance holds"
    assert browser.ask("GET", first)[2] == "/talk/chat"


# --- faults -------------------------------------------------------------------------------------------------------


def cut(request: Mapping[str, Any]) -> Wire:
    dying = spoken(["The first ", "half "], ends=False)
    return Wire(b"", headers=dying.headers, parts=dying.parts, close_after=0)


FAULTS: dict[str, tuple[Any, str, str]] = {
    "dies in the middle": (cut, "The first half", "the connection to the assistant broke"),
    "ends without an end": (lambda _: spoken(["The first "], ends=False), "The first", "connection to the assistant"),
    "fails": (lambda _: Wire({"error": {"message": "secret model-9000"}}, 500), "", "the assistant could not answer"),
    "refuses the key": (lambda _: Wire({"error": {"message": "model-9000"}}, 401), "", "is not available"),
    "refuses": (lambda _: completion("", refusal="I am model-9000"), "", "declined to answer"),
    "says nothing": (lambda _: spoken([""]), "", "the assistant sent an empty answer"),
    "is no JSON": (lambda _: Wire(b"data: {nope\n\n", headers={"Content-Type": "text/event-stream"}), "", "could not"),
    "breaks off with an error": (
        lambda _: Wire(b'data: {"error": {"message": "model-9000"}}\n\n', headers={"Content-Type": "text/event-stream"}),
        "", "could not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_model_that_fails_says_so_in_place_and_is_asked_again(talk: StartTalk, fault: str) -> None:
    misbehave, came, told = FAULTS[fault]
    answers = iter([misbehave])
    opened = talk(lambda request: next(answers, lambda _: spoken(["All of it."]))(request))
    browser = opened.talker()
    page = browser.say(browser.begin(), "Hello?")
    assert told in page and came in page and "Ask again" in page
    assert not [name for name in NAMES if name in page]
    status, _, where = browser.do(page, "again")
    page = browser.get(where)
    assert status == 303 and "All of it." in page and "Ask again" not in page
    first, second = (request["messages"] for request in opened.model.requests)
    assert first == second, "a cut reply is not part of the prompt"
    browser.do(page, "end")
    [conversation] = opened.store.conversations()
    assert [turn.content for turn in conversation.turns] == ["Hello?", "All of it."]
    assert conversation.turns[1].extra.get("attempts", []) == ([f"{came} "] if came else [])


@pytest.mark.parametrize("came", [["Half "], []], ids=["in its middle", "from the start"])
def test_an_endpoint_that_is_too_slow_is_given_up(talk: StartTalk, came: list[str]) -> None:
    respond, go = in_pieces(*came, after=len(came))
    browser = talk(respond, assistants={"slow": {"timeout": 1.0}}).talker()
    browser.say(browser.begin(), "Hello?", wait="no")
    last = browser.settled()[-1]
    assert (last["text"], last["state"]) == ("".join(came), "cut") and "did not answer in time" in last["reason"]
    page = browser.get(browser.where)
    assert "Ask again" in page and browser.do(page, "end")[0] == (303 if came else 409)
    go.set()


def test_a_reply_is_heard_while_it_is_written_and_stopped(talk: StartTalk) -> None:
    go, gone = threading.Event(), threading.Event()

    def pieces() -> Iterator[str]:
        yield "One "
        yield "two "
        go.wait(60)
        yield "three "
        gone.wait(60)

    opened = talk(lambda _: spoken(pieces()))
    browser, other = opened.talker(), opened.talker()
    page = browser.say(browser.begin(), "Count.", wait="no")
    assert "is writing" in page and "Stop" in page
    other.cookies, other.where = browser.cookies, browser.where
    browser.hears("One two ")
    reloaded = other.get(other.where)
    assert "One two" in reloaded and "is writing" in reloaded, "a page that is loaded again finds it further on"
    assert other.do(page, "say", text="Me too", message="m" * 20)[0] == 409
    assert other.do(reloaded, "end")[0] == 409, "a pending reply is not ended"
    events: list[str] = []
    listening = threading.Thread(target=lambda: events.append(browser.ask("GET", f"{browser.where}/stream")[1]))
    listening.start()
    go.set()
    browser.hears("One two three ")
    browser.do(reloaded, "stop")
    assert browser.settled()[-1] == {"role": "assistant", "text": "One two three ", "state": "stopped"}
    listening.join(60)
    kinds = re.findall(r"event: (\w+)\ndata: (.*)", events[0])
    assert kinds[0] == ("all", '""') and kinds[-1] == ("end", '""')
    assert "".join(json.loads(text) for _, text in kinds) == "One two three "
    gone.set()
    browser.say(browser.get(browser.where), "Go on.", wait="no")
    browser.settled()
    prompt = opened.model.requests[1]["messages"]
    assert prompt[-2]["content"] == "One two three ", "a stopped reply is part of the prompt"


SERVER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from served_workbench import LINKS, served
from test_workbench_talk import project
from accord.studies import chat_session
chat_session.LEASE_SECONDS = 2.0  # a reply of a killed server then counts as cut off
with project(Path(sys.argv[1]), sys.argv[2]) as opened, served(opened) as port:
    print(port, LINKS[port](), flush=True)
    sys.stdin.read()
"""


def test_a_server_that_is_killed_in_the_middle_of_a_reply_loses_neither(tmp_path: Path) -> None:
    respond, gone = in_pieces("As far as it came")

    @contextmanager
    def started(url: str) -> Iterator[list[str]]:
        command = ["-c", SERVER, str(tmp_path), url, str(Path(__file__).parent)]
        with Forked(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            yield server.stdout.readline().split()
            server.kill()

    with ChatServer(respond) as model:
        with started(model.url) as (port, link), closing(Store(f"sqlite:///{tmp_path}/accord.db")) as store:
            browser, studies = Talker(int(port), link), Studies(store)
            browser.say(browser.begin(), "Hello?", wait="no")
            until(lambda: Chats(studies).all_chats("chat")[0].messages[1].content == "As far as it came")
            studies.close()
        gone.set()
        with started(model.url) as (port, _):
            browser.port = int(port)
            last = browser.settled()
            assert [each["text"] for each in last] == ["Hello?", "As far as it came"]
            assert last[1]["state"] == "cut" and "the server stopped" in last[1]["reason"]
            page = browser.get(browser.where)
            assert "the server stopped" in page
            browser.do(page, "again")
            assert browser.settled()[1]["state"] == "complete"


def test_stopping_server_saves_partial_reply(tmp_path: Path) -> None:
    respond, gone = in_pieces("As far as it came")
    with ChatServer(respond) as model, project(tmp_path, model.url) as opened:
        with open_workbench(opened) as bench:
            browser = Talker(bench.port)
            browser.say(browser.begin(), "Hello?", wait="no")
            browser.hears("As far as it came")
        with open_workbench(opened) as bench:
            browser.port = bench.port
            [_, reply] = browser.messages()
            assert (reply["text"], reply["state"]) == ("As far as it came", "cut") and "stopped" in reply["reason"]
        gone.set()


def test_repeated_form_is_one_message_and_stale_tab_gets_an_error(talk: StartTalk) -> None:
    opened = talk()
    browser = opened.talker()
    first = browser.begin()
    for _ in range(2):
        browser.say(first, "Hello?")
    assert [each["role"] for each in browser.messages()] == ["user", "assistant"]
    assert len(opened.model.requests) == 1
    stale = browser.say(first, "Something <else>", message="n" * 20)
    assert browser.status == 409 and "the chat has newer messages" in stale
    assert "Something &lt;else&gt;</textarea>" in stale, "the unsent message stays in its field"


def test_messages_are_limited_in_length_and_number(talk: StartTalk) -> None:
    opened = talk(max_characters=10, max_messages=2, max_conversations=1)
    browser = opened.talker()
    page = browser.begin()
    for text, told in (("x" * 11, "has 11 characters; allowed: 10"), ("  \n ", "the message is empty")):
        refused = browser.say(page, text)
        assert browser.status == 422 and told in refused
    assert browser.say(page, "hi", message="short") and browser.status == 422
    assert not opened.model.requests
    assert browser.do(page, "end")[0] == 409, "nothing was said"
    page = browser.say(browser.say(page, "One?"), "Two?")
    assert "the maximum number of messages" in page
    assert browser.do(page, "say", text="Three?", message="o" * 20)[0] == 409
    assert browser.do(page, "end")[0] == 303
    page = browser.get("/talk/chat")
    assert "completed all conversations" in page
    assert browser.post("/talk/chat", form=token(page))[0] == 409


def test_budget_limits_replies_and_shows_the_reason(talk: StartTalk) -> None:
    opened = talk(budget={"requests": 1})
    browser = opened.talker()
    page = browser.say(browser.say(browser.begin(), "One?"), "Two?")
    assert "the budget of this study is used up" in page and len(opened.model.requests) == 1
    assert opened.bench.project.budget.spent.total == 15, "the reported tokens were counted"
    [chat] = opened.chats()
    assert chat.messages[1].about["tokens"] == [10, 5] and chat.messages[3].reason == "budget"


def test_chats_of_others_are_not_accessible(talk: StartTalk) -> None:
    opened = talk(people=("ann", "bob"))
    ann, bob = opened.talker("ann"), opened.talker("bob")
    ann.say(ann.begin(), "For me alone.")
    own = bob.begin()
    bob.where = ann.where
    for path in (ann.where, f"{ann.where}.json", f"{ann.where}/stream"):
        status, said, _ = bob.ask("GET", path)
        assert status == 422 and "not yours" in said and "For me alone." not in said
    assert bob.do(own, "end")[0] == 422
    assert opened.talker().ask("GET", ann.where)[0] == 401
    assert ann.post(ann.where, form="0" * 64, do="stop")[0] == 403


def test_a_scripted_model_may_have_the_role(workbench: StartWorkbench, tmp_path: Path) -> None:
    settings = {"assistants": {"a": {"role": "scorer"}}, "topics": ["t"], "greeting": "How can I help?"}
    config = {"store": f"sqlite:///{tmp_path}/accord.db", "studies": {"chat": {"chat": settings}}}
    model = ScriptedModel(lambda prompt: f"You said: {prompt.messages[-1].content}")
    bench = workbench(opened=Project(Config.model_validate(config), given={"scorer": model}))
    browser = Talker(bench.port)
    page = browser.begin()
    assert "How can I help?" in page and browser.do(page, "end")[0] == 409, "a greeting is no answer"
    assert "You said: Hi" in browser.say(page, "Hi")
    assert [message.role for message in model.asked[0].messages] == ["assistant", "user"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"assistants": {"a": {}}, "topics": ["t"]}, "either `role` or `model`"),
        ({"assistants": {"a": {"model": "m", "role": "judge"}}, "topics": ["t"]}, "either `role` or `model`"),
        ({"assistants": {"a": {"model": "m", "retrieval": "topic"}}, "topics": ["t"]}, "no `documents`"),
        ({"assistants": {}, "topics": ["t"]}, "at least 1 item"),
        ({"assistants": {"a": {"model": "m"}}, "topics": ["t", "t"]}, "listed twice"),
        ({"assistants": {"a": {"model": "m", "base_url": "ftp://x"}}, "topics": ["t"]}, "http"),
    ],
)
def test_contradicting_settings_are_refused(settings: Mapping[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        Config.model_validate({"studies": {"chat": {"chat": settings}}})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"assistants": {"a": {"role": "scorer"}}, "topics": ["t"]}, "unknown role 'scorer'"),
        ({"assistants": {"a": {"model": "m"}}, "topics": ["t"], "documents": "nowhere"}, "no such file or folder"),
        ({"assistants": {"a": {"model": "m"}}, "topics": [{"text": "t", "documents": ["x"]}]}, "name documents"),
    ],
)
def test_a_study_whose_assistant_or_documents_are_missing_is_withdrawn_with_the_reason(
    tmp_path: Path, settings: Mapping[str, Any], told: str
) -> None:
    config = {"store": f"sqlite:///{tmp_path}/accord.db", "studies": {"chat": {"chat": settings}}}
    with Project(Config.model_validate(config)) as opened:
        bench = WorkbenchContext(opened)
        workbench_app(bench)
        bench.close()
        assert told in bench.invalid_studies["chat"] and not bench.sessions


@pytest.mark.browser
def test_with_script_replies_are_heard_drafts_survive_and_a_lost_connection_loses_no_text(
    browser: Any, talk: StartTalk
) -> None:
    respond, go = in_pieces("Half of it, ", "<i>all</i> of it.")
    last = "[...document.querySelectorAll('.msg.assistant > .text')].at(-1)?.textContent"
    is_done = "!document.querySelector('[data-state=writing]')"
    with tab(browser, talk(respond).bench.port) as page:

        def shown(expression: str) -> None:
            until(lambda: page.evaluate(expression), lambda: page.inner_text("main"))

        page.goto("/talk/chat")
        page.click("text=Begin a conversation")
        page.fill("#text", "Hello?")
        page.press("#text", "Enter")
        shown(f"{last} === 'Half of it, '")
        page.reload()
        shown(f"{last} === 'Half of it, '")
        go.set()
        shown(f"{last} === 'Half of it, <i>all</i> of it.' && {is_done}")
        page.fill("#text", "A draft")
        page.reload()
        assert page.input_value("#text") == "A draft"
        page.context.set_offline(True)
        page.click("text=Send")
        shown("document.getElementById('state').textContent.includes('your text is saved in this browser')")
        assert page.input_value("#text") == "A draft"
        page.context.set_offline(False)
        page.click("text=Send")
        shown(f"document.querySelectorAll('.msg').length === 4 && {is_done}")
        assert page.input_value("#text") == ""
        page.click("text=End of conversation")
        page.wait_for_url("**/rate/chat/**")


@pytest.mark.browser
def test_talk_pages_are_accessible(browser: Any, talk: StartTalk) -> None:
    with tab(browser, talk().bench.port) as page:
        found = {}
        page.goto("/talk/chat")
        found["begin"] = faults(page)
        page.get_by_role("button", name="Begin a conversation").click()
        page.locator("#text").wait_for()
        found["empty"] = faults(page)
        page.locator("#text").fill("Hello?")
        page.get_by_role("button", name="Send").click()
        page.locator(".msg.assistant[data-state=complete]").wait_for()
        page.locator("#text").wait_for()
        found["said"] = faults(page)
        page.get_by_role("button", name="End of conversation").click()
        page.wait_for_url("**/rate/chat/**")
        found["rated"] = faults(page)
        page.goto("/talk/chat")
        found["list"] = faults(page)
        assert not any(found.values()), found
