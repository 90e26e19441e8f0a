"""Strict reading of endpoint replies. A reply of the wrong shape is one `CallFailed`.

| step | function | rejects |
|---|---|---|
| bytes to JSON, without secrets | `parsed` | invalid or deeply nested JSON, duplicate keys |
| JSON to typed values | `an_object`, `a_list`, `a_text`, `a_whole`, `usage_of`, `chat_reply` | other types and ranges |
| a value inside a message | `short`, `a_name`, `an_error_code` | control characters, secrets, long texts |
| numbers to an answer | `no_distribution`, `answered`, `checked` | NaN, numbers outside [0, 1], sums far from 1 |
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Final

from accord.edges import redacted, redacted_json, redacted_message, sendable
from accord.models.model import Answer, CallFailed, Reply, Unanswered, Usage
from accord.values import Question

MALFORMED, NO_DISTRIBUTION, NO_OPTION = "malformed", "no distribution", "no option"
ROUNDING = 1e-3
"""How far probabilities may pass 1, each and together: what 16-bit arithmetic rounds."""
LEAST_MASS = 1e-6
"""Least probability of all options together; with less, the question is unanswered."""
LONGEST_NAME = 200
"""Characters of a model's name; and of what a message repeats of a reply."""


class _Twice:
    """Stands for what is given twice under one key: it is of no type that a reply may hold."""

    def __repr__(self) -> str:
        return "a value that is given twice"


TWICE: Final = _Twice()


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                found[key] = TWICE
            seen.add(key)
    return found


def parsed(body: bytes | str) -> Any:
    """Return the JSON of a reply without secrets; a key that an object gives twice has the value `TWICE`.

    Raises:
        CallFailed: `malformed`: it is no JSON, or nested too deeply to read.
    """
    try:
        return redacted_json(json.loads(body, object_pairs_hook=_unique))
    except (ValueError, RecursionError):
        raise CallFailed(MALFORMED, "the reply is no JSON that can be read") from None


def short(value: Any) -> str:
    """Return a value of a reply for a message: one printable line of at most `LONGEST_NAME` characters, redacted."""
    if isinstance(value, str):
        text = value
    else:
        is_plain = value is None or isinstance(value, bool | int | float | _Twice)
        text = repr(value) if is_plain else f"a {type(value).__name__}"
    line = "".join(letter if letter.isprintable() else " " for letter in sendable(text[: 2 * LONGEST_NAME]))
    line = redacted_message(" ".join(line.split()))
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


def _odd(what: str) -> CallFailed:
    return CallFailed(MALFORMED, f"the reply has no proper {what}")


def an_object(value: Any, what: str) -> Mapping[str, Any]:
    """The value, which must be an object.

    Raises:
        CallFailed: `malformed`, by the name `what`.
    """
    if not isinstance(value, dict):
        raise _odd(what)
    return value


def a_list(value: Any, what: str) -> list[Any]:
    """The value, which must be a list; see `an_object`."""
    if not isinstance(value, list):
        raise _odd(what)
    return value


def a_text(value: Any, what: str) -> str:
    """The value, which must be a text or absent; what no store can hold in it is replaced. See `an_object`."""
    if value is not None and not isinstance(value, str):
        raise _odd(what)
    return redacted(sendable(value or ""))


def a_whole(value: Any, what: str, below: int) -> int:
    """The value, which must be a whole number from 0 and less than `below`; see `an_object`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
        raise _odd(what)
    return value


def a_name(value: Any, asked: str = "") -> str:
    """The name of the model that answered, in one printable line; `asked` where the reply gives none."""
    if not isinstance(value, str) or not value.strip() or value == asked:
        return asked
    return short(value)


def a_log_probability(value: Any) -> float:
    """A natural log probability: finite and at most 0.

    Raises:
        CallFailed: `no distribution`.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -math.inf < value <= ROUNDING:
        raise CallFailed(NO_DISTRIBUTION, f"{short(value)} is no log probability")
    return float(max(value, -1e300))  # a whole number may be smaller than any float


def usage_of(found: Any, sent: str = "prompt_tokens", got: str = "completion_tokens") -> Usage:
    """The tokens that a reply reports; what it does not report as a whole number from 0 is 0 (see `Budgeted`)."""
    about = found if isinstance(found, dict) else {}
    return Usage(_count(about.get(sent)), _count(about.get(got)))


_MOST_TOKENS = 10**12


def _count(value: Any) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= _MOST_TOKENS else 0


def chat_reply(found: Any, model: str, with_tokens: bool = True) -> Reply:
    """What a chat completion's JSON says; `with_tokens` where its token probabilities were asked for.

    Raises:
        CallFailed: `refused` or `filtered`; `malformed` where it holds no choice, or something of another type;
            `no distribution` where its token probabilities are none.
    """
    completion = an_object(found, "completion")
    choices = a_list(completion.get("choices"), "list of choices")
    choice = an_object(choices[0] if choices else None, "choice")
    message = an_object(choice.get("message"), "message")
    refusal = a_text(message.get("refusal"), "refusal")
    if refusal:
        raise CallFailed("refused", short(refusal))
    if choice.get("finish_reason") == "content_filter":
        raise CallFailed("filtered", "the endpoint's content filter withheld the answer")
    return Reply(
        text=a_text(message.get("content"), "content"),
        model=a_name(completion.get("model"), model),
        first_token=_first_token(choice) if with_tokens else None,
        usage=usage_of(completion.get("usage")),
    )


def _first_token(choice: Mapping[str, Any]) -> dict[str, float] | None:
    """Probabilities of the likeliest first tokens; texts with and without a space before them are kept apart.

    Tokens that are written alike, as parts of one character are, add up.
    """
    if choice.get("logprobs") is None:
        return None
    content = an_object(choice["logprobs"], "logprobs").get("content")
    if not content:
        return None
    tops = an_object(a_list(content, "tokens")[0], "token").get("top_logprobs")
    if not tops:
        return None
    found: dict[str, float] = {}
    for top in a_list(tops, "list of likely tokens"):
        about = an_object(top, "likely token")
        if not isinstance(about.get("token"), str):
            raise _odd("text of a token")
        token = redacted(sendable(about["token"]))
        found[token] = found.get(token, 0.0) + math.exp(a_log_probability(about.get("logprob")))
    wrong = no_distribution(found.values())
    if wrong is not None:
        raise CallFailed(NO_DISTRIBUTION, wrong)
    return found


# --- probabilities ------------------------------------------------------------------------------------------------


def no_distribution(numbers: Iterable[Any], tolerance: float = ROUNDING) -> str | None:
    """Why numbers are no probabilities of things that exclude each other; `None` where they are."""
    total = 0.0
    for number in numbers:
        is_number = isinstance(number, Real) and not isinstance(number, bool)
        if not is_number or not 0 <= number <= 1 + tolerance:
            return f"{short(number)} is no probability"
        total += float(number)
    return f"probabilities that exclude each other sum to {total:.4g}" if total > 1 + tolerance else None


def answered(
    question: Question, mass: Mapping[str, Any], version: str = "", tolerance: float = ROUNDING
) -> Answer | Unanswered:
    """Return a question's answer from a probability per option; the mass of everything else is outside.

    If rounding alone carries the sum past 1, all are divided by it. The question is unanswered with `no distribution`
    if a number is not finite or not from 0 to 1, or if they sum to more than 1; with `no option` if its options have
    less than `LEAST_MASS` together.
    """
    wrong = no_distribution(mass.values(), tolerance)
    if wrong is not None:
        return Unanswered(question.id, NO_DISTRIBUTION, f"{question.id!r}: {wrong}")
    inside = {str(option): float(mass.get(str(option), 0.0)) for option in question.scale.options}
    if sum(inside.values()) < LEAST_MASS:
        return Unanswered(question.id, NO_OPTION, f"no probability on any option of {question.id!r}")
    scale = max(1.0, sum(mass.values()))
    probabilities = {option: p / scale for option, p in inside.items()}
    return Answer(question.id, probabilities, max(0.0, 1.0 - sum(probabilities.values())), version)


def checked(answer: Answer | Unanswered) -> Answer | Unanswered:
    """The answer of any judge as it may be kept: with probabilities that are some, or unanswered."""
    if isinstance(answer, Unanswered):
        return answer
    wrong = no_distribution([*answer.probabilities.values(), answer.outside])
    if wrong is None:
        return answer
    return Unanswered(answer.question, NO_DISTRIBUTION, f"{answer.question!r}: {wrong}")


_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def an_error_code(value: Any) -> str:
    """The code that an error's body names, where it is a code; else nothing."""
    return redacted(value) if isinstance(value, str) and _CODE.fullmatch(value) else ""
