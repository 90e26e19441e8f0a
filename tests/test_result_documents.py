"""Results as documents: verdict first, the main rows on the first screen, and one value per figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from accord.decisions import uses_table
from accord.project import Compared, Estimates, Fitted
from accord.project.results import GapSearch
from accord.results import Document, Figure, Section, Table, document_markdown, document_text, plain_markdown
from accord.statistics import MeanDifference, SystemMean
from accord.testing import sample_project
from accord.validation import SpecificationGap
from accord.values import Target

ONLY_WITH_ALL = {"random", "best-column", "annotator-mean"}


@pytest.fixture(scope="module")
def compared() -> Compared:
    with sample_project(60) as project:
        return project.compare(only=["default"], jobs=1)


def cells_of(document: Document) -> Iterator[Any]:
    for section in document.sections:
        for part in section.parts:
            if isinstance(part, Table):
                yield from (cell for row in part.rows for cell in row)


@pytest.mark.parametrize("everything", [False, True])
def test_comparison_begins_with_its_verdict_and_has_one_value_per_figure(compared: Compared, everything: bool) -> None:
    document, verdict = compared.document(everything), compared.verdict
    assert (document.title, document.lead) == (verdict.title, verdict.sentence)
    assert list(document.sections[: len(verdict.document().sections)]) == list(verdict.document().sections)
    ledger, values = verdict.figures.ledger, dict[str, Any]()
    for cell in cells_of(document):
        if isinstance(cell, Figure):
            assert values.setdefault(cell.key, cell.text()) == cell.text()
            assert cell.key not in ledger or ledger[cell.key] == cell
    assert {"error", "constant_error", "people_error", "r"} <= values.keys()


def test_first_screen_has_the_main_rows_and_all_has_every_row(compared: Compared) -> None:
    names = {row["evaluator"] for row in compared}
    assert names >= ONLY_WITH_ALL
    short = {cell for cell in cells_of(Document("", "", [each for each in compared.document().sections
                                                         if not each.is_detail])) if isinstance(cell, str)}  # fmt: skip
    assert short & names == {"default", "constant"} and "other people" in short
    text, everything = document_text(compared.document()), document_text(compared.document(True), details=True)
    assert text.endswith("all evaluators and statistics: accord compare --all") and "pooled r" not in text
    assert str(compared.decision) in text and str(compared.decision) in everything
    assert all(f"\n{name} " in everything for name in names) and "error for known annotators" in everything
    assert "--all" not in everything


def test_fit_and_notebook_show_the_same_document(compared: Compared) -> None:
    with sample_project() as project:
        fitted = project.fit("constant")
    assert isinstance(fitted, Fitted) and fitted.held_out is not None
    text, page = document_text(fitted.document()), fitted._repr_html_()
    assert text.startswith(fitted.held_out.verdict.title) and f"saved in {fitted.folder}" in text
    error = fitted.held_out.verdict.figures.ledger["error"]
    assert error.text() in text and 'data-figure="error"' in page and error.text() in page and "pooled r" not in page


def test_estimates_state_differences_of_unrounded_means() -> None:
    means = [SystemMean(name, 30, 40, mean, mean - 0.2, mean + 0.2, mean, mean - 0.3, mean + 0.3, 0.5)
             for name, mean in (("v1", 2.9649), ("v2", 3.6251))]  # fmt: skip
    gap = MeanDifference("v2", "v1", 3.6251 - 2.9649, 0.14, 1.19, 0.01, 3)
    found = Estimates("Q0", means, [gap], evaluator="default", left_out={"v\n3": "1 labeled"})
    figure = found.figures["estimated_difference:v2 − v1"]
    assert (figure.text(), figure.n) == ("+0.66 [+0.14, +1.19]", 80)
    text = document_text(found.document())
    assert f"v2 − v1: {figure.text()}, p = 0.01, paired by 3 shared inputs" in text
    assert "2.96 [2.76, 3.16]" in text and "v\\n3: no mean: 1 labeled" in text
    assert found.to_json()["ledger"][-1]["text"] == figure.text()


def test_gaps_are_listed_with_examples() -> None:
    gap = SpecificationGap("judge", "k", "long replies", 40, 12, -0.5, 0.001, [Target("a"), Target("b", 2)], ["words"])
    text = document_text(GapSearch("Q0", "default", 19, 507, [gap], ["closed: short replies"]).document())
    assert text.startswith(
        "1 gap found: 19 properties tested on 507 ratings\n\nPeople and default differ where\n\n- long"
    )
    assert "such as a, b#2\n  the same conversations: words" in text and text.endswith("closed: short replies")
    assert document_text(GapSearch("Q0", "", 3, 10, []).document()).startswith("no gap found: 3 properties tested")


def test_markdown_of_a_document_has_its_figures_and_escapes_texts(compared: Compared) -> None:
    document = replace(compared.document(), title="<b>@all</b> | `x`")
    text = document_markdown(document)
    assert text.startswith("# \\<b\\>@all\\</b\\> \\| \\`x\\`\n") and "<b>" not in text
    assert "| use | allowed |" in text
    assert plain_markdown(compared.verdict.figures.ledger["error"].text()) in text


def test_uses_of_scores_take_two_lines_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    uses = [
        {"use": "Find bad conversations", "is_allowed": True, "rule": "1 of 1 rule met",
         "measured": "12 [8, 15] of the 15 lowest scores are among the 40 conversations rated 1.75 or less; chance: 4.0"},
        {"use": "Judge one conversation", "is_allowed": False, "rule": "6 of 10 rules met",
         "measured": "a 90% band is 2.11 points wide; 0 of 150 conversations are clearly good or bad"},
    ]  # fmt: skip
    document = Document("Finding", "", [Section("", "", [uses_table(uses)]), Section("", "One."), Section("", "Two.")])
    for columns, lines in (("80", 5), ("118", 5), ("200", 5)):
        monkeypatch.setenv("COLUMNS", columns)
        shown = document_text(document).splitlines()
        assert len(shown) == 2 + lines + 3 and max(map(len, shown)) <= min(int(columns), 118)
        assert shown[-2:] == ["One.", "Two."], "sentences stand together"
