"""Redaction of personal data: rules, placeholders, imports, requests to models, recognizers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_personal_data import LANGUAGES, MAKERS, as_written, planted

from accord import Project
from accord.edges import BadInput
from accord.models import Answer, ChatMessage, Prompt, Reply
from accord.project import Config
from accord.redaction import KINDS, Redactor, find_redacted_quote, recognizers
from accord.values import Annotation, Conversation, Document, Issue, IssueAnnotation, Target, Turn

ALL = Redactor(KINDS)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Mail Ann@Example.com, or ann@example.com.", "Mail <EMAIL_1>, or <EMAIL_1>."),
        ("ann (at) example (dot) com", "<EMAIL_1>"),
        ("メールはann@example.co.jpです", "メールは<EMAIL_1>です"),
        ("Call +49 30 1234567 or 030 1234567.", "Call <PHONE_1> or <PHONE_1>."),
        ("Call me at (415) 555-2671.", "Call me at <PHONE_1>."),
        ("連絡先：０９０−１２３４−５６７８", "連絡先：<PHONE_1>"),
        ("4111 1111 1111 1111 and 4111-1111-1111-1111", "<CARD_1> and <CARD_1>"),
        ("41\u200b11 1111 1111 11\u200f11", "<CARD_1>"),
        ("DE89 3704 0044 0532 0130 00 und GB29NWBK60161331926819", "<IBAN_1> und <IBAN_2>"),
        ("from 192.168.1.77 and 2001:db8::17", "from <IP_1> and <IP_2>"),
        ("key sk-proj-abcdefghij1234567890", "key <SECRET_1>"),
        ("my password is hunter2!", "my password is <SECRET_1>"),
        ('{"api_key": "Zx81-777-abc"}', '{"api_key": "<SECRET_1>"}'),
        ("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----", "<SECRET_1>"),
        ("see https://ann:pw@host.example/a", "see <URL_1>"),
        ("10.0.0.5/16 and 10.0.0.7/32", "<IP_1>/16 and <IP_2>/32"),
        ("password: $ecret2024, key 4f-${x", "password: <SECRET_1>, key 4f-${x"),
        ("SSN 078-05-1120, DNI 12345678Z, CF RSSMRA85T10A562S", "SSN <NATIONAL_ID_1>, DNI <NATIONAL_ID_2>, CF <NATIONAL_ID_3>"),
        ("a@b.co <EMAIL_1> c@d.co", "<EMAIL_2> <EMAIL_1> <EMAIL_3>"),
        ("ann,4111111111111111,12/27\n7,4111 1111 1111 1111,5", "ann,<CARD_1>,12/27\n7,<CARD_1>,5"),
        ("ann,078-05-1120,34,GB29NWBK60161331926819,x", "ann,<NATIONAL_ID_1>,34,<IBAN_1>,x"),
        ("ann,(415) 555-2671,x", "ann,<PHONE_1>,x"),
        ("card_4111111111111111", "card_<CARD_1>"),
        *(
            (hide(value), f"<{kind}_1>")
            for kind, value in (("CARD", "4111111111111111"), ("EMAIL", "ann@example.com"), ("IP", "192.168.1.77"),
                                ("NATIONAL_ID", "078-05-1120"), ("PHONE", "+49 30 1234567"),
                                ("IBAN", "GB29NWBK60161331926819"), ("SECRET", "sk-proj-abcdefghij1234567890"))
            for hide in (
                lambda text: "\ufe0f".join(text), lambda text: "\U000e0101".join(text), lambda text: "\u034f".join(text),
                lambda text: "\U000e0041".join(text), lambda text: "\x08".join(text), lambda text: "\u0336".join(text),
                lambda text: "".join(each + "\ufe0f\u20e3" * each.isdigit() for each in text),
                lambda text: "".join(each + "\u0302" * each.isdigit() for each in text),
                lambda text: "".join(chr(0x1D7CE + int(each)) if each.isdigit() else each for each in text),
                lambda text: "".join(chr(0x245F + int(each)) if each in "123456789" else each for each in text),
            )
        ),
    ],
)  # fmt: skip
def test_personal_data_become_placeholders(text: str, redacted: str) -> None:
    redaction = ALL.begin()
    redaction.reserve(text)
    assert redaction.text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "Order 4711220815 of 2024-01-05 12:30:45, ticket #1234567.", "Version 1.2.3.4, Chrome/120.0.0.0, section 3.2.1.4",
        "ISBN 978-3-16-148410-0 costs 1.234.567,89 € or 612 345 678 EUR", "at 12:30 - 13:45 and 12:30:45",
        "550e8400-e29b-41d4-a716-446655440000 da39a3ee5e6b4b0d3255bfef95601890afd80709", "my password is wrong",
        "std::vector and abc::def on 127.0.0.1", "4111 1111 1111 1112", "DE89370400440532013001", "git@github.com:acme/x",
        "@types/node@20.1.0", "https://example.com/a?page=2", "max_tokens=1000 tokens", "<EMAIL_1> and <NATIONAL_ID_12>",
        "I paid 20 and got 30 points in 2019 2020 2021", "/subscriptions/11111111-2222-3333-4444-555555555555/groups/1/",
        "Commit 76692c35-0d51-ba83-27b0-7abb4c8ba5e4", "00524531-5720-7225-460c-120466217cbd", '"contentVersion": "1.0.0.0",',
        "address space 10.0.0.0/16, subnet 10.255.233.128/27", "software called v3.4.0.63634", "SIRET 732 829 320 00074",
        'client_secret = "${var.client_secret}"', 'clientSecret = "YOUR_CLIENT_SECRET";', "$password = $env:DB_PASSWORD",
        'APP_PASSWORD=os.environ.get("APP_PASSWORD")', "$Password = [System.Runtime.Marshal]::PtrToString($BSTR)",
        "jdbc:sqlserver://{0}:{1};database={2};user={3};password={4}", "https://a.example/;AccountKey=[key hidden]",
        "0,4111111111111111 and 0.4111111111111111", "1,234,567,890", "3,14159265358979 of 2,718281828", "12 345 678 903,50",
    ],
)  # fmt: skip
def test_other_numbers_stay(text: str) -> None:
    assert ALL.begin().text(text) == text


@pytest.mark.parametrize("language", LANGUAGES)
def test_planted_personal_data_are_found(language: str) -> None:
    import random

    rng = random.Random(f"test {language}")
    for _ in range(200):
        case = planted(rng, language)
        found = ALL.find(case.text)
        missed = [
            span for span in case.spans if not any(each.start <= span[0] and each.end >= span[1] for each in found)
        ]
        assert not missed, case.text


def test_personal_data_are_found_in_texts_as_people_write_them() -> None:
    missed, wrong = list[str](), list[str]()
    for _, case in as_written():
        found = ALL.find(case.text)
        missed += [
            case.text[a:b] for a, b, _ in case.spans if not any(each.start <= a and each.end >= b for each in found)
        ]
        wrong += [
            case.text[each.start : each.end]
            for each in found
            if not any(each.start < b and a < each.end for a, b, _ in case.spans)
        ]
    assert (missed, wrong) == ([], [])


_APART = st.sampled_from(
    [" ", ". ", ", ", " order ", " tel. ", "(", ")", "\n", " version ", " SSN ", "は", "1", "-", "@", "/"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.deferred(lambda: _PIECES), _APART), max_size=8))
def test_redacting_finds_all_in_one_go_between_words(pieces: list[tuple[str, str]]) -> None:
    text = "".join(map("".join, pieces))
    redaction = ALL.begin()
    redaction.reserve(text)
    once = redaction.text(text)
    assert redaction.text(once) == once


_VALUES = [maker for maker in MAKERS.values()]
_PIECES = st.one_of(
    st.sampled_from(["ann@example.com", "+49 30 1234567", "4111 1111 1111 1111", "<EMAIL_1>", "<PHONE_7>", "<", ">", "0", "@", ": "]),
    st.text(max_size=6), st.sampled_from(["password: hunter2", "192.168.1.7", "DE89370400440532013000", "00", "+", "tel. "]),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(_PIECES, max_size=12))
def test_redacting_twice_changes_nothing_and_restoring_returns_the_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    redaction = ALL.begin()
    redaction.reserve(text)
    once = redaction.text(text)
    assert redaction.text(once) == once
    again = ALL.begin()
    again.reserve(once)
    assert again.text(once) == once
    values = [value for name, value in redaction.values.items() if text.count(value) and name in once]
    assert not values or redaction.restore(once) != once


def test_a_value_has_one_placeholder_in_all_parts_of_a_conversation() -> None:
    call = {
        "function": {"name": "send", "arguments": json.dumps({"to": "ann@example.com", "password": "correcthorse"})}
    }
    conversation = Conversation(
        "ann@example.com",
        (
            Turn("user", "I am bob@example.com.", "Bob bob@example.com"),
            Turn("assistant", "Ask Ann@example.com", extra={"tool_calls": [call]}),
        ),
        (Document("Write to ann@example.com", title="bob@example.com"),),
        {"user": {"mail": "ann@example.com", "phone": 301234567}, "bob@example.com": 1, "seen": "2024-01-05T12:30:45Z"},
    )
    redacted = ALL.conversation(conversation)
    assert redacted.to_json() == {
        "id": "ann@example.com",
        "turns": [
            {"role": "user", "content": "I am <EMAIL_1>.", "name": "Bob <EMAIL_1>"},
            {
                "role": "assistant", "content": "Ask <EMAIL_2>",
                "extra": {"tool_calls": [{"function": {"name": "send", "arguments": '{"to": "<EMAIL_2>", "password": "<SECRET_1>"}'}}]},
            },
        ],
        "documents": [{"text": "Write to <EMAIL_2>", "title": "<EMAIL_1>"}],
        "metadata": {"user": {"mail": "<EMAIL_2>", "phone": "<PHONE_1>"}, "<EMAIL_1>": 1, "seen": "2024-01-05T12:30:45Z"},
    }  # fmt: skip
    assert ALL.conversation(redacted) == redacted


def test_keys_with_the_same_placeholder_lose_no_value() -> None:
    metadata = {"ann@example.com": 1, "Ann@Example.com": 2, "<EMAIL_9>": 3, "seen": {"a@b.co": 4, "A@b.co": 5}}
    redacted = ALL.conversation(Conversation("c1", (), metadata=metadata))
    assert redacted.metadata == {
        "<EMAIL_10>": 1, "<EMAIL_10> 2": 2, "<EMAIL_9>": 3, "seen": {"<EMAIL_11>": 4, "<EMAIL_11> 2": 5},
    }  # fmt: skip
    assert ALL.conversation(redacted) == redacted


def test_quotes_are_found_in_the_redacted_turn_with_moved_spans() -> None:
    text = "Please write to ann@example.com or call +49 30 1234567 today."
    turns, redaction = (Turn("user", "ann@example.com"), Turn("assistant", text)), ALL.begin()
    redacted = redaction.conversation(Conversation("c1", turns)).turns[1].content
    start = text.index("1234567 today")
    quoted = Annotation(Target("c1", 1), "q", "ann", "person", 1, quote="1234567 today", span=(start, start + 13))
    moved = redaction.annotation(quoted, turns)
    assert moved.span is not None and moved.quote == redacted[slice(*moved.span)] == "<PHONE_1> today"
    issue = Issue("Other", "names ann@example.com", "write to ann@example.com")
    found = redaction.assessment(IssueAnnotation(Target("c1", 1), (issue,), 3, "see +49 30 1234567", "s"), turns)
    assert found.issues[0].quote in redacted and found.issues[0].comment == "names <EMAIL_1>"
    assert found.comment == "see <PHONE_1>"
    assert find_redacted_quote("write to <EMAIL_4> or", redacted) == (7, 28)


@pytest.mark.attack
@pytest.mark.parametrize(
    "text",
    [
        "a" * 10**6, "1" * 10**6, "1 " * 500_000, "+1" * 300_000, "a@" * 200_000, "@" * 300_000, "a.b@c." * 100_000, ":" * 10**6, "1.1." * 200_000,
        "password: " * 50_000, "-----BEGIN PRIVATE KEY-----" * 20_000, "eyJ-eyJ." * 50_000, "http://" * 100_000, "http://a:" * 50_000, "DE89 " * 100_000,
        "\ud800" * 10_000 + "ann@example.com", "\u200b1" * 200_000, "\u202e4111\u202c" * 20_000, "<EMAIL_1>" * 50_000, "0 1-2/3" * 50_000, "(at)" * 100_000,
        "４１１１ " * 50_000, "call " * 50_000 + "1234567", "tel 1" * 50_000,
    ],
    ids=range(24),
)  # fmt: skip
def test_hostile_texts_are_read_in_linear_time(text: str) -> None:
    redaction = ALL.begin()
    redacted = redaction.text(text)
    assert redaction.text(redacted) == redacted


# --- imports --------------------------------------------------------------------------------------------------------

CANARIES = {
    "email": "kanarie.vogel@birds.example",
    "phone": "+49 30 5550199",
    "card": "4111 1111 1111 1111",
    "secret": "sk-canary0123456789abcdef",
}


def _row() -> dict[str, Any]:
    every = " ".join(CANARIES.values())
    call = {"id": "t1", "function": {"name": "look_up", "arguments": json.dumps({"q": every})}}
    return {
        "id": "c1",
        "messages": [
            {"role": "user", "content": f"I am {every}", "name": every},
            {"role": "assistant", "content": f"You are {every}", "tool_calls": [call]},
            {"role": "tool", "content": every, "tool_call_id": "t1"},
        ],
        "documents": [{"text": every, "title": every, "id": every}],
        "metadata": {"user": every, "deep": [{"list": [every]}], every: "key"},
        "ticket": every,
    }


def _holds_canary(folder: Path) -> list[str]:
    content = b"".join(path.read_bytes() for path in folder.glob("store.db*"))
    return [kind for kind, value in CANARIES.items() if value.encode() in content]


def test_no_canary_is_stored_when_imports_are_redacted(tmp_path: Path) -> None:
    source = tmp_path / "chats.jsonl"
    source.write_text(json.dumps(_row()) + "\n", encoding="utf-8")
    for kinds, held in (((), [*CANARIES]), ((*CANARIES,), [])):
        folder = tmp_path / f"with-{len(kinds)}"
        folder.mkdir()
        with Project(Config(store=f"sqlite:///{folder}/store.db", privacy={"redact": kinds})) as project:
            assert project.import_([source]).conversations.new == 1
            stored = next(project.store.conversations())
        assert _holds_canary(folder) == held
        assert stored.id == "c1" and len(stored.turns) == 3


def test_quotes_of_an_imported_file_are_found_in_the_store(tmp_path: Path) -> None:
    source, notes = tmp_path / "chats.jsonl", tmp_path / "notes.jsonl"
    source.write_text(json.dumps(_row()) + "\n", encoding="utf-8")
    note = Annotation(
        Target("c1", 1), "Q0", "ann", "person", 1, quote=f"are {CANARIES['email']}", comment=CANARIES["phone"]
    )
    notes.write_text(json.dumps(note.to_json()) + "\n", encoding="utf-8")
    with Project(Config(store=f"sqlite:///{tmp_path}/store.db", privacy={"redact": [*CANARIES]})) as project:
        project.import_([source, notes])
        [stored] = project.store.annotations()
        turn = next(project.store.conversations()).turns[1].content
    assert stored.quote == "are <EMAIL_1>" and stored.span is not None and turn[slice(*stored.span)] == stored.quote
    assert stored.comment == "<PHONE_1>" and not _holds_canary(tmp_path)


# --- requests -------------------------------------------------------------------------------------------------------


class _Quoting:
    """A chat model of another machine that quotes the first message back, as JSON."""

    name, endpoint = "quoting", "https://models.example/v1"

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def ask(self, prompt: Prompt) -> Reply:
        self.seen.append(prompt.messages[0].content)
        return Reply(json.dumps({"quote": prompt.messages[0].content}), "quoting")

    async def close(self) -> None:
        return None


def _asked(project: Project, text: str) -> str:
    from accord.models import Request, run

    def flow() -> Iterator[Any]:
        [reply] = yield [Request("scorer", Prompt((ChatMessage("user", text),)))]
        return reply

    return str(json.loads(run(flow(), project.models).text)["quote"])


def test_a_model_on_another_machine_sees_placeholders_and_its_quotes_are_restored(tmp_path: Path) -> None:
    text, store = "I am " + " ".join(CANARIES.values()), f"sqlite:///{tmp_path}/store.db"
    model = _Quoting()
    for kinds, requests in ((("email", "phone", "card", "secret"), 1), (("email",), 2), ((), 3), ((), 3)):
        config = Config(store=store, privacy={"redact": kinds, "when": "send"})
        with Project(config, given={"scorer": model}) as project:
            assert _asked(project, text) == text
            assert _asked(project, "nothing personal") == "nothing personal"
        assert len([seen for seen in model.seen if seen != "nothing personal"]) == requests, kinds
    assert model.seen[0] == "I am <EMAIL_1> <PHONE_1> <CARD_1> <SECRET_1>"
    assert model.seen.count("nothing personal") == 1, "an unchanged prompt is paid once under all settings"


@pytest.mark.parametrize(
    ("endpoint", "is_redacted"), [("http://127.0.0.1:9/v1", False), ("http://localhost/v1", False), ("", True)]
)
def test_only_requests_to_other_machines_are_redacted(tmp_path: Path, endpoint: str, is_redacted: bool) -> None:
    model = _Quoting()
    model.endpoint = endpoint
    config = Config(store="sqlite:///:memory:", privacy={"redact": ["email"], "when": "send"})
    with Project(config, given={"scorer": model}) as project:
        _asked(project, "ann@example.com")
    assert model.seen == ["<EMAIL_1>" if is_redacted else "ann@example.com"]


class _Judge:
    name, mode, together, endpoint = "remote", "equal", 100, "https://models.example/v1"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def made_from(self, sample: Any, question: Any) -> dict[str, Any]:
        return {
            "judge": self.name,
            "turns": [turn.content for turn in sample.conversation.turns],
            "question": question.key,
        }

    def requests(self, sample: Any, questions: Any) -> list[Any]:
        return []

    async def answer(self, sample: Any, questions: Any) -> list[Answer]:
        self.seen += [turn.content for turn in sample.conversation.turns]
        return [
            Answer(each.id, {str(o): 1 / len(each.scale.options) for o in each.scale.options}) for each in questions
        ]

    async def close(self) -> None:
        return None


def test_a_judge_sees_no_canary_while_the_store_keeps_it(tmp_path: Path) -> None:
    source = tmp_path / "chats.jsonl"
    row = _row()
    row["ratings"] = [{"annotator": "p1", "question": "Q0", "value": 3}]
    source.write_text(json.dumps(row) + "\n", encoding="utf-8")
    judge = _Judge()
    config = Config(store=f"sqlite:///{tmp_path}/store.db", privacy={"redact": [*CANARIES], "when": "send"})
    with Project(config, given={"judge": judge}) as project:
        project.import_([source])
        sample = next(iter(project.samples([Target("c1")])))
        source_ = project.source("rubric")
        from accord.models import run

        table = run(source_.measure([sample]), project.models)
    assert judge.seen and not [value for value in CANARIES.values() if any(value in text for text in judge.seen)]
    assert _holds_canary(tmp_path) == [*CANARIES]
    assert all("redacted:" in column.signature for column in table.columns)


# --- recognizers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([(0, 99, "customer")], "0 <= start < end <= 6"), ([("0", 2, "customer")], "start, end, kind"),
        ([(0, 2)], "start, end, kind"), ([(0, 2, "Customer 1")], "lower-case letters"), (None, "raised"),
    ],
)  # fmt: skip
def test_a_recognizer_that_fails_stops_the_import(result: Any, message: str) -> None:
    recognizers.register("wrong")(lambda text: [*result])
    try:
        with (
            pytest.raises(BadInput, match=message),
            Project(Config(store="sqlite:///:memory:", privacy={"recognizers": ["wrong"]})) as project,
        ):
            project.import_([{"id": "c1", "messages": [{"role": "user", "content": "K-1234"}]}])
    finally:
        recognizers.forget("wrong")


def test_a_recognizer_of_a_plugin_names_its_own_kind() -> None:
    import re

    recognizers.register("customers")(lambda text: [(*m.span(), "customer") for m in re.finditer(r"K-\d{4}", text)])
    try:
        redactor = Redactor(("email",), ("customers",))
        assert redactor.begin().text("K-1234 and k@x.com, K-1234") == "<CUSTOMER_1> and <EMAIL_1>, <CUSTOMER_1>"
    finally:
        recognizers.forget("customers")


def test_unknown_kinds_are_refused() -> None:
    from accord.project import config_from

    with pytest.raises(BadInput, match=r"privacy.*unknown kind 'emails'; allowed: .*email"):
        config_from({"privacy": {"redact": ["emails"]}})
