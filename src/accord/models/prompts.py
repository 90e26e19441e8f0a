"""A conversation and a question as a prompt: shared instructions first, the fenced transcript, the question last."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib.resources import files
from string import Template

from accord.edges import sendable
from accord.models.model import ChatMessage, Prompt
from accord.values import Document, Question, Sample, Scale, Turn, content_hash

LETTERS = "ABCDEFGHIJ"


@cache
def prompt_file(room: str, name: str) -> Template:
    """A prompt file of a package: `prompts/NAME.md` in it."""
    return Template((files(room) / "prompts" / f"{name}.md").read_text(encoding="utf-8"))


template = partial(prompt_file, "accord.models")
"""A prompt file of this package."""


DEFAULT_INSTRUCTIONS = "Judge the conversation below by what is asked after it."


def prompt_for(sample: Sample, question: Question, instructions: str, top_logprobs: int) -> Prompt:
    """The prompt that asks one question about one subject, answered by a single token."""
    labels = answer_labels(question.scale)
    text = template("question").substitute(
        _shared(sample, instructions),
        question=_about(sample) + question.text,
        options=options_of(question, labels),
        labels=", ".join(labels),
    )
    return Prompt((ChatMessage("user", text),), max_tokens=1, temperature=0.0, top_logprobs=top_logprobs)


def verbalised_prompt(sample: Sample, questions: Sequence[Question], instructions: str) -> Prompt:
    """The prompt that asks several questions about one subject, answered by stated probabilities."""
    asked = (
        f"{question.id}: {_about(sample)}{question.text}\n{options_of(question, answer_labels(question.scale))}"
        for question in questions
    )
    text = template("verbalised").substitute(_shared(sample, instructions), questions="\n\n".join(asked))
    return Prompt((ChatMessage("user", text),))


def material_of(sample: Sample, instructions: str) -> str:
    """Instructions and the fenced conversation without a question: the input of a decisions request."""
    shared = _shared(sample, instructions)
    return "\n".join(
        [shared["instructions"], "", shared["fence"], shared["conversation"], shared["fence"], shared["documents"]]
    ).rstrip()


@lru_cache(maxsize=256)
def _shared(sample: Sample, instructions: str) -> Mapping[str, str]:
    """What all prompts about one subject share, byte for byte, so that prefix caches hit."""
    return {"instructions": instructions or DEFAULT_INSTRUCTIONS, **fenced(sample)}


def fenced(sample: Sample) -> Mapping[str, str]:
    """The places `fence`, `conversation` and `documents` of a prompt file that shows a sample.

    The file puts the conversation between two lines of the fence; documents come with theirs, and are empty where
    there are none.
    """
    transcript = transcript_of(sample.conversation.up_to(sample.turn), sample.hidden)
    documents = documents_of(sample.conversation.documents)
    fence = fence_for(transcript + documents)
    shown = f"\nDocuments the assistant could see:\n{fence}\n{documents}\n{fence}\n" if documents else ""
    return {"fence": fence, "conversation": transcript, "documents": shown}


@lru_cache(maxsize=1024)
def material_hash(sample: Sample, instructions: str) -> str:
    """A digest of all that prompts about one subject share."""
    return content_hash(dict(_shared(sample, instructions)))


def question_hash(template_name: str, question: Question) -> str:
    """A digest of what a prompt adds to that for one question: the words around it, the question, its options."""
    return _question_hash(template_name, question.text, options_of(question, answer_labels(question.scale)))


@lru_cache(maxsize=1024)
def _question_hash(template_name: str, text: str, shown: str) -> str:
    return content_hash([template(template_name).template, text, shown])


def prompt_hash(template_name: str, sample: Sample, question: Question, instructions: str) -> str:
    """A digest of everything a model is shown for one question about one subject."""
    turn = sample.turn
    return content_hash([material_hash(sample, instructions), question_hash(template_name, question), turn])


def transcript_of(turns: Sequence[Turn], hidden: tuple[int, int] | None = None) -> str:
    """The turns as text, each under its role and its index; those that are hidden as one line that says so."""
    said = [f"[{index}] {turn.role}:\n{turn.content}{_calls(turn)}" for index, turn in enumerate(turns)]
    if hidden is not None:
        first, last = hidden
        said[first:last] = [f"(turns [{first}] to [{last - 1}] are left out here: the conversation is long)"]
    return sendable("\n\n".join(said))


def _calls(turn: Turn) -> str:
    """The tools that a turn called, with their arguments, a line each."""
    functions = (call.get("function") for call in turn.extra.get("tool_calls") or () if isinstance(call, Mapping))
    named = ((f.get("name"), f.get("arguments", "")) for f in functions if isinstance(f, Mapping))
    return "".join(f"\n(calls {name} {arguments})" for name, arguments in named)


def documents_of(documents: Sequence[Document]) -> str:
    """The documents as text, numbered as citations number them."""
    titled = ((f"[{n}] {d.title or ''}".rstrip(), d.text) for n, d in enumerate(documents, 1))
    numbered = (f"{title}\n{text}" for title, text in titled)
    return sendable("\n\n".join(numbered))


def fence_for(text: str) -> str:
    """A boundary that `text` does not contain and cannot foresee: it is made from the text itself."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    length = 12
    while f"=====[{digest[:length]}]=====" in text and length < len(digest):
        length += 4
    return f"=====[{digest[:length]}]====="


def answer_labels(scale: Scale) -> Mapping[str, str]:
    """What the model writes for each option: the option itself where all are one character, else a letter.

    Options such as 1 and 10 begin with the same token, so that the first token could not tell them apart.
    """
    texts = [str(option) for option in scale.options]
    if all(len(text) == 1 for text in texts):
        return {text: text for text in texts}
    return dict(zip(LETTERS, texts, strict=False))


def options_of(question: Question, labels: Mapping[str, str]) -> str:
    """The options, one a line, with what each means."""
    lines = []
    for label, option in labels.items():
        meaning = question.meanings.get(option, "")
        shown = meaning if label == option else f"{option}. {meaning}".rstrip(". ")
        lines.append(f"{label}. {shown}".rstrip())
    return "\n".join(lines)


def _about(sample: Sample) -> str:
    return "" if sample.turn is None else f"(About the turn [{sample.turn}] only, given all turns before it.) "
