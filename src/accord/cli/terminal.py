"""Terminal output: results as JSON or text, progress and notes on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from accord.models import Budget

_PLAIN_SECONDS = 5.0


_handlers: list[Any] = []
_is_quiet = _is_changed = False


def set_verbosity(verbose: bool, quiet: bool) -> None:
    """Set the verbosity: log messages from INFO on, results and errors only, or neither.

    Raises:
        BadInput: Both options are set.
    """
    global _is_quiet, _is_changed
    _is_quiet, was_changed, _is_changed = quiet, _is_changed, verbose or quiet
    if not (was_changed or _is_changed):
        return
    import logging

    from accord.edges import BadInput

    loggers = [logging.getLogger(name) for name in ("accord", "httpx")]
    for logger in loggers:
        logger.setLevel(logging.INFO if verbose else logging.ERROR if quiet else logging.NOTSET)
        for handler in _handlers:
            logger.removeHandler(handler)
    _handlers.clear()
    if verbose and quiet:
        raise BadInput("--verbose and --quiet exclude each other; give one of them")
    if verbose:
        handler = _log_handler()
        _handlers.append(handler)
        for logger in loggers:
            logger.addHandler(handler)


def _log_handler() -> Any:
    import logging

    class Lines(logging.Handler):
        """Log records as single lines on stderr, without credentials."""

        def emit(self, record: logging.LogRecord) -> None:
            say_line(f"{record.levelname.lower()}: {record.name}: {record.getMessage()}")

    return Lines(logging.INFO)


def show(result: Mapping[str, Any], as_json: bool, text: Callable[[Mapping[str, Any]], str]) -> None:
    """Print a result: as JSON, or as `text` writes it."""
    from accord.edges import one_line_json  # a late import keeps `--help` fast

    say(json.dumps(result, indent=1, ensure_ascii=False) if as_json else text(one_line_json(result)))


def say(text: str, is_aside: bool = False) -> None:
    """Print a text without secrets and control characters; on stderr if it is an aside."""
    from accord.edges import escape_controls, redact

    if is_aside and _is_quiet:
        return
    print(escape_controls(redact(text)), file=sys.stderr if is_aside else sys.stdout)


def say_line(text: str) -> None:
    """Print a text as one line of bounded length on stderr, without credentials."""
    from accord.edges import one_line, redact_message, truncate_middle

    print(one_line(redact_message(" ".join(truncate_middle(text).split()))), file=sys.stderr)


class JsonResult(Protocol):
    """Result of a command."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        ...


R = TypeVar("R", bound=JsonResult)


def show_each(results: Iterable[R], as_json: bool, text: Callable[[R], str]) -> None:
    """Print results as they arrive; as JSON, print one list at the end, also after an error."""
    done = []
    try:
        for result in results:
            done.append(result.to_json())
            if not as_json:
                say(text(result))
    finally:
        if as_json and done:
            say(json.dumps(done if len(done) > 1 else done[0], indent=1, ensure_ascii=False))


class Progress:
    """Progress on stderr: count, rate, and remaining time if the total is known.

    A terminal shows a bar, other outputs a line every few seconds.
    """

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what, self.total, self.done = what, total, 0
        self._begun = self._last = time.monotonic()
        self._bar = _bar(what, total) if sys.stderr.isatty() and not _is_quiet else None

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, total: int) -> None:
        """Set the total."""
        self.total = total
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=total)

    def at(self, done: int) -> None:
        """Set the count."""
        self.done = done
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, figures="  ".join(self._figures()))
        elif time.monotonic() - self._last > _PLAIN_SECONDS:
            self._last = time.monotonic()
            say(f"{self.what}: {', '.join(self._figures())}", is_aside=True)

    def _figures(self) -> list[str]:
        """Return count, average rate per second, and remaining time."""
        rate = self.done / max(time.monotonic() - self._begun, 1e-3)
        count = f"{self.done:,} of {self.total:,}" if self.total else f"{self.done:,}"
        left = (self.total or 0) - self.done
        return [count, f"{rate:,.1f}/s", *([f"{_time(left / rate)} left"] if left > 0 and rate > 0 else [])]

    def step(self, _: object = None) -> None:
        """Add one to the count."""
        self.at(self.done + 1)


class StageProgress:
    """Progress of successive stages: the name of a stage, or the number of requests for each purpose.

    A terminal shows one line, other outputs a line per stage.
    """

    def __init__(self) -> None:
        self._purpose = ""
        self._shown: Progress | None = None

    def __call__(self, purpose: str) -> None:
        """Count a request."""
        if purpose != self._purpose or self._shown is None:
            self.__exit__()
            self._purpose, self._shown = purpose, Progress(purpose).__enter__()
        self._shown.step()

    def stage(self, name: str) -> None:
        """Start a stage."""
        self.__exit__()
        if sys.stderr.isatty():
            self._purpose, self._shown = name, Progress(name).__enter__()
        else:
            stage(name)

    def __enter__(self) -> StageProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.__exit__()
            self._shown = None


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Print the requests, tokens and cost of a block on stderr, also after an error."""
    try:
        yield
    finally:
        spent = budget.to_json()
        if spent["requests"]:
            say(f"spent: {spent_text(spent)}", is_aside=True)


def training_text(scored: Mapping[str, Any]) -> list[str]:
    """Return sentences on scores of rated turns and of conversations in the training data."""
    from accord.edges import count_of

    lines, rated, of_all = [], scored["rated"], scored["scored"] + sum(scored["unscored"].values())
    if scored["level"] == "turn" and 0 < rated < of_all:
        lines.append(f"{rated} of {of_all} scored turns have ratings (column `rated`)")
    if known := scored["in_training"]:
        lines.append(
            f"{known} of {count_of(scored['conversations'], 'scored conversation')} "
            f"{'was used in training; its' if known == 1 else 'were used in training; their'} scores look better than "
            "they are (column `in_training`)"
        )
    return lines


def note(text: str) -> None:
    """Print a note for the user on stderr."""
    if not _is_quiet:
        say_line(f"note: {text}")


def stage(name: str) -> None:
    """Print the current stage on stderr."""
    if not _is_quiet:
        say_line(f"{name} ...")


def _time(seconds: float) -> str:
    """Minutes and seconds, or hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _bar(what: str, total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    shown = (TextColumn(f"{{task.{name}}}") for name in ("description", "fields[figures]"))
    bar = Bar(BarColumn(), *shown, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    bar.add_task(what, total=total, figures="")
    return bar


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format columns of text, the first aligned left, the others right."""
    from accord.values import text_table  # a late import keeps `--help` fast

    return text_table(header, rows)


def figure_text(value: float | None, low: float | None, high: float | None, digits: int = 2, ends: int = 2) -> str:
    """Format a number with its interval, if any; an undefined number is a dash."""
    from accord.values import Estimate

    return Estimate(value, low, high).text(digits, ends)


def plan_text(plan: Mapping[str, Any]) -> str:
    """Format a plan: samples, questions, requests and their cost."""
    about = f"{plan['samples']} samples, " if plan["samples"] else ""
    known = f"{plan['questions']} questions, {plan['answered']} already answered"
    return f"{about}{known}\n{cost_text(plan)}"


def cost_text(plan: Mapping[str, Any]) -> str:
    """Format the cost of a plan: range of requests, tokens, money."""
    fewest, most = plan["min_requests"], plan["max_requests"]
    lines = [
        f"{fewest} to {most} requests; {plan['requests']} expected, about {plan['input_tokens']} tokens in, at most "
        f"{plan['output_tokens']} out"
        if most > fewest
        else f"{plan['requests']} requests, about {plan['input_tokens']} tokens in, at most {plan['output_tokens']} out"
    ]
    if most > plan["requests"]:
        lines.append("a reply that cannot be used leads to further requests")
    if plan["attempts"] > 1 and most:
        lines.append(f"a request that fails is sent up to {plan['attempts']} times; each time counts")
    if plan["unpriced"]:
        lines.append(f"price of {plan['unpriced']!r} unknown; add it to prices.yaml to see it in money")
    elif plan["money"] is not None:
        upper = f", at most {plan['max_money']:.4f}" if most > plan["requests"] else ""
        lines.append(f"about {plan['money']:.4f}{upper} in money")
    return "\n".join(lines)


def spent_text(spent: Mapping[str, Any]) -> str:
    """Format the spent requests, tokens and money."""
    money = "" if spent["money"] is None else f", {spent['money']:.4f} in money"
    return f"{spent['requests']} requests, {spent['input_tokens']} + {spent['output_tokens']} tokens{money}"


def comparison_text(result: Mapping[str, Any]) -> str:
    """Format a comparison: statistics of each system with intervals."""
    lines = [*result["rows"], *([result["people"]] if result["people"] else [])]
    alpha = "–" if result["alpha"] is None else f"{result['alpha']:.2f}"
    about = (
        f"{result['question']}: {result['ratings']} ratings of {result['conversations']} conversations by "
        f"{result['annotators']} {'annotator' if result['annotators'] == 1 else 'annotators'} (α = {alpha}); "
        f"{_folds(result)}, seed {result['seed']}; 95 % intervals"
    )
    if result["seen"]:
        about += f"\n{result['seen']} conversations from which the rubric was learned are used for training only"
    table = "\n".join([rows_text(lines), *(["", *result["choices"]] if result["choices"] else [])])
    parts = [f"{about}\n\n{table}", within_text(lines), two_valued_text(lines), "\n".join(result["remarks"])]
    return "\n\n".join(part for part in parts if part)


_BY = ("annotators", "systems")


def within_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Format agreement within annotators and within systems; empty if there is one of each."""
    there = [by for by in _BY if any(f"groups_within_{by}" in line for line in lines)]
    if not there:
        return ""
    header = ["system", *(f"{sign} within {by}" for by in there for sign in ("r", "τ"))]
    rows = [
        [line["system"], *(_cell(line, f"{name}_within_{by}") for by in there for name in ("pearson", "kendall"))]
        for line in lines
    ]
    text = f"Pooled r also reflects differences between annotators; r within {' and within '.join(there)} does not"
    return f"{text}\n\n{table(header, rows)}"


def two_valued_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Format κ, TPR and TNR for a scale of two options; empty for other scales."""
    if not lines or "tpr" not in lines[0]:
        return ""
    rows = [[line["system"], *(_cell(line, name) for name in ("kappa", "tpr", "tnr"))] for line in lines]
    rate = figure_text(lines[0]["base_rate"], lines[0]["base_rate_low"], lines[0]["base_rate_high"], 3)
    return f"Two options; {rate} of the ratings are the upper one\n\n{table(['system', 'κ', 'TPR', 'TNR'], rows)}"


def _folds(result: Mapping[str, Any]) -> str:
    groups = result["groups"]
    kept = groups["said"] if groups else "whole conversations"
    return f"{result['folds']} folds of {kept}" if result["folds"] > 1 else f"one side held out, {kept}"


def rows_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Format a row per system, and the reasons for ratings without a score."""
    from accord.evidence import comparison_table

    return "\n".join([table(*comparison_table(lines)), *_notes(lines)])


def _cell(line: Mapping[str, Any], name: str) -> str:
    from accord.evidence import statistic

    return statistic(line, name)


def groups_text(groups: Iterable[Mapping[str, Any]]) -> str:
    """Format agreement by group: errors of the predictions in each group, compared with all other groups."""
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
    return "; ".join(f"{count}: {reason}" for reason, count in reasons.items()) or "no other annotator rated the same"


def imported_text(result: Mapping[str, Any]) -> str:
    """Return the counts of rows that an import stored and skipped."""
    from accord.edges import count_of

    c, labels = result["conversations"], result["labels"]
    lines = [
        f"{count_of(c['new'], 'conversation')} imported, {c['known']} already there",
        f"{count_of(labels['new'], 'label')} imported, {labels['known']} already there",
    ]
    found = result["assessments"]
    if found["new"] or found["known"]:
        lines.append(f"{count_of(found['new'], 'assessment')} of turns imported, {found['known']} already there")
    found = result["annotations"]
    if found["new"] or found["known"]:
        lines.append(f"{count_of(found['new'], 'annotation')} imported, {found['known']} already there")
    others = result["other_questions"]
    counts = [
        f"{name} ({count}, not in the rubric)" if name in others else f"{name} ({count})"
        for name, count in result["questions"].items()
    ]
    if counts:
        lines.append(f"labels read by question: {', '.join(counts)}")
    lines += [f"{count_of(count, 'row')} ignored: {why}" for why, count in result["ignored"].items()]
    if result["skipped"]:
        lines += [f"{count_of(result['skipped'], 'bad row')} skipped:", *(f"  {row}" for row in result["bad_rows"])]
    return "\n".join(lines)
