"""First imports of new users: labels under any name, raters in columns, transcripts, workbooks, common mistakes."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import accord, accord_json, refused
from new_user_files import MAIN, RELATIONS, workbook

from accord import open as open_project
from accord import read
from accord.edges import BadInput
from accord.formats import Row, read_rows
from accord.formats.files import workbooks
from accord.store import Store

QUICK = ["--set", "draws=20", "--set", "metrics=[words]", "--set", "folds=2"]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of `accord init`."""
    monkeypatch.chdir(tmp_path)
    accord("init")
    return tmp_path


def imported(*arguments: str) -> dict[str, Any]:
    return dict(accord_json("import", *arguments))


def write(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def exchanges(name: str = "qa.csv", count: int = 24, prefix: str = "c", **columns: Any) -> str:
    """Write a table with one exchange per row; `columns` maps each name to a function of the row's number."""
    rows = [["id", "question", "answer", *columns]]
    for i in range(count):
        cells = [str(function(i)) for function in columns.values()]
        rows.append([f"{prefix}{i}", f"What is item {i}?", f"It is item {i} of many.", *cells])
    return write(name, "".join(",".join(row) + "\n" for row in rows))


def printed_command(output: str, start: str) -> list[str]:
    """The arguments of the command that a message prints."""
    return shlex.split(output[output.index(start) :].splitlines()[0])[1:]


def questions() -> dict[str, dict[str, Any]]:
    """The questions of the rubric that accord.yaml names."""
    named = yaml.safe_load(Path("accord.yaml").read_text(encoding="utf-8"))["rubric"]
    return {
        question["id"]: question for question in yaml.safe_load(Path(named).read_text(encoding="utf-8"))["questions"]
    }


def rated(question: str) -> list[tuple[str, str, Any]]:
    """The labels of a question as an open project reads them: conversation, annotator and value."""
    with open_project() as opened:
        return [(label.target.conversation, label.annotator, label.value) for label in opened.rated(question)]


# --- labels are stored and reported in every format ---------------------------------------------------------------

CHAT = [{"role": "user", "content": "Is it open?"}, {"role": "assistant", "content": "Until six."}]


def _beside(name: str) -> list[str]:
    rows = [json.dumps({"id": f"c{i}", "messages": CHAT, name: i % 5 + 1}) for i in range(6)]
    return [write("chats.jsonl", "\n".join(rows) + "\n")]


def _table(name: str) -> list[str]:
    columns: dict[str, Any] = {name: lambda i: i % 5 + 1}
    return [exchanges(count=6, **columns)]


def _long(name: str) -> list[str]:
    rows = "".join(f"c{i},ann,{name},{i % 5 + 1}\n" for i in range(6))
    return [exchanges(count=6), write("labels.csv", "conversation,annotator,question,value\n" + rows)]


def _wide(name: str) -> list[str]:
    rows = "".join(f"c{i},ann,{i % 5 + 1}\n" for i in range(6))
    return [exchanges(count=6), write("labels.csv", f"conversation,annotator,{name}\n" + rows)]


def _tool(name: str) -> list[str]:
    def result(i: int) -> dict[str, Any]:
        return {"from_name": name, "to_name": "dialogue", "type": "rating", "value": {"rating": i % 5 + 1}}

    rows = [
        {"id": i, "data": {"dialogue": CHAT}, "annotations": [{"completed_by": 1, "result": [result(i)]}]}
        for i in range(6)
    ]
    return [write("tool.json", json.dumps(rows))]


@pytest.mark.parametrize("files", [_beside, _table, _long, _wide, _tool])
def test_labels_outside_the_rubric_are_stored_and_reported_with_a_command(files: Any) -> None:
    sources = files("stars")
    output = accord("import", *sources)
    assert "6 labels imported" in output or "6 annotations imported" in output
    assert "labels read by question: stars (6, not in the rubric)" in output
    before = Path("rubric.yaml").read_text(encoding="utf-8")
    command = printed_command(output, "accord init --from")
    assert "changed accord.yaml: rubric: rubric-from-labels.yaml" in accord(*command)
    assert Path("rubric.yaml").read_text(encoding="utf-8") == before and list(questions()["stars"]["options"]) == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert {value for _, _, value in rated("stars")} == {1, 2, 3, 4, 5}, "labels from before are used"
    again = accord("import", *sources)
    assert "6 already there" in again and "stars (6)" in again and len(rated("stars")) == 6


def test_labels_of_words_count_once_after_the_rubric_asks_their_question() -> None:
    name = exchanges(helpful=lambda i: "yes" if i % 3 else "no")
    accord(*printed_command(accord("import", name), "accord init --from"))
    first = rated("helpful")
    assert {value for _, _, value in first} == {0, 1} and len(first) == 24
    accord("import", name)
    assert sorted(rated("helpful")) == sorted(first)


def test_questions_are_added_to_a_rubric_that_was_edited() -> None:
    own = "name: mine\nmain: kind\nquestions:\n- {id: kind, text: 'Is it kind?', scale: binary, options: [0, 1]}\n"
    write("rubric.yaml", own)
    output = accord("import", exchanges(stars=lambda i: i % 5 + 1))
    output = accord(*printed_command(output, "accord init --from"))
    assert (
        "added to the rubric 'mine', which had 1 question" in output
        and Path("rubric.yaml").read_text(encoding="utf-8") == own
    )
    assert list(questions()) == ["kind", "stars"] and questions()["kind"]["text"] == "Is it kind?"
    assert "asks these already" in accord("init", "--from", "qa.csv")


def test_columns_named_after_questions_are_labels_and_bad_values_name_their_rows() -> None:
    name = exchanges(Q0=lambda i: 9 if i in (3, 5) else i % 4 + 1)
    output = accord("import", name, code=1)
    assert "qa.csv, line 5: label of 'unnamed' on c3, question 'Q0': got 9, allowed: 1, 2, 3, 4" in output
    output = accord("import", name, "--skip-bad-rows")
    assert "labels read by question: Q0 (22)" in output and "2 bad rows skipped" in output and "not read" not in output
    assert "qa.csv, line 5" in output and "qa.csv, line 7" in output


def test_no_column_is_read_as_labels_on_request() -> None:
    name = exchanges(stars=lambda i: i % 5 + 1, depth=lambda i: i % 3)
    output = accord("import", name, "--labels", "none")
    assert "0 labels imported" in output and "labels read" not in output
    output = accord("import", name)
    assert "columns read as labels: stars (--labels NAME for others" in output
    assert "not read as labels: depth. To read them: accord import qa.csv --labels depth" in output
    assert imported("qa.csv", "--labels", "depth")["questions"] == {"depth": 24}


def test_the_python_interface_stores_the_same_labels() -> None:
    with open_project() as opened:
        done = opened.import_([exchanges(stars=lambda i: i % 5 + 1)])
        assert opened.rubric.main == opened.question.id == "stars", "made from the labels"
    assert done.labels.new == 24 and done.to_json()["questions"] == {"stars": 24}


# --- raters in columns --------------------------------------------------------------------------------------------


def _people(*names: str) -> dict[str, Any]:
    return {name: lambda i, shift=shift: (i + shift) % 5 + 1 for shift, name in enumerate(names)}


@pytest.mark.parametrize(
    ("columns", "raters"),
    [
        (("nora", "sam", "ann"), ["ann", "nora", "sam"]),
        (("Nora", "Kwabena"), ["Kwabena", "Nora"]),
        (("nora_rating", "sam_rating"), ["nora", "sam"]),
        (("a.lee@example.org", "b@example.org"), ["a.lee@example.org", "b@example.org"]),
        (("rater_a", "rater_b"), ["rater_a", "rater_b"]),
        (("warmth", "depth"), []),
        (("clarity", "tone"), []),
        (("nora", "clarity"), []),
    ],
)
@pytest.mark.parametrize("alone", [False, True])
def test_columns_named_after_people_are_raters_of_one_question(
    columns: tuple[str, ...], raters: list[str], alone: bool
) -> None:
    name = exchanges(**({} if alone else _people(*columns)))
    files = [name]
    if alone:
        cells = _people(*columns).values()
        rows = "".join(f"c{i},{','.join(str(f(i)) for f in cells)}\n" for i in range(24))
        files.append(write("labels.csv", f"id,{','.join(columns)}\n{rows}"))
    result = json.loads(accord("init", "--from", *reversed(files), "--json"))
    asked = [row["question"] for row in result["questions"]]
    output = accord("import", *files)
    with closing(Store("sqlite:///accord.db")) as store:
        labels = store.labels()
    if not raters:
        assert set(asked) <= set(columns) and set(labels.annotators) <= {"unnamed"}
        return
    assert asked == ["rating"] and labels.annotators == raters and len(labels) == 24 * len(columns)
    assert f"columns {', '.join(columns)} are read as {len(columns)} annotators of one question, 'rating'" in output
    assert f"--labels {columns[0]}" in output


def test_options_override_raters_and_questions() -> None:
    name = exchanges(**_people("nora", "sam"))
    assert imported(name, "--labels", "nora", "--labels", "sam")["questions"] == {"nora": 24, "sam": 24}
    other = exchanges("dims.csv", prefix="d", **_people("warmth", "depth"))
    output = accord("import", other)
    assert "if each holds one person's ratings: accord import dims.csv --rater warmth --rater depth" in output
    assert imported(other, "--rater", "warmth", "--rater", "depth")["questions"] == {"rating": 48}
    assert "no file has a column 'nobody'" in accord("import", name, "--rater", "nobody", code=1)


def test_columns_of_people_on_different_scales_are_not_raters() -> None:
    name = exchanges(nora=lambda i: i % 5 + 1, sam=lambda i: 20 * (i % 5) + 20)
    output = accord("init", "--from", name)
    assert "columns nora, sam look like annotators, but their values share no scale" in output
    result = json.loads(accord("init", "--from", name, "--labels", "nora", "--labels", "sam", "--json"))
    assert [row["question"] for row in result["questions"]] == ["nora", "sam"]


# --- scales -------------------------------------------------------------------------------------------------------


def test_a_scale_from_extremes_is_reported_as_a_guess_and_can_be_set() -> None:
    name = exchanges(stars=lambda i: i % 3 + 2)
    guess = "the scale of 'stars' is a guess: 1, 2, 3, 4, from values between 2 and 4. To set it: --scale stars=1..5"
    assert guess in accord("init", "--from", name)
    output = accord("init", "--from", name, "--scale", "stars=1..7")
    assert "guess" not in output and list(questions()["stars"]["options"]) == [1, 2, 3, 4, 5, 6, 7]
    unknown = "unknown question of --scale 'star'. Did you mean 'stars'?"
    form = "--scale takes QUESTION=LOW..HIGH"
    for wrong, says in {"star=1..7": unknown, "stars": form, "stars=5..1": form, "stars=1to5": form}.items():
        assert says in accord("init", "--from", name, "--scale", wrong, code=1)
    Path("accord.yaml").unlink()
    output = accord("run", name, "--scale", "stars=1..5", "--out", "out", *QUICK)
    assert "guess: 1, 2" not in output and "5" in Path("out/rubric.yaml").read_text(encoding="utf-8")


def test_scale_of_two_neighboring_values_is_reported_as_a_guess() -> None:
    output = accord("init", "--from", exchanges(stars=lambda i: i % 2 + 3))
    assert "the scale of 'stars' is a guess: 3, 4, from values between 3 and 4. To set it: --scale stars=1..5" in output


def test_usual_scales_are_not_reported_as_guesses() -> None:
    output = accord("init", "--from", exchanges(stars=lambda i: i % 5 + 1, resolved=lambda i: i % 2))
    assert "the scale of" not in output
    usual = exchanges(stars=lambda i: i % 5 + 1, resolved=lambda i: i % 2)
    assert "the scale of" not in accord("init", "--from", usual), "usual scales are no guess"


# --- transcripts --------------------------------------------------------------------------------------------------

TURNS = [("Nora", "hello"), ("Shop", "hi\nhow can I help?"), ("Nora", "thanks")]


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("Customer: hello\nAgent: hi\nhow can I help?\n", [("user", "hello"), ("assistant", "hi\nhow can I help?")]),
        ("顾客：你好\n客服：您好\n", [("user", "你好"), ("assistant", "您好")]),
        ("Kunde: hallo\r\nBerater: guten Tag\r\n", [("user", "hallo"), ("assistant", "guten Tag")]),
        (
            "12/31/23, 9:15 PM - Messages and calls are end-to-end encrypted. Tap to learn more.\n"
            "12/31/23, 9:15\u202fPM - Nora: hello\n12/31/23, 9:16\u202fPM - Shop: hi\nhow can I help?\n"
            "12/31/23, 9:16 PM - Nora added Bob\n12/31/23, 9:17 PM - Nora: thanks\n",
            TURNS,
        ),
        ("31.12.23, 21:15 - Nora: hello\n31.12.23, 21:16 - Shop: hi\nhow can I help?\n31.12.23, 21:17 - Nora: thanks", TURNS),
        ("31/12/23 9:15 p. m. - Nora: hello\n31/12/23 9:16 p. m. - Shop: hi\nhow can I help?\n31/12/23 9:17 p. m. - Nora: thanks", TURNS),
        (
            "\ufeff[31.12.23, 21:15:03] Shop: \u200eNachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt.\n"
            "[31.12.23, 21:15:03] Nora: hello\n[31.12.23, 21:16:03] Shop: hi\nhow can I help?\n"
            "\u200e[31.12.23, 21:17:03] Nora: thanks\n",
            TURNS,
        ),
        ("2023/12/31 下午9:15 - 小明: 你好\n2023/12/31 下午9:16 - 客服: 您好", [("小明", "你好"), ("assistant", "您好")]),
        (
            "[12/31/23, 9:15:04 PM] Nora: \u200eimage omitted\n[12/31/23, 9:15:05 PM] Shop: <attached: a.jpg>\n",
            [("Nora", "image omitted"), ("Shop", "<attached: a.jpg>")],
        ),
    ],
)  # fmt: skip
def test_a_text_file_is_one_conversation(text: str, turns: list[tuple[str, str]]) -> None:
    Path("talk.txt").write_bytes(text.encode())
    [record] = read("talk.txt")
    assert record.conversation.id == "talk"
    assert [(turn.role, turn.content) for turn in record.conversation.turns] == turns
    rows = "conversation,annotator,question,value\ntalk,ann,Q0,3\n"
    assert imported("talk.txt", write("labels.csv", rows))["labels"]["new"] == 1


def test_dividers_separate_the_conversations_of_a_text_file() -> None:
    write("talks.txt", "User: a\nBot: b\n\n----\nUser: c\nBot: d\n")
    result = {each.conversation.id: each.line for each in read("talks.txt")}
    assert result == {"talks-1": 1, "talks-2": 5}
    write("one.txt", "User: a\n---\nBot: b\n")
    assert len(list(read("one.txt"))) == 1


def test_json_lines_in_a_text_file_are_read_and_a_readme_is_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "chats.txt").write_text(json.dumps({"id": "a", "messages": CHAT}) + "\n", encoding="utf-8")
    (folder / "README.txt").write_text("These are the chats of May.\n", encoding="utf-8")
    output = accord("import", "data")
    assert "1 conversation imported" in output and "skipped: data/README.txt is plain text without speakers" in output


# --- workbooks ----------------------------------------------------------------------------------------------------

HAS_READER = find_spec("fastexcel") is not None
needs_reader = pytest.mark.skipif(not HAS_READER, reason="fastexcel, the extra `excel`, is not installed")
ROWS: list[list[Any]] = [
    ["id", "Question", "Answer", "Rating"],
    *([i, f"What is {i}?", "It is long known.", i % 5 + 1] for i in range(6)),
]


@needs_reader
def test_a_workbook_is_read_like_a_table() -> None:
    name = workbook("chats.xlsx", ROWS, [])
    result = list(read(name))
    assert [(each.conversation.id, each.line) for each in result] == [(str(i), i + 2) for i in range(6)]
    assert result[0].conversation.turns[0].content == "What is 0?"
    assert imported(name)["questions"] == {"Rating": 6}


@needs_reader
def test_a_workbook_with_several_sheets_is_refused_with_their_names() -> None:
    output = accord("import", workbook("two.xlsx", ROWS, ROWS), code=1)
    assert "got 2 ('S1', 'S2'); save each sheet in a file of its own" in output


HEAD = ["id", "Anna", "", "Ben", ""]
NAMES = ["", "Helpfulness", "Clarity", "Helpfulness", "Clarity"]
PAIR = "B1:C1 D1:E1"


def merged(name: str, rows: list[list[Any]], cells: str) -> str:
    """A workbook with merged cells; empty texts are no cells."""
    listed = "".join(f'<mergeCell ref="{each}"/>' for each in cells.split())
    lines = "".join(
        f'<row r="{row}">{"".join(_cell(f"{chr(64 + column)}{row}", each) for column, each in enumerate(line, 1))}</row>'
        for row, line in enumerate(rows, 1)
    )
    content = f"<sheetData>{lines}</sheetData><mergeCells>{listed}</mergeCells>"
    return rewritten(
        workbook(name, []), "xl/worksheets/s1.xml",
        lambda text: text.replace("<sheetData></sheetData>", content),
    )  # fmt: skip


def _cell(place: str, value: Any) -> str:
    if value == "":
        return f'<c r="{place}" s="0"/>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


@needs_reader
@pytest.mark.parametrize(
    ("above", "cells", "names"),
    [
        ([HEAD, NAMES], PAIR, ["id", "Anna Helpfulness", "Anna Clarity", "Ben Helpfulness", "Ben Clarity"]),
        ([HEAD, NAMES], f"{PAIR} A1:A2", ["id", "Anna Helpfulness", "Anna Clarity", "Ben Helpfulness", "Ben Clarity"]),
        ([["Ratings of May", "", "", "", ""], ["id", "a", "b", "c", "d"]], "A1:E1", ["id", "a", "b", "c", "d"]),
        ([["Ratings of May", "", "", "", ""], ["", "", "", "", ""], ["id", "a", "b", "c", "d"]], "", ["id", "a", "b", "c", "d"]),
        ([["Ratings", "", "", "", ""], HEAD, NAMES], "A1:E1 B2:C2 D2:E2",
         ["id", "Anna Helpfulness", "Anna Clarity", "Ben Helpfulness", "Ben Clarity"]),
        ([["id", "a", "b", "c", "d"]], "", ["id", "a", "b", "c", "d"]),
        ([["id", "a", "b", "c", ""]], "D1:E1", ["id", "a", "b", "c", ""]),
    ],
)  # fmt: skip
def test_merged_rows_of_a_header_are_joined(above: list[list[Any]], cells: str, names: list[str]) -> None:
    name = merged("merged.xlsx", [*above, ["c1", 4, 5, 3, 2], ["c2", 1, 2, 3, 4]], cells)
    rows = list(read_rows(Path(name)))
    assert [row.line for row in rows] == [len(above) + 1, len(above) + 2]
    assert [list(row.fields) for row in rows if isinstance(row, Row)] == [names, names]
    assert rows[1] == Row(len(above) + 2, dict(zip(names, ["c2", "1", "2", "3", "4"], strict=True)))


@needs_reader
def test_a_header_beyond_the_first_cell_is_read() -> None:
    above = [["", "", "", "", ""], ["", "", "Anna", "", ""], ["", "id", "Helpfulness", "Clarity", ""]]
    name = merged("merged.xlsx", [*above, ["", "c1", 4, 5, ""]], "C2:D2")
    [row] = read_rows(Path(name))
    assert isinstance(row, Row) and row.fields == {"id": "c1", "Anna Helpfulness": "4", "Anna Clarity": "5"}


@needs_reader
@pytest.mark.attack
def test_a_header_of_three_rows_is_refused() -> None:
    rows = [["id", "May", "", "", ""], ["", "Anna", "", "Ben", ""], NAMES, ["c1", 4, 5, 3, 2]]
    name = merged("three.xlsx", rows, "B1:E1 B2:C2 D2:E2")
    said = refused("import", name)
    assert "three.xlsx has a header of three rows ('id', 'May', 'Anna', 'Ben'), and two are read" in said
    assert "save the sheet as CSV with one row of names" in said


def far_cell(name: str, reference: str, row: str = "2") -> str:
    """A workbook with one cell far from the others."""
    cells = f'<row r="{row}"><c r="{reference}"><v>1</v></c></row></sheetData>'
    return rewritten(workbook(name, ROWS), "xl/worksheets/s1.xml", lambda text: text.replace("</sheetData>", cells))


def rewritten(name: str, part: str, change: Callable[[str], str]) -> str:
    with zipfile.ZipFile(name) as archive:
        parts = {entry: archive.read(entry).decode() for entry in archive.namelist()}
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, text in parts.items():
            archive.writestr(entry, change(text) if entry == part else text)
    return name


def lying_size(name: str) -> str:
    """A workbook whose directory states a thousandth of its sheet's size."""
    rewritten(workbook(name, ROWS), "xl/worksheets/s1.xml", lambda text: text.replace("Answer", "x" * 300_000_000))
    content = bytearray(Path(name).read_bytes())
    with zipfile.ZipFile(name) as archive:
        entry = archive.getinfo("xl/worksheets/s1.xml")
    stated = struct.pack("<I", entry.file_size)
    places = [match.start() for match in re.finditer(re.escape(stated), bytes(content))]
    assert len(places) == 2  # of the entry and of the directory
    for place in places:
        struct.pack_into("<I", content, place, 300_000)
    Path(name).write_bytes(content)
    return name


def repeated_texts(name: str) -> str:
    """A workbook with one long text in many cells."""
    cells = "<row>" + '<c t="s"><v>0</v></c>' * 100_000 + "</row></sheetData>"
    rewritten(workbook(name, ROWS), "xl/worksheets/s1.xml", lambda text: text.replace("</sheetData>", cells))
    with zipfile.ZipFile(name, "a") as archive:
        archive.writestr("xl/sharedStrings.xml", f'<sst xmlns="{MAIN}"><si><t>{"x" * 30_000}</t></si></sst>')
    return name


def double_part(name: str) -> str:
    workbook(name, ROWS)
    with zipfile.ZipFile(name, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("xl/worksheets/s1.xml", "<worksheet/>")
    return name


@needs_reader
@pytest.mark.attack
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lying_size, "unpacks to more than 256 MB"),
        (lambda name: far_cell(name, "XFD1048576"), "as far as row 1,048,576 and column 16,384"),
        (lambda name: far_cell(name, "", "999999999"), "as far as row 999,999,999"),
        (lambda name: far_cell(name, "B2\" r = 'XFD1048576"), "column 16,384"),
        (repeated_texts, "repeats texts in its cells to more than 256 MB"),
        (double_part, "is not an Excel workbook"),
    ],
)
def test_workbooks_that_need_more_memory_than_they_state_are_refused(make: Callable[[str], str], says: str) -> None:
    output = " ".join(accord("import", make("bad.xlsx"), code=1).split())
    assert says in output


@needs_reader
@pytest.mark.attack
@pytest.mark.parametrize(("limit", "value"), [("WORKBOOK_MEMORY", 64 << 20), ("WORKBOOK_SECONDS", 1e-3)])
def test_a_workbook_that_ends_the_process_of_its_reader_is_refused(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    if sys.platform != "linux" and limit == "WORKBOOK_MEMORY":
        pytest.skip("the platform does not limit the memory of a process")
    workbooks.end_idle_process()
    monkeypatch.setattr(workbooks, limit, value)
    output = " ".join(accord("import", workbook("chats.xlsx", ROWS), code=1).split())
    assert "chats.xlsx was not read: a workbook may take" in output and "save the sheet as CSV UTF-8" in output


@needs_reader
@pytest.mark.attack
def test_a_cell_of_a_workbook_is_as_long_as_a_row_may_be() -> None:
    name = workbook("long.xlsx", [*ROWS, ["7", "Why?", "x" * 9_000_000, 1]])
    assert "line 8: a row is longer than 8 MB" in " ".join(accord("import", name, code=1).split())
    assert imported(name, "--skip-bad-rows")["conversations"]["new"] == 6


def shared_texts(name: str, opening: str) -> str:
    """A workbook with its header as shared texts; `opening` is the tag around them."""
    header = "".join(f'<c t="s"><v>{place}</v></c>' for place in range(len(ROWS[0])))
    first = re.compile("<row>.*?</row>")
    rewritten(
        workbook(name, ROWS), "xl/worksheets/s1.xml", lambda text: first.sub(f"<row>{header}</row>", text, count=1)
    )
    rewritten(
        name, "xl/_rels/workbook.xml.rels",
        lambda text: text.replace(
            "</Relationships>", f'<Relationship Id="r9" Type="{RELATIONS}/sharedStrings" Target="sharedStrings.xml"/></Relationships>'
        ),
    )  # fmt: skip
    prefix = opening.partition("sst")[0][1:]
    texts = "".join(f"<{prefix}si><{prefix}t>{text}</{prefix}t></{prefix}si>" for text in ROWS[0])
    with zipfile.ZipFile(name, "a") as archive:
        archive.writestr("xl/sharedStrings.xml", f"{opening}{texts}</{prefix}sst>")
    return name


@needs_reader
@pytest.mark.attack
@pytest.mark.parametrize(
    "opening",
    [
        f'<sst xmlns="{MAIN}" count="4000000000" uniqueCount="4000000000">',
        f"<sst\nuniqueCount = '4000000000' xmlns='{MAIN}'>",
        f'<x:sst xmlns:x="{MAIN}" about=">" uniqueCount="4000000000">',
    ],
)
def test_stated_number_of_shared_texts_reserves_no_memory(opening: str) -> None:
    """The reader ends the process if it cannot reserve memory, so the import has one of its own."""
    name = shared_texts("stated.xlsx", opening)
    command = [sys.executable, "-m", "accord", "import", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "6 conversations imported" in done.stdout, done.stderr[-500:]


@needs_reader
@pytest.mark.attack
@pytest.mark.parametrize("numbers", [("1234567890123456781", "1234567890123456782"), ("1.23456789012346E+18", "1E+20")])
def test_ids_that_a_spreadsheet_rounded_are_refused(numbers: tuple[str, str]) -> None:
    """As numbers, two ids of 19 digits are one; as texts, they stay two."""
    rows = [["id", "prompt", "response"], *([number, "What is it?", f"It is {number}."] for number in numbers)]
    name = workbook("rounded.xlsx", rows)
    as_number = re.compile(r'<c t="inlineStr"><is><t>([0-9.E+]+)</t></is></c>')
    rewritten(name, "xl/worksheets/s1.xml", lambda text: as_number.sub(r"<c><v>\1</v></c>", text))
    assert "a spreadsheet has rounded it" in " ".join(accord("import", name, code=1).split())
    if numbers[0].isdigit():
        assert imported(workbook("texts.xlsx", rows))["conversations"]["new"] == 2


@pytest.mark.attack
def test_ids_of_a_table_in_scientific_notation_are_refused() -> None:
    write("a.csv", "id,prompt,response\n1.23457E+18,Hi,Hello\n1.23457E+18,Bye,See you\n")
    assert "a spreadsheet has rounded it" in " ".join(accord("import", "a.csv", code=1).split())
    write("b.csv", "id,prompt,response\n12e4567,Hi,Hello\nE+18,Bye,See you\n")
    assert imported("b.csv")["conversations"]["new"] == 2


@pytest.mark.attack
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl"])
@pytest.mark.parametrize("content", ["\n\n", "\ufeff\n", "---\n\n---\n", " \t\n"])
def test_texts_without_any_line_are_refused(name: str, content: str) -> None:
    write(name, content)
    assert name in accord("import", name, code=1)


@pytest.mark.attack
@pytest.mark.parametrize(
    ("name", "head"),
    [("a.csv", "id,prompt,response\na,Hi,Hello\n"), ("a.jsonl", '{"id": "a", "prompt": "Hi", "response": "Hello"}\n')],
)
def test_millions_of_empty_lines_are_refused(name: str, head: str) -> None:
    Path(f"{name}.gz").write_bytes(gzip.compress((head + "\n" * 1_000_002).encode()))
    assert "1,000,000 empty lines in succession" in " ".join(accord("import", f"{name}.gz", code=1).split())


@pytest.mark.attack
def test_rows_of_too_many_fields_are_refused() -> None:
    write(
        "a.jsonl", json.dumps({"id": "a", "prompt": "Hi", "response": "Hello", **{f"c{i}": 1 for i in range(10_001)}})
    )
    assert "10,004 fields; a row may have 10,000" in " ".join(accord("import", "a.jsonl", code=1).split())


@pytest.mark.attack
def test_columns_of_numbers_that_lie_far_apart_take_no_memory() -> None:
    write("chats.csv", f"id,prompt,response,paid\na,Hi,Hello,1\nb,Bye,See you,{10**15}\n")
    assert imported("chats.csv")["conversations"]["new"] == 2


@pytest.mark.attack
@pytest.mark.parametrize("column", ["--undo", "-h", "--labels=x"])
def test_columns_called_like_options_can_be_pasted(column: str) -> None:
    write("chats.csv", "id,prompt,response\na,Hi,Hello\nb,Bye,See you\n")
    write("labels.csv", f"conversation,annotator,{column}\na,ann,1\nb,ann,2\n")
    accord("init")
    accord("import", "chats.csv")
    said = accord("import", "labels.csv", f"--labels={column}")
    command = shlex.split(
        " ".join(said.split()).split("To add questions for them: accord ")[1].split(" 0 conversations")[0]
    )
    assert f"--labels={column}" in command
    assert column in accord(*command)


@pytest.mark.attack
@pytest.mark.parametrize("name", ["item_id", "question", "judge_model"])
def test_edited_recordings_with_half_a_character_are_refused(name: str) -> None:
    write("chats.csv", "id,prompt,response\na,Hi,Hello\nb,Bye,See you\n")
    row = {"item_id": "a", "question": "Q0", "judge_model": "m", "value": 3}
    write("j.jsonl", json.dumps(row) + "\n")
    accord("init")
    accord("import", "chats.csv", "j.jsonl")
    write("j.jsonl", json.dumps({**row, name: "\ud800"}) + "\n")
    said = " ".join(accord("judge", "--all", code=1).split())
    assert f"j.jsonl, line 1: '{name}' of a recorded judgement holds NUL or half a surrogate pair" in said


# --- mistakes of a new user ---------------------------------------------------------------------------------------

OLD_EXCEL = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)


def _raw(name: str, content: bytes) -> list[str]:
    Path(name).write_bytes(content)
    return [name]


def _huge() -> list[str]:
    return [exchanges(rating=lambda i: i * 7919 + 3)]


def _mixed() -> list[str]:
    return [exchanges(rating=lambda i: i % 5 + 1 if i < 20 else 20 * (i % 5) + 20)]


def _stated_scales(suffix: str) -> list[str]:
    """Ratings of one question whose rows state two scales, as a benchmark file or as a table of labels."""
    rated = [(f"c{n}", round(n % 7 / 7 + n % 2, 2), [n % 2, 1 + 2 * (n % 2)]) for n in range(40)]
    items = [
        {"id": name, "level": "turn", "messages": CHAT, "response_index": 1,
         "ratings": [{"annotator": "ann", "question": "quality", "value": value, "scale": scale}]}
        for name, value, scale in rated
    ]  # fmt: skip
    if suffix == "jsonl":
        return [write("items.jsonl", "\n".join(map(json.dumps, items)))]
    cells = [f'{name},ann,quality,{value},"{scale}"' for name, value, scale in rated]
    items = [{**item, "ratings": []} for item in items]
    return [
        write("chats.jsonl", "\n".join(map(json.dumps, items))),
        write("l.csv", "\n".join(["id,rater,question,value,scale", *cells])),
    ]


TWO_SCALES = ["'quality' has answers on 2 scales, as the files state: 0 to 1 (20 answers), 1 to 3 (20 answers)",
              "--scale quality=0..3"]  # fmt: skip


def _misspelled() -> list[str]:
    row = {"id": "a", "messages": [{"role": "usr", "content": "x"}, CHAT[1]], "rating": 3}
    return [write("chats.jsonl", json.dumps(row) + "\n")]


def _wrong_roles() -> list[str]:
    return [write("turns.csv", "id,speaker,words\n1,A,hello there\n1,B,hi\n")]


MISTAKES: dict[str, tuple[str, Any, list[str]]] = {
    "wrong columns": ("run", lambda: [write("x.csv", "key,said,reply,n\n1,hello there,hi there,4\n")],
        ["cannot tell the format of x.csv", "(key, said, reply, n)", "--columns prompt=said --columns response=reply"]),
    "wrong column of turns": ("import", _wrong_roles, ["cannot tell the format of turns.csv", "role= and content="]),
    "misspelled role": ("import", _misspelled,
        ["chats.jsonl, line 1: unknown role 'usr'. Did you mean 'user'?", "--role usr=user"]),
    "old Excel": ("run", lambda: _raw("old.xls", OLD_EXCEL), ["old.xls is an Excel workbook of the format before 2007", ".xlsx"]),
    "a table called Excel": ("run", lambda: _raw("x.xlsx", b"id,question\n"), ["x.xlsx is not an Excel workbook", "CSV UTF-8"]),
    "Word": ("run", lambda: _raw("chat.docx", b"PK\x03\x04"), ["chat.docx is a Word document", "plain text (.txt)"]),
    "WhatsApp without ratings": ("run", lambda: [write("wa.txt", "31.12.23, 21:15 - Nora: a\n31.12.23, 21:16 - Shop: b\n")],
        ["no ratings in wa.txt", "--labels NAME", "accord import wa.txt"]),
    "prose": ("run", lambda: [write("a.txt", "It was a dark night.\n")], ["a.txt is plain text without speakers", "`Customer: ...`"]),
    "huge scale": ("run", _huge, ["'rating' is left out: its values run from 3 to 182140", "--scale rating=3..182140"]),
    "mixed scales": ("run", _mixed,
        ["'rating' has values on two scales: 20 from 1 to 5 and 4 from 20 to 80", "qa.csv, lines 22, 23, 24, 25 hold the rarer",
         "--scale rating=1..80"]),
    "stated scales": ("run", lambda: _stated_scales("jsonl"), TWO_SCALES),
    "stated scales of labels": ("run", lambda: _stated_scales("csv"), TWO_SCALES),
    "labels only": ("run", lambda: [write("l.csv", "id,rater,rating\nc1,ann,3\n")],
        ["l.csv: only labels", "accord run chats.jsonl l.csv"]),
    "labels of unknown conversations": ("import", lambda: [write("l.csv", "id,rater,rating\nc1,ann,3\n")],
        ["no conversation 'c1' in the store", "accord import chats.jsonl labels.csv"]),
    "no labels": ("run", lambda: [exchanges(city=lambda i: "Rome")], ["no ratings in qa.csv", "accord serve"]),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_common_mistake_gives_one_line_with_the_next_step(mistake: str) -> None:
    command, files, parts = MISTAKES[mistake]
    if command == "run":
        Path("accord.yaml").unlink()
    output = accord(command, *files(), *(["--out", "out"] if command == "run" else []), code=1)
    error = [line for line in output.splitlines() if line.startswith("accord: ")]
    assert len(error) == 1 and all(part in error[0] for part in parts), output


@pytest.mark.skipif(HAS_READER, reason="fastexcel is installed")
def test_a_missing_workbook_reader_is_named() -> None:
    output = accord("import", workbook("chats.xlsx", ROWS), code=1)
    assert "[excel]'" in output and "CSV UTF-8" in output


def test_printed_commands_work() -> None:
    output = accord("import", *MISTAKES["wrong columns"][1](), code=1)
    columns = [part for part in shlex.split(output) if part.startswith(("prompt=", "response="))]
    done = imported("x.csv", *(part for pair in columns for part in ("--columns", pair)))
    assert done["conversations"]["new"] == 1
    assert imported(*_misspelled(), "--role", "usr=user")["conversations"]["new"] == 1


@pytest.mark.parametrize(
    ("text", "hint", "others"),
    [
        ("ticketno,annotator,rating\nc1,ann,3\n", "conversation=ticketno", ""),
        ("ticketno,rating\nc1,3\n", "conversation=ticketno", ""),
        ("batch,ticketno,rating\n7,c1,3\n", "conversation=ticketno", "(or batch)"),
        ("batch,Ticket No,rater,Q0\nb,c1,Ann Smith,3\n", "'conversation=Ticket No'", "(or batch, Q0)"),
        ("ticketno,annotator,question,answer\nc1,ann,Q0,3\n", "conversation=ticketno", ""),
        ("ticketno,comment,rating\nc1,very nice,3\n", "conversation=ticketno", ""),
        ("ticketno,annotator,Q0\n1001,ann,3\n", "conversation=ticketno", "(or Q0)"),
    ],
)
def test_labels_with_an_unknown_id_column_are_refused_with_the_columns_that_may_hold_it(
    text: str, hint: str, others: str
) -> None:
    write("chats.csv", f"id,prompt,response\nc1,{'x ' * 9},hi\n1001,{'x ' * 9},hi\n")
    labels = write("labels.csv", text)
    for command in (["import", "chats.csv", labels], ["init", "chats.csv", "--from", labels]):
        output = accord(*command, code=1)
        assert "prompt=" not in output and others in output
    [pair] = [part for part in printed_command(output, " --columns ") if part.startswith("conversation=")]
    assert pair == hint.strip("'")
    done = imported("chats.csv", labels, "--columns", pair)
    assert done["conversations"]["known"] == 2 and done["labels"]["new"] == 1


@pytest.mark.parametrize("row", ["hi,yes,4", "你好,好,4", "Is it open?,Until six.,4"])
def test_a_short_exchange_with_a_rating_is_a_conversation(row: str) -> None:
    assert imported(write("qa.csv", f"prompt,response,rating\n{row}\n"))["conversations"]["new"] == 1


def test_turns_without_an_id_are_refused_with_the_columns_of_the_table() -> None:
    name = write("turns.csv", "ticketno,role,text\n1,user,hi\n1,assistant,hello\n")
    output = accord("import", name, code=1)
    assert "ticketno, role, text" in output and "--columns conversation=COLUMN" in output
    assert imported(name, "--columns", "conversation=ticketno")["conversations"]["new"] == 1


@pytest.mark.parametrize("command", [["import"], ["init", "--from"], ["run", "--out", "out"]])
def test_a_misspelled_name_of_a_column_is_refused_with_the_right_one(command: list[str]) -> None:
    labels = write("labels.csv", "ticketno,annotator,rating\nc1,ann,3\n")
    output = accord(*command, labels, "--columns", "conversatoin=ticketno", code=1)
    assert "'conversatoin'. Did you mean 'conversation'?" in output


def test_a_question_of_the_rubric_names_a_column() -> None:
    columns: dict[str, Any] = {"stars": lambda i: i % 4 + 1}
    assert imported(exchanges(count=6, **columns), "--columns", "Q0=stars")["questions"] == {"Q0": 6}


def test_init_from_a_file_that_cannot_be_read_prints_the_reason(project: Path) -> None:
    for name in ("accord.yaml", "rubric.yaml"):
        Path(name).unlink()
    name = write("Bewertungen.csv", "Fallakte,Bemerkung\nc1,gut\n")
    output = accord("init", "--from", name, code=1)
    assert "cannot tell the format of Bewertungen.csv" in output and "see why" not in output
    bad = write("chats.jsonl", '{"id": "a", "messages": [{"content": "no role"}]}\n')
    assert "chats.jsonl, line 1: a message has no role" in accord("init", "--from", bad, code=1)
    assert not Path("accord.yaml").exists()


def test_a_main_question_without_labels_names_the_questions_with_labels() -> None:
    Path("accord.yaml").unlink()
    Path("rubric.yaml").unlink()
    stars: dict[str, Any] = {"rating": lambda i: i % 4 + 1}
    accord("init", "--from", exchanges("other.csv", prefix="o", **stars))
    chats = exchanges(city=lambda i: "Rome")
    labels = write("l2.csv", "conversation,annotator,helpful\n" + "".join(f"c{i},ann,{i % 2}\n" for i in range(24)))
    accord("import", chats, labels)
    assert "labels answer helpful (24)" in accord("compare", code=1)
    accord("init", "--from", labels)
    output = accord("compare", *QUICK, code=1)
    assert "no label on the main question 'rating'; labels answer helpful (24)" in output
    assert "`main: helpful` in " in output and "accord fit --question helpful" in output
    accord("init", "--from", labels, "--main", "helpful")
    accord("compare", *QUICK)


def test_counts_of_one_are_singular() -> None:
    output = accord("import", exchanges(count=1, Q0=lambda i: 3))
    assert "1 conversation imported" in output and "1 label imported" in output
    assert "1 conversation and 1 label removed" in accord("import", "--undo")
    accord("import", exchanges(Q0=lambda i: i % 4 + 1))
    accord("fit", *QUICK)
    one = accord("score", exchanges("one.csv", count=1, prefix="n"), "--out", "s.jsonl")
    assert "1 conversation scored" in one


# --- other languages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "row", "question"),
    [
        ("编号,问题,回答,评分", "c{i},数字{i}是什么?,它是{i}。,{v}", "评分"),
        ("Nummer;Frage;Antwort;Bewertung", "c{i};Was ist {i}?;Es ist wohl {i}.;{v}", "Bewertung"),
        ("id,pregunta,respuesta,calificación", "c{i},¿Qué es {i}?,Es {i}.,{v}", "calificación"),
        ("ID,Question,Réponse,Qualité", "c{i},Quel est {i} ?,C'est {i}.,{v}", "Qualité"),
    ],
)
def test_columns_in_other_languages(header: str, row: str, question: str) -> None:
    rows = [row.format(i=i, v=i % 5 + 1) for i in range(24)]
    name = write("data.csv", "\n".join([header, *rows]) + "\n")
    [first, *_] = read(name)
    assert first.conversation.id == "c0" and [turn.role for turn in first.conversation.turns] == ["user", "assistant"]
    assert imported(name)["questions"] == {question: 24}


TURN_TABLES = {
    "German": ("Gespräch,Rolle,Nachricht", "Kunde", "Berater"),
    "Chinese": ("对话,角色,内容", "客户", "客服"),
    "Chinese with an id": ("会话id,角色,内容", "顾客", "客服"),
    "Spanish": ("Conversación,Rol,Mensaje", "cliente", "agente"),
    "Japanese": ("会話,役割,内容", "お客様", "オペレーター"),
    "Russian": ("Диалог,Роль,Сообщение", "клиент", "оператор"),
    "Korean": ("대화,역할,내용", "고객", "상담원"),
    "Portuguese": ("Conversa,Papel,Mensagem", "cliente", "atendente"),
    "Italian": ("Conversazione,Ruolo,Messaggio", "cliente", "operatore"),
}


def turn_table(header: str, asks: str, replies: str, count: int = 6) -> str:
    """Write a table with one turn per row."""
    turns = [f"G{i},{asks},hello {i}\nG{i},{replies},good day {i}\n" for i in range(count)]
    return write("turns.csv", f"{header}\n{''.join(turns)}")


@pytest.mark.parametrize("language", TURN_TABLES)
def test_a_foreign_word_for_conversation_is_an_id_in_a_table_of_turns(language: str) -> None:
    name = turn_table(*TURN_TABLES[language])
    assert imported(name)["conversations"]["new"] == 6
    result = [record.conversation for record in read(name)]
    assert [each.id for each in result] == [f"G{i}" for i in range(6)]
    assert all([turn.role for turn in each.turns] == ["user", "assistant"] for each in result)


@pytest.mark.parametrize("messages", ["Nachrichten", "mensajes", "Сообщения"])
def test_a_foreign_word_for_conversation_is_an_id_next_to_messages(messages: str) -> None:
    turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    name = write("chats.jsonl", json.dumps({"Gespräch": "G 1", messages: turns}))
    [record] = read(name)
    assert (record.conversation.id, len(record.conversation.turns)) == ("G 1", 2)


@pytest.mark.parametrize(
    ("header", "question"),
    [
        ("Gespräch,Bewerter,Bewertung", "Bewertung"),
        ("对话,标注者,评分", "评分"),
        ("Gespräch,Bewertung", "Bewertung"),
        ("Conversazione,Valutatore,Valutazione", "Valutazione"),
    ],
)
def test_a_foreign_word_for_conversation_is_an_id_in_a_table_of_labels(header: str, question: str) -> None:
    turns = turn_table(*TURN_TABLES["German"], count=24)
    has_annotator = header.count(",") == 2
    rows = "".join(f"G{i},{'anna,' * has_annotator}{i % 5 + 1}\n" for i in range(24))
    labels = write("labels.csv", f"{header}\n{rows}")
    assert imported(turns, labels)["questions"] == {question: 24}
    accord("init", turns, "--from", labels)
    assert question in questions() and len(rated(question)) == 24


@pytest.mark.parametrize("header", ["Gespräch,Bewertung", "对话,评分", "Gespräch,Nummer", "Conversa,Rating"])
def test_a_foreign_word_for_conversation_is_its_text_in_a_table_of_transcripts(header: str) -> None:
    name = write("chats.csv", f'{header}\n"User: Hi\nBot: Hello",3\n"User: Hey\nBot: Good day",4\n')
    assert imported(name)["conversations"]["new"] == 2


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x.jsonl", "ftp://host/x.jsonl", "s3://bucket/x.jsonl"])
def test_importing_a_url_explains_that_files_are_read(url: str) -> None:
    assert "is a URL, and this command reads local files" in accord("import", url, code=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["labels.csv", "--columns", "conversation=ticket"],
            "unknown column to read as 'conversation': 'ticket'. Avail",
        ),
        (["labels.csv", "--role", "assistant"], "--role takes THEIRS=OURS, got assistant; ours is user, assistant"),
        (["header.csv"], "header.csv has no readable row; export it again, or leave it out"),
        (["other.csv"], "conversation= and annotator= for ratings"),
        (["labels.csv"], "or leave such labels out: --skip-bad-rows"),
    ],
)
def test_errors_of_import_name_the_next_step(arguments: list[str], message: str) -> None:
    write("labels.csv", "conversation,annotator,Q0\nc1,ann,3\n")
    write("header.csv", "conversation,annotator,Q0\n")
    write("other.csv", "chatno,wer,Q0\nc1,ann,3\n")
    assert message in refused("import", *arguments)


def test_score_refuses_a_file_of_ratings_as_conversations() -> None:
    write("labels.csv", "conversation,annotator,rating\nc1,ann,3\n")
    with pytest.raises(BadInput, match=r"labels.csv holds ratings without text .*; name a file of conversations"):
        list(read("labels.csv"))


def test_judge_plan_without_ratings_names_the_option_for_all() -> None:
    write("chats.jsonl", json.dumps({"id": "c1", "messages": CHAT}) + "\n")
    accord("import", "chats.jsonl")
    settings = ["--plan", "--set", "models.judge.model=m", "--set", "models.judge.mode=logprobs"]
    assert "no conversation has ratings, so none is judged; use --all" in accord("judge", *settings)
    assert "use --all" not in accord("judge", "--all", *settings)


# --- logs of completions ------------------------------------------------------------------------------------------

ASKED = {"role": "user", "content": "Is it open?"}
REPLIED = {"role": "assistant", "content": "Until six."}
CHOICES = {"id": "x1", "model": "m2", "choices": [{"index": 0, "message": REPLIED}]}


@pytest.mark.parametrize(
    ("row", "id_", "system"),
    [
        ({"id": "c1", "model": "m1", "messages": [ASKED], "choices": CHOICES["choices"]}, "c1", "m1"),
        ({"request": {"model": "m1", "messages": [ASKED]}, "response": CHOICES}, "x1", "m1"),
        ({"custom_id": "c1", "body": {"messages": [ASKED]}, "response": {"body": CHOICES}}, "c1", "m2"),
        ({"conversation_id": "c1", "messages": [ASKED], "response": CHOICES}, "c1", "m2"),
        ({"id": "c1", "messages": [ASKED], "response": "Until six."}, "c1", None),
        ({"id": "c1", "messages": [ASKED], "output": REPLIED}, "c1", None),
        ({"id": "c1", "messages": [ASKED, REPLIED], "output": "Until seven."}, "c1", None),
        ({"id": "c1", "messages": [ASKED, {"role": "bot", "content": "Until six."}], "reply": "No."}, "c1", None),
    ],
)
def test_the_reply_of_a_logged_completion_is_the_last_message(
    row: dict[str, Any], id_: str, system: str | None
) -> None:
    [record] = read(write("log.jsonl", json.dumps(row) + "\n"))
    chat = record.conversation
    assert [(turn.role, turn.content) for turn in chat.turns] == [("user", "Is it open?"), ("assistant", "Until six.")]
    assert (chat.id, chat.metadata.get("system")) == (id_, system)


@pytest.mark.attack
@pytest.mark.parametrize(
    "reply",
    [
        {"choices": 5},
        {"choices": [None]},
        {"response": {"body": []}},
        {"output": " "},
        {"choices": [{"message": {"content": 5}}]},
    ],
)
def test_a_response_of_another_shape_is_no_reply(reply: dict[str, Any]) -> None:
    rows = [{"id": "c0", "messages": CHAT}, {"id": "c1", "messages": [ASKED], **reply}]
    output = accord("import", write("log.jsonl", "".join(json.dumps(row) + "\n" for row in rows)), code=None)
    assert "1 conversations have messages of the user and no reply" in output or "log.jsonl, line 2: " in output


def test_conversations_without_a_reply_are_reported() -> None:
    rows = [{"id": f"c{i}", "messages": [ASKED]} for i in range(3)]
    output = accord("import", write("log.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert "3 conversations have messages of the user and no reply; the last message is scored" in output


def test_init_counts_labels_of_a_file_named_twice_once() -> None:
    name = exchanges(rating=lambda i: i % 5 + 1)
    assert accord_json("init", "--from", name, name)["raters"] == {"unnamed": 24}


@pytest.mark.attack
def test_the_project_file_of_a_run_keeps_line_separators() -> None:
    with Path("accord.yaml").open("a", encoding="utf-8") as file:
        file.write('\nstudies:\n  look: {title: "one\\Nline\\Lmore", items: {sample: 5}}\n')
    name = exchanges(stars=lambda i: i % 5 + 1, count=24)
    accord("init", "--from", name)
    accord("run", name, "--out", "out", "--evaluator", "default", *QUICK)
    with open_project("out/accord.yaml") as project:
        assert project.config.studies["look"].title == "one\x85line\u2028more"


@pytest.mark.parametrize(
    ("header", "says", "reads"),
    [
        ("prompt,response,teacher,rating", "not read: 'teacher'", ["unnamed"]),
        ("prompt,response,checked_by,rating", "--columns annotator=checked_by", ["unnamed"]),
        ("prompt,response,Prüfer,rating", "rated by: nora 6, ben 6", ["nora", "ben"]),
        ("conversation,expert,question,value", "not read: 'expert'", ["unnamed"]),
    ],
)
def test_a_column_of_raters_with_an_unknown_name_is_named(header: str, says: str, reads: list[str]) -> None:
    names = header.split(",")
    known = "\n".join(json.dumps({"id": f"c{n}", "messages": CHAT}) for n in range(12))
    accord("import", write("known.jsonl", known))
    cells = {"conversation": "c{0}", "question": "Q0", "prompt": "hello {0}", "response": "hi {0}", "rating": "{2}",
             "value": "{2}"}  # fmt: skip
    rows = [
        ",".join(cells.get(name, "{1}").format(n, ("nora", "ben")[n % 2], 1 + n % 4) for name in names)
        for n in range(12)
    ]
    output = accord("import", write("rated.csv", "\n".join([header, *rows]) + "\n"))
    assert says in output and all(name in output for name in reads)
    if reads == ["unnamed"]:
        [column] = set(names) - set(cells)
        again = accord("import", "rated.csv", "--replace", "--columns", f"annotator={column}")
        assert "nora 6, ben 6" in again and "not read" not in again
