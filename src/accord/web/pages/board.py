"""Board pages: distribution and means of scores, and lists of the texts behind each part of a chart.

The address holds the state of a page: filters are links, and the browser's back button works.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from fastapi import FastAPI, Request
from fastapi.responses import Response
from markupsafe import Markup

from accord.board import (
    DIMENSIONS,
    GROUP_BINS,
    NEXT,
    ORDERS,
    BoardFigures,
    BoardFilters,
    SelectedScores,
    TimeSeries,
    describe_test,
    difference_in_words,
    dimension_in_words,
    filter_in_words,
    stated_difference,
)
from accord.charts import Axis, ChartLine, ChartLink, ChartRow, Guide, row_chart, scatter
from accord.edges import AccordError, BadInput, parse_whole_number
from accord.learning import CARD
from accord.project import verdict_in_use
from accord.results import Figure, Ledger
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext, add_page, conversation_address
from accord.web.difference_chart import difference_chart, difference_note, difference_title, with_people

_PAGE_FIELDS = ("page", "back")
_MAX_BACK = 4096
MAX_COMPARED_EVALUATORS = 3
"""Number of other evaluators that are offered for comparison, the latest first."""
SHOWN_TEXTS = 9
"""Number of conversations on the board."""
MAX_DIFFERENCES = 6
"""Number of differences of pairs of groups in the picture."""
SHOWN_GROUPS = 12
"""Number of groups in the picture, the largest ones; a folded table has the others."""
DAY = "day"
ORDER_HEADINGS = {
    "worst": ("Lowest", "lowest scores first"), "best": ("Highest", "highest scores first"),
    "apart": ("Most disputed", "most disputed first"), "newest": ("Newest", "newest first"),
}  # fmt: skip
"""Short and long name of each order."""
BOARD_FIELDS = ("question", "by", "since", "topic", "find")
LIST_FIELDS = ("find", "system", "topic", "issue", "low", "high", "annotators", "unscored")
"""Filters that the forms of the board and of a list show."""
BY_OPTIONS = [(name, dimension_in_words(name).capitalize()) for name in DIMENSIONS]
EMPTY = {"summary": "No scores yet.", "texts": 0, "next": NEXT}
_NO_LIST_FILTERS = {"low": None, "high": None, "unscored": False, "order": "worst"}


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the board and its lists."""
    pages = _BoardPages(context)
    add_page(app, "/board", pages.board)
    add_page(app, "/board/list", pages.list)


class _BoardPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self._verdict: tuple[Any, str] = (None, "")

    def board(self, request: Request) -> Response:
        """Show the statistics of a selection."""
        visitor = self.context.visitor(request, "lead")
        selection = BoardFilters.from_query(request.url.query, _PAGE_FIELDS)
        result = self.context.board.figures(selection)
        if result is None:
            return self._empty(request, visitor)
        texts, figures = result
        links = Links(selection)
        shown = self.context.board.page(selection, 1, SHOWN_TEXTS)
        rows = [] if shown is None else [
            {**row, "conversation_link": links.from_board(row["conversation"], row["turn"])}
            for row in shown[1].to_json()["rows"]
        ]  # fmt: skip
        data = {
            "selection": texts.selection.to_json(),
            "evaluator": texts.choices.names[str(texts.selection.evaluator)],
            **figures.to_json(),
        }
        for number, each in enumerate(data["density"]["bins"]):
            each["list"] = links.bin(figures, number)
        data["verdict"] = "" if texts.selection.answers == "given" else self._caution(texts)
        data["rows"], data["learned"] = rows, texts.learned
        stated = [] if texts.is_self_made else with_people(figures.differences[:MAX_DIFFERENCES], self._ledger(texts))
        return self.context.render_or_json(
            request, "board", visitor, data, scores=texts, figures=figures, links=links,
            charts=_charts(texts, figures, links), hidden=_hidden(selection), describe_test=describe_test,
            kept=_kept(replace(selection, **_NO_LIST_FILTERS), BOARD_FIELDS), periods=_periods(texts),  # type: ignore[arg-type]
            orders=_orders(texts), total=shown[1].total if shown else 0,
            headings=ORDER_HEADINGS, filter_in_words=filter_in_words,
            is_more=_has_more(texts.selection), is_alone=texts.is_all_learned,
            quiet=texts.quiet_notes, by_options=BY_OPTIONS, shown_groups=SHOWN_GROUPS,
            question_options=[(id, texts.shown(id)) for id in texts.choices.questions],
            column=dimension_in_words(str(texts.selection.by)),
            difference=figures.stated_figure, mean=figures.ledger().get(figures.mean_name),
            means={each.part: each for each in figures.figures if each.name == figures.mean_name and each.part},
            given=None if figures.given is None else figures.ledger().get("mean_rating"),
            change=_last_change(texts, figures), comparisons=_comparisons(texts, figures, links),
            has_gaps=_has_gaps(figures.time), distribution=_distribution(figures, links),
            difference_chart=difference_chart(stated), difference_title=difference_title(stated),
            difference_note=difference_note(stated), is_given=texts.selection.answers == "given",
        )  # fmt: skip

    def list(self, request: Request) -> Response:
        """Show a page of the texts of a selection."""
        visitor = self.context.visitor(request, "lead")
        query = request.url.query
        selection = BoardFilters.from_query(query, _PAGE_FIELDS)
        number, back = _page_and_back(query)
        result = self.context.board.page(selection, number)
        if result is None:
            return self._empty(request, visitor)
        texts, page = result
        links = Links(selection, back)
        rows = [{**row, "conversation_link": links.conversation(row["conversation"], row["turn"], page.number)}
                for row in page.to_json()["rows"]]  # fmt: skip
        new = Ledger([texts.new_scores, texts.new_unlike]).to_json()
        data = {
            "selection": texts.selection.to_json(), **page.to_json(), "rows": rows, "unlike": texts.unlike,
            "figures": new,
        }  # fmt: skip
        return self.context.render_or_json(
            request,
            "board_list",
            visitor,
            data,
            scores=texts,
            listed=page,
            links=links,
            orders=_orders(texts),
            kept=[*_kept(selection, LIST_FIELDS), ("back", links.back)],
            issues=(issues := self.context.board.issues()),
            issue_options=_issue_options(issues, selection),
            people=_people(texts),
            headings=ORDER_HEADINGS,
        )

    def _empty(self, request: Request, visitor: Visitor) -> Response:
        can_score = (self.context.project.folder() / CARD).is_file()
        return self.context.render_or_json(request, "board_empty", visitor, EMPTY, can_score=can_score)

    def _ledger(self, scores: SelectedScores) -> Collection[Figure]:
        """Return the figures of the verdict on the evaluator in use; empty for scores of others."""
        folder = self.context.project.folder()
        if str(scores.selection.evaluator).partition("@")[0] != folder.name or not (folder / CARD).is_file():
            return ()
        return Ledger.from_json((verdict_in_use(self.context.project, folder) or {}).get("ledger")).values()

    def _caution(self, scores: SelectedScores) -> str:
        """Return a caution if the verdict on the evaluator in use does not allow to compare; empty for others' scores.

        The verdict is read again when the evaluator changes, because reading it loads the evaluator.
        """
        project = self.context.project
        folder = project.folder()
        if str(scores.selection.evaluator).partition("@")[0] != folder.name:
            return ""
        try:
            state = (folder / CARD).stat().st_mtime_ns, len(project.store.runs("compare"))
            if self._verdict[0] != state:
                verdict = verdict_in_use(project, folder) or {}
                is_allowed = verdict.get("state", "systems") in ("systems", "single")
                self._verdict = state, "" if is_allowed else str(verdict.get("title", ""))
        except (OSError, AccordError):
            return ""
        return self._verdict[1]


def _charts(texts: SelectedScores, figures: BoardFigures, links: Links) -> dict[str, Markup | None]:
    if not figures.texts:
        return {"rows": None, "time": None}
    return {
        "rows": _groups_chart(figures, texts, links),
        "time": _time_chart(figures.time, Axis("", texts.low, texts.high), links, texts.count)
        if len(figures.time.moments) > 1
        else None,
    }


def _groups_chart(figures: BoardFigures, scores: SelectedScores, links: Links) -> Markup:
    """Draw the scores of each group with their mean and its interval; a name opens the board of its group.

    The highest mean is the first, but scores of conversations that the evaluator learned from rank nothing.
    """
    kind = "people" if scores.selection.answers == "given" else "tool"
    by = figures.table.by
    rows = sorted(figures.table.rows[:SHOWN_GROUPS], key=lambda row: -(row.mean.value or 0.0))
    rows = sorted(rows, key=lambda row: row.name) if scores.is_self_made else rows
    width = (scores.high - scores.low) / GROUP_BINS
    shown = [
        ChartRow(row.name, row.mean, kind, links.only(by, row.value), count=row.texts, bins=[
            (scores.low + place * width, scores.low + (place + 1) * width, count)
            for place, count in enumerate(row.counts) if count
        ])
        for row in rows
    ]  # fmt: skip
    title = f"{'Ratings' if kind == 'people' else 'Scores'} by {dimension_in_words(by)}, means with 95% intervals"
    return row_chart(shown, Axis("", scores.low, scores.high), title)


def _time_chart(time: TimeSeries, y: Axis, links: Links, noun: Callable[[int], str]) -> Markup:
    """Draw means over time with intervals, a band for the middle 80% of texts, numbered events, and links."""
    moments, low = time.moments, y.low or 0.0
    known = [(place, moment.mean) for place, moment in enumerate(moments) if moment.mean.value is not None]
    places, means = zip(*known, strict=True) if known else ((), ())
    medians, lowest, highest = (
        [getattr(moment, name).value or low for moment in moments] for name in ("median", "lowest", "highest")
    )
    lines = [
        ChartLine(list(range(len(moments))), medians, lowest, highest, draws="band"),
        ChartLine(places, [mean.value or low for mean in means], draws="line points", ends=means),
    ]
    parts = [
        ChartLink(place - 0.5, place + 0.5, links.list(since=moment.since, until=moment.until),
             f"{moment.since}: {moment.mean}, {noun(moment.texts)}")
        for place, moment in enumerate(moments)
    ]  # fmt: skip
    x = Axis("", -0.5, len(moments) - 0.5, labels={place: moment.since[5:] for place, moment in enumerate(moments)})
    return scatter(lines, x, y, f"Mean score by {time.step}", guides=_event_guides(time), links=parts)


def _event_guides(time: TimeSeries) -> list[Guide]:
    """Return a line at each moment with events, with their numbers."""
    events: dict[int, list[str]] = {}
    for number, event in enumerate(time.happened, 1):
        for place, moment in enumerate(time.moments):
            if moment.since <= event.day <= moment.until:
                events.setdefault(place, []).append(str(number))
    return [Guide(place, ", ".join(numbers)) for place, numbers in events.items()]


def _distribution(figures: BoardFigures, links: Links) -> list[tuple[str, int, int, str]]:
    """Return each bin with texts: its ends, the numbers of texts and of people's ratings, and the list of its texts."""
    density, given = figures.density, figures.given
    rated = [0] * len(density.bins) if given is None else [each.count for each in given.bins]
    return [
        (f"{each.low:.2f} to {each.high:.2f}", each.count, ratings, links.bin(figures, place))
        for place, (each, ratings) in enumerate(zip(density.bins, rated, strict=True))
        if each.count or ratings
    ]


def _comparisons(scores: SelectedScores, figures: BoardFigures, links: Links) -> list[tuple[str, str, bool]]:
    """Return the comparisons in one click: address, text, and True if it is shown."""
    about, names = scores.selection, scores.choices.names
    stated = stated_difference(figures)
    shown = () if stated is None else (stated.by, stated.first, stated.second)
    comparisons = [
        (
            links.board(by=by, first=first, second=second, against=None),
            f"{dimension_in_words(by)}s {first} and {second}",
            shown == (by, first, second),
        )
        for by, (first, second) in figures.pairs.items()
    ]  # fmt: skip
    others = [id for id in scores.choices.evaluators if id != about.evaluator] if about.answers == "predicted" else []
    comparisons += [
        (links.board(against=id, answers="predicted"), f"with evaluator {names[id]}", about.against == id)
        for id in others[:MAX_COMPARED_EVALUATORS]
    ]
    return comparisons


def _last_change(scores: SelectedScores, figures: BoardFigures) -> str:
    """Return the sentence on the change in the last period; empty without a test."""
    found = figures.last_period
    tested = found is not None and found.p is not None
    return difference_in_words(found, f"on {scores.shown(found.question)}") if found and tested else ""


def _has_gaps(time: TimeSeries) -> bool:
    """Return True if days or weeks without scores lie between the first and the last."""
    return any(
        (date.fromisoformat(later.since[:10]) - date.fromisoformat(earlier.until)).days > 1
        for earlier, later in pairwise(time.moments)
    )


def _kept(selection: BoardFilters, shown: Sequence[str]) -> list[tuple[str, str]]:
    """Return the hidden fields of the form of filters: the filters that it does not show."""
    named = parse_qs(selection.to_query(first=None, second=None), keep_blank_values=True)
    return [(name, value) for name, values in named.items() if name not in shown for value in values]


def _periods(scores: SelectedScores) -> list[tuple[str, str]]:
    """Return the periods to choose from: the first day of each, and its name."""
    last, since = scores.rows[DAY].max(), scores.selection.since
    periods = [("", "All days")]
    if isinstance(last, date):
        for days, name in ((1, "Last day"), (7, "Last 7 days"), (30, "Last 30 days")):
            periods.append((date.fromordinal(max(last.toordinal() - days + 1, 1)).isoformat(), name))
    return periods if since is None or since in dict(periods) else [*periods, (since, f"Since {since}")]


def _has_more(selection: BoardFilters) -> bool:
    """Return True if one of the folded filters is set."""
    return bool(selection.annotators) or (selection.view, selection.synthetic, selection.against) != (
        "panel", "without", None,
    )  # fmt: skip


def _issue_options(issues: Mapping[str, int], selection: BoardFilters) -> list[tuple[str, str]]:
    options = [("", "All"), *((kind, f"{kind} ({count:,})") for kind, count in issues.items())]
    if selection.issue is not None and selection.issue not in issues:
        options.append((selection.issue, selection.issue))
    return options


def _people(scores: SelectedScores) -> list[tuple[str, str]]:
    """Return the annotators to choose from; empty if all scores are for a new annotator."""
    names = scores.annotators
    chosen = [name for name in scores.selection.annotators if name not in names]
    return [("", "All"), *((name, name) for name in (*names, *chosen))] if len(names) > 1 or chosen or (
        scores.selection.annotators
    ) else []  # fmt: skip


def _orders(scores: SelectedScores) -> list[str]:
    return [each for each in ORDERS if each != "apart" or scores.shows_disagreement]


def _hidden(selection: BoardFilters) -> list[tuple[str, str]]:
    """Return the hidden fields of the form that compares two groups."""
    fields = parse_qs(selection.to_query(first=None, second=None, against=None), keep_blank_values=True)
    return [(name, value) for name, values in fields.items() for value in values]


def _page_and_back(query: str) -> tuple[int, str]:
    """Return the number of the page, and the board from which the list was opened.

    Raises:
        BadInput: The page is not a number.
    """
    named = parse_qs(query, keep_blank_values=True)
    page, back = named.get("page", ["1"])[-1], named.get("back", [""])[-1]
    number = parse_whole_number(page)
    if number is None:
        raise BadInput(f"page: got {page[:40]!r}, allowed: a number from 1")
    return number, back if _is_board(back) else ""


def _is_board(back: str) -> bool:
    """Return True for an address of the board of this server."""
    if len(back) > _MAX_BACK or "\\" in back:
        return False
    try:
        parts = urlsplit(back)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc and parts.path == "/board"


class Links:
    """Addresses of other states of the board."""

    def __init__(self, selection: BoardFilters, back: str = "") -> None:
        self.selection, self._back = selection, back

    def board(self, **changes: Any) -> str:
        """Return the board with some filters changed."""
        query = replace(self.selection, **_NO_LIST_FILTERS).to_query(**changes)  # type: ignore[arg-type]
        return f"/board?{query}" if query else "/board"

    @property
    def back(self) -> str:
        """The board from which the list was opened."""
        return self._back or self.board()

    def list(self, page: int = 1, /, **changes: Any) -> str:
        """Return the list of texts behind a part of the board, or another state of the list."""
        query = self.selection.to_query(**changes)
        more = urlencode({**({"page": page} if page > 1 else {}), "back": self._back or self.board()})
        return f"/board/list?{query}&{more}" if query else f"/board/list?{more}"

    def bin(self, figures: BoardFigures, place: int) -> str:
        """Return the list of texts in a bin of the density."""
        each, last = figures.density.bins[place], len(figures.density.bins) - 1
        return self.list(low=each.low if place else None, high=each.high if place < last else None)

    def conversation(self, name: str, turn: int | None, page: int = 1, **changes: Any) -> str:
        """Return the conversation page of a text, with a link back to the list."""
        query = {**({} if turn is None else {"turn": turn}), "back": self.list(page, **changes)}
        return f"/conversation/{quote(name, safe='')}?{urlencode(query)}"

    def from_board(self, name: str, turn: int | None) -> str:
        """Return the conversation page of a text, with a link back to the board."""
        return conversation_address(name, turn, self.board(order=self.selection.order))

    def disputed(self, name: str, turn: int | None) -> str:
        """Return the conversation page of a disputed text, with a link back to the list of disputed texts."""
        return self.conversation(name, turn, order="apart", view="panel")

    def question(self, question: str, scores: SelectedScores) -> str:
        """Return the board of another question, of the same evaluators if they answered it."""
        known = scores.choices.answered.get(question, frozenset())
        evaluator, against = (
            name if name in known else None for name in (scores.selection.evaluator, self.selection.against)
        )
        return self.board(question=question, evaluator=evaluator, against=against)

    def by(self, name: str) -> str:
        """Return the board with the table of another dimension."""
        is_same = name == self.selection.by
        return self.board(by=name) if is_same else self.board(by=name, first=None, second=None)

    def unset(self, name: str) -> str:
        """Return the board without a filter."""
        return self.board(**{name: None})

    def only(self, name: str, value: str) -> str:
        """Return the board of one group."""
        if name == "annotator":
            return self.board(annotators=(value,))
        return self.board(**{name: value, "first": None, "second": None})

    def group(self, name: str, value: str) -> str:
        """Return the list of texts of one group."""
        return self.list(**_of_group(name, value))


def _of_group(name: str, value: str) -> dict[str, str | tuple[str, ...]]:
    return {"annotators": (value,), "view": "each"} if name == "annotator" else {name: value}
