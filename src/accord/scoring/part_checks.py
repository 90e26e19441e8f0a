"""Checks of the rows of a score part against each other and against the part's metadata.

| row | check |
|---|---|
| every row | a status, a turn of 0 or later, a conversation unless it is a bad row |
| a row without a score | a reason, and no number |
| a score | finite numbers; increasing options, the same in all rows; probabilities of 0 to 1 that sum to 1 |
| the same | variance and entropy of its distribution; increasing intervals on the scale |
| the same | a value on the scale: its mean or an option, unless most rows of the part have a latent answer |
| predictions of other questions | the same, without variance and entropy |
| all rows | the counts and the sum of the metadata |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from accord.decisions import decode
from accord.learning import OTHER_QUESTIONS
from accord.scoring.parts import ScorePart, reading_part, scan_rows
from accord.scoring.results import ScoreCounts
from accord.values import BAD_ROW, SCORED, UNSCORED, entropy, variance

_TOLERANCE = 1e-6
_CHECKED = (
    "conversation", "turn", "annotator", "status", "value", "low", "high", "band_low", "band_high", "variance",
    "entropy", "distribution", "unscored", "notes", "rated", "in_training", "warning",
)  # fmt: skip
_NUMBERS = ("value", "low", "high", "band_low", "band_high", "variance", "entropy")
_Options = tuple[float, ...]


def check_rows(out: str, part: ScorePart) -> None:
    """Check every row of a part; see the table above.

    Raises:
        BadInput: The part cannot be read, or a row is wrong; the message names the part and the row, from 1.
    """
    with reading_part(out, part.key):
        table = scan_rows(out, part.key).select(_CHECKED).collect()
        shared: dict[str, _Options] = {}
        unusual = list[int]()
        for number, row in enumerate(table.iter_rows(named=True), 1):
            try:
                if not _check_row(row, shared):
                    unusual.append(number)
            except (ValueError, TypeError, LookupError, AttributeError, msgspec.MsgspecError) as error:
                raise ValueError(f"row {number}: {error}") from None
        counts = ScoreCounts.of(table)
        if unusual and 2 * len(unusual) < counts.scored:
            raise ValueError(f"row {unusual[0]}: its value is neither the mean of its distribution nor an option")
        _check_counts(counts, part.counts)


def _check_counts(found: ScoreCounts, stated: ScoreCounts) -> None:
    if not math.isclose(found.total, stated.total, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
        raise ValueError(f"its values sum to {found.total:g}, and its metadata say {stated.total:g}")
    if replace(found, total=stated.total, spent=stated.spent) != stated:
        raise ValueError(
            f"it holds {found.scored} scores of {found.rows} rows, and its metadata say {stated.scored} of "
            f"{stated.rows}, or other reasons and warnings"
        )


def _check_row(row: Mapping[str, Any], shared: dict[str, _Options]) -> bool:
    """Check a row, and return False if its value is neither a mean nor an option; `shared` has options by question."""
    status = row["status"]
    if status not in (SCORED, UNSCORED, BAD_ROW):
        raise ValueError(f"unknown status {status!r}")
    if status != BAD_ROW and (row["conversation"] is None or row["annotator"] is None):
        raise ValueError("it names no conversation or no annotator")
    if row["turn"] is not None and row["turn"] < 0:
        raise ValueError(f"turn {row['turn']} is negative")
    notes = None if row["notes"] is None else msgspec.json.decode(row["notes"])
    for question, answer in _other_answers(notes):
        if answer.get("value") is not None:
            _check_answer(answer, answer["distribution"], shared, question)
    if status != SCORED:
        _check_unscored(row)
        return True
    if row["unscored"] is not None or row["value"] is None:
        raise ValueError("it has no value, or a reason beside its value")
    return _check_score(row, shared)


def _check_unscored(row: Mapping[str, Any]) -> None:
    if any(row[name] is not None for name in (*_NUMBERS, "distribution")):
        raise ValueError("it has numbers without a score")
    if row["unscored"] is None:
        raise ValueError("it has no score and no reason")


def _other_answers(notes: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    answers = notes.get(OTHER_QUESTIONS) if notes else None
    for question, answer in (answers or {}).items():
        yield f"question {question!r}", answer


def _check_score(row: Mapping[str, Any], shared: dict[str, _Options]) -> bool:
    options, probabilities = _check_answer(row, msgspec.json.decode(row["distribution"]), shared, "")
    for name, stated in (("variance", variance(options, probabilities)), ("entropy", entropy(probabilities))):
        if not math.isclose(row[name], stated, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            raise ValueError(f"its {name} is {row[name]:g}, that of its distribution {stated:g}")
    known = (*options, decode(options, probabilities))
    return any(math.isclose(row["value"], value, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) for value in known)


def _check_answer(
    row: Mapping[str, Any], distribution: Mapping[str, float], shared: dict[str, _Options], question: str
) -> tuple[_Options, _Options]:
    """Check the distribution, the value and the intervals of an answer, and return its options and probabilities."""
    where = f"{question}: " if question else ""
    options, probabilities = tuple(map(float, distribution)), tuple(map(float, distribution.values()))
    if not options or not all(map(math.isfinite, (*options, *probabilities))):
        raise ValueError(f"{where}its distribution has a number that is not finite, or no option")
    if any(low >= high for low, high in zip(options, options[1:], strict=False)):
        raise ValueError(f"{where}its options do not rise")
    if shared.setdefault(question, options) != options:
        raise ValueError(f"{where}its options are not those of the other rows")
    if min(probabilities) < -_TOLERANCE or abs(math.fsum(probabilities) - 1) > _TOLERANCE:
        raise ValueError(f"{where}its probabilities do not sum to 1 ({math.fsum(probabilities):g})")
    width = options[-1] - options[0]
    for low, high in ((row["low"], row["high"]), (row.get("band_low"), row.get("band_high"))):
        if not _is_interval(low, high):
            raise ValueError(f"{where}an interval from {low} to {high}")
    numbers = [row[name] for name in _NUMBERS[:5] if row.get(name) is not None]
    if not all(options[0] - width <= number <= options[-1] + width for number in numbers):  # false for NaN, too
        raise ValueError(f"{where}a value or an interval is not on the scale from {options[0]:g} to {options[-1]:g}")
    return options, probabilities


def _is_interval(low: float | None, high: float | None) -> bool:
    """Return True for two ends in order, or for none."""
    return low is high is None or (low is not None and high is not None and low <= high)
