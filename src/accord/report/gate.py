"""The gate: what a CI job demands of the latest comparison and of the latest scores."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from accord.project import counted, latest_scores
from accord.store import Store
from accord.values import WITHOUT, BadInput, Synthetic


@dataclass(frozen=True)
class Check:
    """What is demanded at least, beside what was found; `None` is undefined."""

    what: str
    demanded: float
    found: float | None

    @property
    def passed(self) -> bool:
        """Whether it is as demanded."""
        return self.found is not None and self.found >= self.demanded

    def __str__(self) -> str:
        shown = "undefined" if self.found is None else f"{self.found:.3f}"
        return f"{self.what}: {shown}, demanded {self.demanded:g}: {'passed' if self.passed else 'failed'}"

    def to_json(self) -> dict[str, Any]:
        """Everything, and the sentence."""
        return {**asdict(self), "passed": self.passed, "says": str(self)}


def check_gate(
    store: Store,
    min_agreement: float | None,
    min_mean: float | None,
    max_unscored: float = 0.0,
    min_within: float | None = None,
    synthetic: Synthetic = WITHOUT,
    training: bool = False,
) -> list[Check]:
    """Each demand with what was found.

    Args:
        store: Holds the runs.
        min_agreement: The lower bound of the 95 % interval of r with people, of the first method of the latest
            `compare`, `fit` or `run`, must reach this.
        min_mean: The mean of the latest `score` must reach this.
        max_unscored: The share of that run's targets that may be unscored, where a mean is demanded.
        min_within: As `min_agreement`, of r within annotators: knowing who rates does not count.
        synthetic: Which conversations the runs counted: others are passed over.
        training: True to count scores of conversations that the evaluator learned from.

    Raises:
        BadInput: Nothing is demanded, or there is no such run yet.
    """
    for demanded in (min_agreement, min_within, min_mean, max_unscored):
        if demanded is not None and not math.isfinite(demanded):
            raise BadInput(f"the gate demands {demanded}; give a number")
    if min_agreement is None and min_within is None and min_mean is None:
        raise BadInput("no condition given: pass --min-agreement, --min-within, --min-mean, or several of them")
    checks = []
    if min_agreement is not None or min_within is not None:
        system, low, low_within = _latest_agreement(store, synthetic)
        if min_agreement is not None:
            checks.append(Check(f"r of {system} with people, lower bound", min_agreement, low))
        if min_within is not None:
            checks.append(Check(f"r of {system} with people within annotators, lower bound", min_within, low_within))
    if min_mean is not None:
        rows = latest_scores(store, synthetic)
        if not rows:
            raise BadInput("there are no scores yet; run: accord score new.jsonl --out scores.jsonl")
        rows = rows if training else [row for row in rows if not row.get("in_training")]
        if not rows:
            raise BadInput(
                "the evaluator learned from every conversation of the latest scores; score others, or count these: "
                "--include-training"
            )
        values = [row["value"] for row in rows if row["value"] is not None]
        checks.append(Check("mean of the latest scores", min_mean, fmean(values) if values else None))
        scored = len(values) / len(rows)
        checks.append(Check("share of targets that are scored", 1.0 - max_unscored, scored))
    return checks


def _latest_agreement(store: Store, synthetic: Synthetic) -> tuple[str, float | None, float | None]:
    """The first system of the latest comparison, and the lower bounds of its r with people: pooled, within annotators.

    Raises:
        BadInput: Nothing was compared yet.
    """
    for run in reversed(store.runs()):
        if run["status"] == "done" and run["command"] in {"compare", "fit"} and counted(run) == synthetic:
            found = run["results"]
            rows = (found["comparison"] or {}).get("rows") if "comparison" in found else found["rows"]
            if rows:
                return rows[0]["system"], rows[0]["pearson_low"], rows[0].get("pearson_within_annotators_low")
    raise BadInput("nothing was compared yet; run: accord compare")
