"""Files of an agreement card: JSON, Markdown for a repository, and a badge as SVG."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from accord.decisions.agreement_card import AgreementCard, CardAgreement
from accord.edges import BadInput, count_of, write_atomically
from accord.results import Document, Figure, Section, Table, Text, document_markdown, p_text
from accord.values import Estimate

Rows = Sequence[Sequence[str | Estimate | Figure]]
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
    return document_markdown(card_document(card))


def card_document(card: AgreementCard) -> Document:
    """Return a card as a document: the permitted use, agreement, and a section for each further part that it has."""
    asked, first, labels, test, mean = card.question, card.agreement[0], card.labels, card.test, card.mean
    about = "Brackets are 95% intervals over items."
    if not card.statistics:
        about = "Errors are RMSE in points; r is a correlation; brackets are 95% intervals over conversations."
    agreement = Table(
        ["question", "ratings", "error", "within one point", f"{first.statistic} pooled", "r within annotators",
         "r within versions", "other people's error", "α of people"],
        [_agreement_row(each) for each in card.agreement],
    )  # fmt: skip
    rivals: Rows = [[each.name, each.error, "" if each.p is None else p_text(each.p)] for each in card.baselines]
    marks = {True: "yes", False: "no", None: "untested"}
    tables: dict[str, tuple[Sequence[str], Rows]] = {
        "Statistics": (["", "among people", "judge with people"],
                       [[each.name, each.people, each.judge] for each in card.statistics]),
        "Mean of all rows": (["judge alone", "corrected", "estimator", "bias"],
                             [] if mean is None else [[mean.judge, mean.corrected, mean.method, mean.bias]]),
        "Comparison": (["", "error", "test against it"],
                       [[card.subject.name, first.error, ""], *rivals] if rivals else []),
        "Groups": (["by", "group", "ratings", "bias in points", "test"],
                   [[each.by, each.group, f"{each.labels:,}", each.bias, p_text(each.p)] for each in card.groups]),
        "Rules of the verdict": (["for", "rule", "value", "limit", "met"],
                                 [[each.state, each.name, each.value, each.limit, marks[each.is_met]]
                                  for each in card.rules]),
        "Provenance": (["", ""], _provenance(card)),
    }  # fmt: skip
    sections = [Section(name, "", [Table(header, rows)]) for name, (header, rows) in tables.items() if rows]
    if card.subject.kind == "evaluator":
        place = [each.heading for each in sections].index("Provenance")
        sections.insert(place, Section("Single scores", "", [Text(each) for each in _single_lines(card)]))
    used = (
        f" These ratings were used {count_of(test.uses, 'time')}, first on {test.first_used}." if test.uses > 1 else ""
    )
    made = f"Made on {card.made} by Accord {card.accord_version} from {count_of(labels.count, 'rating')}.{used}"
    return Document(
        f"Agreement card: {card.project}",
        f"{card.title}. {card.sentence}",
        [
            Section("", "", [Text(f"{asked.name} ({asked.text}), scale {asked.scale}.", label="Question")]),
            Section("Agreement", "", [agreement, Text(about)]),
            *sections,
            *([Section("Limits", "", [Text(each) for each in card.limits])] if card.limits else []),
            Section("", "", [Text(made), Text(card.signed()["digest"], label="Digest")]),
        ],
    )  # fmt: skip


def _agreement_row(each: CardAgreement) -> list[str | Estimate | Figure]:
    near = Figure.measured("within_one", each.within_one)
    values = (each.error, near, each.pooled, each.within_annotators, each.within_systems, each.people, each.alpha)
    return [each.name, f"{each.labels:,}", *values]


def _single_lines(card: AgreementCard) -> list[str]:
    lines = []
    if card.bands is not None:
        bands = card.bands
        lines.append(f"Bands are made to hold {bands.promised:.0%} of new ratings and hold {_share(bands.coverage)}; "
                     f"they are {bands.width} points wide.")  # fmt: skip
    if card.decided is None:
        lines.append("The share of conversations that can be called good or bad is unknown.")
    else:
        lines.append(f"{card.decided:.0%} of the conversations can be called good or bad, with "
                     f"{card.decided_agreement or 0:.0%} agreement with people.")  # fmt: skip
    return lines


def _share(value: Any) -> str:
    if value.value is None:
        return "an unknown share"
    ends = "" if value.low is None or value.high is None else f" [{value.low:.0%}, {value.high:.0%}]"
    return f"{value.value:.0%}{ends}"


def _provenance(card: AgreementCard) -> Rows:
    subject, labels, test = card.subject, card.labels, card.test
    repeats = count_of(test.repeats, "repetition")
    kept = {
        "cross-validation": f"{test.folds}-fold cross-validation over groups of conversations, {repeats}",
        "split": "one side of a split", "held-out set": "a held-out set", "table": "a table of scores and ratings",
    }[test.method]  # fmt: skip
    people = ", ".join(f"{count:,}" for count in labels.annotators)
    rows: Rows = [
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
