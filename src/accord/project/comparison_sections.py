"""Comparison as sections of a document: a short table of figures, and all evaluators with all statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from accord.edges import count_of, one_line
from accord.results import (
    DEFINITIONS,
    By,
    Figure,
    Ledger,
    Over,
    Section,
    Table,
    Text,
    agreement_words,
    counts,
    p_text,
    written,
)
from accord.statistics import range_names
from accord.validation import (
    BEST_COLUMN,
    CONSTANT,
    JUDGE_ALONE,
    NEW,
    R_NEW,
    CalledRow,
    Comparison,
    EvaluatorMetrics,
    GroupAccuracy,
    no_better_than_chance,
)
from accord.values import Estimate

Row = Sequence[str | Estimate | Figure]
SOURCE = "accord.validation.Comparison"
ERRORS = {CONSTANT: "constant_error", JUDGE_ALONE: "judge_error", BEST_COLUMN: "column_error"}
"""Names of the typical errors of evaluators that have a figure of their own."""
_POOLED = {
    "pearson": "pooled r", "spearman": "ρ", "kendall": "τ", "weighted_kappa": "weighted κ", "log_loss": "log loss",
}  # fmt: skip
_TWO = {"kappa": "κ", "tpr": "TPR", "tnr": "TNR"}
_BY = {"annotators": "annotators", "systems": "assistant versions"}
_GROUPS = {"rmse": "RMSE", "pearson": "r", "calibration_error": "smECE"}
_CALLS = {"precision": "precision", "recall": "recall", "f1": "F1", "alpha": "α", "calibration_error": "smECE"}


def lines(*sentences: str) -> Text:
    """Return a single part with each sentence on its line; texts of users cannot add lines."""
    return Text("\n".join(map(one_line, sentences)))


def figure_of(name: str, found: Estimate, n: int, about: str, part: str, by: By = "", source: str = SOURCE) -> Figure:
    """Return an estimate over conversations as a figure."""
    over: Over = "conversations" if found.low is not None else ""
    return Figure(name, found.value, found.low, found.high, n, about, by, over, part, source)


def figures_of_row(found: Comparison, ledger: Ledger, row: EvaluatorMetrics, question: str = "") -> dict[str, Figure]:
    """Return the typical error, the error for known annotators and r of an evaluator, by name of the figure.

    Figures of the ledger are taken from there, so that each has one value.

    Args:
        found: The comparison.
        ledger: Figures of its first evaluator.
        row: Row of the comparison.
        question: ID of the question, as the part of each figure, if it is not the main one.
    """
    name, about = row.evaluator, ledger["error"].about if "error" in ledger else ""

    def figure(key: str, estimate: Estimate) -> Figure:
        kind, _, part = key.partition(":")
        of = "" if part else name
        return ledger[key] if key in ledger else replace(figure_of(kind, estimate, row.n, about, part), of=of)

    if row is found.people:
        error = figure("people_error", row.estimates[NEW])
        return {"error": error, "known_error": error, "r": figure("people_r", row.estimates[R_NEW])}
    part = f":{question}" if question else "" if name == found.systems[0].name else f":{name}"
    key = ERRORS.get(name, f"error{part}") if part and not question else f"error{part}"
    return {
        "error": figure(key, row.estimates[NEW]),
        "known_error": figure(f"known_error{part}", row.estimates["rmse"]),
        "r": figure(f"r{part}", row.estimates[R_NEW]),
    }


def short_section(found: Comparison, ledger: Ledger, default: str | None, is_report: bool = False) -> Section:
    """Return the evaluator, the default, the judge alone, other people and the constant on the same ratings.

    A report also has the best single feature, and the evaluator's row is highlighted.
    """
    shown = [found.systems[0].name, *([default] if default else []), JUDGE_ALONE, *([BEST_COLUMN] if is_report else [])]
    places = [each.evaluator for each in found.results]
    rows = [found.results[places.index(name)] for name in dict.fromkeys(shown) if name in places]
    rows += [found.people] if found.people is not None else []
    rows += [row for row in found.results if row.evaluator == CONSTANT and row not in rows]
    cells: list[Row] = []
    for row in rows:
        figures = figures_of_row(found, ledger, row)
        near = {found.systems[0].name: "within_one", CONSTANT: "within_one_constant"}.get(row.evaluator, "")
        near = "within_one_people" if row is found.people else near
        cells.append([row.evaluator, figures["error"], figures["r"], ledger.get(near, "–"), f"{row.n:,}"])
    header = ["evaluator", *(DEFINITIONS[name].label for name in ("error", "r", "within_one")), "n"]
    return Section("", _about(found, ledger), [Table(header, cells, own=frozenset({0} if is_report else ()))])


def full_sections(found: Comparison, ledger: Ledger) -> list[Section]:
    """Return all evaluators and baselines with all statistics."""
    rows = [*found.results, *([found.people] if found.people is not None else [])]
    cells: list[Row] = []
    for row in rows:
        figures = figures_of_row(found, ledger, row)
        statistics = [row.estimates[name] for name in _POOLED]
        cells.append([row.evaluator, f"{row.n:,}", figures["error"], figures["known_error"], figures["r"], *statistics])
    names = [DEFINITIONS[name].label for name in ("error", "known_error", "r")]
    unscored = [
        f"{row.evaluator}: {row.unscored} unscored "
        f"({'; '.join(f'{count}: {why}' for why, count in row.reasons.items()) or 'no other annotator rated the same'})"
        for row in rows
        if row.unscored
    ]
    table = Table(["evaluator", "n", *names, *_POOLED.values()], cells)
    notes = [lines(*texts) for texts in (unscored, found.choices) if texts]
    sections = [Section("All evaluators", _about(found, ledger), [table, *notes], is_detail=True)]
    if by := [name for name in _BY if any(name in row.within for row in rows)]:
        header = ["evaluator", *(f"{sign} within {_BY[name]}" for name in by for sign in ("r", "τ"))]
        inside: list[Row] = [
            [row.evaluator, *(each for name in by for each in (row.within[name].pearson, row.within[name].kendall))]
            for row in rows
            if all(name in row.within for name in by)
        ]
        within = " and within ".join(_BY[name] for name in by)
        lead = f"Pooled r also reflects differences between annotators; r within {within} does not"
        sections.append(Section("", lead, [Table(header, inside)], is_detail=True))
    if "tpr" in rows[0].estimates:
        lead = f"Two options; {rows[0].estimates['base_rate'].text()} of the ratings are the upper one"
        two: list[Row] = [
            [row.evaluator, *(row.estimates[name] for name in _TWO)] for row in rows if "tpr" in row.estimates
        ]
        sections.append(Section("", lead, [Table(["evaluator", *_TWO.values()], two)], is_detail=True))
    if any(row.smece for row in rows):
        answers = [f"smECE of {name}" for name in range_names(found.ratings.options)]
        errors: list[Row] = [
            [row.evaluator, *map(_at_most, row.smece)] for row in rows if len(row.smece) == len(answers)
        ]
        lead = "Calibration error of the probability of each answer"
        sections.append(Section("", lead, [Table(["evaluator", *answers], errors)], is_detail=True))
    if "coverage" in ledger and "band" in ledger:
        bands = (
            f"Bands of {found.systems[0].name} for a new annotator: {ledger['coverage'].text()} of the ratings are "
            f"inside; mean width {ledger['band'].text()} points"
        )
        sections.append(Section("", bands, is_detail=True))
    if losses := [text for text in found.remarks if _is_of_loss(found, text)]:
        sections.append(Section("", "", [lines(*losses)], is_detail=True))
    return sections


def warnings_section(found: Comparison) -> Section | None:
    """Return the remarks that limit the whole comparison, and the evaluators that were not compared."""
    texts = [text for text in found.remarks if not _is_of_loss(found, text)]
    if found.seen:
        texts.append(f"{len(found.seen)} conversations from which the rubric was learned are used for training only")
    texts += [f"not compared: {name}: {why}" for name, why in found.unmade.items()]
    return Section("", "", [lines(*texts)]) if texts else None


def _is_of_loss(found: Comparison, text: str) -> bool:
    return text.startswith(tuple(f"{name}: log loss" for name in found.worse_than_constant))


def _about(found: Comparison, ledger: Ledger) -> str:
    rated = found.ratings
    count = counts(len(set(rated.conversation)), len(rated), len(set(rated.annotator)))
    alpha = ledger["alpha"].estimate if "alpha" in ledger else Estimate(found.alpha)
    kept = "whole conversations" if found.groups is None else str(found.groups)
    folds = f"{found.folds} folds of {kept}" if found.folds > 1 else f"one side held out, {kept}"
    return one_line(
        f"{found.question.shown}: {count} (agreement of people: {agreement_words(alpha)}); {folds}, seed {found.seed}; "
        "95% intervals"
    )


def _at_most(error: Estimate) -> str:
    """Return a calibration error with its upper bound."""
    if error.value is None:
        return "–"
    return f"{error.value:.2f}" if error.high is None else f"{error.value:.2f} (at most {error.high:.2f})"


def group_bias(group: GroupAccuracy, name: str, evaluator: str) -> Figure:
    """Return the bias of a group under its shown name as a figure."""
    about = f"{count_of(group.n, 'held-out rating')} of {name}"
    return Figure.measured("bias", group.bias, group.n, about, part=name, of=evaluator)


def groups_table(groups: Mapping[str, GroupAccuracy], evaluator: str) -> Table:
    """Return the errors in each group by its name, compared with all others."""
    rows: list[Row] = [
        [name, f"{each.n:,}", group_bias(each, name, evaluator), *(getattr(each, key) for key in _GROUPS),
         written(each.apart, "difference"), p_text(each.p_holm)]
        for name, each in groups.items()
    ]  # fmt: skip
    return Table(["group", "n", "bias", *_GROUPS.values(), "apart", "test"], rows)


def issues_section(rows: Sequence[CalledRow]) -> Section | None:
    """Return the agreement of issue labels with people, or `None` without labels."""
    if not rows:
        return None
    cells: list[Row] = []
    for row in rows:
        found = [Estimate(getattr(row, name), *(getattr(row, f"{name}_{end}", None) for end in ("low", "high")))
                 if row.marks is not None or name == "f1" else Estimate() for name in _CALLS]  # fmt: skip
        called = Estimate(row.called if row.marks is not None else None)
        cells.append([f"{row.issue}: {row.system}", f"{row.marks or ''}", called, *found])
    parts: list[Table | Text] = [Table(["issue", "labels", "called", *_CALLS.values()], cells)]
    if unknown := no_better_than_chance(rows):
        kinds = ", ".join(unknown)
        parts.append(lines(f"{kinds}: agreement with annotators is not above chance (α may be 0); do not rely on these "
                           "labels"))  # fmt: skip
    return Section("Issue labels", "On held-out conversations; 95% intervals", parts)
