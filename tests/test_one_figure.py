"""One value per figure: a project with all traps, read on every surface."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trap_project import Shown, build, contradictions, figures_on, surfaces

from accord.results import DEFINITIONS, written

Surfaces = dict[str, str | dict[str, Any]]
IN_USE = "444 held-out ratings of 130 conversations by 4 people"
"""Set of the figures of the evaluator in use, after the refit."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surfaces]:
    folder = tmp_path_factory.mktemp("traps")
    build(folder)
    with surfaces(folder) as found:
        yield found


@pytest.fixture(scope="module")
def figures(shown: Surfaces) -> list[Shown]:
    return [figure for name, content in shown.items() for figure in figures_on(name, content)]


def values_of(figures: list[Shown], key: str, about: str = "", of: str = "default") -> dict[str, set[str]]:
    """Return the texts of a figure by surface."""
    found = defaultdict(set)
    for each in figures:
        if each.figure == key and about in each.about and each.of in (of, ""):
            found[each.surface].add(each.text)
    return dict(found)


def text_of(shown: Surfaces, name: str) -> str:
    """Return the words of a page or a text."""
    content = str(shown[name])
    content = re.sub(r"<(style|script)\b.*?</\1>", " ", content, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", content).split())


def test_no_figure_has_two_values_or_two_texts_for_one_set(figures: list[Shown]) -> None:
    assert contradictions(figures) == {}
    assert len({each.surface for each in figures}) >= 15 and len(figures) >= 200
    assert {each.figure.partition(":")[0] for each in figures} <= DEFINITIONS.keys()
    assert all(each.about for each in figures), "every figure names its set"


def test_the_typical_error_is_one_number_on_every_surface(shown: Surfaces, figures: list[Shown]) -> None:
    [error] = set[str]().union(*values_of(figures, "error", IN_USE).values())
    short = error.partition(" ")[0]
    assert {"report.json", "page /.json", "page /evaluators.json", "report.html"} <= values_of(figures, "error").keys()
    assert f"typical error {short}" in text_of(shown, "page /")
    for name in ("report.txt", "card.md", "report.html"):
        assert f"miss a person's rating by {short} points" in text_of(shown, name).replace("&#39;", "'").replace(
            "&#x27;", "'"
        )
    assert error in str(shown["card.md"]).replace("\\", "")
    assert f"default {error}" in text_of(shown, "compare.txt"), "the row of the evaluator in use"


def test_the_share_within_one_point_is_the_same_on_card_and_report(shown: Surfaces, figures: list[Shown]) -> None:
    [share] = set[str]().union(*values_of(figures, "within_one", IN_USE).values())
    assert share in str(shown["card.md"]).replace("\\", "") and share in text_of(shown, "report.html")


def test_a_difference_is_that_of_the_means_beside_it(shown: Surfaces) -> None:
    for name, mean in (("page /board.json", "mean_score"), ("page /board?answers=given.json", "mean_rating")):
        page = shown[name]
        assert isinstance(page, dict)
        rows = {each["figure"]: each for each in page["figures"]}
        gaps = {key: row for key, row in rows.items() if key.startswith(("score_difference:", "people_difference:"))}
        assert gaps
        for key, row in gaps.items():
            first, second = key.partition(":")[2].split(" − ")
            assert row["value"] == pytest.approx(rows[f"{mean}:{first}"]["value"] - rows[f"{mean}:{second}"]["value"])
    title = text_of(shown, "page /board?answers=given")
    gap = min(abs(row["value"]) for key, row in gaps.items() if "assistant-b" in key)
    assert f"by {written(gap, 'points')} points" in title


def test_ratings_add_up_by_wording_and_by_what_was_learned(shown: Surfaces) -> None:
    home = shown["page /.json"]
    assert isinstance(home, dict)
    rows = {each["figure"]: each["value"] for each in home["counts"]["figures"]}
    assert rows["ratings"] == rows["present_wording"] + rows["earlier_wording"] == 444
    assert rows["ratings"] == rows["learned"] + rows["new_ratings"]
    for name in ("page /", "page /evaluators", "compare.txt", "report.html", "card.md"):
        assert "492" not in text_of(shown, name) and "444" in text_of(shown, name), name


def test_agreement_of_people_names_its_ratings(figures: list[Shown]) -> None:
    sets = {each.about for each in figures if each.figure.partition(":")[0] == "alpha"}
    assert len(sets) >= 2 and all(re.match(r"\d+ (held-out )?ratings of \d+", each) for each in sets)


def test_disputed_items_are_counted_by_one_rule(shown: Surfaces) -> None:
    pages = ("page /.json", "page /lead.json", "page /lead/look.json", "page /lead/look/disagree.json")
    counts = set()
    for name in pages:
        todo: list[Any] = [shown[name]]
        while todo:
            each = todo.pop()
            if isinstance(each, dict):
                counts |= {each["disputed"]} if isinstance(each.get("disputed"), int) else set()
                counts |= {each["value"]} if str(each.get("figure", "")).startswith("disputed") else set()
                todo += each.values()
            elif isinstance(each, list):
                todo += each
    assert counts == {8}, "two or more points apart on 8 of 24 items"


def test_new_and_unusual_conversations_are_counted_alike_where_they_are_shown(figures: list[Shown]) -> None:
    for key in ("new_scores", "new_unlike"):
        by_surface = values_of(figures, key)
        assert len(set[str]().union(*by_surface.values())) == 1
        assert {"page /.json", "page /board.json", "page /board/list.json"} <= by_surface.keys()


def test_a_blind_test_leaves_out_what_was_learned(shown: Surfaces) -> None:
    page = text_of(shown, "page /lead/look")
    assert re.search(r"60 of 72 answers .{0,80}left out|left out.{0,80}60", page), page[page.find("Blind") :][:400]


def test_words_that_mislead_are_gone(shown: Surfaces) -> None:
    for name, content in shown.items():
        text = text_of(shown, name) if isinstance(content, str) else str(content)
        assert not re.search(r"(worst|bottom) 10%", text), name
        assert not re.search(r"assistant-\w is rated", text), name
        assert "ruler" not in text, name


def test_gate_states_the_verdict_first_and_fails_an_unproven_evaluator(shown: Surfaces) -> None:
    assert "Verdict of default: failed: Not yet" in str(shown["gate.md"]).split("| condition")[0]
    assert str(shown["gate.txt"]).startswith("verdict of default: failed: Not yet")


def test_a_bias_in_the_chart_is_that_of_its_sentence(shown: Surfaces, figures: list[Shown]) -> None:
    biases = values_of(figures, "bias:annotator: amira")
    assert len(set[str]().union(*biases.values())) == 1 and Path("report.html").name in biases
