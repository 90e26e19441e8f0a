"""Strict reading of endpoint replies. A reply of the wrong shape raises `CallFailed`."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Final

from accord.edges import redact, redact_json, redact_message, sendable
from accord.models.model import Answer, CallFailed, Reply, Unanswered, Usage
from accord.values import Question

MALFORMED, TOO_LARGE, NO_DISTRIBUTION, NO_OPTION = "malformed", "too large", "no distribution", "no option"
ROUNDING = 1e-3
"""Largest excess of a probability, or of a sum of probabilities, over 1: the rounding of 16-bit arithmetic."""
LEAST_MASS = 1e-6
"""Minimum probability of all options together; with less, the question is unanswered."""
LONGEST_NAME = 200
"""Maximum characters of a model's name, and of a part of a reply in a message."""


class _Duplicate:
    """Value of a key that an object has twice; its type is not valid anywhere in a reply."""

    def __repr__(self) -> str:
        return "a duplicate key"


DUPLICATE: Final = _Duplicate()


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        values |= {key: DUPLICATE for key, count in counts.items() if count > 1}
    return values


def parse_json(body: bytes | str) -> Any:
    """Return the JSON of a reply without secrets; a key that an object has twice gets the value `DUPLICATE`.

    Raises:
        CallFailed: `malformed`: invalid JSON, or nested too deeply.
    """
    try:
        return redact_json(json.loads(body, object_pairs_hook=_unique))
    except (ValueError, RecursionError):
        raise CallFailed(MALFORMED, "the reply is not valid JSON") from None


def shorten(value: Any) -> str:
    """Return a value of a reply for a message: one printable line of at most `LONGEST_NAME` characters, redacted."""
    if isinstance(value, str):
        text = value
    else:
        is_plain = value is None or isinstance(value, bool | int | float | _Duplicate)
        text = repr(value) if is_plain else f"a {type(value).__name__}"
    line = "".join(letter if letter.isprintable() else " " for letter in sendable(text[: 2 * LONGEST_NAME]))
    line = redact_message(" ".join(line.split()))
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


def _malformed(name: str) -> CallFailed:
    return CallFailed(MALFORMED, f"the reply has no valid {name}")


def require_object(value: Any, name: str) -> Mapping[str, Any]:
    """Return a value that must be an object; `name` appears in the error message.

    Raises:
        CallFailed: `malformed`.
    """
    if not isinstance(value, dict):
        raise _malformed(name)
    return value


def require_list(value: Any, name: str) -> list[Any]:
    """Return a value that must be a list; see `require_object`."""
    if not isinstance(value, list):
        raise _malformed(name)
    return value


def require_text(value: Any, name: str) -> str:
    """Return a value that must be a string or absent, without secrets and invalid characters; see `require_object`."""
    if value is not None and not isinstance(value, str):
        raise _malformed(name)
    return redact(sendable(value or ""))


def require_index(value: Any, name: str, below: int) -> int:
    """Return a value that must be an integer from 0 to `below` - 1; see `require_object`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
        raise _malformed(name)
    return value


def model_name(value: Any, requested: str = "") -> str:
    """Return the name of the model that answered, in one printable line; `requested` if the reply has none."""
    if not isinstance(value, str) or not value.strip() or value == requested:
        return requested
    return shorten(value)


def require_log_probability(value: Any) -> float:
    """Return a value that must be a natural log probability: finite and at most 0.

    Raises:
        CallFailed: `no distribution`.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -math.inf < value <= ROUNDING:
        raise CallFailed(NO_DISTRIBUTION, f"{shorten(value)} is not a log probability")
    return float(max(value, -1e300))  # an integer may be smaller than any float


def read_usage(value: Any, sent: str = "prompt_tokens", received: str = "completion_tokens") -> Usage:
    """Return the tokens that a reply reports; an invalid count is 0 (see `Budgeted`)."""
    usage = value if isinstance(value, dict) else {}
    return Usage(_count(usage.get(sent)), _count(usage.get(received)))


_MOST_TOKENS = 10**12


def _count(value: Any) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= _MOST_TOKENS else 0


def read_chat_reply(body: Any, model: str, with_tokens: bool = True) -> Reply:
    """Read the JSON of a chat completion; `with_tokens` if token probabilities were requested.

    Raises:
        CallFailed: `refused` or `filtered`; `malformed` if it has no choice or a value of another type; `no
            distribution` if its token probabilities are invalid.
    """
    completion = require_object(body, "completion")
    choices = require_list(completion.get("choices"), "list of choices")
    choice = require_object(choices[0] if choices else None, "choice")
    return Reply(
        text=message_text(choice, require_object(choice.get("message"), "message")),
        model=model_name(completion.get("model"), model),
        first_token=_first_token(choice) if with_tokens else None,
        usage=read_usage(completion.get("usage")),
    )


def message_text(choice: Mapping[str, Any], message: Mapping[str, Any]) -> str:
    """Return the text of a choice's message or message piece; see `read_chat_reply` for errors."""
    refusal = require_text(message.get("refusal"), "refusal")
    if refusal:
        raise CallFailed("refused", shorten(refusal))
    if choice.get("finish_reason") == "content_filter":
        raise CallFailed("filtered", "the endpoint's content filter withheld the answer")
    return require_text(message.get("content"), "content")


def _first_token(choice: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the probabilities of the likeliest first tokens; a leading space makes a different token.

    Probabilities of tokens with the same text, such as parts of one character, are added.
    """
    if choice.get("logprobs") is None:
        return None
    content = require_object(choice["logprobs"], "logprobs").get("content")
    if not content:
        return None
    tops = require_object(require_list(content, "tokens")[0], "token").get("top_logprobs")
    if not tops:
        return None
    probabilities: dict[str, float] = {}
    for top in require_list(tops, "list of likely tokens"):
        entry = require_object(top, "likely token")
        if not isinstance(entry.get("token"), str):
            raise _malformed("text of a token")
        token = redact(sendable(entry["token"]))
        probability = math.exp(require_log_probability(entry.get("logprob")))
        probabilities[token] = probabilities.get(token, 0.0) + probability
    error = distribution_error(probabilities.values())
    if error is not None:
        raise CallFailed(NO_DISTRIBUTION, error)
    return probabilities


# --- probabilities ------------------------------------------------------------------------------------------------


def distribution_error(numbers: Iterable[Any], tolerance: float = ROUNDING) -> str | None:
    """Return the reason why numbers are not probabilities of exclusive events, or `None` if they are."""
    total = 0.0
    for number in numbers:
        is_number = isinstance(number, Real) and not isinstance(number, bool)
        if not is_number or not 0 <= number <= 1 + tolerance:
            return f"{shorten(number)} is not a probability"
        total += float(number)
    return (
        f"probabilities of exclusive options sum to {total:.4g}, at most 1 is allowed"
        if total > 1 + tolerance
        else None
    )


def make_answer(
    question: Question, mass: Mapping[str, Any], version: str = "", tolerance: float = ROUNDING
) -> Answer | Unanswered:
    """Return a question's answer from a probability per option; all other mass is outside.

    A sum that exceeds 1 by at most `tolerance` is normalized to 1. The question is unanswered with `no distribution` if
    a number is not finite or outside [0, 1], or if the sum exceeds 1; with `no option` if its options have less than
    `LEAST_MASS` together.
    """
    error = distribution_error(mass.values(), tolerance)
    if error is not None:
        return Unanswered(question.id, NO_DISTRIBUTION, f"{question.id!r}: {error}")
    inside = {str(option): float(mass.get(str(option), 0.0)) for option in question.scale.options}
    if sum(inside.values()) < LEAST_MASS:
        return Unanswered(question.id, NO_OPTION, f"no probability on any option of {question.id!r}")
    scale = max(1.0, sum(mass.values()))
    probabilities = {option: p / scale for option, p in inside.items()}
    return Answer(question.id, probabilities, max(0.0, 1.0 - sum(probabilities.values())), version)


def check_answer(answer: Any, question: Question) -> Answer | Unanswered:
    """Return a judge's answer if it has a valid probability for each option, otherwise the question as unanswered."""
    if isinstance(answer, Unanswered):
        return answer
    error = _answer_error(answer, question)
    return answer if error is None else Unanswered(question.id, NO_DISTRIBUTION, f"{question.id!r}: {error}")


def _answer_error(answer: Any, question: Question) -> str | None:
    if not isinstance(answer, Answer) or not isinstance(answer.probabilities, Mapping):
        return f"the judge returned {shorten(answer)} in place of an Answer with a probability for each option"
    if answer.question != question.id:
        return f"the judge answered {shorten(answer.question)} in its place; answers are in the order of the questions"
    options = list(map(str, question.scale.options))
    missing = [option for option in options if option not in answer.probabilities]
    if missing:
        return f"the judge gave no probability for the option {shorten(missing[0])}; allowed: one for each of {options}"
    unknown = [option for option in answer.probabilities if option not in options]
    if unknown:
        return f"the judge gave a probability for {shorten(unknown[0])}, which is not an option; allowed: {options}"
    return distribution_error([*answer.probabilities.values(), answer.outside])


_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def error_code(value: Any) -> str:
    """Return the code in an error's body if it is a valid code, otherwise an empty string."""
    return redact(value) if isinstance(value, str) and _CODE.fullmatch(value) else ""
