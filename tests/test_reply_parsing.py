"""Invalid replies of endpoints leave one question unanswered, without a traceback or a wrong number."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from misbehaving_endpoint import answer_any

from accord import Conversation, Question, Rubric, Scale, Store, Turn
from accord.evidence.rubric_answers import judge_samples
from accord.models import (
    Answer,
    CallFailed,
    ChatMessage,
    ClientOptions,
    LikelihoodRequest,
    Prompt,
    ScriptedJudge,
    Unanswered,
    open_judge,
    wait,
)
from accord.models.embedders import (
    EmbeddingRequest,
    EmbeddingsEndpoint,
)
from accord.models.factory import (
    open_chat,
    open_likelihood,
)
from accord.models.requests.reply_parsing import distribution_error, make_answer, parse_json, read_chat_reply
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import (
    Respond,
    Wire,
)
from accord.values import Sample

QUESTIONS = (
    Question(id="Q1", text="How good?", scale=Scale(options=(1, 2, 3)), meanings={"1": "Bad."}),
    Question(id="Q2", text="Resolved?", scale=Scale(kind="binary", options=(0, 1))),
    Question(id="Q3", text="Which tone?", scale=Scale(kind="nominal", options=("warm", "cold"))),
)
CHAT = Sample(Conversation("c1", (Turn("user", "Is it 4?"), Turn("assistant", "It is 4."))))


@pytest.fixture(autouse=True)
def key(api_key: None) -> None:
    """Set an API key for every test."""


def judged(mode: str, respond: Respond, questions: tuple[Question, ...] = QUESTIONS) -> list[Any]:
    """Return the answers of one attempt."""
    with ChatServer(respond) as server:
        judge = open_judge(mode, "m1", server.url, "", ClientOptions(attempts=1), samples=2)
        try:
            groups = [questions[i : i + judge.together] for i in range(0, len(questions), judge.together)]
            return [answer for group in groups for answer in wait(judge.answer(CHAT, group))]
        finally:
            wait(judge.close())


def reasons(answers: list[Any]) -> list[str | None]:
    return [answer.reason if isinstance(answer, Unanswered) else None for answer in answers]


# --- probabilities ------------------------------------------------------------------------------------------------

ODD_NUMBERS = [math.nan, math.inf, -math.inf, -0.1, 1.5, None, "0.5", True, [0.5], {"p": 0.5}, 10**400]


PREDICATE = (QUESTIONS[1].model_copy(update={"id": "Q1"}), QUESTIONS[2])
PLACES = {
    "decisions": (QUESTIONS, lambda answer, number: answer["probabilities"][0].update(probability=number)),
    "systemone": (QUESTIONS, lambda answer, number: answer["probabilities"].update({"0": number})),
    "decisions predicate": (PREDICATE, lambda answer, number: answer.update(probability=number)),
    "systemone predicate": (PREDICATE, lambda answer, number: answer.update(noul=number)),
}
"""Questions, and a function that changes one probability of the answer to the first."""


def first_is_unanswered(mode: str, change: Any, questions: tuple[Question, ...] = QUESTIONS) -> bool:
    """Return True if a changed answer to the first question loses this one alone."""

    def respond(request: Mapping[str, Any]) -> Wire:
        right = json.loads(json.dumps(answer_any(request).body))
        answers = right["answers"]
        change(answers[0] if isinstance(answers, list) else answers["Q1"])
        return Wire(right)

    return reasons(judged(mode, respond, questions)) == ["no distribution", *[None] * (len(questions) - 1)]


@pytest.mark.parametrize("number", ODD_NUMBERS, ids=repr)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.attack
def test_invalid_probability_affects_one_question(place: str, number: Any) -> None:
    questions, change = PLACES[place]
    assert first_is_unanswered(place.split()[0], lambda answer: change(answer, number), questions)


@pytest.mark.parametrize("level", [-1, 3, 10**30, True, "1", None, 1.0, [0]], ids=repr)
@pytest.mark.attack
def test_unknown_level_is_unanswered(level: Any) -> None:
    assert first_is_unanswered("decisions", lambda answer: answer["probabilities"][0].update(value=level))


@pytest.mark.attack
def test_repeated_level_is_unanswered() -> None:
    def twice(answer: dict[str, Any]) -> None:
        answer["probabilities"][0] = {**answer["probabilities"][1], "probability": 0.01}

    assert first_is_unanswered("decisions", twice)
    for odd in ({"-1": 0.5}, {"0": 0.2, "1: Bad.": 0.2}, {"7": 0.1}, [0.1, 0.1, 0.1, 0.1]):
        assert first_is_unanswered("systemone", lambda answer, odd=odd: answer.update(probabilities=odd))


@pytest.mark.attack
def test_duplicate_json_key_affects_one_question() -> None:
    level = '"probabilities": {"0": '
    for old, new in (('"Q1": ', '"Q1": {"probabilities": {"0": 1.0}}, "Q1": '), (level, f'{level}1.0, "0": ')):

        def twice(request: Mapping[str, Any], old: str = old, new: str = new) -> Wire:
            text = json.dumps(answer_any(request).body)
            assert old in text
            return Wire(text.replace(old, new, 1).encode())

        assert reasons(judged("systemone", twice)) == ["no distribution", None, None]


def test_sum_over_1_is_unanswered_except_for_rounding() -> None:
    question = QUESTIONS[0]
    assert reasons([make_answer(question, {"1": 0.6, "2": 0.6})]) == ["no distribution"]
    assert reasons([make_answer(question, {"1": 0.5, "other": 0.6})]) == ["no distribution"]
    assert reasons([make_answer(question, {"other": 0.6})]) == ["no option"]
    assert reasons([make_answer(question, {"1": 5e-324})]) == ["no option"]
    answer = make_answer(question, {"1": 0.5, "2": 0.5004, "3": 0.0})
    assert isinstance(answer, Answer) and sum(answer.probabilities.values()) == pytest.approx(1.0, abs=1e-12)
    assert answer.outside == 0.0
    assert distribution_error([]) is None and distribution_error([0.25, 0.75]) is None


ODD_TOKENS = [
    {"token": "2", "logprob": number} for number in [math.nan, math.inf, -math.inf, 0.1, 1e308, 10**400, None, "-1"]
]


@pytest.mark.parametrize("top", [*ODD_TOKENS, {"token": 2, "logprob": -1.0}, {"logprob": -1.0}, None, 3], ids=repr)
@pytest.mark.attack
def test_invalid_token_probabilities_are_unanswered(top: Any) -> None:
    def odd(request: Mapping[str, Any]) -> Wire:
        right = json.loads(json.dumps(completion("2", {"2": 0.6, "3": 0.3}).body))
        right["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0] = top
        return Wire(right)

    [answer] = judged("logprobs", odd, QUESTIONS[:1])
    assert isinstance(answer, Unanswered) and answer.reason in {"no distribution", "malformed"}


def test_probabilities_of_equal_token_texts_are_added() -> None:
    def tops(*shares: float) -> Any:
        rows = [{"token": "2", "logprob": math.log(p)} for p in shares]
        message = {"content": "2"}
        return {"choices": [{"message": message, "logprobs": {"content": [{"top_logprobs": rows}]}}]}

    assert read_chat_reply(tops(0.5, 0.25), "m1").first_token == {"2": pytest.approx(0.75)}
    with pytest.raises(CallFailed, match="no distribution: 1.2 is not a probability"):
        read_chat_reply(tops(0.6, 0.6), "m1")


def test_answers_of_a_custom_judge_are_checked(memory: Store) -> None:
    rubric = Rubric(name="r", main="Q1", questions=QUESTIONS[:1])
    for mass in ({"1": math.nan}, {"1": -0.5, "2": 1.5}, {"1": 0.9, "2": 0.9}):
        table = judge_samples(ScriptedJudge(lambda sample, question, mass=mass: mass), rubric, [CHAT], memory)
        assert not table.present.any()
    table = judge_samples(
        ScriptedJudge(lambda sample, question: {"1": 0.5, "2": 0.5, "3": 0.0}), rubric, [CHAT], memory
    )
    assert table.present.all(), "nothing of the others was kept"


# --- other replies ------------------------------------------------------------------------------------------------

DEEP = b"[" * 100_000


def with_(**changes: Any) -> dict[str, Any]:
    """Return a valid completion with some fields replaced, also of its message and choice."""
    body = json.loads(json.dumps(completion("2", {"2": 0.6}).body))
    for place in (body, body["choices"][0], body["choices"][0]["message"]):
        place.update({name: value for name, value in changes.items() if name in place})
    return body  # type: ignore[no-any-return]


ODD_REPLIES = {
    "deep": DEEP,
    "deep inside": b'{"choices": ' + DEEP,
    "endless number": b'{"choices": ' + b"9" * 6000 + b"}",
    "another encoding": b"\xff\xfe\xfa",
    "a list": [],
    "a text": "busy",
    "null": None,
    "number": 3,
    "choices a text": with_(choices="2"),
    "choices a number": with_(choices=2),
    "choices of numbers": with_(choices=[2]),
    "choices twice": b'{"choices": [], "choices": [{"message": {"content": "2"}}]}',
    "message a text": with_(message="2"),
    "content a list": with_(content=[{"type": "text", "text": "2"}]),
    "content a number": with_(content=2),
    "refusal a number": with_(refusal=1),
    "logprobs a text": with_(logprobs="none"),
    "logprobs of numbers": with_(logprobs={"content": [1]}),
    "logprobs of texts": with_(logprobs={"content": {"top_logprobs": 1}}),
}


def wire(body: Any) -> Wire:
    return Wire(body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize("kind", ODD_REPLIES)
@pytest.mark.attack
def test_invalid_reply_is_one_failed_prompt(kind: str, memory: Store) -> None:
    with ChatServer(lambda request: wire(ODD_REPLIES[kind])) as server:
        model = open_chat("m1", server.url, memory, ClientOptions(attempts=1))
        with pytest.raises(CallFailed, match="malformed"):
            wait(model.ask(Prompt((ChatMessage("user", "hello"),), top_logprobs=20)))
        wait(model.close())
    for mode in ("decisions", "systemone", "logprobs", "verbalised"):
        answers = judged(mode, lambda request: wire(ODD_REPLIES[kind]))
        assert set(reasons(answers)) <= {"malformed", "no distribution", "invalid JSON"} and len(answers) == len(
            QUESTIONS
        )


@pytest.mark.attack
def test_invalid_characters_are_replaced_before_storing(store: Store) -> None:
    """NUL fails in PostgreSQL, and halves of surrogate pairs fail in every database."""
    odd = with_(model="m\0 \ud800\x1b[31m" + "x" * 1000, content="fine \udfff\0")
    reply = read_chat_reply(parse_json(json.dumps(odd)), "m1")
    assert reply.text == "fine \ufffd\ufffd"
    assert reply.model.isprintable() and len(reply.model) <= 200 and "\0" not in reply.model
    rubric = Rubric(name="r", main="Q1", questions=QUESTIONS[:1])
    with ChatServer(lambda request: wire(odd)) as server:
        judge = open_judge("logprobs", "m1", server.url, "", ClientOptions(attempts=1), samples=2)
        assert judge_samples(judge, rubric, [CHAT], store).present.all()
        wait(judge.close())


ODD_STATED = [
    '{"Q1": {"1": NaN, "2": 0.1, "3": 0.1}}',
    '{"Q1": {"1": 0.1, "1": 0.2, "2": 0.1, "3": 0.1}}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", ODD_STATED)
@pytest.mark.attack
def test_invalid_stated_probabilities_are_unanswered(text: str) -> None:
    [answer] = judged("verbalised", lambda request: completion(text), QUESTIONS[:1])
    assert isinstance(answer, Unanswered) and answer.reason in {"no distribution", "invalid JSON"}


@pytest.mark.parametrize(
    "rows",
    [
        "vectors",
        [1, 2],
        [{"index": 0, "embedding": [1.0]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}],
        [{"index": -1, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": ["2"]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [10**400]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": []}],
    ],
)
@pytest.mark.attack
def test_invalid_vectors_are_failures(rows: Any) -> None:
    with ChatServer(lambda request: wire({"data": rows})) as server:
        model = EmbeddingsEndpoint("m1", server.url)
        with pytest.raises(CallFailed, match="malformed"):
            wait(model.ask(EmbeddingRequest(("a", "b"))))
        wait(model.close())


@pytest.mark.parametrize("mass", [[None, math.nan], [None, 0.5], [None, "x"], [None, math.inf]])
@pytest.mark.attack
def test_invalid_likelihoods_are_failures(mass: Any) -> None:
    def echo(request: Mapping[str, Any]) -> Wire:
        logprobs = {"text_offset": [0, 5], "token_logprobs": mass}
        return wire({"choices": [{"text": request["prompt"], "logprobs": logprobs}]})

    with ChatServer(echo) as server:
        model = open_likelihood("m1", server.url, ClientOptions(attempts=1))
        [found] = wait(model.measure([LikelihoodRequest((ChatMessage("user", "Good morning."),), (0,))]))
        wait(model.close())
    assert getattr(found, "reason", None) == "no distribution"
