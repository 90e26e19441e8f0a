"""Agreement cards of a judge in a table."""

from __future__ import annotations

from datetime import date
from typing import Any

from accord.decisions import AgreementCard, check_makers
from accord.table_check.result import CheckResult
from accord.version import __version__


def card_of_check(result: CheckResult, made_by: str = "people") -> AgreementCard:
    """Return the agreement card of a judge in a table.

    Args:
        result: Result of `accord.check`.
        made_by: Maker of the labels; labels by models are refused unless it is `models`.

    Raises:
        BadInput: A person has the name of a model, and the labels were not declared as made by models.
    """
    check_makers(result.labels_by, made_by)
    main, column = result.main, result.columns.get("people", "labels")
    agreement = {
        "question": column, "name": column, "labels": result.labeled, "statistic": main.statistic,
        "pooled": main.judge.to_json(),
    }  # fmt: skip
    counts = sorted(result.labels_by.values(), reverse=True)
    content = {
        "made": date.today().isoformat(), "accord_version": __version__, "project": result.name,
        "subject": {"kind": "judge", "name": result.columns["judge"], "digest": result.digests["judge"]},
        "question": {"id": column, "name": column, "text": "", "scale": result.scale_text, "rubric": "none",
                     "rubric_hash": ""},
        "labels": {"made_by": made_by, "count": sum(counts), "conversations": result.items, "annotators": counts,
                   "digest": result.digests["labels"]},
        "test": {"method": "table", "digest": result.digests["labels"]},
        "title": result.verdict.partition(";")[0].rstrip("."), "state": "table", "sentence": result.verdict,
        "agreement": [agreement],
        "statistics": [
            {"name": row.statistic, "people": row.people.to_json(), "judge": row.judge.to_json()}
            for row in result.agreement
        ],
        "mean": _mean(result),
        "groups": [
            {"by": row.by, "group": row.group, "labels": row.n, "bias": row.bias.to_json(), "p": row.p_holm}
            for row in result.biases
            if row.group
        ],
        "limits": [*result.warnings, *(f"{name}: {reason}" for name, reason in result.missing)],
    }  # fmt: skip
    return AgreementCard.sealed(content)


def _mean(result: CheckResult) -> dict[str, Any] | None:
    means = result.means
    if not means.rows or means.corrected.value is None:
        return None
    return {
        "judge": means.rows[0].mean.to_json(), "corrected": means.corrected.to_json(), "method": means.best,
        "bias": means.bias.to_json(),
    }  # fmt: skip
