"""Prompts about a sample: shared instructions, the fenced transcript, then the question."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib.resources import files
from string import Template

from accord.edges import sendable
from accord.models.model import ChatMessage, Prompt
from accord.values import Document, Question, Sample, Scale, Turn, content_hash, steps

LETTERS = "ABCDEFGHIJ"
MAX_ARGUMENTS = 4000
"""Number of characters of a step's arguments that are repeated after the transcript."""


@cache
def prompt_file(package: str, name: str) -> Template:
    """Return the prompt file `prompts/NAME.md` of a package."""
    return Template((files(package) / "prompts" / f"{name}.md").read_text(encoding="utf-8"))


template = partial(prompt_file, "accord.models")
"""Return a prompt file of this package."""


DEFAULT_INSTRUCTIONS = "Judge the conversation below by what is asked after it."


def prompt_for(sample: Sample, question: Question, instructions: str, top_logprobs: int) -> Prompt:
    """Return the prompt for one question about a sample, answered by a single token."""
    labels = answer_labels(question.scale)
    text = template("question").substitute(
        _shared(sample, instructions),
        question=_turn_note(sample) + question.text,
        options=options_of(question, labels),
        labels=", ".join(labels),
    )
    return Prompt((ChatMessage("user", text),), 1, 0.0, top_logprobs, conversations=(sample.conversation.id,))


def verbalised_prompt(sample: Sample, questions: Sequence[Question], instructions: str) -> Prompt:
    """Return the prompt for several questions about a sample, answered by stated probabilities."""
    parts = (
        f"{question.id}: {_turn_note(sample)}{question.text}\n{options_of(question, answer_labels(question.scale))}"
        for question in questions
    )
    text = template("verbalised").substitute(_shared(sample, instructions), questions="\n\n".join(parts))
    return Prompt((ChatMessage("user", text),), conversations=(sample.conversation.id,))


def material_of(sample: Sample, instructions: str) -> str:
    """Return instructions and the fenced conversation without a question: the input of a decisions request."""
    shared = _shared(sample, instructions)
    return "\n".join(
        [shared["instructions"], "", shared["fence"], shared["conversation"], shared["fence"], shared["documents"]]
    ).rstrip()


@lru_cache(maxsize=256)
def _shared(sample: Sample, instructions: str) -> Mapping[str, str]:
    """Return the parts that all prompts about a sample share, byte for byte, so that prefix caches hit."""
    return {"instructions": instructions or DEFAULT_INSTRUCTIONS, **fenced(sample)}


def fenced(sample: Sample) -> Mapping[str, str]:
    """Return the values of `fence`, `conversation` and `documents` in a prompt file.

    The file puts the conversation between two lines of the fence. `documents` includes its own fences, and is empty
    without documents.
    """
    transcript = transcript_of(sample.conversation.up_to(sample.turn), sample.hidden) + step_text(sample)
    documents = documents_of(sample.conversation.documents)
    fence = fence_for(transcript + documents)
    section = f"\nDocuments the assistant could see:\n{fence}\n{documents}\n{fence}\n" if documents else ""
    return {"fence": fence, "conversation": transcript, "documents": section}


@lru_cache(maxsize=1024)
def material_hash(sample: Sample, instructions: str) -> str:
    """Return a hash of the parts that all prompts about a sample share."""
    return content_hash(dict(_shared(sample, instructions)))


@lru_cache(maxsize=1024)
def _question_hash(template_name: str, text: str, options: str) -> str:
    """Return a hash of the parts of a prompt for one question."""
    return content_hash([template(template_name).template, text, options])


def prompt_hash(template_name: str, sample: Sample, question: Question, instructions: str) -> str:
    """Return a hash of a whole prompt for one question about a sample."""
    asked = _question_hash(template_name, question.text, options_of(question, answer_labels(question.scale)))
    return content_hash([material_hash(sample, instructions), asked, sample.turn])


def transcript_of(turns: Sequence[Turn], hidden: tuple[int, int] | None = None) -> str:
    """Return turns as text, each under its index and role; a line replaces the hidden ones."""
    texts = [f"[{index}] {turn.role}:\n{turn.content}{_calls(turn)}" for index, turn in enumerate(turns)]
    if hidden is not None:
        first, last = hidden
        texts[first:last] = [f"(turns [{first}] to [{last - 1}] are left out here: the conversation is long)"]
    return sendable("\n\n".join(texts))


def _calls(turn: Turn) -> str:
    """Return a line per tool that a turn calls, with its arguments."""
    named = (parsed[1:] for parsed in map(steps.parse_call, steps.calls_of(turn)) if parsed[1])
    return "".join(f"\n(calls {name} {arguments})" for name, arguments in named)


def step_text(sample: Sample) -> str:
    """Return the call of a step, to follow the transcript within the fence; empty for other samples.

    The result is the judged turn of the transcript. Arguments beyond `MAX_ARGUMENTS` characters are left out.
    """
    if not sample.is_step:
        return ""
    [step] = steps.steps_at(sample)
    place = "no turn of the log" if step.call_turn is None else f"turn [{step.call_turn}]"
    flag = ", flagged as an error" if step.is_error else ""
    left_out = len(step.arguments) - MAX_ARGUMENTS
    gap = f" ({left_out} characters left out here)" if left_out > 0 else ""
    lines = (
        f"The step [{step.turn}]: called in {place}, result in turn [{step.turn}]{flag}",
        f"Tool: {step.name or '(unknown)'}",
        f"Arguments: {step.arguments[:MAX_ARGUMENTS]}{gap}",
    )
    return sendable("\n\n" + "\n".join(lines))


def documents_of(documents: Sequence[Document]) -> str:
    """Return documents as text, numbered like citations."""
    titled = ((f"[{n}] {d.title or ''}".rstrip(), d.text) for n, d in enumerate(documents, 1))
    numbered = (f"{title}\n{text}" for title, text in titled)
    return sendable("\n\n".join(numbered))


def fence_for(text: str) -> str:
    """Return a boundary line that `text` cannot contain, derived from its hash."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    length = 12
    while f"=====[{digest[:length]}]=====" in text and length < len(digest):
        length += 4
    return f"=====[{digest[:length]}]====="


def answer_labels(scale: Scale) -> Mapping[str, str]:
    """Return options by the label that the model writes: the option if all have one character, otherwise a letter.

    Options such as 1 and 10 begin with the same token, so the first token does not identify them.
    """
    texts = [str(option) for option in scale.options]
    if all(len(text) == 1 for text in texts):
        return {text: text for text in texts}
    return dict(zip(LETTERS, texts, strict=False))


def options_of(question: Question, labels: Mapping[str, str]) -> str:
    """Return the options with their meanings, one per line."""
    lines = []
    for label, option in labels.items():
        meaning = question.meanings.get(option, "")
        text = meaning if label == option else f"{option}. {meaning}".rstrip(". ")
        lines.append(f"{label}. {text}".rstrip())
    return "\n".join(lines)


def _turn_note(sample: Sample) -> str:
    if sample.is_step:
        return (
            f"(About the step [{sample.turn}] only: one call of a tool with its result, given all turns before it. "
            "Later turns show how the result was used.) "
        )
    return "" if sample.turn is None else f"(About the turn [{sample.turn}] only, given all turns before it.) "
