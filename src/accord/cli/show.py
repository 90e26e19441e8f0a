"""What a command shows: the same values as JSON or as plain text, and progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_PLAIN_SECONDS = 5.0
_STATISTICS = {"rmse": "RMSE", "pearson": "r", "spearman": "ρ", "kendall": "τ", "log_loss": "log loss"}


def show(result: Mapping[str, Any], as_json: bool, text: Callable[[Mapping[str, Any]], str]) -> None:
    """Print a result: as JSON, or as `text` writes it."""
    print(json.dumps(result, indent=1, ensure_ascii=False) if as_json else text(result))


class Progress:
    """A count that moves: a bar on a terminal, a plain line every few seconds elsewhere; always on stderr."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what, self.total, self.done = what, total, 0
        self._last = time.monotonic()
        self._bar = _bar(what, total) if sys.stderr.isatty() else None

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def at(self, done: int) -> None:
        """Note how many are done by now."""
        self.done = done
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)
        elif time.monotonic() - self._last > _PLAIN_SECONDS:
            self._last = time.monotonic()
            print(f"{self.what}: {done}" + (f" of {self.total}" if self.total else ""), file=sys.stderr)

    def step(self, _: object = None) -> None:
        """One more is done."""
        self.at(self.done + 1)


class Stages:
    """Progress of one stage after another."""

    def __init__(self) -> None:
        self._shown: Progress | None = None

    def begin(self, name: str, total: int | None) -> Callable[[], None]:
        """End the stage before, begin this one; returns its step."""
        self.__exit__()
        self._shown = Progress(name, total).__enter__()
        return self._shown.step

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.__exit__()
            self._shown = None


def note(text: str) -> None:
    """One line on stderr that a user should know and can do something about."""
    print(f"note: {text}", file=sys.stderr)


def stage(name: str) -> None:
    """Say on stderr what is being done now."""
    print(f"{name} ...", file=sys.stderr)


def _bar(what: str, total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import Progress as Bar

    bar = Bar(console=Console(stderr=True), transient=True)
    bar.add_task(what, total=total)
    return bar


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of text, the first to the left, the others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    shown = (
        "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width)
                  for place, (cell, width) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in shown)


def figure_text(value: float | None, low: float | None, high: float | None, digits: int = 2, ends: int = 2) -> str:
    """A figure with the ends of its interval, where it has one; a dash where it is undefined."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}" + ("" if low is None or high is None else f" [{low:.{ends}f}, {high:.{ends}f}]")


def cost_text(plan: Mapping[str, Any]) -> str:
    """What a plan would cost: requests, tokens, money."""
    cost = f"{plan['requests']} requests, about {plan['input_tokens']} tokens in, at most {plan['output_tokens']} out"
    if plan["unpriced"]:
        return f"{cost}\nprice of {plan['unpriced']!r} unknown; add it to prices.yaml to see it in money"
    return cost if plan["money"] is None else f"{cost}\nabout {plan['money']:.4f} in money"


def spent_text(spent: Mapping[str, Any]) -> str:
    """What was spent: requests, tokens, money."""
    money = "" if spent["money"] is None else f", {spent['money']:.4f} in money"
    return f"{spent['requests']} requests, {spent['input_tokens']} + {spent['output_tokens']} tokens{money}"


def comparison_text(result: Mapping[str, Any]) -> str:
    """The table of `compare`: each system's statistics with their intervals."""
    lines = [*result["rows"], *([result["people"]] if result["people"] else [])]
    alpha = "–" if result["alpha"] is None else f"{result['alpha']:.2f}"
    about = (
        f"{result['question']}: {result['ratings']} ratings of {result['conversations']} conversations by "
        f"{result['annotators']} annotators (α = {alpha}); {result['folds']} folds of whole conversations, "
        f"seed {result['seed']}; 95 % intervals"
    )
    if result["seen"]:
        about += f"\n{result['seen']} conversations that the rubric was learned on are learned from and not tested on"
    return f"{about}\n\n{rows_text(lines)}"


def rows_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """A line a system, and why some ratings have no score."""
    header = ["system", "n", *_STATISTICS.values()]
    rows = [[line["system"], str(line["n"]), *(_cell(line, name) for name in _STATISTICS)] for line in lines]
    return "\n".join([table(header, rows), *_notes(lines)])


def _cell(line: Mapping[str, Any], name: str) -> str:
    return figure_text(line[name], line[f"{name}_low"], line[f"{name}_high"], 3)


def groups_text(groups: Iterable[Mapping[str, Any]]) -> str:
    """Agreement by group: how far each one's predictions are from its ratings, beside all others."""
    names = {"bias": "bias", "rmse": "RMSE", "pearson": "r", "calibration_error": "smECE"}
    rows = [
        [
            f"{g['by']}: {g['group']}",
            str(g["n"]),
            *(_cell(g, name) for name in names),
            f"{g['apart']:+.2f}",
            f"{g['p_holm']:.3f}",
        ]
        for g in groups
    ]
    return table(["group", "n", *names.values(), "apart", "p"], rows)


def _notes(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    notes = [
        f"{line['system']}: {line['unscored']} unscored ({_reasons(line['reasons'])})"
        for line in lines
        if line["unscored"]
    ]
    return ["", *notes] if notes else []


def _reasons(reasons: Mapping[str, int]) -> str:
    return "; ".join(f"{count}: {reason}" for reason, count in reasons.items()) or "nobody else rated the same"


def imported_text(result: Mapping[str, Any]) -> str:
    """What an import kept and skipped."""
    c, labels = result["conversations"], result["labels"]
    lines = [
        f"{c['new']} conversations imported, {c['known']} already there",
        f"{labels['new']} labels imported, {labels['known']} already there",
    ]
    found = result["assessments"]
    if found["new"] or found["known"]:
        lines.append(f"{found['new']} assessments of turns imported, {found['known']} already there")
    if result["other_questions"]:
        named = ", ".join(f"{name} ({count})" for name, count in result["other_questions"].items())
        lines.append(f"labels on questions that the rubric does not ask: {named}")
    if result["skipped"]:
        lines += [f"{result['skipped']} bad rows skipped:", *(f"  {row}" for row in result["bad_rows"])]
    return "\n".join(lines)
