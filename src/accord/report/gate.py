"""The gate: what a CI job demands of the latest comparison and of the latest scores."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from accord.project import latest_scores
from accord.store import Store
from accord.values import BadInput


def check_gate(
    store: Store,
    min_agreement: float | None,
    min_mean: float | None,
    max_unscored: float = 0.0,
    min_within: float | None = None,
) -> dict[str, Any]:
    """Each demand with what was found: `{"checks": [{"what", "demanded", "found", "passed", "says"}]}`.

    Args:
        store: Holds the runs.
        min_agreement: The lower bound of the 95 % interval of r with people, of the first method of the latest
            `compare`, `fit` or `run`, must reach this.
        min_mean: The mean of the latest `score` must reach this.
        max_unscored: The share of that run's targets that may be unscored, where a mean is demanded.

        min_within: As `min_agreement`, of r within annotators: knowing who rates does not count.

    Raises:
        BadInput: Nothing is demanded, or there is no such run yet.
    """
    for demanded in (min_agreement, min_within, min_mean, max_unscored):
        if demanded is not None and not math.isfinite(demanded):
            raise BadInput(f"the gate demands {demanded}; give a number")
    if min_agreement is None and min_within is None and min_mean is None:
        raise BadInput("no condition given: pass --min-agreement, --min-within, --min-mean, or several of them")
    checks = []
    if min_agreement is not None:
        line = _latest_line(store)
        checks.append(_check(f"r of {line['system']} with people, lower bound", min_agreement, line["pearson_low"]))
    if min_within is not None:
        line = _latest_line(store)
        low = line.get("pearson_within_annotators_low")
        checks.append(_check(f"r of {line['system']} with people within annotators, lower bound", min_within, low))
    if min_mean is not None:
        rows = latest_scores(store)
        if not rows:
            raise BadInput("there are no scores yet; run: accord score new.jsonl --out scores.jsonl")
        values = [row["value"] for row in rows if row["value"] is not None]
        checks.append(_check("mean of the latest scores", min_mean, fmean(values) if values else None))
        scored = len(values) / len(rows)
        checks.append(_check("share of targets that are scored", 1.0 - max_unscored, scored))
    return {"checks": checks}


def _latest_line(store: Store) -> dict[str, Any]:
    for run in reversed(store.runs()):
        if run["status"] == "done" and run["command"] in {"compare", "fit"}:
            found = run["results"]
            rows = (found["comparison"] or {}).get("rows") if "comparison" in found else found["rows"]
            if rows:
                return dict(rows[0])
    raise BadInput("nothing was compared yet; run: accord compare")


def _check(what: str, demanded: float, found: float | None) -> dict[str, Any]:
    passed = found is not None and found >= demanded
    shown = "undefined" if found is None else f"{found:.3f}"
    says = f"{what}: {shown}, demanded {demanded:g}: {'passed' if passed else 'failed'}"
    return {"what": what, "demanded": demanded, "found": found, "passed": passed, "says": says}
