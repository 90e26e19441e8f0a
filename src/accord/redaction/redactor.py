"""Redaction of conversations: personal data become placeholders such as `<EMAIL_1>`, equal values the same one."""

from __future__ import annotations

import ipaddress
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from accord.edges import UnknownName
from accord.redaction.found_spans import (
    PLACEHOLDER,
    Recognizer,
    Span,
    merged_spans,
    recognized,
    stands_apart,
    without_placeholders,
)
from accord.redaction.patterns import HINTS, NUMBERS, RULES, Rule, without_uuids
from accord.redaction.searched_text import SearchedText, normalized
from accord.values import (
    Annotation,
    Contract,
    Conversation,
    Document,
    Issue,
    IssueAnnotation,
    PlainTurns,
    Registry,
    Turn,
    content_hash,
    find_quote,
    first_with_quote,
    steps,
)

VERSION = 3
"""Version of the rules, part of `Redactor.signature`: change it with every rule that finds more or less."""
KINDS = tuple(RULES)
"""Kinds of personal data that Accord's own rules find."""
recognizers: Registry[Recognizer] = Registry(
    "recognizer",
    contract=Contract.function(
        1, "a function of a text that returns spans: (start, end, kind)", "check_recognizer"
    ),
)  # fmt: skip
"""Functions of a text that find further personal data, such as customer numbers."""

_SECRET_KEY = re.compile(
    r"(?:.*[_-])?(?:password|passwd|pwd|passphrase|secret|api_?key|(?:access|refresh|auth|id|bearer)_?token"
    r"|client_?secret|private_?key|authorization)",
    re.IGNORECASE,
)
_MOST_ROUNDS = 8
"""A placeholder may uncover a number next to it, so a text is searched until nothing is found."""
_LONGEST_KEY = 60
_LEAST_NUMBER = 10**7
"""Smallest number in metadata that is read as text: shorter ones are counts and years."""
T = TypeVar("T")


@dataclass(frozen=True)
class Redactor:
    """Settings of redaction; `begin` starts the redaction of one conversation.

    Attributes:
        kinds: Kinds of Accord's own rules, of `KINDS`.
        names: Names of recognizers of plug-ins.

    >>> redactor = Redactor(("email", "phone"))
    >>> redaction = redactor.begin()
    >>> redaction.text("Mail ann@example.com or call +49 30 1234567."), redaction.text("To ANN@example.com, please.")
    ('Mail <EMAIL_1> or call <PHONE_1>.', 'To <EMAIL_1>, please.')
    """

    kinds: tuple[str, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in RULES:
                raise UnknownName("kind of personal data", kind, KINDS)

    def __bool__(self) -> bool:
        """Return True if anything is redacted."""
        return bool(self.kinds or self.names)

    @property
    def signature(self) -> str:
        """Kinds, recognizers and version of the rules, as a short digest for keys and signatures."""
        return content_hash([VERSION, sorted(self.kinds), list(self.names)], length=8).partition(":")[2]

    @cached_property
    def _rules(self) -> list[tuple[str, Callable[[SearchedText], bool], Rule, bool]]:
        return [(kind, HINTS[kind], rule, kind in NUMBERS) for kind, rule in RULES.items() if kind in self.kinds]

    @cached_property
    def _recognizers(self) -> list[tuple[str, Recognizer]]:
        return [(name, recognizers.get(name)) for name in self.names]

    def __getstate__(self) -> dict[str, Any]:
        return {"kinds": self.kinds, "names": self.names}

    def begin(self) -> Redaction:
        """Return a redaction without any value yet."""
        return Redaction(self)

    def may_change(self, text: str) -> bool:
        """Return False if no rule can find anything in a text; recognizers may find something in every text."""
        if self.names:
            return True
        searched = SearchedText(normalized(text)[0])
        return any(HINTS[kind](searched) for kind in self.kinds)

    def find(self, text: str) -> list[Span]:
        """Return the personal data in a text, in order; overlapping finds are one, of the longest find's kind.

        Raises:
            BadInput: A recognizer fails, or returns something else than spans of the text.
        """
        plain, places = normalized(text)
        searched, found = SearchedText(plain), list[Span]()
        numbers = without_uuids(searched)
        for kind, may_find, rule, is_number in self._rules:
            read = numbers if is_number else searched
            if may_find(read):
                if kind == "phone":  # a telephone number never goes on in a number with a checksum
                    read.take(merged_spans(found))
                for start, end in rule(read):
                    found.append(Span(start, end, kind))
        if places is not None:  # a find includes the hidden characters behind it, such as the mark of a keycap
            places.append(len(text))
            found = [Span(places[start], places[end], kind) for start, end, kind in found]
        for name, recognizer in self._recognizers:
            found += recognized(name, recognizer, text)
        return without_placeholders(merged_spans(found), text) if found else found

    def conversation(self, conversation: Conversation) -> Conversation:
        """Return a conversation with placeholders in every text but its id; itself if nothing is found."""
        return self.begin().conversation(conversation)

    def imported(self, conversation: Conversation) -> Conversation:
        """Return a conversation to store: redacted, or a synthetic one as it is."""
        return conversation if conversation.is_synthetic else self.conversation(conversation)


# --- one conversation -----------------------------------------------------------------------------------------------


@dataclass
class Redaction:
    """Placeholders of one conversation, in the order in which their values occur.

    Attributes:
        redactor: The settings.
        values: First spelling of the value of each placeholder.
    """

    redactor: Redactor
    values: dict[str, str] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    _counts: dict[str, int] = field(default_factory=dict, repr=False)
    _quoted: dict[str, Redacted] = field(default_factory=dict, repr=False)  # turns whose quotes were moved

    def reserve(self, *texts: str) -> None:
        """Keep the numbers of other placeholders in these texts free; this redaction did not make them."""
        for text in texts:
            for match in PLACEHOLDER.finditer(text) if "<" in text else ():
                if match.group() not in self.values:
                    kind = match.group(1)
                    self._counts[kind] = max(self._counts.get(kind, 0), int(match.group(2)))

    def text(self, text: str) -> str:
        """Return a text with placeholders; redacting the result again changes nothing."""
        return self.mapped(text).text

    def mapped(self, text: str) -> Redacted:
        """Return a text with placeholders, and the places that they replace."""
        result = Redacted(text, ())
        for _ in range(_MOST_ROUNDS):
            spans = self.redactor.find(result.text)
            if not spans:
                break
            before = result.text
            result = result.replaced([(span, self._placeholder(span, before)) for span in spans])
            if not self.redactor.names and all(stands_apart(before, span) for span in spans):
                break
        return result

    def restore(self, text: str) -> str:
        """Return a text with the values in place of this redaction's placeholders."""
        if not self.values or "<" not in text:
            return text
        return PLACEHOLDER.sub(lambda match: self.values.get(match.group(), match.group()), text)

    def _placeholder(self, span: Span, text: str) -> str:
        value = text[span.start : span.end]
        key = span.kind, _identity(span.kind, value)
        if key not in self._names:
            kind = span.kind.upper()
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[key] = name = f"<{kind}_{self._counts[kind]}>"
            self.values[name] = value
        return self._names[key]

    # --- values and conversations

    def value(self, value: Any, key: str = "") -> Any:
        """Return a JSON value with placeholders in its texts, keys and long numbers.

        A text that is a JSON object or array stays one. `key` is the name of the value, which may tell its kind.
        """
        if isinstance(value, str):
            return self._named_text(value, key)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            return [self.value(inner, key) for inner in value]
        if type(value) is int and abs(value) >= _LEAST_NUMBER:
            changed = self._named_text(str(value), key)
            return value if changed == str(value) else changed
        return value

    def _mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        """Return a mapping with placeholders; keys with the same placeholder get numbers, so that no value is lost."""
        changed, numbers = dict[str, Any](), dict[str, int]()
        for name, inner in value.items():
            key = unique = self.text(str(name))
            while unique in changed:
                numbers[key] = numbers.get(key, 1) + 1
                unique = f"{key} {numbers[key]}"
            changed[unique] = self.value(inner, str(name))
        return changed

    def _named_text(self, text: str, key: str) -> str:
        if text.lstrip()[:1] in ("{", "["):
            try:
                inner = json.loads(text)
            except (ValueError, RecursionError):
                pass
            else:
                changed = self.value(inner, key)
                return text if changed == inner else json.dumps(changed, ensure_ascii=False)
        if "secret" in self.redactor.kinds and _SECRET_KEY.fullmatch(key[:_LONGEST_KEY]) and len(text.strip()) >= 4:
            return text if PLACEHOLDER.search(text) else self._placeholder(Span(0, len(text), "secret"), text)
        prefix = f"{key[:_LONGEST_KEY].replace('_', ' ')}: " if key else ""
        if prefix and self.redactor.may_change(prefix + text):
            size = len(prefix)
            found = [each for each in self.redactor.find(prefix + text) if each.end > size]
            spans = [Span(max(start - size, 0), end - size, kind) for start, end, kind in found]
            text = Redacted(text, ()).replaced([(span, self._placeholder(span, text)) for span in spans]).text
        return self.text(text)

    def conversation(self, conversation: Conversation) -> Conversation:
        """Return a conversation with placeholders in every text but its id; itself if nothing is found."""
        if not self.redactor.may_change("\n".join(_texts(conversation))):
            return conversation
        self.reserve(*_texts(conversation))
        turns: Sequence[Turn] = conversation.turns
        if isinstance(turns, PlainTurns):
            turns = PlainTurns([{**message, "content": self.text(message["content"])} for message in turns.messages])
        else:
            turns = tuple(self.turn(turn) for turn in turns)
        documents = tuple(self.document(document) for document in conversation.documents)
        metadata = self.value(conversation.metadata)
        return replace(conversation, turns=turns, documents=documents, metadata=metadata)

    def turn(self, turn: Turn) -> Turn:
        """Return a turn with placeholders in its text, name, time and other fields; its role stays."""
        name, time = (None if each is None else self.text(each) for each in (turn.name, turn.time))
        text = self._named_text(turn.content, "") if _is_escaped_result(turn) else self.text(turn.content)
        return Turn(turn.role, text, name, time, self.value(turn.extra))

    def document(self, document: Document) -> Document:
        """Return a document with placeholders."""
        name, title = (None if each is None else self.text(each) for each in (document.id, document.title))
        return Document(self.text(document.text), name, title)

    # --- annotations

    def annotation(self, annotation: Annotation, turns: Sequence[Turn]) -> Annotation:
        """Return an annotation with placeholders in its texts, and its quote as in the redacted turn.

        `turns` are the turns of the conversation before its redaction; empty if they are unknown.
        """
        turn = annotation.target.turn
        candidates = turns if turn is None else turns[turn : turn + 1]
        quote, span = self._moved(annotation.quote, annotation.span, candidates)
        given = {name: getattr(annotation, name) for name in ("comment", "shown", "called")}
        texts: dict[str, Any] = {name: self.text(text) for name, text in given.items() if text}
        value = self.text(annotation.value) if isinstance(annotation.value, str) else annotation.value
        return replace(annotation, quote=quote, span=span, value=value, **texts)

    def assessment(self, assessment: IssueAnnotation, turns: Sequence[Turn]) -> IssueAnnotation:
        """Return an assessment of a turn with placeholders; see `annotation`."""
        turn = assessment.target.turn or 0

        def redacted(issue: Issue) -> Issue:
            quote, span = self._moved(issue.quote, issue.span, turns[turn : turn + 1])
            return replace(issue, comment=self.text(issue.comment), quote=quote, span=span)

        losses = tuple(map(self.text, assessment.losses))
        issues = tuple(map(redacted, assessment.issues))
        return replace(assessment, issues=issues, comment=self.text(assessment.comment), losses=losses)

    def _moved(
        self, quote: str, span: tuple[int, int] | None, turns: Sequence[Turn]
    ) -> tuple[str, tuple[int, int] | None]:
        """Return a quote and its span as they are in the redacted turn; a placeholder is quoted whole."""
        number = 0 if span is not None else first_with_quote(quote, [turn.content for turn in turns])
        if number is not None and number < len(turns) and (quote or span):
            text = turns[number].content
            place = span if span is not None else find_quote(quote, text)
            if place is not None:
                if text not in self._quoted:
                    self._quoted[text] = self.mapped(text)
                mapped = self._quoted[text]
                start, end = mapped.moved(*place)
                return (mapped.text[start:end] if quote else quote), (None if span is None else (start, end))
        changed = self.text(quote)
        return changed, span if changed == quote else None


class Redacted(NamedTuple):
    """A redacted text.

    Attributes:
        text: The text with placeholders.
        changes: Replaced parts, in order: start and end in the original, start and end in the text.
    """

    text: str
    changes: tuple[tuple[int, int, int, int], ...]

    def replaced(self, pairs: Sequence[tuple[Span, str]]) -> Redacted:
        """Return the text with further spans replaced; spans never cut a placeholder."""
        pieces, place, moved = [], 0, []
        length = 0
        for span, name in pairs:
            pieces += [self.text[place : span.start], name]
            length += span.start - place + len(name)
            moved.append((span.start, span.end, length - len(name), length))
            place = span.end
        text = "".join([*pieces, self.text[place:]])
        new = Redacted(text, tuple(moved))
        if not self.changes:
            return new
        back = Redacted("", tuple((c, d, a, b) for a, b, c, d in self.changes))  # places of this text in the original
        first = [(a, b, *new.moved(c, d)) for a, b, c, d in self.changes]
        last = [(*back.moved(a, b), c, d) for a, b, c, d in moved]
        return Redacted(text, tuple(sorted([*first, *last])))

    def moved(self, start: int, end: int) -> tuple[int, int]:
        """Return a span of the original as a span of the text; it covers whole placeholders."""
        return self._shifted(start, False), self._shifted(end, True)

    def _shifted(self, place: int, is_end: bool) -> int:
        before = bisect_left(self.changes, place, key=itemgetter(0)) - 1  # last change that begins before the place
        if before < 0:
            return place
        _, last, new_first, new_last = self.changes[before]
        if place < last:
            return new_last if is_end else new_first
        return place + new_last - last


def _texts(conversation: Conversation) -> Iterator[str]:
    turns = conversation.turns
    if isinstance(turns, PlainTurns):
        yield from (message["content"] for message in turns.messages)
    else:
        for turn in turns:
            yield turn.content
            if _is_escaped_result(turn):
                yield from _named(turn.content)
            yield from (each for each in (turn.name, turn.time) if each)
            yield from _named(turn.extra) if turn.extra else ()
    for document in conversation.documents:
        yield from (each for each in (document.text, document.id, document.title) if each)
    yield from _named(conversation.metadata)


def _is_escaped_result(turn: Turn) -> bool:
    """Return True for the result of a tool that is JSON with escaped characters."""
    return steps.is_tool_result(turn) and _is_escaped_json(turn.content)


def _is_escaped_json(text: str) -> bool:
    return "\\u" in text and text.lstrip()[:1] in ("{", "[")


def _named(value: Any, key: str = "") -> Iterator[str]:
    """Yield the texts and long numbers of a JSON value, each after its key."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if "<" in str(name):  # may be a placeholder
                yield str(name)
            yield from _named(inner, str(name)[:_LONGEST_KEY].replace("_", " ")) if inner is not None else (str(name),)
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(_named(inner, key) for inner in value)
    elif isinstance(value, str) and _is_escaped_json(value):
        yield f"{key}: {value}"
        with suppress(ValueError, RecursionError):  # a value may hide behind escapes
            yield from _named(json.loads(value), key)
    elif isinstance(value, str) or (type(value) is int and abs(value) >= _LEAST_NUMBER):
        yield f"{key}: {value}"
    elif key:
        yield key


def _identity(kind: str, value: str) -> str:
    """Return the same text for all spellings of a value."""
    plain = normalized(value)[0]
    if kind == "email":
        return re.sub(r" ?[\[(] ?(?:dot|punkt|point|punto) ?[\])] ?", ".", _AT.sub("@", plain.casefold()))
    if kind == "phone":
        return re.sub(r"\D", "", plain)[-9:]  # with and without the prefix of the country
    if kind in ("card", "iban", "national_id"):
        return re.sub(r"[\W_]", "", plain).upper()
    if kind == "ip":
        try:
            return str(ipaddress.ip_address(plain))
        except ValueError:
            return plain
    return plain if kind in ("secret", "url") else " ".join(plain.casefold().split())


_AT = re.compile(r" ?[\[(] ?(?:at|ät|arroba|arobase|chiocciola) ?[\])] ?")


# --- quotes of texts that are redacted already ------------------------------------------------------------------------


_NUMBERED = re.compile(r"(<[A-Z][A-Z_]{0,30}_)\d{1,5}>")
"""A placeholder; the group has no number."""


def find_redacted_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Return the span of a redacted quote in a redacted text whose placeholders may have other numbers.

    >>> find_redacted_quote("mail <EMAIL_1> now", "Please mail <EMAIL_3> now.")
    (7, 25)
    """
    return find_quote(quote, text, _NUMBERED if "<" in quote else None)


def first_with_redacted_quote(quote: str, texts: Sequence[str]) -> int | None:
    """Return the index of the first redacted text that contains a quote as `find_redacted_quote` finds it."""
    return first_with_quote(quote, texts, _NUMBERED if "<" in quote else None)
