"""SVG charts: text alternatives, escaping, labels that neither clip nor collide, links."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from accord.charts import (
    Axis,
    ChartLine,
    ChartLink,
    ChartRow,
    Guide,
    bar_chart,
    column_chart,
    histogram,
    interval_plot,
    legend,
    line_chart,
    row_chart,
    scatter,
    share_bars,
    ticks,
)
from accord.values import Estimate

NAMES = [
    "<b>short</b>",
    "a name that is much longer than the room for it on three lines of a chart that is as narrow as a phone, which is why some of its words have to be cut somewhere at its end",
    "\u4e00" * 30,
]
ROWS = [ChartRow(name, Estimate(0.4, 0.3, 0.5), "people", '/"x') for name in NAMES]
DAYS = {float(day): f"11-{day:02d}" for day in range(40)}
CHARTS = {
    "intervals": interval_plot(ROWS, Axis("agreement", -0.2, 1), "It's <&>", 0),
    "guides": interval_plot(
        ROWS, Axis("error"), "It's <&>", guides=[Guide(0.41, "other people 0.41"), Guide(0.42, "constant guess 0.42")]
    ),
    "bars": bar_chart([ChartRow(name, Estimate(-0.2)) for name in NAMES], Axis("share", is_share=True), "It's <&>"),
    "columns": column_chart(NAMES, {"one": [1, 2, 3], "two": [3, 2, 1]}, Axis("x"), Axis("y"), "It's <&>"),
    "stacked": column_chart(["1", "2"], {"a": [1, 0], "b": [0, 1]}, Axis(), Axis(high=1), "It's <&>", is_stacked=True),
    "line": line_chart(
        [ChartLine(list(DAYS), [3.0] * 40, [2.0] * 40, [4.0] * 40, ends=[Estimate(3, 2.5, 3.5)] * 40, draws="line points")],
        Axis(labels=DAYS), Axis("score", 1, 5), "It's <&>", guides=[Guide(39, "the last day"), Guide(2, is_level=True)],
        links=[ChartLink(0, 1, "/list?low=0&high=1", "0 to 1: 3")],
    ),
    "calibration": line_chart(
        [ChartLine([0, 0.5, 1], [0, 0.4, 1], weights=[0.1, 1, 0.2], name="a"),
         ChartLine([0, 1], [0, 1], is_dashed=True, name="b")],
        Axis("predicted", 0, 1), Axis("observed", 0, 1), "It's <&>",
    ),
    "histogram": histogram({"good": [1.0, 2.0, 2.5], "bad": [-1.0]}, Axis("separation"), Axis("count"), "It's <&>"),
    "shares": share_bars({"1": 1.0, "2": 3.0}, "It's <&>"),
    "legend": legend(["It's <&>", "other"]),
}  # fmt: skip


def elements(chart: Markup, name: str) -> list[ElementTree.Element]:
    return [each for each in ElementTree.fromstring(str(chart)).iter() if each.tag == name]


@pytest.mark.parametrize("name", CHARTS)
def test_chart_is_escaped_xml_with_a_text_alternative_and_no_inline_style(name: str) -> None:
    chart = CHARTS[name]
    root = ElementTree.fromstring(str(chart))
    told = root.get("aria-label") or "".join(each.text or "" for each in root[:2])
    assert "It's <&>" in told and "<b>" not in chart and "style=" not in chart
    assert root.get("role") == ("group" if "<a " in chart else "img")


@pytest.mark.parametrize("name", sorted(set(CHARTS) - {"shares", "legend"}))
def test_labels_lie_inside_the_drawing(name: str) -> None:
    root = ElementTree.fromstring(str(CHARTS[name]))
    width, height = (float(size) for size in root.get("viewBox", "").split()[2:])
    shift = [float(part) for part in re.findall(r"[\d.]+", root.findall("g")[-1].get("transform", ""))]
    for text in root.findall("g")[-1].iter("text"):
        x, y = float(text.get("x", 0)) + shift[0], float(text.get("y", 0)) + shift[1]
        wide = 0.5 * sum(2 if letter > "\u2fff" else 1 for letter in text.text or "") * 12
        if text.get("transform"):
            assert x - 0.82 * wide >= 0 and y + 0.5 * wide <= height
        else:
            left = x - {"end": wide, "middle": wide / 2}.get(text.get("text-anchor", ""), 0)
            assert left >= -1 and left + wide <= width and y <= height, text.text


def test_tick_labels_do_not_collide() -> None:
    ticks_of = [text for text in elements(CHARTS["line"], "text") if (text.text or "").startswith("11-")]
    places = [float(text.get("x", 0)) for text in ticks_of]
    assert 3 < len(places) < 12 and min(b - a for a, b in zip(places, places[1:], strict=False)) > 6 * 6


def test_a_cut_label_keeps_its_text_as_a_tooltip() -> None:
    cut = [text for text in elements(CHARTS["intervals"], "text") if (text.text or "").endswith("…")]
    assert len(cut) == 1 and cut[0][0].text == NAMES[1]


@pytest.mark.parametrize("draw", [interval_plot, bar_chart])
def test_charts_of_rows_fit_a_phone_and_show_question_texts_whole(draw: Callable[..., Markup]) -> None:
    text = "In terms of content, is the response helpful, and does it answer every part of the question?"
    for labels in ([text], ["Q1", "Q2"], [text, "short"]):
        chart = draw([ChartRow(label, Estimate(2.5, 2.25, 2.75)) for label in labels], Axis("score"), "Means")
        assert float(ElementTree.fromstring(str(chart)).get("width", "")) <= 440
        shown = [each for each in elements(chart, "text") if each.get("class") == "label"]
        assert " ".join(each.text or "" for each in shown) == " ".join(labels)
        anchors = {each.get("text-anchor") for each in shown}
        assert anchors == ({"end"} if text not in labels else {"start"}), "long labels stand above their rows"


def test_counts_beside_bars_are_whole_numbers() -> None:
    assert ">12,345</text>" in bar_chart([ChartRow("all", Estimate(12345.0))], Axis(), "Counts")


def test_people_and_model_have_different_colors_and_marks() -> None:
    chart = interval_plot([ChartRow("p", Estimate(1), "people"), ChartRow("m", Estimate(2))], Axis(), "Two")
    assert 'class="people"' in chart and 'class="tool"' in chart and len(elements(chart, "circle")) == 1


def test_numbers_are_in_the_description() -> None:
    assert "a name" in CHARTS["intervals"] and "0.40 [0.30, 0.50]" in elements(CHARTS["intervals"], "desc")[0].text  # type: ignore[operator]
    many = interval_plot([ChartRow(f"r{n}", Estimate(n)) for n in range(30)], Axis(), "Many")
    assert "and 6 more" in (elements(many, "desc")[0].text or "")


def test_labels_of_near_lines_stand_above_each_other() -> None:
    labels = [
        text for text in elements(CHARTS["guides"], "text") if " 0.4" in (text.text or "") and "[" not in text.text
    ]
    first, second = (float(text.get("y")) for text in labels)
    rows = [float(dot.get("cy")) for dot in elements(CHARTS["guides"], "circle")]
    assert second - first >= 14 and min(rows, default=99) > second


def test_parts_are_links_with_names() -> None:
    [link] = elements(CHARTS["line"], "a")
    assert link.get("href") == "/list?low=0&high=1" and link.get("aria-label") == "0 to 1: 3"


@pytest.mark.parametrize(
    ("low", "high", "count", "expected"),
    [
        (0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-3, 7, 4, [-2.5, 0, 2.5, 5]),
        (2, 2, 5, [2]),
        (0, 1e-9, 2, [0, 5e-10, 1e-9]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, count: int, expected: list[float]) -> None:
    assert ticks(low, high, count) == pytest.approx(expected)


# --- row chart and scatter ------------------------------------------------------------------------------------------


def rows_of(chart: Markup) -> tuple[ElementTree.Element, list[list[str]]]:
    table = ElementTree.fromstring(str(chart))
    rows = [["".join(cell.itertext()).strip() for cell in row] for row in table.iter("tr")]
    return table, rows


def test_a_row_chart_is_a_table_with_each_number_once() -> None:
    rows = [
        ChartRow(NAMES[0], Estimate(3.14, 2.98, 3.27), href='/"x', count=1200),
        ChartRow(NAMES[2], Estimate(2)),
        ChartRow("n", Estimate()),
    ]
    table, body = rows_of(row_chart(rows, Axis("", 1, 4), "It's <&>"))
    assert table.findtext("caption") == "It's <&>"
    assert body[0] == [f"{NAMES[0]} 1,200", "", "3.14", "2.98 to 3.27"]
    assert body[1][1:] == ["", "2", ""] and body[2][2] == "–"
    assert body[3] == ["", "1234", "", ""], "the ticks of the axis"
    _, worded = rows_of(row_chart([ChartRow("q", Estimate(0.3), words="a <little>")], Axis(), "t"))
    assert worded[0] == ["q", "", "0.30", "a <little>"] and len(worded[1]) == 4
    link = next(table.iter("a"))
    assert link.get("href") == '/"x' and all(each.get("aria-hidden") for each in table.iter("svg"))


def test_a_row_chart_has_signs_zones_dots_and_further_marks() -> None:
    signed, body = rows_of(row_chart([ChartRow("a − b", Estimate(-0.5, -1, 0.5))], Axis(), "t", is_signed=True))
    assert body[0][2:] == ["−0.50", "−1.00 to 0.50"] and [each.get("x1") for each in signed.iter("line")].count("66.7%")
    zone = rows_of(row_chart([ChartRow("a", Estimate(2.0))], Axis("", 0, 4), "t", zone=(None, 1.0)))[0]
    assert [each.get("width") for each in zone.iter("rect")] == ["25.0%"]
    few = rows_of(row_chart([ChartRow("a", Estimate(2.0), dots=[1, 2, 3])], Axis("", 0, 4), "t"))[0]
    assert [each.get("cx") for each in few.iter("circle") if each.get("class") == "dot tool"] == [
        "25.0%",
        "50.0%",
        "75.0%",
    ]
    bins = [(0.0, 1.0, 10), (1.0, 2.0, 0), (2.0, 3.0, 5)]
    many = rows_of(row_chart([ChartRow("a", Estimate(2.0), bins=bins)], Axis("", 0, 4), "t"))[0]
    assert [each.get("height") for each in many.iter("rect")] == ["26.0", "13.0"], "heights are numbers of values"
    both = ChartRow("v2", Estimate(3.6), "people", more=[(Estimate(3.5), "tool")])
    table, body = rows_of(
        row_chart([both, ChartRow("v1", Estimate(2.9))], Axis("", 1, 5), "t", heads=["people", "scores"])
    )
    assert body[0][2:] == ["people", "scores"] and body[1][2:] == ["3.60", "3.50"] and len(body[2]) == 4
    bars = rows_of(
        row_chart([ChartRow("up", Estimate(0.3)), ChartRow("down", Estimate(-0.3))], Axis(), "t", is_bars=True)
    )
    assert [row[2] for row in bars[1][:2]] == ["+0.30", "−0.30"]
    assert not list(rows_of(row_chart([], Axis(), "t"))[0].iter("a"))


def test_a_scatter_draws_points_lines_bands_guides_and_links_in_percent() -> None:
    lines = [
        ChartLine([0, 1, 2], [0, 1, 4], [0, 0, 3], [1, 2, 5], name="<found>", draws="both"),
        ChartLine([1], [2.0], kind="people", draws="points", ends=[Estimate(2, 1, 3)]),
    ]
    chart = scatter(
        lines, Axis("read"), Axis("found"), "It's <&>", guides=[Guide(1, "here"), Guide(3, is_level=True)],
        links=[ChartLink(0, 1, '/list?a="1"&b', "first")], has_diagonal=True,
    )  # fmt: skip
    svg = ElementTree.fromstring(str(chart))
    assert svg.get("role") == "group" and str(svg.get("aria-label")).startswith("It's <&>; found; <found>: 0: 0")
    assert next(svg.iter("a")).get("href") == '/list?a="1"&b'
    assert {each.get("class") for each in svg.iter("circle")} == {"pt tool", "pt people"}
    assert len([each for each in svg.iter("line") if each.get("class") == "area tool"]) == 2
    assert [each.get("class") for each in svg.iter("polygon")] == ["band tool"]
    at = [float(str(each.get("cx"))[:-1]) for each in svg.iter("circle")]
    assert min(at) == 9 and max(at) == 98 and "style=" not in str(chart)
