"""What `accord fit` says beside its table: labels of issues, a learned rubric, prompts and demonstrations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accord.cli.show import comparison_text, figure_text, note, table

if TYPE_CHECKING:
    from accord.methods import Figure, InContextFindings, RubricFindings

_OF_RUBRICS = {
    "delta_netsat": "ΔNetSAT", "yield_rate": "yield", "yield_deployed": "deployed", "precision_deployed": "right",
    "accuracy": "A", "precision": "P", "recall": "R", "f1": "F1",
}  # fmt: skip
_OF_LABELS = {"precision": "precision", "recall": "recall", "f1": "F1", "alpha": "α", "calibration_error": "smECE"}
Json = Mapping[str, Any]


def fitted_text(result: Json) -> str:
    """Everything that one `accord fit` found out."""
    from accord.methods import InContextFindings

    parts = [comparison_text(result["comparison"])] if result["comparison"] is not None else []
    if result["learned_from"]:
        parts.append(
            f"learned from {result['learned_from']} samples without a label; how far it agrees with people cannot be "
            "said before some have rated"
        )
    if result["labels"]:
        parts.append(_labels(result["labels"]))
    for found in result["findings"].values():
        if "assertions" in found:
            from accord.methods import RubricFindings

            parts.append(_rubric(RubricFindings.of_json(found)))
        elif "prompts" in found:
            parts.append(_in_context(InContextFindings.from_json(found)))
    return "\n\n".join([*parts, f"saved in {result['folder']}"])


def note_cautions(result: Json) -> None:
    """What a user should know before scores are trusted, on stderr."""
    for caution in result["cautions"]:
        note(caution)


def _labels(rows: Sequence[Json]) -> str:
    lines = [
        [f"{row['issue']}: {row['system']}", str(row.get("marks", "")), *(_figure(row, name) for name in _OF_LABELS)]
        for row in rows
    ]
    about = "Labels of issues, on conversations that were not learned from; 95 % intervals"
    return f"{about}\n\n{table(['issue', 'labels', *_OF_LABELS.values()], lines)}"


def _figure(row: Json, name: str) -> str:
    return figure_text(row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high"))


def _rubric(found: RubricFindings) -> str:
    from accord.methods import TABLES

    parts = [
        f"rubric learned on {found.trained} good and bad conversations, tried on {found.tested} others; 95 % intervals"
    ]
    for number, title in TABLES.items():
        rows = found.table(number)
        if len(rows) > 1:
            lines = [[row.system, *(_rubric_figure(name, row.figures[name]) for name in _OF_RUBRICS)] for row in rows]
            parts.append(f"{title}\n{table(['', *_OF_RUBRICS.values()], lines)}")
    width = max(len(one.id) for one in found.assertions)
    listed = (f"{one.id:{width}}  fails {one.fails:4.0%}  {one.text}" for one in found.assertions)
    return "\n\n".join([*parts, "Selected\n" + "\n".join(listed)])


def _rubric_figure(name: str, found: Figure) -> str:
    digits = 1 if name == "delta_netsat" else 2
    return figure_text(found.value, found.low, found.high, digits, digits)


def _in_context(found: InContextFindings) -> str:
    prompts = [
        [prompt.hash, prompt.by, f"{prompt.error:.4f}", "kept" if prompt.kept else ""]
        for prompt in found.prompts[: found.kept + 3]
    ]
    selectors = [
        [
            row.selector + (" *" if row.chosen else ""),
            figure_text(row.target, row.target_low, row.target_high, 3, 3),
            figure_text(row.gain, row.gain_low, row.gain_high, 3, 3),
        ]
        for row in found.selectors
    ]
    return "\n\n".join(
        [
            f"{found.dimension} ({found.level}s): learned from {found.trained} examples and {found.pairs} "
            f"tried sets, tested on {found.tested} others",
            f"Prompts by squared error\n{table(['', 'by', 'error', ''], prompts)}",
            "Selection of examples: exp(-error) of the sets they pick, and the gain over random sets (* is used)\n"
            + table(["", "exp(-error)", "gain"], selectors),
            f"{found.asked} requests; {found.prefix_shared:.0%} of their text repeats the beginning of the request "
            "before",
        ]
    )
