"""Statistics of assessed turns (SODA-EVAL, section 4.3 and appendix C.3): issues, scores and dialogues.

Every number is a count or a mean over turns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accord.results import text_table
from accord.values import MAX_SCORE, MIN_SCORE, Conversation, Estimate, IssueAnnotation, Taxonomy

SCORES = range(MIN_SCORE, MAX_SCORE + 1)
LATEST_POSITION = 20
"""Later positions are counted together."""


@dataclass(frozen=True)
class KindCounts:
    """A kind of issue: number, share and mean score of its turns."""

    type: str
    turns: int
    share: float | None
    mean_score: float | None
    objective: bool | None
    critical: bool | None


@dataclass(frozen=True)
class KindAtScore:
    """Number of issues of a kind in turns with one score (figure 8)."""

    score: int
    type: str
    issues: int


@dataclass(frozen=True)
class GroupCounts:
    """Turns of one group (position in the dialogue, day or system), with the share that has an issue."""

    group: str | int
    turns: int
    mean_score: float | None
    with_issues: float | None


@dataclass(frozen=True)
class IssueStatistics:
    """Statistics of assessments. Shares are of turns; a turn with two issues of a kind counts once for that kind.

    Attributes:
        turns: Number of assessed turns in `dialogues`.
        without_issues: Share of turns without an issue.
        issues_per_turn: Number of turns by number of issues.
        scores: Number of turns by score.
        dialogue_mean: Number of dialogues by the rounded mean score of their turns (figure 4).
        dialogue_minimum: Number of dialogues by the lowest score of their turns (figure 5).
        quotes: Issues with a quote; `quotes_made_up` counts quotes that are not in their turn.
        renamed: Issues that the model gave another name.
        losses: Unreadable parts of replies, counted by reason.
    """

    turns: int
    dialogues: int
    without_issues: float | None
    issues_per_turn: Mapping[int, int]
    types: Sequence[KindCounts]
    scores: Mapping[int, int]
    types_by_score: Sequence[KindAtScore]
    dialogue_mean: Mapping[int, int]
    dialogue_minimum: Mapping[int, int]
    by_position: Sequence[GroupCounts]
    by_day: Sequence[GroupCounts]
    by_system: Sequence[GroupCounts]
    quotes: int
    quotes_made_up: int
    renamed: int
    losses: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return all fields; counts become rows."""
        counts = {
            "issues_per_turn": [{"issues": n, "turns": turns} for n, turns in self.issues_per_turn.items()],
            "scores": [{"score": score, "turns": turns} for score, turns in self.scores.items()],
            "dialogue_mean": [{"score": score, "dialogues": n} for score, n in self.dialogue_mean.items()],
            "dialogue_minimum": [{"score": score, "dialogues": n} for score, n in self.dialogue_minimum.items()],
        }
        return asdict(self) | counts

    def lines(self) -> list[str]:
        """Return blocks of plain text: kinds by frequency, scores, systems, quotes."""
        kinds = [
            [each.type, str(each.turns), f"{each.share:.1%}", Estimate(each.mean_score).text(),
             "critical" if each.critical else ""]
            for each in sorted(self.types, key=lambda each: -each.turns)
            if each.turns
        ]  # fmt: skip
        scores = [
            list(map(str, (score, turns, self.dialogue_mean[score], self.dialogue_minimum[score])))
            for score, turns in self.scores.items()
        ]
        systems = [
            [str(each.group), str(each.turns), Estimate(each.mean_score).text(), f"{each.with_issues:.1%}"]
            for each in self.by_system
        ]
        parts = [
            f"{self.turns} turns of {self.dialogues} dialogues; {self.without_issues:.1%} without an issue",
            text_table(["kind", "turns", "share", "mean score", ""], kinds) if kinds else "",
            text_table(["score", "turns", "dialogues by mean", "by lowest"], scores),
            text_table(["assistant version", "turns", "mean score", "with issues"], systems)
            if len(systems) > 1
            else "",
            f"{self.quotes_made_up} of {self.quotes} quotes are not in their turn" if self.quotes_made_up else "",
        ]
        return [part for part in parts if part]


def summarize_issues(
    assessments: Sequence[IssueAnnotation], conversations: Iterable[Conversation], taxonomy: Taxonomy
) -> IssueStatistics:
    """Return the statistics of some assessments; `conversations` provide the system and the time."""
    known = {conversation.id: conversation for conversation in conversations}
    counts = Counter(len(each.issues) for each in assessments)
    turns = len(assessments)
    quoted = [issue for each in assessments for issue in each.issues if issue.quote]
    of_score = Counter(each.score for each in assessments)
    return IssueStatistics(
        turns=turns,
        dialogues=len({each.target.conversation for each in assessments}),
        without_issues=_share(counts[0], turns),
        issues_per_turn=dict(sorted(counts.items())),
        types=_types(assessments, taxonomy),
        scores={score: of_score[score] for score in SCORES},
        types_by_score=_types_by_score(assessments, taxonomy),
        dialogue_mean=_dialogues(assessments, mean=True),
        dialogue_minimum=_dialogues(assessments, mean=False),
        by_position=_groups(assessments, lambda each: min(each.target.turn or 0, LATEST_POSITION)),
        by_day=_groups(assessments, lambda each: _day(each, known.get(each.target.conversation))),
        by_system=_groups(assessments, lambda each: _system(known.get(each.target.conversation))),
        quotes=len(quoted),
        quotes_made_up=sum(issue.is_made_up for issue in quoted),
        renamed=sum(issue.said is not None for each in assessments for issue in each.issues),
        losses=dict(Counter(loss for each in assessments for loss in each.losses)),
    )


def _types(assessments: Sequence[IssueAnnotation], taxonomy: Taxonomy) -> list[KindCounts]:
    """Return each kind in the taxonomy's order; kinds of another taxonomy come last."""
    scores: dict[str, list[int]] = defaultdict(list)
    for each in assessments:
        for name in {issue.type for issue in each.issues}:
            scores[name].append(each.score)
    names = [*taxonomy.names, *sorted(set(scores) - set(taxonomy.names))]
    known = {kind.name: kind for kind in taxonomy.issues}
    return [
        KindCounts(
            name, len(own := scores[name]), _share(len(own), len(assessments)), _mean(own),
            known[name].objective if name in known else None, known[name].critical if name in known else None,
        )
        for name in names
    ]  # fmt: skip


def _types_by_score(assessments: Sequence[IssueAnnotation], taxonomy: Taxonomy) -> list[KindAtScore]:
    counts = Counter((each.score, issue.type) for each in assessments for issue in each.issues)
    names = [*taxonomy.names, *sorted({name for _, name in counts} - set(taxonomy.names))]
    return [KindAtScore(score, name, counts[score, name]) for score in SCORES for name in names if counts[score, name]]


def _dialogues(assessments: Sequence[IssueAnnotation], mean: bool) -> dict[int, int]:
    """Return the number of dialogues by the rounded mean, or the lowest, score of their turns."""
    scores: dict[str, list[int]] = defaultdict(list)
    for each in assessments:
        scores[each.target.conversation].append(each.score)
    found = Counter(int(sum(own) / len(own) + 0.5) if mean else min(own) for own in scores.values())
    return {score: found[score] for score in SCORES}


def _groups(
    assessments: Sequence[IssueAnnotation], key: Callable[[IssueAnnotation], str | int | None]
) -> list[GroupCounts]:
    """Return the counts of each named group."""
    grouped: dict[Any, list[IssueAnnotation]] = defaultdict(list)
    for each in assessments:
        name = key(each)
        if name is not None:
            grouped[name].append(each)
    return [
        GroupCounts(
            name,
            len(own),
            _mean([each.score for each in own]),
            _share(sum(bool(each.issues) for each in own), len(own)),
        )
        for name, own in sorted(grouped.items())
    ]


def _system(conversation: Conversation | None) -> str:
    return (conversation.system if conversation is not None else None) or "unknown"


def _day(each: IssueAnnotation, conversation: Conversation | None) -> str | None:
    """Return the day of a turn, or `None` if the log has no time."""
    turn = each.target.turn
    if conversation is None or turn is None or turn >= len(conversation.turns):
        return None
    said = conversation.turns[turn].time or _text(conversation.metadata)
    return said[:10] if said and said[4:5] == "-" else None


def _text(metadata: Mapping[str, Any]) -> str | None:
    said = metadata.get("time") or metadata.get("date") or metadata.get("created_at")
    return said if isinstance(said, str) else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
