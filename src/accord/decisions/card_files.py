"""Files of an agreement card: JSON, Markdown for a repository, and a badge as SVG."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from accord.decisions.agreement_card import AgreementCard
from accord.edges import BadInput, count_of, write_atomically
from accord.results import Figure, markdown_table, p_text, plain_markdown

_COLORS = {"single": "#17734a", "systems": "#2457d6", "triage": "#a85a00"}
_PIXELS = 6.6
"""Mean width of a character of the badge in pixels, at 11 pixels."""


def write_card(card: AgreementCard, path: str | Path) -> list[Path]:
    """Write a card as JSON, and next to it as Markdown and as a badge; return the files.

    Raises:
        BadInput: The name does not end in `.json`.
    """
    target = Path(path)
    if target.suffix != ".json":
        raise BadInput(f"{path}: a card is a .json file, with .md and .svg next to it; name it {target.stem}.json")
    texts = {
        target: json.dumps(card.signed(), indent=1, ensure_ascii=False) + "\n",
        target.with_suffix(".md"): card_markdown(card),
        target.with_suffix(".svg"): card_badge(card),
    }
    for each, text in texts.items():
        write_atomically(each, text)
    return list(texts)


def card_markdown(card: AgreementCard) -> str:
    """Return a card as Markdown; texts of users are escaped."""
    asked, first, labels, test = card.question, card.agreement[0], card.labels, card.test
    lines = [
        f"# Agreement card: {plain_markdown(card.project)}", "",
        f"**{plain_markdown(card.title)}.** {plain_markdown(card.sentence)}", "",
        f"Question **{plain_markdown(asked.name)}** ({plain_markdown(asked.text)}), "
        f"scale {plain_markdown(asked.scale)}.",
        "", "## Agreement", "",
        *markdown_table(
            ["question", "ratings", "error", "within one point", f"{first.statistic} pooled", "r within annotators",
             "r within versions", "other people's error", "α of people"],
            [_agreement_row(each) for each in card.agreement],
        ),
        "", "Errors are RMSE in points; r is a correlation; brackets are 95% intervals over conversations.",
    ]  # fmt: skip
    if card.statistics:
        lines = [*lines[:-1], "Brackets are 95% intervals over items.", "", "## Statistics", "", *markdown_table(
            ["", "among people", "judge with people"],
            [[each.name, str(each.people), str(each.judge)] for each in card.statistics],
        )]  # fmt: skip
    if card.mean is not None:
        mean = card.mean
        row = [str(mean.judge), str(mean.corrected), mean.method, str(mean.bias)]
        header = ["judge alone", "corrected", "estimator", "bias"]
        lines += ["", "## Mean of all rows", "", *markdown_table(header, [row])]
    if card.baselines:
        lines += ["", "## Comparison", "", *markdown_table(
            ["", "error", "test against it"],
            [[card.subject.name, str(first.error), ""],
             *([each.name, str(each.error), "" if each.p is None else p_text(each.p)] for each in card.baselines)],
        )]  # fmt: skip
    if card.subject.kind == "evaluator":
        lines += ["", "## Single scores", "", *_single_lines(card)]
    if card.groups:
        lines += ["", "## Groups", "", *markdown_table(
            ["by", "group", "ratings", "bias in points", "test"],
            [[each.by, each.group, f"{each.labels:,}", str(each.bias), p_text(each.p)] for each in card.groups],
        )]  # fmt: skip
    marks = {True: "yes", False: "no", None: "untested"}
    if card.rules:
        lines += ["", "## Rules of the verdict", "", *markdown_table(
            ["for", "rule", "value", "limit", "met"],
            [[each.state, each.name, each.value, each.limit, marks[each.is_met]] for each in card.rules],
        )]  # fmt: skip
    lines += ["", "## Provenance", "", *markdown_table(["", ""], _provenance(card))]
    if card.limits:
        lines += ["", "## Limits", "", *(f"- {plain_markdown(each)}" for each in card.limits)]
    used = (
        f" These ratings were used {count_of(test.uses, 'time')}, first on {test.first_used}." if test.uses > 1 else ""
    )
    made = f"Made on {card.made} by Accord {card.accord_version} from {count_of(labels.count, 'rating')}.{used}"
    return "\n".join([*lines, "", made, f"Digest `{card.signed()['digest']}`", ""])


def _agreement_row(each: Any) -> list[str]:
    near = Figure.measured("within_one", each.within_one)
    values = (each.error, near, each.pooled, each.within_annotators, each.within_systems, each.people, each.alpha)
    return [each.name, f"{each.labels:,}", *map(str, values)]


def _single_lines(card: AgreementCard) -> list[str]:
    lines = []
    if card.bands is not None:
        bands = card.bands
        lines.append(f"- Bands are made to hold {bands.promised:.0%} of new ratings and hold {_share(bands.coverage)}; "
                     f"they are {bands.width} points wide.")  # fmt: skip
    if card.decided is None:
        lines.append("- The share of conversations that can be called good or bad is unknown.")
    else:
        lines.append(f"- {card.decided:.0%} of the conversations can be called good or bad, with "
                     f"{card.decided_agreement or 0:.0%} agreement with people.")  # fmt: skip
    return lines


def _share(value: Any) -> str:
    if value.value is None:
        return "an unknown share"
    ends = "" if value.low is None or value.high is None else f" [{value.low:.0%}, {value.high:.0%}]"
    return f"{value.value:.0%}{ends}"


def _provenance(card: AgreementCard) -> list[list[str]]:
    subject, labels, test = card.subject, card.labels, card.test
    repeats = count_of(test.repeats, "repetition")
    kept = {
        "cross-validation": f"{test.folds}-fold cross-validation over groups of conversations, {repeats}",
        "split": "one side of a split", "held-out set": "a held-out set", "table": "a table of scores and ratings",
    }[test.method]  # fmt: skip
    people = ", ".join(f"{count:,}" for count in labels.annotators)
    rows = [
        [subject.kind, f"{subject.name}, {subject.digest}"],
        ["models", "; ".join(f"{role}: {name}" for role, name in subject.models.items()) or "none"],
        ["evidence", "; ".join(subject.evidence) or "none"],
        ["rubric", f"{card.question.rubric}, {card.question.rubric_hash}"],
        ["ratings", f"{labels.count:,} of {labels.conversations:,} conversations by {labels.made_by}, {labels.digest}"],
        ["annotators", f"{len(labels.annotators)}, with {people} ratings"],
        ["assistant versions", ", ".join(f"{name} {count:,}" for name, count in labels.systems.items()) or "unknown"],
        ["tested by", kept],
    ]  # fmt: skip
    return rows


def card_badge(card: AgreementCard) -> str:
    """Return a badge with the permitted use and the lower bound of the agreement."""
    first = card.agreement[0]
    low = first.within_annotators.low if first.within_annotators.low is not None else first.pooled.low
    uses = {"table": "judge", "single": "single scores", "systems": "comparing versions", "triage": "triage"}
    said = uses.get(card.state, "not yet") + ("" if low is None else f", {first.statistic} ≥ {low:.2f}")
    return _badge("agreement with people", said, _COLORS.get(card.state, "#59626f"))


def _badge(left: str, right: str, color: str) -> str:
    one, two = (round(len(text) * _PIXELS) + 14 for text in (left, right))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{one + two}" height="20" role="img" '
        f'aria-label="{escape(left)}: {escape(right)}"><title>{escape(left)}: {escape(right)}</title>'
        f'<rect width="{one}" height="20" fill="#59626f"/><rect x="{one}" width="{two}" height="20" fill="{color}"/>'
        f'<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{one / 2:g}" y="14">{escape(left)}</text><text x="{one + two / 2:g}" y="14">{escape(right)}</text>'
        "</g></svg>\n"
    )
