"""Text of a fitted evaluator: comparison, questions, issue labels, and findings of each source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from accord.cli.terminal import comparison_text, figure_text, table

if TYPE_CHECKING:
    from accord.project import Fitted
    from accord.validation import CalledRow

_OF_LABELS = {
    "called": "called",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "alpha": "α",
    "calibration_error": "smECE",
}


def fitted_text(done: Fitted) -> str:
    """Everything that one `accord fit` found out."""
    from accord.edges import count_of, one_line_json  # here: `--help` imports nothing that takes time

    parts = [comparison_text(one_line_json(done.comparison.to_json()))] if done.comparison is not None else []
    if done.learned_from and not done.cautions:
        parts.append(
            f"learned from the evidence of {count_of(done.learned_from, 'sample')} without ratings, so the agreement "
            "with people is unknown"
        )
    if done.questions:
        parts.append(_questions(done))
    if done.labels:
        parts.append(_labels(done.labels))
    parts += [found.section().plain_text() for found in done.findings.values()]
    if done.evaluator.is_fitted:
        parts += done.evaluator.head.remarks()
    return "\n\n".join([*parts, f"saved in {done.folder}"])


def _questions(done: Fitted) -> str:
    """Format out-of-fold agreement for each question of the rubric."""
    from accord.edges import one_line_json

    rows = one_line_json(done.by_question())
    figures = {"rmse": "RMSE", "pearson": "r", "log_loss": "log loss"}
    cells = [
        [row["question"], str(row["n"]), *(
            figure_text(row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high")) for name in figures
        )]
        for row in rows
    ]  # fmt: skip
    about = "Each question, on held-out conversations; 95% intervals"
    return f"{about}\n\n{table(['question', 'ratings', *figures.values()], cells)}"


def _labels(rows: Sequence[CalledRow]) -> str:
    from accord.validation import no_better_than_chance

    about = "Issue labels, on held-out conversations; 95% intervals"
    shown = f"{about}\n\n{table(['issue', 'labels', *_OF_LABELS.values()], map(_cells, rows))}"
    unknown = no_better_than_chance(rows)
    if not unknown:
        return shown
    kinds = ", ".join(unknown)
    return (
        f"{shown}\n\n{kinds}: agreement with annotators is not above chance (α may be 0); do not rely on these labels"
    )


def _cells(row: CalledRow) -> list[str]:
    found = row.to_json()
    figures = [figure_text(found.get(name), found.get(f"{name}_low"), found.get(f"{name}_high")) for name in _OF_LABELS]
    return [f"{row.issue}: {row.system}", str(found.get("marks", "")), *figures]
