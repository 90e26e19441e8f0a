"""Bodies of `POST /v1/systemone` and `POST /v1/decisions`: questions about a conversation, answered by the evaluator.

Both dialects of decision models ask typed questions and expect a probability per option; `models/judges/decisions.py`
is a client of both. A question must have the options of its question in the evaluator, because the evaluator learned
no others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from accord.decisions import Selection
from accord.edges import BadInput, sendable
from accord.formats import Fields, exchange
from accord.learning import OTHER_QUESTIONS, Evaluator
from accord.live.ingest import LiveRow
from accord.live.messages import Message
from accord.live.service.request_bodies import parse_conversation, parse_json
from accord.values import Question, ScaleKind

MAX_QUESTIONS = 400
"""Maximum number of questions of a request, as at OpenAI."""
MAX_SHOWN = 200
"""Maximum characters of a client's text in an error."""
ANY_MODEL = "accord"
"""Name of the evaluator in use."""
Dialect = Literal["systemone", "decisions"]
Kind = Literal["predicate", "score", "choice"]
_KINDS: Mapping[Dialect, Mapping[str, Kind]] = {
    "systemone": {"noul": "predicate", "score": "score", "choice": "choice"},
    "decisions": {"predicate": "predicate", "score": "score", "choice": "choice"},
}
_NAMED_FIELD = re.compile(r'the "(inputs|outputs|expectations|conversation)" field in the input')
"""Words of MLflow's instructions for a field of the text that it sends to `/v1/decisions`."""
_FIELD = re.compile(r"(inputs|outputs|expectations|conversation): ")
_YES_NO = ({"no", "false"}, {"yes", "true"})
"""Words for the options 0 and 1 in addition to their meanings."""


class Unprocessable(BadInput):
    """A well-formed request that the evaluator cannot answer: HTTP status 422."""

    status = 422


class UnknownModel(Unprocessable):
    """A request for another model than the evaluator in use: HTTP status 404."""

    status = 404


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of a request.

    Attributes:
        name: Name in the request, or `None` for a question without a name.
        kind: Type, in OpenAI's words.
        instructions: Text of its instructions; empty if they are not a text.
        labels: Options as the client sent them, in order: texts, or booleans of a choice. Empty for a predicate.
        descriptions: Description of each option; empty without one.
    """

    name: str | None
    kind: Kind
    instructions: str
    labels: tuple[str | bool, ...] = ()
    descriptions: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The question in an error."""
        return "the question without a name" if self.name is None else f"question {_shorten(self.name)!r}"


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A parsed request.

    Attributes:
        dialect: Dialect of the request and of its answer.
        model: Name of the evaluator.
        questions: Questions in order.
        messages: Messages of the conversation, with a refused row for each invalid one.
    """

    dialect: Dialect
    model: str
    questions: tuple[AskedQuestion, ...]
    messages: list[Message | LiveRow]


# --- parsing ---------------------------------------------------------------------------------------------------------


def parse_decision(body: bytes, content_type: str, dialect: Dialect) -> DecisionRequest:
    """Parse a request.

    Raises:
        BadInput: The body is not strict JSON: a key occurs twice in an object, or a number is NaN or infinite.
        Unprocessable: A field is missing or invalid, or the state is not a conversation.
    """
    content = parse_json(body, content_type, is_strict=True)
    if not isinstance(content, dict):
        raise Unprocessable("a request is a JSON object with model, questions and the conversation")
    model = content.get("model")
    if not isinstance(model, str) or not model:
        raise Unprocessable(f"model names the evaluator, or is {ANY_MODEL!r}; got {_shorten(model)}")
    state_name = "state" if dialect == "systemone" else "input"
    questions = _parse_questions(content.get("questions"), dialect)
    fields = {name for question in questions for name in _NAMED_FIELD.findall(question.instructions)}
    return DecisionRequest(dialect, model, questions, _parse_state(content.get(state_name), state_name, fields))


def _parse_questions(value: Any, dialect: Dialect) -> tuple[AskedQuestion, ...]:
    wanted = dict if dialect == "systemone" else list
    if not isinstance(value, wanted) or not 1 <= len(value) <= MAX_QUESTIONS:
        kind = "an object of questions by name" if dialect == "systemone" else "a list of questions"
        count = f", got {len(value)}" if isinstance(value, wanted) else ""
        raise Unprocessable(f"questions is {kind} with 1 to {MAX_QUESTIONS} entries{count}")
    named = value.items() if isinstance(value, dict) else [(_name_of(entry), entry) for entry in value]
    return tuple(_parse_question(name, entry, dialect) for name, entry in named)


def _name_of(entry: Any) -> str | None:
    name = entry.get("name") if isinstance(entry, dict) else None
    if name is not None and not isinstance(name, str):
        raise Unprocessable(f"the name of a question is a text; got {_shorten(name)}")
    return name


def _parse_question(name: str | None, value: Any, dialect: Dialect) -> AskedQuestion:
    where = AskedQuestion(name, "choice", "").shown
    if not isinstance(value, dict):
        raise Unprocessable(f"{where} is an object with a type; got {_shorten(value)}")
    kinds, instructions = _KINDS[dialect], value.get("instructions")
    kind = kinds.get(value["type"]) if isinstance(value.get("type"), str) else None
    if kind is None:
        raise Unprocessable(f"{where} has the type {_shorten(value.get('type'))}; allowed: {', '.join(kinds)}")
    options = [] if kind == "predicate" else _options_in(value, kind, dialect, where)
    return AskedQuestion(
        name, kind, instructions if isinstance(instructions, str) else "",
        tuple(label for label, _ in options), tuple(text if isinstance(text, str) else "" for _, text in options),
    )  # fmt: skip


def _options_in(value: Fields, kind: Kind, dialect: Dialect, where: str) -> list[tuple[str | bool, Any]]:
    """Return the label and the description of each option.

    Raises:
        Unprocessable: The options are empty, or one is not a text.
    """
    is_choice = kind == "choice"
    if dialect == "systemone":
        name, options = "criteria", _criteria(value.get("criteria"), is_choice)
    else:
        name, key = ("choices", "value") if is_choice else ("levels", "label")
        found = value.get(name)
        rows = [row if isinstance(row, dict) else {} for row in found] if isinstance(found, list) else []
        options = [(row.get(key), row.get("description")) for row in rows]
    if not options:
        raise Unprocessable(f"{where} needs {name}, its options")
    allowed = str | bool if is_choice and dialect == "decisions" else str
    wrong = [label for label, _ in options if not isinstance(label, allowed)]
    if wrong:
        raise Unprocessable(f"an option of {where} is a text; got {_shorten(wrong[0])}")
    return options


def _criteria(value: Any, is_choice: bool) -> list[tuple[Any, Any]]:
    """Return the options of System One: labels with descriptions of a choice, levels of a score; empty for others."""
    if is_choice:
        return list(value.items()) if isinstance(value, dict) else []
    return [(level, None) for level in value] if isinstance(value, list) else []


def _parse_state(state: Any, name: str, fields: Collection[str] = ()) -> list[Message | LiveRow]:
    """Return the messages of a conversation in JSON of a form that `POST /v1/scores` takes, or of one reply as a text.

    A text is not searched for messages: the judged reply could then choose the judged text. If the instructions name
    `fields` of the text, it is a line `NAME: JSON` for each, as MLflow sends it.

    Raises:
        Unprocessable: The state is not a conversation.
    """
    if not isinstance(state, str):
        row = _json_state(state)
    elif fields:
        row = _json_state(_fields_in(state, name, fields))
    else:
        row = exchange(None, state)
    found = parse_conversation(row)
    if not found:
        raise Unprocessable(
            f"{name} is no conversation; send messages with role and content, as to POST /v1/scores, or one reply as a "
            "text"
        )
    return found


def _fields_in(text: str, name: str, fields: Collection[str]) -> dict[str, Any]:
    """Return the fields of a text, which are JSON and therefore cannot contain the beginning of another one.

    Raises:
        Unprocessable: The text is something else.
    """
    decoder, found, place = json.JSONDecoder(), dict[str, Any](), 0
    try:
        while (begin := _FIELD.match(text, place)) is not None and begin[1] in fields and begin[1] not in found:
            found[begin[1]], place = decoder.raw_decode(text, begin.end())
            if place == len(text):
                return found
            place += text.startswith("\n", place)
    except (ValueError, RecursionError):
        pass
    raise Unprocessable(
        f"the instructions name fields of the {name} ({', '.join(sorted(fields))}), and it has other text than a line "
        "NAME: JSON for each; send messages with role and content"
    )


def _json_state(state: Any) -> Any:
    """Return a state in a form that `POST /v1/scores` reads.

    The function calls and outputs of OpenAI's `input` become messages. DeepEval's test case of one turn and MLflow's
    inputs and outputs become a question with its answer; its conversation is a list of messages.
    """
    if isinstance(state, dict) and isinstance(state.get("conversation"), list):
        return state["conversation"]
    if isinstance(state, dict) and "outputs" in state:
        return {"messages": exchange(_only_value(state.get("inputs")), _only_value(state["outputs"]))}
    case = state.get("test_case") if isinstance(state, dict) and len(state) == 1 else None
    if isinstance(case, dict) and isinstance(case.get("actual_output"), str):
        documents = case.get("retrieval_context") or case.get("context")
        messages = exchange(case.get("input") or "", case["actual_output"])
        return {"messages": messages, "documents": documents, "metadata": case.get("metadata")}
    if not isinstance(state, list):
        return state
    return [_call_message(each) if isinstance(each, dict) and "role" not in each else each for each in state]


def _only_value(value: Any) -> Any:
    """Return the text or the messages in a value of MLflow: itself, the only value of an object, or its JSON."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    is_text = value is None or isinstance(value, str)
    is_messages = isinstance(value, list) and all(isinstance(each, dict) for each in value)
    has_messages = isinstance(value, dict) and ("role" in value or isinstance(value.get("messages"), list))
    return value if is_text or is_messages or has_messages else json.dumps(value, ensure_ascii=False)


def _call_message(item: Mapping[str, Any]) -> Mapping[str, Any]:
    if item.get("type") in ("function_call", "custom_tool_call"):
        return {"role": "assistant", "content": None, "tool_calls": [item]}
    if item.get("type") in ("function_call_output", "custom_tool_call_output"):
        return {"role": "tool", "content": item.get("output")}
    return item


# --- questions of the evaluator --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Answered:
    """A question of the evaluator with the place in its scale of each option of the request."""

    asked: AskedQuestion
    question: Question
    places: tuple[int, ...]


class EvaluatorAnswers:
    """Answers of one evaluator to decision requests.

    Args:
        evaluator: The evaluator in use.
        for_anyone: True if scores predict a new annotator.
        good: Lowest answer that counts as good; by default the first above the scale's middle.
    """

    def __init__(self, evaluator: Evaluator, for_anyone: bool = True, good: float | None = None) -> None:
        self.evaluator = evaluator
        sharing = [other for other in evaluator.other_questions if other.shares_evidence]
        self._evaluators = {each.question.id: each for each in [*sharing, evaluator]}
        self._calls = {
            name: Selection.measured(each, good if each is evaluator else None, for_anyone)
            for name, each in self._evaluators.items()
        }
        digest = evaluator.digest()
        self.model = f"{evaluator.name or ANY_MODEL}@{digest}"
        self._names = {ANY_MODEL, evaluator.name, self.model, digest, str(evaluator.signature())} - {""}

    def check(self, request: DecisionRequest) -> list[_Answered]:
        """Return the questions of a request with the evaluator's.

        Raises:
            UnknownModel: The request names another model.
            Unprocessable: The evaluator does not predict a question, or it has another type or other options.
        """
        if request.model not in self._names:
            allowed = ", ".join(sorted({ANY_MODEL, self.evaluator.name, self.model} - {""}))
            raise UnknownModel(f"no model {_shorten(request.model)!r} here; allowed: {allowed}")
        return [self._answered(asked) for asked in request.questions]

    def _answered(self, asked: AskedQuestion) -> _Answered:
        question = self._question(asked)
        scale = question.scale
        if scale.kind is ScaleKind.REAL:
            raise Unprocessable(f"{asked.shown} has a real-valued scale, which no type of question can hold")
        is_yes_no = tuple(scale.options) == (0, 1)
        if asked.kind == "predicate":
            if not is_yes_no:
                raise Unprocessable(f"{asked.shown} is no yes-or-no question. {_expected(question)}")
            return _Answered(asked, question, (0, 1))
        places = [_place(question, label, text) for label, text in zip(asked.labels, asked.descriptions, strict=True)]
        known = [place for place in places if place is not None]
        is_ranked = asked.kind == "choice" or (scale.is_ordered and known == sorted(known))
        if len(known) < len(places) or sorted(known) != list(range(len(scale.options))) or not is_ranked:
            raise Unprocessable(f"the options of {asked.shown} are not those of its scale. {_expected(question)}")
        return _Answered(asked, question, tuple(known))

    def _question(self, asked: AskedQuestion) -> Question:
        """Return the evaluator's question by its id, or else by its wording or id in lines of the instructions.

        Some clients choose the names of their questions themselves.
        """
        known = [each.question for each in self._evaluators.values()]
        found = next((each for each in known if each.id == asked.name), None)
        if found is None:
            text = _lines(asked.instructions)
            by_text = [each for each in known if _lines(each.text) in text or _lines(each.id) in text]
            found = by_text[0] if len(by_text) == 1 else None
        if found is None:
            raise Unprocessable(
                f"the evaluator does not predict {asked.shown}; allowed names: {', '.join(self._evaluators)}"
            )
        return found

    # --- answers ------------------------------------------------------------------------------------------------

    def body(self, request: DecisionRequest, questions: Sequence[_Answered], rows: Sequence[LiveRow]) -> dict[str, Any]:
        """Return the body of the answer, from the rows of the conversation's messages; the last reply is judged.

        Raises:
            Unprocessable: The conversation has no reply, or, in the dialect System One, no question has an answer.
        """
        row = next((row for row in reversed(rows) if row["status"] in ("scored", "unscored")), None)
        if row is None:
            raise Unprocessable("the conversation has no reply of the assistant, so nothing can be judged")
        answers: list[dict[str, Any] | str] = [self._answer(each, row, request.dialect) for each in questions]
        about = {"model": self.model, "signature": row["signature"], "warning": row.get("warning")}
        if request.dialect == "decisions":
            listed = [
                {"type": "refusal", "reason": answer} if isinstance(answer, str) else answer for answer in answers
            ]
            names = [asked.name for asked in request.questions]
            listed = [{**answer, "name": name} for answer, name in zip(listed, names, strict=True)]
            return {**about, "answers": listed, "usage": _OPENAI_USAGE}
        named = dict(zip((str(asked.name) for asked in request.questions), answers, strict=True))
        given = {name: answer for name, answer in named.items() if not isinstance(answer, str)}
        missing = {name: answer for name, answer in named.items() if isinstance(answer, str)}
        if not given:
            raise Unprocessable(f"no question has an answer: {next(iter(missing.values()))}")
        return {**about, "answers": given, "unanswered": missing, "usage": {"input_tokens": 0, "output_tokens": 0}}

    def _answer(self, answered: _Answered, row: LiveRow, dialect: Dialect) -> dict[str, Any] | str:
        """Return one answer, or the reason for having none."""
        found: Mapping[str, Any] = row
        if answered.question.id != self.evaluator.question.id:
            found = ((row.get("notes") or {}).get(OTHER_QUESTIONS) or {}).get(answered.question.id) or {}
        if found.get("distribution") is None:
            return str(found.get("unscored") or row.get("unscored") or "the evaluator gives no distribution")
        by_value = {float(option): p for option, p in found["distribution"].items()}
        scale = [by_value.get(float(option)) for option in answered.question.scale.options]
        if None in scale or len(scale) != len(by_value):
            return "the evaluator changed during the request; send it again"
        p = [by_value[float(option)] for option in answered.question.scale.options]
        calls = self._calls[answered.question.id]
        is_warned = (found.get("warning") or row.get("warning")) is not None
        confidence = 0.0 if calls is None or is_warned else calls.agreement(sorted(by_value), p)
        return _RENDERED[dialect](answered, p, confidence)


def _place(question: Question, label: str | bool, description: str) -> int | None:
    """Return the place of the option that a label names: by its text, its meaning, or both."""
    names = [_names_of(question, option) for option in question.scale.options]
    if tuple(question.scale.options) == (0, 1):
        names = [known | words for known, words in zip(names, _YES_NO, strict=True)]
    texts = [str(label), *([f"{label}: {description}"] if description else [])]
    found = {place for text in texts for place, known in enumerate(names) if text.strip().casefold() in known}
    return found.pop() if len(found) == 1 else None


def _names_of(question: Question, option: Any) -> set[str]:
    meaning = question.meanings.get(str(option), "")
    named = {str(option), _level(question, option), *([meaning] if meaning else [])}
    return {name.strip().casefold() for name in named}


def _level(question: Question, option: Any) -> str:
    """Return the name of a level: the option and its meaning."""
    meaning = question.meanings.get(str(option), "")
    return f"{option}: {meaning}" if meaning else str(option)


def _expected(question: Question) -> str:
    """Return a sentence on the options that a question needs."""
    options = question.scale.options
    if tuple(options) == (0, 1):
        return "Send the type of a yes-or-no question, or a choice of no and yes"
    names = json.dumps([_level(question, option) for option in options], ensure_ascii=False)
    kind = "a score with these levels in this order" if question.scale.is_ordered else "a choice of these"
    return f"Send {kind}: {names}"


# --- dialects --------------------------------------------------------------------------------------------------------

_OPENAI_USAGE = {
    "input_tokens": 0, "output_tokens": 0, "total_tokens": 0,
    "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}  # fmt: skip
"""Usage of an evaluator, which bills no tokens."""


def _system_one(answered: _Answered, p: Sequence[float], confidence: float) -> dict[str, Any]:
    """Return an answer in the dialect System One, whose scores count levels from 0."""
    asked, question = answered.asked, answered.question
    if asked.kind == "predicate":
        return {"type": "noul", "noul": p[1], "confidence": confidence}
    if asked.kind == "score":
        legend = {str(place): _level(question, option) for place, option in enumerate(question.scale.options)}
        shares = {str(place): share for place, share in enumerate(p)}
        return {
            "type": "score", "score": _expectation(p), "confidence": confidence, "legend": legend,
            "probabilities": shares,
        }  # fmt: skip
    by_label = {str(label): p[place] for label, place in zip(asked.labels, answered.places, strict=True)}
    likeliest = max(by_label, key=by_label.__getitem__)
    return {"type": "choice", "choice": likeliest, "confidence": confidence, "probabilities": by_label}


def _openai(answered: _Answered, p: Sequence[float], confidence: float) -> dict[str, Any]:
    """Return an answer in OpenAI's dialect, whose scores count levels from 0."""
    asked = answered.asked
    if asked.kind == "predicate":
        return {"type": "predicate", "probability": p[1], "confidence": confidence}
    if asked.kind == "score":
        levels = [{"label": label, "value": place, "probability": p[place]} for place, label in enumerate(asked.labels)]
        return {"type": "score", "score": _expectation(p), "confidence": confidence, "probabilities": levels}
    rows = [
        {"value": label, "probability": p[place]} for label, place in zip(asked.labels, answered.places, strict=True)
    ]
    likeliest = max(rows, key=lambda row: row["probability"])["value"]
    return {"type": "choice", "choice": likeliest, "confidence": confidence, "probabilities": rows}


_RENDERED: Mapping[Dialect, Callable[[_Answered, Sequence[float], float], dict[str, Any]]] = {
    "systemone": _system_one,
    "decisions": _openai,
}


def _expectation(p: Sequence[float]) -> float:
    return float(sum(place * share for place, share in enumerate(p)))


def _lines(text: str) -> str:
    """Return a text that begins and ends with a line break, without blanks around lines and without empty lines."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(["", *filter(None, lines), ""])


def _shorten(value: Any) -> str:
    """Return a client's value for an error: text without control characters, of limited length."""
    text = value if isinstance(value, str) else type(value).__name__
    return sendable(text)[:MAX_SHOWN]
