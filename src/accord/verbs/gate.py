"""The gate: the verdict on the evaluator in use, and conditions that a CI job sets on comparison and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accord.decisions import AgreementCard
from accord.edges import BadInput, count_of
from accord.project import Workspace, change_of_scores, present_card, refit_note, verdict_in_use
from accord.results import told_apart
from accord.scoring import SCORING_COMMANDS, counted, latest_drift, latest_scored, latest_scores
from accord.statistics import CONFIDENCE, CenteredPart, reach
from accord.store import Store
from accord.values import WITHOUT_SYNTHETIC, Scale, ScoreRow, Synthetic

VERDICT = "verdict of "
"""Start of the condition of a verdict."""
NO_VERDICT = "no verdict is stored; run accord compare"
TABLE_CARD = "content of the card"
"""Condition of a card about the judge of a table, which has no verdict."""
UNPROVEN = "the scores are not shown to be better than a constant guess"
"""State of knowledge if the verdict is "not yet"."""


@dataclass(frozen=True)
class Check:
    """A condition with the required minimum and the actual value; `None` if the value is undefined.

    `value` may be the lower bound of an interval; `estimate` is then the number that the interval belongs to. `reason`
    says why a value is undefined. `words` describe a condition that is not about a number.
    """

    condition: str
    minimum: float
    value: float | None
    estimate: float | None = None
    reason: str = ""
    words: str = ""

    @property
    def passed(self) -> bool:
        """True if the value reaches the minimum."""
        return self.value is not None and self.value >= self.minimum

    @property
    def shown(self) -> str:
        """The value, with as many digits as its distance from the minimum needs."""
        return "undefined" if self.value is None else told_apart(self.value, self.minimum, ".3f")[0]

    def __str__(self) -> str:
        if self.reason:
            return f"{self.condition}: failed: {self.reason}"
        if self.words:
            return f"{self.condition}: {'passed' if self.passed else 'failed'}: {self.words}"
        return f"{self.condition}: {self.shown}, required {self.minimum:g}: {'passed' if self.passed else 'failed'}"

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the sentence as JSON values."""
        return {**asdict(self), "passed": self.passed, "text": str(self)}


def gate_checks(
    project: Workspace,
    min_agreement: float | None = None,
    min_mean: float | None = None,
    max_unscored: float = 0.0,
    min_within: float | None = None,
    training: bool = False,
    card: str | Path | None = None,
    require_refit: bool = False,
    allow_unproven: bool = False,
    max_fall: float | None = None,
) -> list[Check]:
    """Check the verdict and the conditions of a gate, with the arguments and errors of `Project.gate`."""
    question = project.question
    scale = question.scale if question.scale.is_ordered and not question.compares else None
    required = None if card is None else AgreementCard.read(card)
    checks = [] if required is None else check_card(project, required, min_agreement, min_within)
    if require_refit:
        reason = refit_note(project.store, project.folder())
        checks.append(Check("erased conversations in training", 1.0, None if reason else 1.0, None, reason, "none"))
    if required is not None:
        min_agreement = min_within = None
    has_more = not checks or (min_agreement, min_within, min_mean, max_fall) != (None, None, None, None)
    if has_more:
        checks += check_gate(
            project, min_agreement, min_mean, max_unscored, min_within, project.config.synthetic, training, scale,
            max_fall,
        )  # fmt: skip
    if required is not None and required.subject.kind == "evaluator":
        name = required.subject.name
        verdict: dict[str, Any] | None = {key: getattr(required, key) for key in ("title", "sentence", "state")}
    elif required is not None and not has_more and not require_refit:
        return checks  # they are about the judge of a table, and no evaluator is involved
    else:
        name, verdict = project.folder().name, verdict_in_use(project, project.folder())
    return verdict_checks(name, verdict, min_mean is not None, allow_unproven) + checks


def check_card(
    project: Workspace, card: AgreementCard, min_agreement: float | None, min_within: float | None
) -> list[Check]:
    """Check that the project still matches a card, and that the card's lower bounds reach the minimums.

    Args:
        project: Workspace with the evaluator in use.
        card: The card.
        min_agreement: Minimum of the lower bound of r with people.
        min_within: As `min_agreement`, for r within annotators.

    Raises:
        BadInput: The card is about the judge of a table, or the evaluator does not exist.
    """
    check_limits(min_agreement, min_within)
    minimums = {"agreement": min_agreement, "within": min_within}
    checks = [_bound(name, minimum, card) for name, minimum in minimums.items() if minimum is not None]
    if card.subject.kind != "evaluator":
        return [Check(TABLE_CARD, 1.0, 1.0, words="unchanged"), *checks]
    drift = card.drift(present_card(project, card))
    parts = ("evaluator", "question", "scale", "rubric", "judge model", "labels")
    matched = [
        Check(f"{part} of the card", 1.0, None if part in drift else 1.0, reason=drift.get(part, ""), words="unchanged")
        for part in parts
    ]
    moved = [row["feature"] for row in latest_drift(project.store, project.config.synthetic) if row["is_shifted"]]
    if moved:
        reason = f"the latest scored conversations differ from those of the card: {', '.join(moved[:3])}"
        matched.append(Check("conversations of the card", 1.0, None, reason=reason))
    return [*matched, *checks]


def _bound(name: str, minimum: float, card: AgreementCard) -> Check:
    low = card.lower_bounds[name]
    words = "r with people" if name == "agreement" else "r with people within annotators"
    return Check(f"{words} on the card, lower bound", minimum, low)


def verdict_checks(
    name: str, verdict: Mapping[str, Any] | None, with_mean: bool, allow_unproven: bool = False
) -> list[Check]:
    """Return the check of the verdict on an evaluator, or an empty list if it has no verdict.

    Args:
        name: Name of the evaluator.
        verdict: Its verdict, with title, sentence and state.
        with_mean: True if the gate has a condition on the mean of scores; a verdict that allows no comparison of means
            is then a second check, which passes.
        allow_unproven: True to pass an evaluator whose verdict is "not yet".
    """
    state = None if verdict is None else verdict["state"]
    if verdict is None or state is None:
        return []
    condition, finding = f"{VERDICT}{name}", f"{verdict['title']}: {verdict['sentence']}".rstrip(".")
    if state == "not yet" and not allow_unproven:
        return [Check(condition, 1.0, None, reason=f"{finding}. Allow it with --allow-unproven")]
    given_up = f". Allowed: {UNPROVEN}; the gate passes without this proof" if state == "not yet" else ""
    checks = [Check(condition, 1.0, 1.0, words=f"{finding}{given_up}")]
    if with_mean and state == "triage":
        words = "low scores find bad conversations; a mean of scores is not shown to follow people's mean rating"
        checks.append(Check("proof of the mean", 1.0, 1.0, words=words))
    return checks


def check_gate(
    project: Workspace,
    min_agreement: float | None,
    min_mean: float | None,
    max_unscored: float = 0.0,
    min_within: float | None = None,
    synthetic: Synthetic = WITHOUT_SYNTHETIC,
    training: bool = False,
    scale: Scale | None = None,
    max_fall: float | None = None,
) -> list[Check]:
    """Check each condition against the latest runs.

    Args:
        project: Workspace with the runs and scores.
        min_agreement: Minimum of the lower bound of the 95% interval of r with people, for the first evaluator of the
            latest `compare`, `fit` or `run`; from -1 to 1.
        min_mean: Minimum of the lower bound of the 95% interval of the mean of the latest `score`, over conversations;
            within the scale.
        max_unscored: Maximum share of that run's targets without a score, from 0 to 1; checked with `min_mean`.
        min_within: As `min_agreement`, for r within annotators.
        synthetic: Setting for synthetic conversations; runs with another setting are ignored.
        training: True to count scores of conversations that the evaluator learned from.
        scale: Scale of the scores, if their mean lies within it.
        max_fall: Largest fall of people's mean rating, in points of the scale, that the latest batch of scores may
            show; at least 0. See `fall_check`.

    Raises:
        BadInput: No condition is given, a limit is out of range, or no run can be checked.
    """
    check_limits(min_agreement, min_within)
    _check_range("max-unscored", max_unscored, 0, 1, "a share lies")
    if scale is not None:
        _check_range("min-mean", min_mean, scale.numbers[0], scale.numbers[-1], "scores on this scale lie")
    if (min_agreement, min_within, min_mean, max_fall) == (None, None, None, None):
        raise BadInput(
            "no condition given: pass --min-agreement, --min-within, --min-mean, --max-fall, or several of them"
        )
    if max_fall is not None and not 0 <= max_fall < float("inf"):
        raise BadInput(f"--max-fall {max_fall:g}: allowed are points of the scale from 0 on")
    checks = []
    if min_agreement is not None or min_within is not None:
        name, low, low_within, run = _latest_agreement(project.store, synthetic)
        checks += _scale_checks(project, run, "comparison", "accord compare")
        if min_agreement is not None:
            checks.append(Check(f"r of {name} with people, lower bound", min_agreement, low))
        if min_within is not None:
            checks.append(Check(f"r of {name} with people within annotators, lower bound", min_within, low_within))
    if min_mean is not None:
        checks += _score_checks(project, min_mean, max_unscored, synthetic, training)
    if min_mean is not None or max_fall is not None:
        checks += fall_check(project, latest_scored(project.store, project.mart, synthetic), max_fall)
    return checks


def fall_check(project: Workspace, run: str | None, max_fall: float | None) -> list[Check]:
    """Return the check of the latest batch of scores against the earlier ones; `None` states the change alone.

    A fall that is stated fails unless the whole interval of the change of people's mean rating is within `max_fall`,
    and fails if the evaluator cannot tell it, or if most scores lack evidence that it learned from. A change that is
    not clear passes with a note: a gate fails on evidence.

    Args:
        project: The project.
        run: The latest run with scores.
        max_fall: Largest fall of people's mean rating in points.
    """
    name = "change of the latest scores"
    if max_fall is not None:
        name = f"fall of the latest scores, at most {max_fall:g} points"
    found = change_of_scores(project)
    if found is None or run not in found.keys:
        reason = "the latest scores are not by the evaluator in use, or their scale has no numbers; run accord score"
        return [] if max_fall is None else [Check(name, 1.0, None, reason=reason)]
    words = found.summary.rstrip(".")
    if max_fall is None:
        more = ". This is not a condition; add --max-fall POINTS to make it one" if found.state == "fell" else ""
        return [Check(name, 1.0, 1.0, words=f"{words}{more}")]
    low = found.people.low
    if found.is_without_evidence or (found.state == "fell" and (low is None or low < -max_fall)):
        return [Check(name, 1.0, None, reason=words)]
    return [Check(name, 1.0, 1.0, words=words)]


def _score_checks(
    project: Workspace, min_mean: float, max_unscored: float, synthetic: Synthetic, training: bool
) -> list[Check]:
    """Return the checks of the latest scores: their scale, their mean, and the share that is scored.

    Raises:
        BadInput: The project has no scores, or only scores of conversations that the evaluator learned from.
    """
    rows = latest_scores(project.store, project.mart, synthetic)
    if not rows:
        raise BadInput("there are no scores yet; run: accord score new.jsonl --out scores.jsonl")
    rows = rows if training else [row for row in rows if not row.get("in_training")]
    if not rows:
        raise BadInput(
            "the evaluator learned from every conversation of the latest scores; score others, or count these: "
            "--include-training"
        )
    latest, checks = latest_scored(project.store, project.mart, synthetic), list[Check]()
    for run in project.store.runs(*SCORING_COMMANDS):
        if run["id"] == latest:
            checks += _scale_checks(project, run, "scores", "accord fit, then accord score")
    scored = [row for row in rows if row["value"] is not None]
    share = Check("share of targets that are scored", 1.0 - max_unscored, len(scored) / len(rows))
    return [*checks, _mean_check(scored, min_mean), share]


def _scale_checks(project: Workspace, run: Mapping[str, Any], what: str, command: str) -> list[Check]:
    """Return a failed check if a run was made on another scale than the rubric has now, else nothing."""
    question = project.rubric.get(str(run["settings"].get("question")))
    scale = str(run["settings"].get("wording") or "").partition(" ")[2]
    if question is None or not scale or scale == question.scale.range:
        return []
    reason = (
        f"the latest {what} answer {question.id!r} on the scale {scale}, and the rubric asks it on "
        f"{question.scale.range}. Make new ones: {command}"
    )
    return [Check(f"scale of the latest {what}", 1.0, None, reason=reason)]


def _mean_check(rows: list[ScoreRow], minimum: float) -> Check:
    """Return the check of the mean score by the lower bound of its interval over conversations."""
    values = np.array([row["value"] for row in rows], dtype=float)
    conversations = np.array([row["conversation"] for row in rows], dtype=str)
    count, mean = len(set(conversations.tolist())), float(values.mean()) if len(values) else None
    if mean is None:
        return Check("mean of the latest scores", minimum, None)
    interval = f"of the {CONFIDENCE:.0%} interval over {count_of(count, 'conversation')}"
    name = f"mean of the latest scores ({mean:.3f}), lower bound {interval}"
    if count < 2:
        return Check(f"{name} (at least 2 needed)", minimum, None, mean)
    low = mean - reach([CenteredPart((values - mean) / len(values), conversations)])
    return Check(name, minimum, low, mean)


def check_limits(min_agreement: float | None, min_within: float | None) -> None:
    """Raise an error for a limit that no correlation reaches.

    Raises:
        BadInput: A limit is not a number, or is out of range.
    """
    _check_range("min-agreement", min_agreement, -1, 1, "a correlation lies")
    _check_range("min-within", min_within, -1, 1, "a correlation lies")


def _check_range(name: str, value: float | None, low: float, high: float, reason: str) -> None:
    """Raise an error for NaN, a value outside its range, or no number.

    Raises:
        BadInput: The value is out of range or no number.
    """
    if value is not None and not isinstance(value, int | float):
        raise BadInput(
            f"{name} is a number, got {value!r}; the gate checks the latest comparison and the latest scores"
        )
    if value is not None and not low <= value <= high:
        raise BadInput(f"--{name} {value:g}: {reason} between {low:g} and {high:g}; give a number in this range")


def _latest_agreement(store: Store, synthetic: Synthetic) -> tuple[str, float | None, float | None, Any]:
    """Return the first evaluator of the latest comparison, the lower bounds of its r, and its run.

    There is one bound for the pooled r and one for r within annotators.

    Raises:
        BadInput: No comparison was run yet.
    """
    for run in reversed(store.runs()):
        if run["status"] == "done" and run["command"] in {"compare", "fit"} and counted(run) == synthetic:
            found = run["results"]
            rows = (found["comparison"] or {}).get("rows") if "comparison" in found else found["rows"]
            if rows and "evaluator" in rows[0]:
                return rows[0]["evaluator"], rows[0]["pearson_low"], rows[0].get("r_new_annotator_low"), run
    raise BadInput("nothing was compared yet; run: accord compare")
