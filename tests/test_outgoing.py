"""Escaping of output in terminals, tables, pages, metrics and log lines."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from accord import Conversation, Label, Rubric, Store, Turn, read_labels
from accord.charts import Axis, ChartRow, bar_chart
from accord.cli.app import (
    app,
    guarded,
)
from accord.edges import BadInput, escape_controls, escape_formula, one_line, page_text, unescape_formula
from accord.formats import QueueWriter, ScoreWriter
from accord.results import text_table
from accord.values import SCORE_COLUMNS, Estimate, Target

CONTROLS = [
    *map(chr, range(32)),
    *map(chr, range(127, 160)),
    *"\u202a\u202e\u2066\u2069\u2028\u2029\ud800\udfff\ufffe\uffff",
]
HOSTILE = "a\x1b[31m\x9b2J\u202eb\x00\nc\rd"
ACTED_ON = set(CONTROLS) - {"\n"}


def is_inert(text: str) -> bool:
    return not ACTED_ON & set(text)


@pytest.mark.parametrize("letter", CONTROLS)
@pytest.mark.attack
def test_terminal_controls_are_escaped(letter: str) -> None:
    line = one_line(f"a{letter}b")
    assert is_inert(line) and "\n" not in line and json.loads(f'"{line}"') == f"a{letter}b"
    assert escape_controls(f"a{letter}b") == (f"a{letter}b" if letter in "\n\t" else line)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(text=st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=40))
def test_texts_of_every_script_are_unchanged(text: str) -> None:
    assert escape_controls(text) == text or any(
        letter in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufffe\uffff" for letter in text
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=st.text(st.sampled_from([*"=+-@'ab \t\r\n\uff1d"]), max_size=4))
@pytest.mark.attack
def test_formula_cells_are_escaped_and_read_back(text: str) -> None:
    assert unescape_formula(escape_formula(text)) == text
    assert escape_formula(text)[:1] not in {*"=+-@\t\r\n\uff1d"}


@pytest.mark.attack
def test_error_is_one_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    import typer

    def failing() -> None:
        raise BadInput(f"no id {HOSTILE}{'x' * 20_000_000}; allowed: c1")

    with pytest.raises(typer.Exit):
        guarded(failing)()
    said = capsys.readouterr().err
    assert is_inert(said) and said.count("\n") == 1 and len(said) < 2500
    assert said.startswith("accord: no id a\\u001b[31m") and said.endswith("; allowed: c1\n")


def test_printed_table_cell_is_one_short_line() -> None:
    shown = text_table(["system", "n"], [[HOSTILE, "1"], ["x" * 1_000_000, "2"]])
    assert is_inert(shown) and len(shown.splitlines()) == 3 and len(shown) < 2000


def labelled(folder: Path) -> list[str]:
    """A project whose names are hostile: systems, conversations, annotators."""
    (folder / "accord.yaml").write_text("rubric: rubric.yaml\nstore: sqlite:///s.db\nfolds: 5\n", encoding="utf-8")
    (folder / "rubric.yaml").write_text(
        "name: r\nmain: q\nquestions:\n- id: q\n  text: 'Is it good?'\n  scale: ordinal\n  options: [1, 2, 3]\n",
        encoding="utf-8",
    )
    names = [f"=c{number}\x1b[2J\u202e" for number in range(12)]
    store = Store(f"sqlite:///{folder / 's.db'}")
    turns = (Turn("user", "Hello, where is it?"), Turn("assistant", "It comes on Monday."))
    store.add_conversations(
        [
            Conversation(name, (*turns, Turn("user", "ok " * n)), metadata={"system": "s\nfake\x9b"})
            for n, name in enumerate(names)
        ]
    )
    store.add_labels([Label(Target(name), "q", "@ann\x1b\n", 1 + n % 3) for n, name in enumerate(names[:9])])
    store.close()
    return names


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.attack
def test_commands_print_no_terminal_controls(more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in (["label", "next"], ["compare"]):
        told = CliRunner().invoke(app, [*command, *more])
        assert told.exit_code == 0 and is_inert(told.output), command
        assert not any(line.startswith("fake") for line in told.output.splitlines())
        if more:
            json.loads(told.stdout)
        elif command[0] == "label":
            assert "=c11\\u001b[2J\\u202e" in told.stdout and "@ann\\u001b\\n" in told.stdout


@pytest.mark.attack
def test_label_queue_is_escaped_and_reads_back(tmp_path: Path, rubric: Rubric) -> None:
    names = ["=1+1", "@c", "-5", "'x", "plain"]
    queue = tmp_path / "queue.csv"
    asked = [
        {"conversation": name, "turn": None, "question": rubric.main, "annotator": "+ann", "gain": 0.5}
        for name in names
    ]
    with QueueWriter(queue) as writer:
        writer.write(asked)
    with queue.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["conversation", "turn", "question", "annotator", "value"]
    assert all(cell[:1] not in {*"=+-@"} for row in rows for cell in row)
    answer = rubric[rubric.main].scale.numbers[0]
    with queue.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *([*row[:-1], answer] for row in rows)])
    assert [(each.target.conversation, each.annotator) for each in read_labels(queue, rubric)] == [
        (name, "+ann") for name in names
    ]


@pytest.mark.attack
def test_score_tables_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    with ScoreWriter(path) as writer:
        writer.write([{**dict.fromkeys(SCORE_COLUMNS), "conversation": "=HYPERLINK()", "annotator": "@a"}])
    [row] = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    assert row["conversation"] == "'=HYPERLINK()" and row["annotator"] == "'@a"


@pytest.mark.attack
def test_pages_show_controls_and_escape_markup() -> None:
    from jinja2 import Environment
    from markupsafe import Markup

    page = Environment(autoescape=True, finalize=page_text).from_string("<p>{{ said }}</p>{{ chart }}")
    shown = page.render(said=f"<script>{HOSTILE}", chart=Markup("<svg>\n</svg>"))
    assert is_inert(shown) and "<script>" not in shown and shown.endswith("<svg>\n</svg>") and "\\u202e" in shown


@pytest.mark.attack
def test_chart_draws_any_text() -> None:
    rows = [ChartRow(f"{place} \\{letter}<b>", Estimate(place)) for place, letter in enumerate(CONTROLS)]
    drawn = bar_chart(rows, Axis(), "Controls")
    assert is_inert(drawn) and "\\\\b&lt;b&gt;" in drawn and "\\u001b" in drawn and "\\ufffe" in drawn
