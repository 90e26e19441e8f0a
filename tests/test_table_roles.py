"""One table has one reading: `check`, the survey of `init --from`, imports, runs and uploads agree about every column."""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import accord_json
from made_tables import MadeTable, made_table

import accord
from accord import Project
from accord.edges import BadInput
from accord.formats import table_roles
from accord.project import config_from, import_files, survey_files, survey_options
from accord.report.check_page import check_markdown
from accord.table_check import CheckResult
from accord.values import load_rubric


class Reading(NamedTuple):
    """Numbers of ratings of people and of a judge's answers; `is_unclear` if the table was refused for a column."""

    people: int = 0
    judge: int = 0
    is_unclear: bool = False


def read_by_check(table: MadeTable) -> Reading | str:
    """Return the reading of `accord.check`, or the role that it lacks."""
    try:
        found = accord.check(table.rows)
    except BadInput as error:
        if "can hold ratings of people or answers of a model" in str(error):
            return Reading(is_unclear=True)
        return "judge" if "--judge" in str(error) else "people"
    roles = found.columns
    columns = roles["judge"].split(", ")
    rows = found.judged if roles.get("annotator") is None or "gpt" in roles["judge"] else len(table.rows)
    return Reading(sum(found.labels_by.values()), rows * len(columns))


def read_by_import(table: MadeTable, is_surveyed: bool) -> Reading:
    """Return the reading of an import, or of the survey before it."""
    rubric = load_rubric("llm-rubric")
    sources: list[Any] = [table.rows] if table.has_text else [table.conversations, table.rows]
    try:
        survey = survey_files(sources)
    except BadInput as error:
        assert "can hold ratings of people or answers of a model" in str(error)
        return Reading(is_unclear=True)
    if is_surveyed:
        return Reading(sum(survey.people.values()), survey.judges.total())
    with Project(config_from({"store": "sqlite:///:memory:"}), rubric) as project:
        done = import_files(project.store, rubric, sources, options=survey_options(survey, rubric))
        return Reading(len(list(project.store.labels())), Counter(done.judged.judges).total())


@pytest.mark.parametrize("first", range(0, 200, 10))
def test_check_survey_and_import_read_a_table_alike(first: int) -> None:
    for seed in range(first, first + 10):
        table = made_table(seed)
        surveyed, imported = (read_by_import(table, is_surveyed) for is_surveyed in (True, False))
        assert surveyed == imported, (seed, table.form, table.rows[0])
        checked = read_by_check(table)
        if isinstance(checked, Reading):
            assert checked == imported, (seed, table.form, table.rows[0])
        else:  # a check needs both sides
            assert not imported.is_unclear, (seed, table.form, table.rows[0])
            assert getattr(imported, checked) == 0, (seed, table.form, table.rows[0])


@pytest.mark.parametrize(
    ("columns", "judges", "people"),
    [
        ({"score": "r", "expert": "r"}, ["score"], ["expert"]),
        ({"judge": "r", "teacher": "r"}, ["judge"], ["teacher"]),
        ({"judge_score": "r", "Prüfer": "r"}, ["judge_score"], ["Prüfer"]),
        ({"Anna (1-5)": "r", "Ben (1-5)": "r", "judge": "r"}, ["judge"], ["Anna (1-5)", "Ben (1-5)"]),
        ({"nora": "r", "sam": "r", "ann": "r", "judge": "r"}, ["judge"], ["nora", "sam", "ann"]),
        ({"judge": "p", "label": "p"}, ["judge"], ["label"]),
        ({"judge_helpfulness": "r", "helpfulness": "r"}, ["judge_helpfulness"], ["helpfulness"]),
    ],
)
def test_names_and_values_decide_who_answered(columns: dict[str, str], judges: list[str], people: list[str]) -> None:
    cells = {name: ([1, 2, 3, 4, 5] if kind == "r" else ["pass", "fail"]) * 6 for name, kind in columns.items()}
    roles = table_roles(cells)
    assert list(roles.judges) == judges
    assert list(roles.people) == people


def test_names_of_those_who_rated_are_named_with_the_options() -> None:
    cells: dict[str, Any] = {
        "judge_score": [1, 2, 3] * 8,
        "rating": [1, 3, 2] * 8,
        "teacher": ["kim j", "lee p", "max q"] * 8,
    }
    assert list(table_roles(cells).unread) == ["teacher"]
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    assert any("rename it to annotator" in note for note in accord.check(rows).notes), "check has no --columns"


def test_copies_are_reported_as_no_second_person() -> None:
    values = [1, 2, 3, 4, 5, 3] * 5
    rows = [{"judge": 6 - value, "nora": value, "sam": value} for value in values]
    assert any("'nora' and 'sam' are equal in all 30 rows" in note for note in accord.check(rows).notes)


def test_commands_read_one_file_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"conversation_id": f"c{n}", "prompt": "Is it open?", "response": f"Until {n}.", "score": n % 5 + 1,
         "expert": (n * 3) % 5 + 1}
        for n in range(40)
    ]  # fmt: skip
    with Path("table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    columns = accord_json("check", "table.csv")["columns"]
    assert (columns["judge"], columns["people"]) == ("score", "expert")
    made = accord_json("init", "--from", "table.csv")
    assert made["raters"] == {"expert": 40} and made["judges"] == {"judge": 40}
    Path("accord.yaml").write_text("store: sqlite:///store.db\n", encoding="utf-8")
    done = accord_json("import", "table.csv")
    assert done["raters"] == {"expert": 40} and sum(done["judges"].values()) >= 40


@pytest.mark.attack
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["score"], "--human score --judge COLUMN. If a model did: --judge score --human COLUMN"),
        (["judge", "score"], "--human score. If a model did: --judge score --human COLUMN"),
        (["model score"], "--human 'model score' --judge COLUMN. If a model did: --judge 'model score' --human COLUMN"),
        (["judge_1", "judge_2"], "--human judge_1 --judge judge_2. If a model did: --judge judge_1 --human judge_2"),
    ],
)
def test_the_options_that_an_error_names_are_enough_for_a_check(columns: list[str], said: str) -> None:
    rows = [
        {"id": f"q{n}", **{name: (n * (place + 2)) % 5 + 1 for place, name in enumerate(columns)}} for n in range(30)
    ]
    with pytest.raises(BadInput, match="can hold ratings of people") as error:
        accord.check(rows)
    assert str(error.value).endswith(said)


@pytest.mark.attack
def test_lists_in_cells_are_named_as_lists() -> None:
    rows = [{"id": [n], "annotator": "ann", "judge": [4, None], "rating": n % 5 + 1} for n in range(20)]
    with pytest.raises(BadInput, match="the scores of the judge are in lists"):
        accord.check(rows)
    rows = [row | {"judge": row["rating"]} for row in rows]
    assert accord.check(rows).labels_by == {"ann": 20}
    with pytest.raises(BadInput, match="holds no confidence"):
        accord.check(rows, confidence="id")


@pytest.mark.attack
def test_rows_without_an_item_are_not_joined() -> None:
    rows = [{"id": None, "annotator": ("ann", "ben")[n % 2], "judge": n % 2, "label": n // 2 % 2} for n in range(2)]
    rows += [{"id": n, "annotator": "ann", "judge": n % 2, "label": n // 2 % 2} for n in range(12)]
    assert accord.check(rows).labeled == 14


@pytest.mark.attack
@pytest.mark.parametrize("people", [[1, 2, 3, 4, 5], [0, 1]])
def test_words_without_an_order_beside_numbers_are_an_error(people: list[int]) -> None:
    rows = [{"judge": f"{28 + n}%" if n < 2 else None, "human": people[n % len(people)]} for n in range(120)]
    with pytest.raises(BadInput, match="form no scale"):
        accord.check(rows)


@pytest.mark.attack
def test_two_letters_of_people_join_the_order_of_the_judges_letters() -> None:
    rows = [{"judge": "ABCD"[n % 4], "human": ("A-", "D")[n % 2]} for n in range(24)]
    assert accord.check(rows, human="human").scale.kind == "ordered"


@pytest.mark.attack
def test_a_column_without_a_name_holds_nothing() -> None:
    rows: Any = [{"": n, "conversation_id": f"c{n}", "judge": n % 3 + 1, "human": n % 4 + 1} for n in range(30)]
    conversations: Any = [{"": n % 5, "id": f"c{n}", "prompt": "Is it?", "response": f"It is {n}."} for n in range(30)]
    survey = survey_files([conversations, rows])  # the first column of a data frame as CSV is its index
    assert survey.judges == {"judge": 30} and survey.people == {"human": 30}
    assert list(accord.check(rows).columns.values())[:2] == ["judge", "human"]
    rows = [{"id": f"c{n}", "judge": n % 3, "": n % 2 if n < 9 else None} for n in range(30)]
    assert survey_files([rows]).people == {}
    with pytest.raises(BadInput, match="no column is named like labels of people"):
        accord.check(rows)


@pytest.mark.attack
def test_blank_cells_are_no_ratings_and_lists_may_have_gaps() -> None:
    rows: Any = [
        {"id": f"c{n}", "prompt": "Is it?", "response": f"It is {n}.", "human": (" ", "pass", "fail")[n % 3],
         "judge": [1, None, 0]}
        for n in range(30)
    ]  # fmt: skip
    rubric = load_rubric("llm-rubric")
    survey = survey_files([rows])
    with Project(config_from({"store": "sqlite:///:memory:"}), rubric) as project:
        done = import_files(project.store, rubric, [rows], options=survey_options(survey, rubric))
        assert sorted({str(label.value) for label in project.store.labels()}) == ["fail", "pass"]
    assert sum(survey.people.values()) == 20 and survey.judges.total() == done.judged.judges.total() == 60
    with pytest.raises(BadInput, match="the scores of the judge are in lists"):
        accord.check(rows)


HOSTILE: tuple[Any, ...] = (
    None, "", " ", "n/a", 0, 1, 3, 10**30, 1e300, float("nan"), float("inf"), "pass", "fail", "A-", "28%", "=1+1",
    "<script>", "\u202eno", "x" * 999, [1, None], [[1]], {"a": {"b": 1}}, True,
)  # fmt: skip


@pytest.mark.attack
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_hostile_tables_are_read_or_refused_with_a_sentence(first: int) -> None:
    for seed in range(first, first + 20):
        draw = random.Random(seed)
        names = [*draw.sample(("judge", "gpt-4o", "=judge", "human", "nora", "<b>expert</b>", "annotator", "label"), 4),
                 *draw.sample(("", " ", "id", "a\nb", "\x00", "x" * 300, "confidence", "model", "Human"), 3)]  # fmt: skip
        values = {name: draw.choices(HOSTILE, k=draw.choice((1, 2, 2, 3))) for name in names}
        rows: Any = [{name: draw.choice(values[name]) for name in names} for _ in range(draw.choice((1, 2, 30)))]
        readers: tuple[Callable[[Any], Any], ...] = (accord.check, lambda table: survey_files([table]))
        for read in readers:
            try:
                found = read(rows)
            except BadInput:
                continue
            assert not isinstance(found, CheckResult) or "<script>" not in check_markdown(found)
