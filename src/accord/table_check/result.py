"""Result of a check: its figures, a verdict in one sentence, and the text of the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from accord.edges import count_of, one_line
from accord.results import agreement_word, html_table, number, p_text, text_table
from accord.statistics import SIGNIFICANT, AlternativeAnnotators
from accord.table_check.agreement import UNANIMOUS, AgreementRow, Repeatability, table_point
from accord.table_check.automation import Automation, slice_text
from accord.table_check.biases import BiasRow, CalibrationRow
from accord.table_check.means import Means, SystemRows
from accord.table_check.pairs import PairFigures
from accord.table_check.rows import Confusion
from accord.table_check.scales import TableScale
from accord.table_check.sufficiency import Sufficiency, annotator_text
from accord.table_check.table import JudgedTable
from accord.values import Estimate

MAX_BIASES, MAX_NOTES, MAX_LEVELS, MAX_SYSTEMS, MAX_GAPS = 3, 2, 5, 4, 3
"""Lines of each part in the terminal, which counts the others; the page and the JSON have all."""
ALL = "(all: --out check.html)"
MAX_NAME = 60


@dataclass(frozen=True, repr=False)
class CheckResult:
    """Result of `accord.check`.

    Attributes:
        name: Name of the table.
        rows, judged, labeled, items: Number of rows, of rows with a score, of rows with a score and a label, and of
            items.
        columns: Chosen columns by role.
        scale: Scale of the labels.
        supported: Analyses that the table supports.
        missing: Analyses that it does not support, each with the reason.
        warnings: Sentences on labels that are not independent evidence.
        notes: Remarks on columns and values that were left out.
        agreement: A row per statistic: people among themselves, and the judge with people.
        means: Means of all rows by each estimator, and the judge's bias.
        systems: Means of systems and their differences.
        biases: Bias of the judge by slice and by length.
        calibration: Mean label for each score of the judge.
        repeats: Agreement of several runs of the judge, or `None` for one run.
        labels_by: Number of labels by person.
        digests: Digests of the labels (`labels`) and of the judge's scores (`judge`).
        confusion: Counts of labels by label and answer, or `None` for continuous scales.
        automation: Share of the rows that the judge may decide alone, or `None` if it is unknown.
        sufficiency: Answer to `need`; without it the judge's agreement compared with people's among themselves.
        annotators: Alternative annotator test, or `None` for too few people.
        disputed: Number of rows where the judge and a person differ.
        split: Number of rows where people differ.
        table: The rows, for `write_rows` and the page.
        pairs: Position bias and strengths of versions, in a table of pairs; the means are then rates of preferring the
            first side, and the systems have win rates.

    >>> import accord
    >>> rows = [{"judge": n % 4, "human": n % 4} for n in range(12)] + [{"judge": 3}]
    >>> result = accord.check(rows)
    >>> result.rows, result.labeled, str(result.scale), result.main.statistic
    (13, 12, '0 to 3, 4 values', "Cohen's κ, quadratic weights")
    """

    name: str
    rows: int
    judged: int
    labeled: int
    items: int
    columns: Mapping[str, str]
    scale: TableScale
    supported: Sequence[str]
    missing: Sequence[tuple[str, str]]
    warnings: Sequence[str]
    notes: Sequence[str]
    agreement: Sequence[AgreementRow]
    means: Means
    systems: SystemRows
    biases: Sequence[BiasRow]
    calibration: Sequence[CalibrationRow]
    repeats: Repeatability | None
    labels_by: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    confusion: Confusion | None = None
    automation: Automation | None = None
    sufficiency: Sufficiency | None = None
    annotators: AlternativeAnnotators | None = None
    disputed: int = 0
    split: int = 0
    table: JudgedTable | None = field(default=None, compare=False)
    pairs: PairFigures | None = None

    @property
    def main(self) -> AgreementRow:
        """Statistic of agreement that the verdict states and a gate checks: κ, or r of scores without options."""
        return self.agreement[0]

    @property
    def mean_name(self) -> str:
        """Name of the mean: the share of the upper value, the rate of preferring the first side, or the mean."""
        if self.pairs is not None:
            return "rate of preferring A"
        return f"share of {self.scale.name(self.scale.ends[1])}" if self.scale.is_two_valued else "mean"

    @property
    def scale_text(self) -> str:
        """The scale in words."""
        if self.pairs is None:
            return str(self.scale)
        return "A or B" if self.scale.is_two_valued else "A, B or tie; a tie counts half"

    @property
    def is_biased(self) -> bool:
        """True if the judge's mean differs significantly from the corrected one."""
        return self.means.bias_p is not None and self.means.bias_p < SIGNIFICANT

    @property
    def disagrees(self) -> bool:
        """True if the judge agrees with people less than by chance, beyond chance."""
        return self.main.judge.high is not None and self.main.judge.high < 0

    @property
    def bias_text(self) -> str:
        """Bias of the judge in words, with its interval."""
        bias = self.means.bias
        if bias.value is None:
            return "its bias is unknown"
        if not self.is_biased:
            return f"its {self.mean_name} is not clearly off ({signed(bias)})"
        word = "overstates" if bias.value > 0 else "understates"
        return f"it {word} the {self.mean_name} by {Estimate(*sorted_size(bias))}"

    @property
    def report_text(self) -> str:
        """The figure to report in words: the corrected mean, or the win rate of the best system."""
        raw = next((each.mean.value for each in self.means.rows), None)
        instead = f" instead of {raw:.2f}" if raw is not None and self.is_biased else ""
        if self.pairs is not None and self.systems.systems:
            best = self.systems.systems[0]
            rate = Estimate(best.mean, best.low, best.high)
            return f"report a win rate of {one_line(best.system, 40)} of {rate}"
        return f"report {self.means.corrected}{instead}"

    @property
    def verdict(self) -> str:
        """The finding in one sentence."""
        row = self.main
        figure = f"{row.statistic} {row.judge}"
        after = "." if self.means.corrected.low is None else f"; {self.bias_text}; {self.report_text}."
        if self.means.is_selective:
            after = "; no mean is reported, because the labeled rows are not a random part of all rows."
        if row.judge.value is None or row.judge.low is None:
            return f"Agreement of the judge with people is unknown: {row.reason or 'too few labels'}{after}"
        among = f"; people among themselves {row.people.value:.2f}" if row.people.value is not None else ""
        if self.disagrees:
            return (
                f"The judge and people clearly disagree ({figure}{among}): reversed? Check which value is the better "
                "one in each column before you use a mean."
            )
        if row.judge.low <= 0:
            said = f"It is not clear that the judge agrees with people beyond chance ({figure}{among})"
        else:
            word = agreement_word(Estimate(row.judge.value))
            said = f"The judge agrees {word} with people ({figure}{among})"
        return said + after

    def to_json(self) -> dict[str, Any]:
        """Return all figures as JSON values."""
        means, limit = asdict(self.means), self.scale.judge_threshold
        systems = [
            {**mean.to_json(), "judge_mean": judge}
            for mean, judge in zip(self.systems.systems, self.systems.judge_means, strict=True)
        ]
        return {
            "name": self.name, "rows": self.rows, "judged": self.judged, "labeled": self.labeled, "items": self.items,
            "columns": dict(self.columns),
            "scale": {"kind": self.scale.kind, "text": self.scale_text, "low": self.scale.ends[0],
                      "high": self.scale.ends[1], "threshold": self.scale.threshold if limit is None else limit},
            "supported": list(self.supported),
            "missing": [{"analysis": name, "reason": reason} for name, reason in self.missing],
            "verdict": self.verdict, "warnings": list(self.warnings), "notes": list(self.notes),
            "main_statistic": self.main.statistic, "agreement": [asdict(row) for row in self.agreement],
            "means": means, "systems": systems,
            "differences": [each.to_json() for each in self.systems.differences],
            "biases": [{**asdict(row), "is_biased": row.is_biased} for row in self.biases],
            "calibration": [asdict(row) for row in self.calibration],
            "repeats": None if self.repeats is None else asdict(self.repeats),
            "counts": None if self.confusion is None else
                      {"values": list(self.confusion.values), "counts": self.confusion.counts,
                       "unit": self.confusion.unit},
            "disputed": self.disputed, "split": self.split,
            "automation": None if self.automation is None else
                          {**asdict(self.automation), "text": str(self.automation)},
            "sufficiency": None if self.sufficiency is None else asdict(self.sufficiency),
            "alternative_annotators": None if self.annotators is None else self._annotators(self.annotators),
            **({} if self.pairs is None else {"pairs": self.pairs.to_json()}),
        }  # fmt: skip

    def _annotators(self, found: AlternativeAnnotators) -> dict[str, Any]:
        names = list(self.labels_by)
        people = zip(found.annotators, found.rows, found.advantages, strict=True)
        return {
            "people": [{"name": names[place], "rows": rows, "advantage": share} for place, rows, share in people],
            "winning_rates": {f"{margin:g}": rate for margin, rate in found.winning_rates.items()},
            "advantage": found.advantage.to_json(), "text": annotator_text(found),
        }  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(terminal_lines(self))

    def __repr__(self) -> str:
        return f"CheckResult({self.verdict})"

    def _repr_html_(self) -> str:
        rows = [[row.statistic, people_text(row), str(row.judge)] for row in self.agreement]
        rows += [[f"{self.mean_name}: {row.method}", "", str(row.mean)] for row in self.means.rows]
        rows += [[name, "", text] for name, text in mean_rows(self)[len(self.means.rows) :]]
        return html_table(["", "people", "judge"], rows, self.verdict)


def sorted_size(bias: Estimate) -> tuple[float | None, float | None, float | None]:
    """Return a difference and its interval as sizes in the direction of the difference."""
    if bias.value is None or bias.low is None or bias.high is None or bias.value >= 0:
        return bias.value, bias.low, bias.high
    return -bias.value, -bias.high, -bias.low


def signed(figure: Estimate) -> str:
    """Format a difference with its sign and interval."""
    if figure.value is None:
        return "unknown"
    ends = "" if figure.low is None or figure.high is None else f" [{figure.low:+.2f}, {figure.high:+.2f}]"
    return f"{figure.value:+.2f}{ends}"


def plain(figure: Estimate) -> str:
    """Format a figure, or return "unknown" if it has no value; a missing interval is stated."""
    if figure.value is None:
        return "unknown"
    return figure.text() if figure.low is not None else f"{figure.value:.2f} (no interval)"


def terminal_lines(result: CheckResult) -> Iterator[str]:
    """Yield the lines of the terminal: choices, verdict, warnings, tables, and analyses that could not run."""
    counts = f"{count_of(result.rows, 'row')}, {result.judged:,} with a score, {result.labeled:,} of them with a label"
    yield f"{result.name}: {counts}"
    yield "columns: " + " · ".join(f"{role} = {one_line(column, MAX_NAME)}" for role, column in result.columns.items())
    yield f"scale: {result.scale_text}"
    yield from (f"note: {note}" for note in result.notes[:MAX_NOTES])
    if (more := len(result.notes) - MAX_NOTES) > 0:
        yield f"note: {count_of(more, 'more note')} {ALL}"
    yield f"ran: {', '.join(result.supported) or 'nothing'}"
    yield from (f"not run: {name}: {reason}" for name, reason in result.missing)
    yield ""
    yield result.verdict
    yield from (f"warning: {warning}" for warning in result.warnings)
    yield from decision_lines(result)
    yield ""
    has_people = any(row.people.value is not None for row in result.agreement)
    header = ["agreement", *(["among people"] if has_people else []), "judge with people"]
    rows = [[row.statistic, *([people_text(row)] if has_people else []), plain(row.judge)] for row in result.agreement]
    yield text_table(header, rows)
    yield from (
        f"{row.statistic}: {row.reason}" for row in result.agreement if row.reason and row.judge.value is not None
    )
    if result.confusion is not None:
        yield text_table(*confusion_rows(result.confusion))
    yield from disputed_lines(result)
    yield ""
    if result.means.rows:
        yield text_table([result.mean_name, "95% interval"], mean_rows(result))
        yield from plan_lines(result)
        yield ""
    yield from _details(result)


def people_text(row: AgreementRow) -> str:
    """Format the agreement among people; a dash where rows were chosen because people agree."""
    return "–" if row.statistic.endswith(UNANIMOUS) else plain(row.people)


def decision_lines(result: CheckResult) -> Iterator[str]:
    """Yield what to decide: whether the judge is good enough, instead of a person, and alone."""
    if (enough := result.sufficiency) is not None:
        yield f"{'good enough: ' if enough.answer else 'compared with people: '}{enough.text}"
    if result.annotators is not None:
        yield f"alternative annotator test: {annotator_text(result.annotators)}"
    if (alone := result.automation) is not None:
        yield f"share to automate: {alone}"
        if alone.worst is not None:
            yield f"  above the limit in {slice_text(alone.worst)}"


def confusion_rows(confusion: Confusion) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table of counts."""
    header = ["labels by answer of the judge", *confusion.values]
    counts = zip(confusion.values, confusion.counts, strict=True)
    return header, [[f"people say {name}", *(f"{count:,}" for count in row)] for name, row in counts]


def disputed_lines(result: CheckResult, listed: str = "list them: --rows disputed.csv") -> Iterator[str]:
    """Yield the number of rows where the judge and a person differ, with where they are listed, and where people do."""
    if result.confusion is not None or result.disputed:
        is_continuous = result.scale.kind == "continuous"
        by = f" by over {table_point(result.table):g}" if is_continuous and result.table is not None else ""
        split = f"; people differ in {result.split:,}" if len(result.labels_by) > 1 and not is_continuous else ""
        hint = f" ({listed})" if result.disputed else ""
        rows = count_of(result.labeled, "row")
        yield f"the judge and a person differ{by} in {result.disputed:,} of {rows}{split}{hint}"


def mean_rows(result: CheckResult) -> list[list[str]]:
    """Return a row per estimator; the chosen one has a mark, and the last row is the bias."""
    rows = [
        [f"{row.method}{' *' if row.method == result.means.best else ''}", plain(row.mean)] for row in result.means.rows
    ]
    if result.means.bias.value is not None and result.means.bias_p is not None:
        rows.append(["bias of the judge", f"{signed(result.means.bias)}, {p_text(result.means.bias_p)}"])
    return rows


def plan_lines(result: CheckResult) -> Iterator[str]:
    """Yield the note on the chosen estimator, and the number of labels that an interval needs."""
    if result.means.best:
        yield "* narrowest of those that hold 95% in simulations; labeled rows must be a random part of all rows"
    plan = result.means.plan
    if plan is not None:
        width = f"an interval {plan.width:.2g} wide"
        if plan.labels is None:
            yield f"labels: {width} needs more than the {result.judged:,} rows with a score"
        else:
            now = f"now {plan.present:,}; without the judge {plan.labels_alone:,}"
            yield f"labels: {width} needs about {plan.labels:,} ({now})"


def _details(result: CheckResult) -> Iterator[str]:
    """Yield systems, biases, the calibration map and repeats, each in a few lines."""
    yield from _system_lines(result)
    yield from pair_lines(result)
    if result.biases:
        biased = sum(row.is_biased for row in result.biases)
        yield f"bias by slice and length: {biased} of {len(result.biases)} tests significant (Holm)"
        yield from (f"  {bias_text(row)}" for row in result.biases[:MAX_BIASES] if row.is_biased or not biased)
    if result.calibration:
        shown = result.calibration[:MAX_LEVELS]
        listed = "; ".join(f"{row.name}: {number(row.mean.value, 2)} ({row.n})" for row in shown)
        yield f"mean label by score (labels): {listed}{'; ...' if len(result.calibration) > MAX_LEVELS else ''}"
    yield from repeat_lines(result)


def pair_lines(result: CheckResult) -> Iterator[str]:
    """Yield the position bias of a judge of pairs as a line."""
    if result.pairs is None or not result.pairs.swapped:
        return
    pairs = result.pairs
    if pairs.same_position.value is not None:
        yield (
            f"position: of {count_of(pairs.swapped, 'pair')} in both orders, the judge prefers the same position both "
            f"times in {plain(pairs.same_position)} (A in {plain(pairs.first_twice)}), and the same version, or a tie, "
            f"in {plain(pairs.same_version)}"
        )


def _system_lines(result: CheckResult) -> Iterator[str]:
    """Yield the best systems and the worst one, the clearest differences, and the number of the others."""
    systems = result.systems
    strengths = {} if result.pairs is None else {each.version: each.strength for each in result.pairs.strengths}
    noun, kind = ("system", "") if result.pairs is None else ("version", "win rate ")
    rows = list(zip(systems.systems, systems.judge_means, strict=True))
    for mean, judge in rows if len(rows) <= MAX_SYSTEMS else [*rows[: MAX_SYSTEMS - 1], rows[-1]]:
        said = "" if judge is None else f", judge alone {judge:.2f}"
        strength = f", strength {signed(strengths[mean.system])}" if mean.system in strengths else ""
        rate = plain(Estimate(mean.mean, mean.low, mean.high))
        yield f"{noun} {one_line(mean.system, 40)}: {kind}{rate}{said}{strength}"
    gaps = sorted(
        systems.differences, key=lambda gap: (1.0 if gap.p_holm is None else gap.p_holm, -abs(gap.difference))
    )
    for gap in gaps[:MAX_GAPS]:
        p = "" if gap.p_holm is None else f", {p_text(gap.p_holm)} (Holm)"
        yield f"  {gap.first} − {gap.second}: {signed(Estimate(gap.difference, gap.low, gap.high))}{p}"
    hidden = {noun: len(rows) - MAX_SYSTEMS, "difference": len(gaps) - MAX_GAPS}
    more = [count_of(count, noun) for noun, count in hidden.items() if count > 0]
    more += systems.left if systems.systems else []
    if more:
        yield f"  not shown: {one_line(', '.join(more), 200)} {ALL}"


def bias_text(row: BiasRow) -> str:
    """Return a bias as a line."""
    if not row.group:
        return f"per doubling of the {row.by}: {signed(row.bias)}, {p_text(row.p_holm)}"
    return f"{row.by} {one_line(row.group, 40)}: {signed(row.bias)} compared with the rest, {p_text(row.p_holm)}"


def repeat_lines(result: CheckResult) -> Iterator[str]:
    """Yield the repeatability of the judge as a line."""
    found = result.repeats
    if found is None:
        return
    flips = f", {found.flips.value:.0%} of rows flip" if found.flips.value is not None else ""
    if flips and not result.scale.is_two_valued and found.threshold is not None:
        flips += f" at {result.scale.name(found.threshold)}"
    noise = f", {found.noise.value:.0%} of its error is noise" if found.noise.value is not None else ""
    yield f"repeats: {found.runs} runs agree with α {plain(found.alpha)}{flips}{noise}"
