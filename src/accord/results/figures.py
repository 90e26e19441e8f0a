"""Figures: a number with its interval, the set that it is about, its definition and its text.

Every surface (terminal, page, report, card, JSON, Python) shows a figure by `Figure.text` or `Figure.sentence`, so a
quantity has one value, one rounding and one name. A `Ledger` holds the figures of an evaluator by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from accord.results.words import number
from accord.values import Estimate

Form = Literal["points", "difference", "correlation", "share", "count", "money"]
"""Way in which a value is written: 0.98, +0.66, 0.53, 88%, 412, 0.0042."""
Over = Literal["", "conversations", "people and conversations"]
"""Units over which an interval is drawn; empty without an interval."""
By = Literal["", "people", "scores"]
"""Maker of the values: people rate, an evaluator scores."""


class Definition(NamedTuple):
    """Definition of a figure.

    Attributes:
        label: Short name in tables.
        meaning: Definition in one sentence, without a full stop.
        form: Way in which the value is written.
        unit: Unit of the value; empty for a share or a correlation.
    """

    label: str
    meaning: str
    form: Form
    unit: str = ""


_RATING = "a rating by a person whose ratings the evaluator has not seen"
DEFINITIONS: Mapping[str, Definition] = {
    "conversations": Definition("conversations", "Conversations in the project", "count"),
    "rated": Definition("rated conversations", "Conversations with a rating of the main question", "count"),
    "ratings": Definition(
        "ratings", "Ratings of the main question on its present scale, the last one of each person and text", "count"
    ),
    "people": Definition("people", "People who gave these ratings", "count"),
    "present_wording": Definition("of the present wording", "Ratings given to the present wording", "count"),
    "earlier_wording": Definition("of an earlier wording", "Ratings given to an earlier wording", "count"),
    "unknown_wording": Definition("of a wording that is not stored", "Ratings without a stored wording", "count"),
    "learned": Definition("learned", "Ratings that the evaluator in use learned from and that are unchanged", "count"),
    "new_ratings": Definition("new", "Ratings that were given or changed since the evaluator was fitted", "count"),
    "replaced_ratings": Definition(
        "replace earlier ones", "New ratings that replace a learned one of the same person and text", "count"
    ),
    "error": Definition("typical error", f"Root mean squared difference of a score and {_RATING}", "points", "points"),
    "error_change": Definition(
        "change of the typical error", "Typical error of the new fit or the candidate minus the one of the evaluator "
        "before it, on the same ratings", "difference", "points",
    ),
    "score_change": Definition(
        "change of the scores", "Mean score by the new fit or the candidate minus mean score by the evaluator before "
        "it, of the same texts, held out from both", "difference", "points",
    ),
    "constant_error": Definition(
        "error of a constant guess", "The same error of one answer for every conversation", "points", "points"
    ),
    "people_error": Definition(
        "error of another person", "The same error of the mean rating of the other people who rated the text",
        "points", "points",
    ),
    "judge_error": Definition("error of the judge alone", "The same error of the raw judge", "points", "points"),
    "column_error": Definition(
        "error of the best single feature", "The same error of the one feature that predicts best", "points", "points"
    ),
    "shared_error": Definition(
        "typical error beside another person", "The typical error on the ratings of texts with a second person",
        "points", "points",
    ),
    "known_error": Definition(
        "error for known annotators", "Root mean squared difference of a score for an annotator, whose level the "
        "evaluator has learned, and the annotator's rating", "points", "points",
    ),
    "within_one": Definition(
        "within one point", f"Share of scores, rounded to an answer, at most one step of the scale from {_RATING}",
        "share",
    ),
    "within_one_people": Definition(
        "within one point, another person", "The same share of other people's mean rating, rounded to an answer",
        "share",
    ),
    "within_one_constant": Definition(
        "within one point, constant guess", "The same share of one answer for every conversation", "share"
    ),
    "r": Definition("correlation with people", f"Pearson's r of scores with ratings within annotators, for {_RATING}",
                    "correlation"),
    "people_r": Definition("correlation of another person", "The same r of the other people's mean rating",
                           "correlation"),
    "alpha": Definition("agreement of people", "Krippendorff's ordinal α of the annotators", "correlation"),
    "cost_money": Definition(
        "cost of 1,000 conversations", "Price of the requests for scoring 1,000 conversations, at prices.yaml", "money",
        "money",
    ),
    "cost_tokens": Definition(
        "tokens of 1,000 conversations", "Input and output tokens of the requests for scoring 1,000 conversations",
        "count", "tokens",
    ),
    "band": Definition("width of a band", "Mean width of the band that holds a new rating with 90%", "points",
                       "points"),
    "coverage": Definition("ratings inside the bands", f"Share of bands that hold {_RATING}", "share"),
    "decided": Definition("sure calls", "Conversations that are sure enough to be called good or bad", "count"),
    "bad_found": Definition(
        "bad conversations found", "Conversations that people rate low among the tenth with the lowest scores", "count"
    ),
    "bad_found_by_chance": Definition("found by chance", "The same of a random tenth", "points"),
    "people_difference": Definition("difference by people", "Mean rating of the first group, such as an assistant "
                                    "version, minus that of the second", "difference", "points"),
    "score_difference": Definition("difference by scores", "Mean score of the first group, such as an assistant "
                                   "version, minus that of the second", "difference", "points"),
    "evaluator_difference": Definition("difference of evaluators", "Mean score by the first evaluator minus that by "
                                       "the second, of the same texts", "difference", "points"),
    "estimated_mean": Definition(
        "labels and scores", "Mean rating of all texts of a version, estimated from labels and scores (PPI++) without "
        "the effects of annotators", "points", "points",
    ),
    "labeled_mean": Definition(
        "labels alone", "Mean rating of the labeled texts of a version, without the effects of annotators", "points",
        "points",
    ),
    "estimated_difference": Definition(
        "difference of versions", "Mean rating of all texts of the first version minus that of the second, estimated "
        "from labels and scores (PPI++)", "difference", "points",
    ),
    "batch_change": Definition(
        "change of scores", "Mean score of the latest batch minus the mean score of the earlier batches, within "
        "assistant versions; the intervals at all batches hold together", "difference", "points",
    ),
    "people_change": Definition(
        "change in people's ratings", "Change of people's mean rating that moves the scores by the change of scores, "
        "as differences among held-out conversations do", "difference", "points",
    ),
    "rated_change": Definition(
        "change by people", "Mean rating of the latest batch minus the mean rating of the earlier batches, within "
        "assistant versions and annotators, from labels of some conversations and the scores of all", "difference",
        "points",
    ),
    "seen_share": Definition(
        "seen by the scores", "Part of a difference of people's mean ratings that the scores show, in held-out ratings",
        "share",
    ),
    "difference_gap": Definition("scores minus people", "Difference by scores minus the difference by people",
                                 "difference", "points"),
    "bias": Definition("bias", "Mean of score minus rating", "difference", "points"),
    "mean_score": Definition("mean score", "Mean of the scores", "points", "points"),
    "mean_rating": Definition("mean rating", "Mean of people's ratings", "points", "points"),
    "blind_answers": Definition(
        "blind test", "Answers that were predicted before they were given, about conversations that the evaluator did "
        "not learn from", "count",
    ),
    "blind_error": Definition(
        "typical error in the blind test", "Root mean squared difference of a prediction and the answer that was given "
        "after it, for the person who answered", "points", "points",
    ),
    "new_scores": Definition("new scores", "Scored texts that the evaluator in use did not learn from", "count"),
    "new_unlike": Definition(
        "unlike the training data", "New scored texts whose scores have the warning that they are unlike the training "
        "data", "count",
    ),
    "comment_rate": Definition(
        "rate of comments", "Share of rated conversations with a comment of the group", "share"
    ),
    "level": Definition(
        "level", "Mean of a person's ratings minus the mean of the others' ratings of the same items", "difference",
        "points",
    ),
    "disputed": Definition(
        "disputed items", "Items that two people rate two or more points apart on a question; of a scale with more "
        "than nine options a quarter of it, with two options or without an order different answers", "count",
    ),
}  # fmt: skip
"""Definition of each figure by name; a figure of this name means nothing else on any surface."""


@dataclass(frozen=True)
class Figure:
    """A number that knows what it is about.

    Attributes:
        name: Name in `DEFINITIONS`.
        value: The value; None if it is undefined.
        low, high: Ends of the 95% interval; None without one.
        n: Number of units that the figure is computed from; for `a of n` of a count, the total.
        about: Set of ratings or scores, with its number, such as "412 held-out ratings of 138 conversations".
        by: Maker of the values.
        over: Units over which the interval is drawn.
        part: Part of the project, such as a version or an annotator, if there is a figure for each.
        source: Function that computes it.
        of: Evaluator whose scores the figure is about; empty for figures of the project.

    >>> gap = Figure("score_difference", 0.6612, 0.141, 1.188, 18, "18 new conversations", "scores", "conversations")
    >>> gap.text(), gap.sentence()
    ('+0.66 [+0.14, +1.19]', '+0.66 [+0.14, +1.19], 18 new conversations, by scores')
    >>> Figure("bad_found", 6, n=14).text(), Figure("within_one", 0.876).text(), Figure("error", None).text()
    ('6 of 14', '88%', '–')
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    about: str = ""
    by: By = ""
    over: Over = ""
    part: str = ""
    source: str = ""
    of: str = ""

    @classmethod
    def measured(cls, name: str, found: Estimate, n: int | None = None, about: str = "", by: By = "",
           over: Over = "conversations", part: str = "", source: str = "", of: str = "") -> Self:  # fmt: skip
        """Return the figure of an estimate."""
        has_interval = found.low is not None and found.high is not None
        return cls(name, found.value, found.low, found.high, n, about, by, over if has_interval else "", part, source,
                   of)  # fmt: skip

    @property
    def key(self) -> str:
        """Key in a ledger: the name, and the part if there is one."""
        return f"{self.name}:{self.part}" if self.part else self.name

    @property
    def estimate(self) -> Estimate:
        """The value with the ends of its interval."""
        return Estimate(self.value, self.low, self.high)

    @property
    def definition(self) -> Definition:
        """Label, meaning, form and unit."""
        return DEFINITIONS[self.name]

    @property
    def short(self) -> str:
        """The value without its interval."""
        if self.value is None:
            return "–"
        if self.definition.form == "count":
            return f"{self.value:,.0f}" + ("" if self.n is None else f" of {self.n:,}")
        return written(self.value, self.definition.form)

    def text(self) -> str:
        """Return the value with its interval."""
        if self.value is None or self.low is None or self.high is None:
            return self.short
        low, high = (written(end, self.definition.form) for end in (self.low, self.high))
        return f"{self.short} [{low}, {high}]"

    def sentence(self) -> str:
        """Return the value, its interval, the set that it is about, and its maker."""
        return ", ".join(filter(None, [self.text(), self.about, f"by {self.by}" if self.by else ""]))

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> dict[str, Any]:
        """Return all fields, the definition and the text."""
        known = self.definition
        return {
            "figure": self.key, "label": known.label, "value": self.value, "low": self.low, "high": self.high,
            "n": self.n, "unit": known.unit, "about": self.about, "by": self.by, "interval_over": self.over,
            "text": self.text(), "definition": known.meaning, "source": self.source, "of": self.of,
        }  # fmt: skip

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Invert `to_json`.

        Raises:
            ValueError: The row is not a figure, or its name is unknown.
        """
        name, _, part = str(row.get("figure")).partition(":")
        if name not in DEFINITIONS:
            raise ValueError(f"unknown figure {name[:40]!r}")
        value, low, high = (row.get(key) for key in ("value", "low", "high"))
        if not all(each is None or isinstance(each, int | float) for each in (value, low, high)):
            raise ValueError(f"{name}: value and interval are numbers")
        n, by, over = row.get("n"), row.get("by", ""), row.get("interval_over", "")
        return cls(name, value, low, high, n if isinstance(n, int) else None, str(row.get("about", "")), by, over, part,
                   str(row.get("source", "")), str(row.get("of", "")))  # fmt: skip


def written(value: float, form: Form) -> str:
    """Return a value in one of the forms; two decimals for points and correlations, a sign for differences.

    >>> written(-0.004, "difference"), written(0.1234, "points"), written(0.995, "share"), written(1200, "count")
    ('0.00', '0.12', '99.5%', '1,200')
    """
    if form == "share":
        shown = f"{value:.0%}"
        return shown if shown not in ("0%", "100%") or value in (0.0, 1.0) else f"{value:.1%}"
    if form == "count":
        return f"{value:,.0f}"
    if form == "money" and 0 < abs(value) < 0.1:
        return f"{value:.2g}"
    text = number(value, 2)
    if form == "difference":
        return text.lstrip("−") if float(f"{value:.2f}") == 0 else text if value < 0 else f"+{text}"
    return "0.00" if text == "−0.00" else text


class Ledger(Mapping[str, Figure]):
    """Figures by key, each with one value.

    >>> ledger = Ledger([Figure("error", 0.98, n=412), Figure("bias", 0.2, part="ada")])
    >>> ledger["error"].text(), ledger["bias:ada"].text(), "alpha" in ledger, ledger.text("alpha")
    ('0.98', '+0.20', False, '–')
    """

    def __init__(self, figures: Iterable[Figure] = ()) -> None:
        """Collect figures.

        Raises:
            ValueError: Two figures with one key have unlike values.
        """
        self._figures: dict[str, Figure] = {}
        for each in figures:
            if self._figures.setdefault(each.key, each) != each:
                raise ValueError(f"two values of {each.key}: {self._figures[each.key].text()} and {each.text()}")

    def __getitem__(self, key: str) -> Figure:
        return self._figures[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __or__(self, others: Iterable[Figure] | Ledger) -> Ledger:
        added = others.values() if isinstance(others, Ledger) else others
        return Ledger([*self._figures.values(), *added])

    def text(self, key: str) -> str:
        """Return the text of a figure; a dash if there is none."""
        return self._figures[key].text() if key in self._figures else "–"

    def to_json(self) -> list[dict[str, Any]]:
        """Return the figures as JSON, in their order."""
        return [each.to_json() for each in self._figures.values()]

    @classmethod
    def from_json(cls, rows: Any) -> Ledger:
        """Return the figures of stored JSON; rows of other versions that are no figures are left out."""
        figures = []
        for row in rows if isinstance(rows, list) else ():
            try:
                figures.append(Figure.from_json(row))
            except (ValueError, TypeError, AttributeError):
                continue
        return cls({each.key: each for each in figures}.values())
