"""Failure modes from the comments of ratings: groups of comments with like words, and their rates by version.

No model is asked. Comments are compared by their word stems and the character n-grams of the stems (TF-IDF, cosine).
Each is linked with its most similar ones, and the graph of links is cut by spectral clustering (Ng, Jordan and Weiss,
2001), so that two wordings without a common word are in one group if other comments use both. The number of groups has
the highest modularity (Reichardt and Bornholdt, 2006). Groups are of one language, because languages share few words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, count_of, validate
from accord.evidence.bank.words import ENGLISH, pieces, taken_apart
from accord.models import is_remote, open_embedder
from accord.project.results import Documented
from accord.project.workspace import Workspace
from accord.results import Document, Figure, Section, Table, Text
from accord.statistics import share_interval
from accord.store import ADJUDICATED
from accord.values import ISSUE, Annotation, Target, Taxonomy

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEWEST_COMMENTS = 40
"""Smallest number of different comments with words of content that are grouped."""
MOST_COMMENTS = 2_000
"""Largest number of different comments that are grouped; of more, as many are taken at equal distances."""
SMALLEST_GROUP = 4
NEIGHBORS = 6
"""Number of most similar comments to which each one is linked."""
MOST_GROUPS = 15
RESOLUTION = 0.4
"""Weight of the links that chance would put into a group; a higher one gives more and smaller groups."""
GRAMS = range(3, 6)
"""Lengths of the character n-grams of a stem."""
WORDS_IN_NAME = 3
QUOTES = 5
UNNAMED = "unknown"
_SOURCE = "accord.project.group_comments"


@dataclass(frozen=True, slots=True)
class RatingComment:
    """A comment of a rating; `version` is the name of the assistant version."""

    target: Target
    question: str
    by: str
    text: str
    version: str


@dataclass(frozen=True, slots=True)
class CommentGroup:
    """Comments about the same failure.

    Attributes:
        name: Words that are frequent in the group and rare outside.
        comments: All comments of the group, the most typical first.
        rate: Share of the rated conversations with such a comment.
        by_version: The same share of each assistant version.
    """

    name: str
    comments: Sequence[RatingComment]
    rate: Figure
    by_version: Sequence[Figure]

    def quotes(self, most: int = QUOTES) -> list[str]:
        """Return the texts of the most typical comments, each once."""
        return list(dict.fromkeys(each.text for each in self.comments))[:most]


@dataclass(frozen=True)
class CommentGroups(Documented):
    """Groups of comments, the most frequent first.

    Attributes:
        groups: The groups; empty if there are too few comments.
        comments: Number of comments of ratings.
        ungrouped: Number of comments in no group.
        conversations: Number of rated conversations.
        too_few: Reason why nothing was grouped; empty otherwise.
        embedder: Embedder whose similarity was added; empty without one.
    """

    groups: Sequence[CommentGroup]
    comments: int
    ungrouped: int
    conversations: int
    too_few: str = ""
    embedder: str = ""

    @property
    def title(self) -> str:
        """Number of groups, or the reason why there are none, in words."""
        if self.too_few:
            return "Too few comments"
        return f"{count_of(len(self.groups), 'failure mode')} in {count_of(self.comments, 'comment')}"

    @property
    def lead(self) -> str:
        """Counts behind the groups in one or two sentences."""
        if self.too_few:
            return self.too_few
        return (f"{count_of(self.ungrouped, 'comment')} of {self.comments:,} fit no group. A rate is the share of "
                f"{count_of(self.conversations, 'rated conversation')} with such a comment; people do not comment on "
                "every failure, so it is a lower bound.")  # fmt: skip

    def document(self) -> Document:
        """Return a table of rates, and the quotes of each group."""
        versions = list(
            dict.fromkeys(figure.part.partition(": ")[2] for each in self.groups for figure in each.by_version)
        )
        header = ["group", "comments", "rate", *(versions if len(versions) > 1 else ())]
        rows: list[list[str | Figure]] = [
            [each.name, f"{len(each.comments):,}", each.rate, *(each.by_version if len(versions) > 1 else ())]
            for each in self.groups
        ]
        quotes = [part for each in self.groups for part in (
            Text(each.name, "heading"), *(Text(quote, "quote") for quote in each.quotes(3)),
        )]  # fmt: skip
        sections = [Section("Rates", parts=[Table(header, rows)]), Section("Quotes", parts=quotes)] if rows else []
        return Document(self.title, self.lead, sections)

    def to_json(self) -> dict[str, Any]:
        """Return all groups with their comments and figures."""
        return {
            "comments": self.comments, "ungrouped": self.ungrouped, "conversations": self.conversations,
            "too_few": self.too_few, "embedder": self.embedder,
            "groups": [
                {"name": each.name, "rate": each.rate.to_json(),
                 "by_version": [figure.to_json() for figure in each.by_version],
                 "comments": [{**asdict(one), "target": str(one.target)} for one in each.comments]}
                for each in self.groups
            ],
        }  # fmt: skip


# --- comments of a project --------------------------------------------------------------------------------------------


def group_comments(project: Workspace, embedder: str = "") -> CommentGroups:
    """Group the comments of the project's ratings; equal stores give equal groups.

    Args:
        project: Project with the ratings.
        embedder: Embedder of this machine whose similarity is added (`open_embedder`); empty for none.

    Raises:
        BadInput: The embedder is unknown, or at an endpoint, where comments are not sent.
    """
    comments, rated = _comments_of(project)
    texts = [each.text for each in comments]
    stems = _stems_of(texts)
    different = len({frozenset(each) for each in stems if each})
    if different < FEWEST_COMMENTS:
        why = (f"{count_of(len(comments), 'comment')} of ratings, {different:,} of them different and with words of "
               f"content; at least {FEWEST_COMMENTS} are needed to find groups.")  # fmt: skip
        return CommentGroups((), len(comments), len(comments), len(rated), why)
    found = group_texts(texts, embedder, stems)
    names = _names([[texts[place] for place in group] for group in found])
    groups = [
        _group(name, [comments[place] for place in places], rated) for name, places in zip(names, found, strict=True)
    ]
    grouped = sum(map(len, found))
    return CommentGroups(groups, len(comments), len(comments) - grouped, len(rated), embedder=embedder)


def taxonomy_of(name: str, kinds: Iterable[tuple[str, str]]) -> Taxonomy:
    """Return a taxonomy of issues with names and definitions of groups, and the residual kind `Other`.

    Raises:
        BadInput: Two kinds have one name, or a name or definition is not allowed.
    """
    chosen = [(kind.strip(), definition.strip()) for kind, definition in kinds]
    for kind, definition in chosen:
        if not kind or not definition or len(kind) > 60 or ":" in kind or "=" in kind:
            raise BadInput(f"failure mode {kind[:60]!r}: a name has 1 to 60 characters without ':' and '=', and a "
                           "definition is not empty")  # fmt: skip
    content = [{"name": kind, "definition": definition} for kind, definition in chosen]
    if "other" not in {kind.casefold() for kind, _ in chosen}:
        content.append({"name": "Other", "definition": "Another failure, which no other kind describes."})
    return validate(Taxonomy, {"name": name, "issues": content}, "failure modes")


def _comments_of(project: Workspace) -> tuple[list[RatingComment], Mapping[str, str]]:
    """Return the present comments of ratings, and the version of each rated conversation by ID.

    Adjudications, comparisons, marks of issues and corrections of a model's issues are not ratings of this kind.
    """
    current = dict[tuple[Any, ...], Annotation]()
    for each in project.store.annotations({"person"}):
        is_rating = each.by != ADJUDICATED and each.against is None and not each.is_correction
        if is_rating and not each.question.startswith(ISSUE):
            current[each.target, each.question, each.by, each.repeat] = each
    ids = {each.target.conversation for each in current.values()}
    rated = {each.id: each.shown_system or UNNAMED for each in project.store.conversations(ids)}
    comments = [
        RatingComment(each.target, each.question, each.by, each.comment.strip(), rated[each.target.conversation])
        for each in current.values()
        if each.comment.strip() and each.target.conversation in rated
    ]
    return sorted(
        comments, key=lambda each: (each.target.conversation, str(each.target), each.question, each.by)
    ), rated


def _group(name: str, comments: Sequence[RatingComment], rated: Mapping[str, str]) -> CommentGroup:
    with_comment = {each.target.conversation for each in comments}
    by_version = [
        _rate(f"{name}: {version}", [each for each in rated if rated[each] == version], with_comment)
        for version in sorted(set(rated.values()))
    ]
    return CommentGroup(name, comments, _rate(name, list(rated), with_comment), by_version)


def _rate(part: str, conversations: Sequence[str], with_comment: set[str]) -> Figure:
    found = share_interval([each in with_comment for each in conversations], conversations)
    n = len(conversations)
    return Figure.measured(
        "comment_rate", found, n, count_of(n, "rated conversation"), "people", part=part, source=_SOURCE
    )


# --- grouping ---------------------------------------------------------------------------------------------------------


def group_texts(texts: Sequence[str], embedder: str = "", stems: Sequence[Sequence[str]] = ()) -> list[list[int]]:
    """Return the places of the texts of each group; the largest group and the most typical text of a group come first.

    Texts without words of content, and groups of fewer than `SMALLEST_GROUP` texts, are left out.

    Args:
        texts: The texts.
        embedder: Embedder of this machine whose similarity is added; empty for none.
        stems: Stems of each text, if they are known.
    """
    own = stems or _stems_of(texts)
    alike = dict[frozenset[str], list[int]]()
    for place, each in enumerate(own):
        if each:
            alike.setdefault(frozenset(each), []).append(place)
    keys = sorted(alike, key=sorted)
    if len(keys) > MOST_COMMENTS:
        keys = [keys[place] for place in np.linspace(0, len(keys) - 1, MOST_COMMENTS).astype(int)]
    if len(keys) <= NEIGHBORS:
        return []
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        similarity = _similarity([sorted(key) for key in keys], [texts[alike[key][0]] for key in keys], embedder)
        links = _links(similarity)
        group = _partition(links)
    found = []
    for number in range(int(group.max()) + 1):
        members = np.flatnonzero(group == number)
        typical = members[np.argsort(-links[np.ix_(members, members)].sum(axis=1), kind="stable")]
        places = list(chain.from_iterable(alike[keys[member]] for member in typical))
        if len(places) >= SMALLEST_GROUP:
            found.append(places)
    return sorted(found, key=lambda places: (-len(places), min(places)))


def _stems_of(texts: Sequence[str]) -> list[list[str]]:
    """Return the stems of the words of content of each text, in the language of the text or of all texts."""
    return [[stem for _, stem in each] for each in _words_and_stems(texts)]


def _words_and_stems(texts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return the words of content of each text, without signs around them, with their stems."""
    words, _ = taken_apart(pieces("\n".join(texts)), ENGLISH, None)
    found = []
    for text in texts:
        own = pieces(text)
        _, parts = taken_apart(own, words.language, None)
        pairs = zip(own, parts, strict=True)
        found.append([(piece.strip(".,;:!?\"'()[]-–"), stem) for piece, stems in pairs for stem in stems])
    return found


def _similarity(stems: Sequence[Sequence[str]], texts: Sequence[str], embedder: str) -> Floats:
    """Return (n, n) similarities with zeros on the diagonal."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(analyzer=_features, sublinear_tf=True, min_df=2).fit_transform(stems)
    similarity = np.asarray((vectors @ vectors.T).todense(), dtype=float)
    if embedder:
        if is_remote(embedder):
            raise BadInput(f"embedder {embedder[:60]!r} is at an endpoint, and comments are not sent there; name "
                           "a model of this machine, such as minilm-l6")  # fmt: skip
        model = open_embedder(embedder)
        meaning = np.array([model.embed(text) for text in texts], dtype=float)
        similarity = (similarity + np.clip(meaning @ meaning.T, 0.0, None)) / 2
    np.fill_diagonal(similarity, 0.0)
    return similarity


def _features(stems: Sequence[str]) -> list[str]:
    """Return the stems with blanks around them, and their character n-grams."""
    found = list[str]()
    for stem in stems:
        whole = f" {stem} "
        found.append(whole)
        for length in GRAMS:
            found += [whole[start : start + length] for start in range(max(len(whole) - length + 1, 1))]
    return found


def _links(similarity: Floats) -> Floats:
    """Return (n, n) symmetric weights of the links of each text with its most similar ones."""
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :NEIGHBORS]
    links = np.zeros_like(similarity)
    np.put_along_axis(links, nearest, np.take_along_axis(similarity, nearest, axis=1), axis=1)
    return np.maximum(links, links.T)


def _partition(links: Floats) -> Indices:
    """Return (n,) the group of each text by spectral clustering; -1 for a text without a link."""
    from scipy.linalg import eigh
    from sklearn.cluster import KMeans

    linked = np.flatnonzero(links.sum(axis=1) > 0)
    group = np.full(len(links), -1, dtype=np.intp)
    most = min(MOST_GROUPS, len(linked) // SMALLEST_GROUP)
    if most < 1:
        return group
    own = links[np.ix_(linked, linked)]
    root = np.sqrt(own.sum(axis=1))
    size = len(linked)
    _, vectors = eigh(own / root[:, None] / root[None, :], subset_by_index=[size - most, size - 1])
    vectors = vectors[:, ::-1]
    best, chosen = -np.inf, np.zeros(size, dtype=np.intp)
    for count in range(1, most + 1):
        rows = vectors[:, :count] / np.maximum(np.linalg.norm(vectors[:, :count], axis=1, keepdims=True), 1e-9)
        parts = KMeans(count, n_init=10, random_state=0).fit_predict(rows)
        if (quality := _modularity(own, parts)) > best + 1e-12:
            best, chosen = quality, parts
    group[linked] = chosen
    return group


def _modularity(links: Floats, group: Indices) -> float:
    """Return the share of links inside groups minus `RESOLUTION` times the share expected by chance."""
    degree, member = links.sum(axis=1), np.eye(int(group.max()) + 1)[group]
    total = degree.sum()
    inside = np.einsum("ig,ij,jg->", member, links, member, optimize=True) / total
    return float(inside - RESOLUTION * ((degree @ member / total) ** 2).sum())


def _names(groups: Sequence[Sequence[str]]) -> list[str]:
    """Return a name of each group from the words that most of its texts have and few others, no two the same."""
    found = [_words_and_stems(group) for group in groups]
    inside = [Counter(stem for text in group for stem in {stem for _, stem in text}) for group in found]
    overall = sum(inside, Counter[str]())
    total, names = sum(map(len, groups)), list[str]()
    for group, counts in zip(found, inside, strict=True):
        forms = Counter(pair for text in group for pair in text)
        shown = {stem: word for (word, stem), _ in reversed(forms.most_common())}
        ranked = sorted(
            counts, key=lambda stem: (-(counts[stem] ** 2) / overall[stem] * np.log1p(total / overall[stem]), stem)
        )
        words = [shown[stem].replace(":", "").replace("=", "") for stem in ranked[:WORDS_IN_NAME]]
        name = ", ".join(dict.fromkeys(word[:18] for word in words)) or "group"
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    return names
