"""Data frames, Arrow tables, data sets and lists of dicts are read like files, and results are tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from new_project import new_project
from small_sample import sources

import accord
from accord.edges import BadInput, BadRow
from accord.formats import MemoryTable, read_rows
from accord.learning import Evaluator
from accord.project import Config, Estimates, Imported, JudgeRun
from accord.scoring import ScoreRun
from accord.scoring.results import ScoreCounts

CHATS, RATINGS = sources()
ROWS = [json.loads(line) for line in CHATS.read_text(encoding="utf-8").splitlines()]
FLAT = [
    {"id": row["id"], "prompt": row["messages"][0]["content"], "response": row["messages"][1]["content"]}
    for row in ROWS
]
LABELS = pl.read_csv(RATINGS).to_dicts()
EVIL = "<img src=x onerror=alert(1)>"


class ArrowOnly:
    """An object with the Arrow stream interface and nothing else."""

    def __init__(self, rows: list[Any]) -> None:
        self._frame = frame(rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


class InterchangeOnly:
    """An object with the data frame interchange protocol and nothing else."""

    def __init__(self, rows: list[Any]) -> None:
        self._table = frame(rows).to_arrow()

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return self._table.__dataframe__(nan_as_null, allow_copy)


class DataSet:
    """A data set as the `datasets` library has it: rows as dicts, plain values on demand."""

    column_names = ("id", "messages")

    def __init__(self, rows: list[Any], is_plain: bool = False) -> None:
        self._rows, self._is_plain = rows, is_plain

    def with_format(self, kind: str | None) -> DataSet:
        return DataSet(self._rows, is_plain=kind is None)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows if self._is_plain else [])


def frame(rows: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def pandas_frame(rows: list[Any]) -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(rows)


def pandas_with_index(rows: list[Any]) -> Any:
    result = pandas_frame(rows)
    return result.set_index("id" if "id" in result.columns else "conversation")


def data_set(rows: list[Any]) -> Any:
    return pytest.importorskip("datasets", reason="datasets is not installed").Dataset.from_list(rows)


NESTED: list[Callable[[list[Any]], Any]] = [
    list, frame, lambda rows: frame(rows).lazy(), lambda rows: frame(rows).to_arrow(), ArrowOnly, iter, DataSet,
    pandas_frame, pandas_with_index, data_set,
]  # fmt: skip
TABLES = [*NESTED, InterchangeOnly]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    return tmp_path


def opened() -> accord.Project:
    return accord.Project(Config(store="sqlite:///:memory:", draws=20, folds=2))


def contents(project: accord.Project) -> list[Any]:
    return [
        [(each.id, each.turns, each.metadata) for each in project.store.conversations()],
        sorted((str(each.target), each.annotator, each.question, each.value) for each in project.store.labels()),
    ]


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Evaluator:
    with pytest.MonkeyPatch.context() as environment, opened() as project:
        environment.chdir(tmp_path_factory.mktemp("fitted"))
        project.import_([CHATS, RATINGS])
        return project.fit("default").evaluator


# --- import ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", NESTED)
def test_a_table_is_imported_like_a_file(make: Callable[[list[Any]], Any]) -> None:
    with opened() as by_file, opened() as by_table:
        by_file.import_([CHATS, RATINGS])
        done = by_table.import_([make(ROWS), make(LABELS)])
        assert (done.conversations.new, done.labels.new) == (40, 1143)
        assert contents(by_table) == contents(by_file)


@pytest.mark.parametrize("make", TABLES)
def test_flat_rows_are_imported_with_columns_of_any_name(make: Callable[[list[Any]], Any]) -> None:
    renamed = [{"id": row["id"], "asked": row["prompt"], "response": row["response"]} for row in FLAT[:3]]
    with opened() as project:
        done = project.import_(make(renamed), columns={"prompt": "asked"})
        assert done.conversations.new == 3
        assert [each.turns[0].content for each in project.store.conversations()] == [row["prompt"] for row in FLAT[:3]]


def test_roles_are_mapped_and_paths_and_tables_are_mixed() -> None:
    from accord.project import ImportOptions

    row = {"id": "x", "messages": [{"role": "user", "content": "hi"}, {"role": "operator", "content": "hello"}]}
    with opened() as project:
        project.import_([str(CHATS), [row]], options=ImportOptions(roles={"operator": "assistant"}))
        assert len(list(project.store.conversation_ids())) == 41
        [result] = project.store.conversations(["x"])
        assert [turn.role for turn in result.turns] == ["user", "assistant"]
        assert project.import_(str(CHATS)).conversations.known == 40


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "cannot read a int. Pass a path, a data frame"),
        (None, "cannot read a NoneType"),
        ({"train": ROWS}, "cannot read a dict with the keys train. Pass one table"),
        ([ROWS[0], "chats.jsonl"], "a list holds rows and other sources"),
        ([ROWS[0], {"id": "x", "messages": 5}], "<list>, row 2: messages are a list, got int"),
        ([ROWS[0], {"id": "x", "messages": [{"role": "user", "content": object()}]}],
         "<list>, row 2: column 'messages' holds a value of type object"),
        (pl.DataFrame([{"a": 1}]), "cannot tell the format of <DataFrame>: no column is known to hold text (a)"),
        (pl.DataFrame({"conversation": ["a", None], "role": ["user", "user"], "content": ["x", "y"]}),
         "<DataFrame>, row 2: a turn names no conversation"),
    ],
)  # fmt: skip
def test_unreadable_rows_are_refused_with_their_number(given: Any, says: str) -> None:
    with opened() as project, pytest.raises(BadInput) as caught:
        project.import_(given)
    assert str(caught.value).startswith(says)


def test_cells_of_other_types_are_read_as_json() -> None:
    import datetime as dt
    from decimal import Decimal

    import numpy as np

    row = {**FLAT[0], "when": dt.datetime(2024, 1, 2), "cost": Decimal("1.5"), "n": np.int64(3), "nothing": float("nan"),
           "vector": np.array([1.0, np.nan])}  # fmt: skip
    with opened() as project:
        project.import_([row])
        [result] = project.store.conversations()
    about = {name: result.metadata[name] for name in ("when", "cost", "n", "vector")}
    assert about == {"when": "2024-01-02T00:00:00", "cost": 1.5, "n": 3, "vector": [1.0, None]}
    assert result.metadata.get("nothing") is None


def test_duplicate_pandas_columns_are_refused() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    with opened() as project, pytest.raises(BadInput, match="two columns called 'prompt'"):
        project.import_(pd.DataFrame([["a", "b", "c"]], columns=["prompt", "prompt", "response"]))


# --- score ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", NESTED)
def test_a_table_is_scored_like_a_file(make: Callable[[list[Any]], Any], evaluator: Evaluator) -> None:
    with opened() as project:
        by_file = project.score(CHATS, "scores.jsonl", evaluator)
        done = project.score(make(ROWS), evaluator=evaluator)
    assert done.out is None and done.counts.scored == by_file.counts.scored == 40
    assert done.counts.mean == by_file.counts.mean
    assert (
        list(done)
        == list(by_file)
        == [json.loads(line) for line in Path("scores.jsonl").read_text(encoding="utf-8").splitlines()]
    )


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_scores_are_a_table_in_memory_and_in_files(ending: str, evaluator: Evaluator) -> None:
    with opened() as project:
        in_memory = project.score(ROWS, evaluator=evaluator)
        in_file = project.score(ROWS, f"scores.{ending}", evaluator)
    assert in_memory.to_polars().equals(in_file.to_polars())
    table = pa.table(in_memory)
    assert table.num_rows == len(in_memory) == 40
    assert table.column("conversation").to_pylist() == [row["id"] for row in ROWS]
    assert set(table.column("status").to_pylist()) == {"scored"}
    assert "rows" not in in_memory.to_json()
    if find_spec("pandas") is not None:
        assert len(in_memory.to_pandas()) == 40 and in_memory.to_pandas()["value"].dtype == "float64"


def test_pandas_is_needed_only_for_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(BadInput, match="pip install pandas"):
        Estimates("Q0", [], []).to_pandas()


def test_every_row_has_a_score_or_a_reason(evaluator: Evaluator) -> None:
    unnamed = [{name: cell for name, cell in row.items() if name != "id"} for row in FLAT[:2]]
    made_up = {**ROWS[3], "id": "made-up", "synthetic": {"how": "DS1"}}
    rows = [*unnamed, {"id": "broken", "messages": 5}, 7, made_up]
    with opened() as project:
        with pytest.raises(BadRow, match="<list>, row 3: "):
            project.score([*ROWS[:2], rows[2]], evaluator=evaluator)
        done = project.score([ROWS[0], *rows[2:], ROWS[1], ROWS[0]], evaluator=evaluator, skip_bad_rows=True)
        flat = project.score(unnamed, evaluator=evaluator)
    assert flat.to_polars()["conversation"].to_list() == ["row-1", "row-2"]
    result = {row["conversation"]: row["unscored"] for row in done if row["value"] is None}
    assert result["row-2"].startswith("bad-row: ") and result["row-3"] == "bad-row: expected a dict, got int"
    assert result["made-up"] == "left out by --synthetic"
    assert any("another conversation with the id 'support-001'" in str(reason) for reason in result.values())
    assert done.counts.scored == 2 and len(done) == 6
    assert done.to_polars()["status"].value_counts(sort=True).to_dicts()[0] == {"status": "bad-row", "count": 3}


# --- notebooks ------------------------------------------------------------------------------------------------------


def results() -> Mapping[str, Any]:
    """One result of each kind, with markup in every name."""
    row = {
        "conversation": EVIL,
        "turn": None,
        "annotator": EVIL,
        "value": 1.0,
        "low": 0.0,
        "high": 2.0,
        "warning": EVIL,
    }
    return {
        "Imported": Imported(bad_rows=[EVIL]),
        "JudgeRun": JudgeRun(1, {EVIL: 1}, 0, {}, {EVIL: 3}, stopped=EVIL),
        "ScoreRun": ScoreRun(ScoreCounts(scored=1, total=1.0, unscored={EVIL: 1}), EVIL, None, "r", scores=[row] * 30),
        "Estimates": Estimates(EVIL, [], []),
    }


@pytest.mark.parametrize("kind", ["Imported", "JudgeRun", "ScoreRun", "Estimates"])
def test_results_are_shown_as_escaped_tables(kind: str) -> None:
    result = results()[kind]
    page = result._repr_html_()
    assert '<table class="tbl">' in page and "<img" not in page
    assert kind in ("Imported", "Estimates") or "&lt;img" in page
    assert repr(result).startswith(f"{kind}(") and len(repr(result)) < 500 and "\n" not in repr(result)
    assert kind != "ScoreRun" or (page.count("<tr>") == 21 and "10 more rows" in page)


def test_fitted_and_compared_are_tables_without_arrays() -> None:
    chats = [{**row, "id": f"{EVIL} {row['id']}"} for row in ROWS]
    labels = [{**row, "conversation": f"{EVIL} {row['conversation']}"} for row in LABELS]
    with opened() as project:
        project.import_([chats, labels])
        fitted = project.fit("default")
        estimated = project.estimate()
    compared = fitted.held_out
    for result in (fitted, compared, fitted.comparison, estimated):
        assert len(repr(result)) < 300 and "array" not in repr(result) and "<img" not in result._repr_html_()
    assert "<th>typical error</th>" in fitted._repr_html_() and "<th>labels and scores</th>" in estimated._repr_html_()
    table = compared.to_polars()
    assert table["evaluator"].to_list() == [row["evaluator"] for row in compared] and len(compared) == len(table)
    assert pa.table(compared).num_rows == len(table)
    assert pl.DataFrame(list(estimated)).height == len(estimated)


# --- values that Python, JSON or a scale lacks ----------------------------------------------------------------------


def column(kind: Any, *cells: Any) -> Callable[[], Any]:
    """A function that returns a frame of five exchanges with one more column; the third row holds the odd value."""
    name = "time" if kind in (pl.Date, pl.Datetime("ms")) else "rating"

    def made() -> pl.DataFrame:
        values = pl.Series(cells, dtype=pl.Int64).cast(kind) if name == "time" else pl.Series(cells, dtype=kind)
        shared = {"prompt": ["hi"] * 5, "response": ["yo"] * 5}
        return pl.DataFrame({"id": [f"c{number}" for number in range(5)], **shared, name: values})

    return made


def rows_with(cell: Any) -> Callable[[], list[dict[str, Any]]]:
    return lambda: [
        {"id": f"c{number}", "question": "hi", "answer": "yo", "rating": cell if number == 2 else number % 2 + 1}
        for number in range(5)
    ]


def cycle() -> list[Any]:
    cells: list[Any] = []
    cells.append({"inner": cells})
    return cells


def shared_many_times() -> list[Any]:
    cells: list[Any] = [1]
    for _ in range(60):
        cells = [cells, cells]
    return cells


ODD: dict[str, tuple[Callable[[], Any], str, int]] = {
    "unsigned": (column(pl.UInt64, 1, 2, 2**63 + 5, 1, 2), "is not an answer", 5),
    "128 bits": (column(pl.Int128, 1, 2, 2**100, 1, 2), "is not an answer", 5),
    "far date": (column(pl.Date, 1, 2, 53_378_000, 1, 2), "year 148114 is out of range", 4),
    "far time": (column(pl.Datetime("ms"), 1, 2, 4_611_686_018_427_387, 1, 2), "year 148108 is out of range", 4),
    "huge number": (rows_with(10**400), "is not an answer", 5),
    "fraction": (rows_with(Fraction(1, 3)), "a value of type Fraction", 4),
    "cycle": (rows_with(cycle()), "nested deeper than 100 levels", 4),
    "cell of a frame that contains itself": (
        column(pl.Object, 1, 2, cycle(), 1, 2),
        "nested deeper than 100 levels",
        4,
    ),
    "shared lists": (rows_with(shared_many_times()), "values", 4),
}


@pytest.mark.attack
@pytest.mark.parametrize("name", ODD)
def test_odd_cell_is_one_bad_row_and_the_rest_is_imported(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, message, conversations = ODD[name]
    monkeypatch.chdir(tmp_path)
    new_project()
    with accord.open() as project:
        result = project.import_(make(), skip_bad_rows=True)
        assert result.conversations.new == conversations and result.skipped == 1
        assert ", row 3: " in result.bad_rows[0] and message in result.bad_rows[0]


@pytest.mark.attack
def test_rows_with_two_columns_of_one_name_are_bad() -> None:
    [bad, good] = MemoryTable([{1: "a", "1": "b", "id": "x"}, {"id": "y", "1": "b"}]).rows()
    assert isinstance(bad, BadRow) and "two columns are called '1'" in bad.reason and not isinstance(good, BadRow)


@pytest.mark.attack
def test_time_beyond_the_calendar_is_one_bad_row_of_a_parquet_file(tmp_path: Path) -> None:
    column(pl.Date, 1, 2, 53_378_000, 1, 2)().write_parquet(tmp_path / "t.parquet")
    rows = list(read_rows(tmp_path / "t.parquet"))
    assert [row.line for row in rows if isinstance(row, BadRow)] == [3] and len(rows) == 5


@pytest.mark.attack
def test_huge_number_is_one_bad_row_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_project()
    lines = [json.dumps(row) for row in rows_with(int("9" * 400))()]
    Path("chats.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with accord.open() as project:
        result = project.import_("chats.jsonl", skip_bad_rows=True)
        assert (result.conversations.new, result.labels.new, result.skipped) == (5, 4, 1)
        assert "chats.jsonl, line 3: " in result.bad_rows[0]
