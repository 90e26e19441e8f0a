"""Issues of replies: annotations with quotes as evidence, and taxonomies of their kinds.

Shipped as YAML: SODA-EVAL's ten kinds (Mendonça et al., 2024, table 3) and ABC-Eval's behaviors.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from accord.edges import UnknownName, load_yaml, validate
from accord.values.conversation import Conversation, Target, content_hash
from accord.values.rubric import FrozenModel, Question, Rubric, Scale, ScaleKind
from accord.values.rubric_files import shipped_names

MIN_SCORE, MAX_SCORE = 1, 5
"""Range of an overall score: poor and excellent."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Issue:
    """One issue of a reply.

    Attributes:
        type: Kind of issue, as named in the taxonomy.
        comment: One sentence on the problem.
        quote: Quoted words of the reply as evidence; may be empty.
        span: Start and end of the quote in the reply, in characters, or `None` if the quote is not found.
        said: Original name of the kind before it was mapped to the taxonomy, or `None` if it is unchanged.
    """

    type: str
    comment: str
    quote: str = ""
    span: Span | None = None
    said: str | None = None

    @property
    def is_made_up(self) -> bool:
        """True if the quote does not occur in the reply."""
        return bool(self.quote) and self.span is None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values without empty fields."""
        row = {"type": self.type, "comment": self.comment, "quote": self.quote, "span": self.span, "said": self.said}
        return {name: value for name, value in row.items() if value or name in {"type", "comment"}}


@dataclass(frozen=True, slots=True)
class IssueAnnotation:
    """A model's assessment of one reply, given the dialogue before it.

    Attributes:
        target: The turn.
        issues: The issues; empty if there are none.
        score: From 1 (poor) to 5 (excellent).
        comment: The reason, in at most 25 words.
        signature: Signature of the model, the taxonomy and the prompts.
        losses: Reasons for parts of the model's reply that could not be parsed.
        said: Digest of the dialogue up to the turn (`turn_digests`); empty if unknown. It distinguishes a conversation
            with the same ID and other texts.
    """

    target: Target
    issues: tuple[Issue, ...]
    score: int
    comment: str
    signature: str
    losses: tuple[str, ...] = ()
    said: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return JSON values without target and signature."""
        row: dict[str, Any] = {"issues": [issue.to_json() for issue in self.issues], "score": self.score}
        more = {"losses": list(self.losses), "said": self.said}
        return {**row, "comment": self.comment, **{name: value for name, value in more.items() if value}}


@dataclass(frozen=True, slots=True)
class Unannotated:
    """A turn that has no assessment, and the reason."""

    target: Target
    reason: str
    detail: str = ""


def turn_digests(conversation: Conversation) -> list[str]:
    """Return a digest per turn of the dialogue up to it: documents, roles, names and texts."""
    last = content_hash([document.to_json() for document in conversation.documents], length=16)
    digests = []
    for turn in conversation.turns:
        calls = list(turn.extra.get("tool_calls") or ())
        last = content_hash([last, turn.role, turn.name, turn.content, calls], length=16)
        digests.append(last)
    return digests


_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"'})
_AROUND = " \t\n\"'.\u2026"
_GAP = re.compile(r"\s{2,}|[^\S ]")
"""White space that is not a single blank."""


def with_located_quotes(annotation: IssueAnnotation, reply: str) -> IssueAnnotation:
    """Return the annotation with the spans of its quotes in the reply."""
    issues = tuple(replace(issue, span=find_quote(issue.quote, reply)) for issue in annotation.issues)
    return replace(annotation, issues=issues)


def find_quote(quote: str, reply: str, counted: re.Pattern[str] | None = None) -> Span | None:
    """Return the span of a quote in a reply, ignoring case, white space and the style of quotation marks.

    Args:
        quote: The quote.
        reply: Text in which the quote is searched for.
        counted: Pattern of texts with a number, such as placeholders; two are equal if their first groups are.

    >>> find_quote("much  Better", "It is much better now.")
    (6, 17)
    """
    words = quote.strip(_AROUND)
    if not words:
        return None
    start = reply.find(words)
    if start >= 0:
        return start, start + len(words)
    plain, moves = _plain(reply, counted)
    wanted, _ = _plain(words, counted)
    start = plain.find(wanted)
    if start < 0:
        return None
    first, last = (bisect_right(moves, place, key=itemgetter(0)) - 1 for place in (start, start + len(wanted)))
    return start + moves[first][1] - moves[first][0], start + len(wanted) + moves[last][1] - moves[last][0]


def first_with_quote(quote: str, texts: Sequence[str], counted: re.Pattern[str] | None = None) -> int | None:
    """Return the index of the first text that contains a quote as `find_quote` finds it, or None.

    >>> first_with_quote("much  Better", ["Hello", "It is much better now."])
    1
    """
    words = quote.strip(_AROUND)
    if not words or "\0" in words:
        return None
    plain, _ = _plain("\0".join(text.replace("\0", " ") for text in texts), counted)
    place = plain.find(_plain(words, counted)[0])
    return None if place < 0 else plain.count("\0", 0, place)


@lru_cache(4)
def _plain(text: str, counted: re.Pattern[str] | None) -> tuple[str, list[tuple[int, int]]]:
    """Return a normalized text for the search of quotes, and its pairs of normalized and original places.

    A run of white space is one blank, and a text that `counted` matches its first group. The places are the beginning
    of the text and both ends of each such part. The quotes of a text come one after the other, so a few texts are kept.
    """
    parts, moves, end, length = list[str](), [(0, 0)], 0, 0
    for match in (_GAP if counted is None else re.compile(f"{_GAP.pattern}|{counted.pattern}")).finditer(text):
        name = " " if counted is None or match[1] is None else match[1]
        parts += [text[end : match.start()], name]
        length += match.start() - end
        moves += [(length, match.start()), (length + len(name), match.end())]
        length, end = length + len(name), match.end()
    plain = "".join([*parts, text[end:]]).translate(_QUOTES)
    return plain.replace("\u0130", "i").lower().replace("\u03c2", "\u03c3"), moves


ISSUE = "issue:"
"""Prefix of the IDs of questions about issues, and of their columns."""


class IssueType(FrozenModel):
    """One kind of issue.

    Attributes:
        name: Name in issue annotations.
        definition: One sentence for models and annotators.
        objective: True if annotators can be expected to agree on it.
        critical: True if one such issue makes a reply unusable.
        aliases: Other names that models give it.
        corresponds: Its name in other taxonomies, by the taxonomy's name.
    """

    name: str = Field(min_length=1, max_length=60, pattern=r"^[^:=]+$")  # names of columns contain it
    definition: str = Field(min_length=1)
    objective: bool = True
    critical: bool = False
    aliases: tuple[str, ...] = ()
    corresponds: Mapping[str, str] = Field(default_factory=dict)


class SecondLook(FrozenModel):
    """Second question about issues of the residual kind; the answer yes changes their kind."""

    type: str
    question: str


class Taxonomy(FrozenModel):
    """Kinds of issues in order.

    `other` names the residual kind, if there is one, for issues without another kind. `looked_at_again` is a second
    question about those (SODA-EVAL, section 4.1: antisocial behavior among "Other").
    """

    name: str = Field(min_length=1)
    issues: tuple[IssueType, ...] = Field(min_length=1, max_length=100)
    source: str = ""
    other: str | None = None
    looked_at_again: SecondLook | None = None

    @model_validator(mode="after")
    def _names_fit(self) -> Taxonomy:
        seen: dict[str, str] = {}
        for kind in self.issues:
            for name in dict.fromkeys([normalized_name(kind.name), *map(normalized_name, kind.aliases)]):
                if name in seen:
                    raise ValueError(f"{kind.name!r} and {seen[name]!r} are both called {name!r}")
                seen[name] = kind.name
        named = [self.other, self.looked_at_again.type if self.looked_at_again else None]
        unknown = next((name for name in named if name is not None and name not in self.names), None)
        if unknown is not None:
            raise ValueError(f"{unknown!r} is not one of its issues: {', '.join(self.names)}")
        if self.looked_at_again is not None and self.other is None:
            raise ValueError("looked_at_again needs `other`: it asks again about issues of that kind")
        return self

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the kinds, in order."""
        return tuple(kind.name for kind in self.issues)

    @cached_property
    def _by_name(self) -> dict[str, IssueType]:
        named = {normalized_name(alias): kind for kind in self.issues for alias in kind.aliases}
        return named | {normalized_name(kind.name): kind for kind in self.issues}

    def __getitem__(self, name: str) -> IssueType:
        """Return a kind by name.

        Raises:
            UnknownName: There is no such kind.
        """
        kind = next((kind for kind in self.issues if kind.name == name), None)
        if kind is None:
            raise UnknownName("issue", name, self.names)
        return kind

    def find(self, name: str) -> IssueType | None:
        """Return a kind by name or alias, ignoring case and punctuation, or `None` if it is unknown."""
        return self._by_name.get(normalized_name(name))

    @cached_property
    def hash(self) -> str:
        """Digest of everything that a model sees."""
        return content_hash(self.model_dump(mode="json", exclude={"source"}), length=12)

    @cached_property
    def rubric(self) -> Rubric:
        """The taxonomy as a rubric: one binary question per kind, so that any judge returns its probability."""
        binary = Scale(kind=ScaleKind.BINARY, options=(0, 1))
        questions = tuple(
            Question(
                id=ISSUE + kind.name,
                text=f"Does the reply have this issue? {kind.name}: {kind.definition}",
                scale=binary,
                meanings={"0": "No, it does not.", "1": "Yes, it does."},
            )
            for kind in self.issues
        )
        instructions = (
            "Look at one reply in the conversation below, given the turns before it, and answer the question."
        )
        return Rubric(
            name=f"issues of {self.name}", questions=questions, main=questions[0].id, instructions=instructions
        )

    def counterparts(self, other: str) -> dict[str, str]:
        """Return the names of the kinds in another taxonomy, for those that have one.

        Raises:
            UnknownName: No kind has a name in that taxonomy.
        """
        names = {kind.name: kind.corresponds[other] for kind in self.issues if other in kind.corresponds}
        if not names:
            known = {name for kind in self.issues for name in kind.corresponds}
            raise UnknownName(f"counterpart of {self.name!r}", other, known)
        return names


def normalized_name(name: str) -> str:
    """Return a name without case, punctuation and repeated spaces: `Non-Textual` is `non textual`."""
    return " ".join(re.sub(r"[\W_]+", " ", name).lower().split())


def shipped_taxonomies() -> list[str]:
    """Return the names of the shipped taxonomies."""
    return shipped_names("accord.values.taxonomies")


def load_taxonomy(name_or_path: str | Path, folder: Path = Path()) -> Taxonomy:
    """Read a taxonomy: a shipped one by name (`soda-eval`), or a YAML file by its path, relative to `folder`.

    Raises:
        BadInput: The file does not exist, is not YAML, has unknown keys or two equal names, or is inconsistent.
        UnknownName: There is neither a file nor a shipped taxonomy of this name.
    """
    path = folder / name_or_path
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        return read_taxonomy(load_yaml(path), str(path))
    if str(name_or_path) not in shipped_taxonomies():
        raise UnknownName("taxonomy", str(name_or_path), shipped_taxonomies())
    return _shipped(str(name_or_path))


@cache
def _shipped(name: str) -> Taxonomy:
    path = Path(str(files("accord.values.taxonomies") / f"{name}.yaml"))
    return read_taxonomy(load_yaml(path), str(path))


def read_taxonomy(content: Any, where: str) -> Taxonomy:
    """Return a taxonomy from parsed YAML; `where` names the file in errors.

    Raises:
        BadInput: The content has unknown keys, wrong types or two equal names, or is inconsistent.
    """
    return validate(Taxonomy, content, where)
