"""What assessments come to (SODA-EVAL, section 4.3 and appendix C.3): issues, scores, both together, over dialogues.

Every number is a count or a mean over turns, so that a table, a page and JSON show the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from accord.values import HIGHEST, LOWEST, Conversation, IssueAnnotation, Taxonomy

SCORES = range(LOWEST, HIGHEST + 1)
LATEST_POSITION = 20
"""Turns from here on are counted together."""


def statistics(
    assessments: Sequence[IssueAnnotation], conversations: Iterable[Conversation], taxonomy: Taxonomy
) -> dict[str, Any]:
    """The statistics of some assessments, as JSON.

    Shares are of turns; a turn with two issues of a kind counts once for that kind. `conversations` say which system
    spoke, and when.
    """
    known = {conversation.id: conversation for conversation in conversations}
    counts = Counter(len(each.issues) for each in assessments)
    turns = len(assessments)
    quoted = [issue for each in assessments for issue in each.issues if issue.quote]
    return {
        "turns": turns,
        "dialogues": len({each.target.conversation for each in assessments}),
        "without_issues": _share(counts[0], turns),
        "issues_per_turn": [{"issues": n, "turns": count} for n, count in sorted(counts.items())],
        "types": _types(assessments, taxonomy),
        "scores": [{"score": score, "turns": n} for score, n in _by_score(assessments).items()],
        "types_by_score": _types_by_score(assessments, taxonomy),
        "dialogue_mean": _dialogues(assessments, mean=True),
        "dialogue_minimum": _dialogues(assessments, mean=False),
        "by_position": _groups(assessments, lambda each: min(each.target.turn or 0, LATEST_POSITION)),
        "by_day": _groups(assessments, lambda each: _day(each, known.get(each.target.conversation))),
        "by_system": _groups(assessments, lambda each: _system(known.get(each.target.conversation))),
        "quotes": len(quoted),
        "quotes_made_up": sum(issue.is_made_up for issue in quoted),
        "renamed": sum(issue.said is not None for each in assessments for issue in each.issues),
        "losses": dict(Counter(loss for each in assessments for loss in each.losses)),
    }


def _types(assessments: Sequence[IssueAnnotation], taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """Each kind: in how many turns it occurs, and how these are rated; kinds of another taxonomy come last."""
    scores: dict[str, list[int]] = defaultdict(list)
    for each in assessments:
        for name in {issue.type for issue in each.issues}:
            scores[name].append(each.score)
    names = [*taxonomy.names, *sorted(set(scores) - set(taxonomy.names))]
    known = {kind.name: kind for kind in taxonomy.issues}
    return [
        {
            "type": name,
            "turns": len(scores[name]),
            "share": _share(len(scores[name]), len(assessments)),
            "mean_score": _mean(scores[name]),
            "objective": known[name].objective if name in known else None,
            "critical": known[name].critical if name in known else None,
        }
        for name in names
    ]


def _by_score(assessments: Sequence[IssueAnnotation]) -> dict[int, int]:
    counts = Counter(each.score for each in assessments)
    return {score: counts[score] for score in SCORES}


def _types_by_score(assessments: Sequence[IssueAnnotation], taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """How many issues of each kind turns of each score have (figure 8)."""
    counts = Counter((each.score, issue.type) for each in assessments for issue in each.issues)
    names = [*taxonomy.names, *sorted({name for _, name in counts} - set(taxonomy.names))]
    return [
        {"score": score, "type": name, "issues": counts[score, name]}
        for score in SCORES
        for name in names
        if counts[score, name]
    ]


def _dialogues(assessments: Sequence[IssueAnnotation], mean: bool) -> list[dict[str, Any]]:
    """How many dialogues have which score: the rounded mean of their turns', or the lowest (figures 4 and 5)."""
    scores: dict[str, list[int]] = defaultdict(list)
    for each in assessments:
        scores[each.target.conversation].append(each.score)
    found = Counter(int(sum(own) / len(own) + 0.5) if mean else min(own) for own in scores.values())
    return [{"score": score, "dialogues": found[score]} for score in SCORES]


def _groups(assessments: Sequence[IssueAnnotation], key: Any) -> list[dict[str, Any]]:
    """For each group how many turns it has, their mean score, and the share with an issue."""
    grouped: dict[Any, list[IssueAnnotation]] = defaultdict(list)
    for each in assessments:
        name = key(each)
        if name is not None:
            grouped[name].append(each)
    return [
        {
            "group": name,
            "turns": len(own),
            "mean_score": _mean([each.score for each in own]),
            "with_issues": _share(sum(bool(each.issues) for each in own), len(own)),
        }
        for name, own in sorted(grouped.items())
    ]


def _system(conversation: Conversation | None) -> str:
    return (conversation.system if conversation is not None else None) or "not said"


def _day(each: IssueAnnotation, conversation: Conversation | None) -> str | None:
    """The day of a turn, where the log says when it was said."""
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
