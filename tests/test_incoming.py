"""Everything that comes in: the table of cases of the edge, and properties of every stage after it."""

from __future__ import annotations

import copy
import gzip
import json
import math
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import scaled
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_readers import MESSAGES, part, span
from test_readers_annotation_tools import (
    ARGILLA,
    LABEL_STUDIO,
    LANGFUSE_SCORES,
    LANGSMITH_FEEDBACK,
    LANGSMITH_RUNS,
    POTATO_ROWS,
)

from accord import Project, Rubric, read
from accord.board import Board, BoardFilters
from accord.edges import (
    BadInput,
    is_in_calendar,
    is_sendable,
    load_yaml,
    open_unpacked,
    parse_whole_number,
    read_json_file,
    sendable,
    sendable_json,
)
from accord.formats import Row, formats, read_rows
from accord.live import LiveContext, open_ingestor
from accord.live.messages import (
    HistoryDeduplicator,
    Message,
)
from accord.project import Config, import_files
from accord.report import write_report
from accord.scoring import (
    ConversationFacts,
    merge_parts,
    milliseconds,
)
from accord.store import check_store

# --- the table of cases -------------------------------------------------------------------------------------------------

TEXTS = {
    "": "", "plain": "plain", "é 你好 🙂": "é 你好 🙂", "\x1b[31m\u202e\ufffe": "\x1b[31m\u202e\ufffe",
    "\ud800": "\ufffd", "a\udfffb": "a\ufffdb", "\udfff\ud800": "\ufffd\ufffd", "\ud83d" + "\ude00": "😀",
    "é\ud83d": "é\ufffd", "\0": "\ufffd", "a\0é\ud800": "a\ufffdé\ufffd",
}  # fmt: skip


@pytest.mark.parametrize(("text", "clean"), TEXTS.items(), ids=ascii)
def test_text_becomes_sendable(text: str, clean: str) -> None:
    assert sendable(text) == clean and is_sendable(text) == (text == clean) and is_sendable(clean)
    clean.encode()
    assert sendable_json({text: [text, {"a": text}, 1, None]}) == {clean: [clean, {"a": clean}, 1, None]}


@given(st.text(st.characters()))
def test_sendable_text_is_utf_8_and_unchanged(text: str) -> None:
    clean = sendable(text)
    assert clean.encode().decode() == clean and "\0" not in clean and sendable(clean) == clean


TIMES = {
    "0001-01-01T00:00:00Z": True, "0001-01-01T00:00:00": True, "0001-01-01T14:00:00+14:00": True,
    "0001-01-01T00:00:00+14:00": False, "0001-01-01T00:00:00+00:01": False, "9999-12-31T23:59:59.999999": True,
    "9999-12-31T23:59:59-00:01": False, "9999-12-31T23:59:59-14:00": False, "2026-11-26T10:00:00+05:30": True,
}  # fmt: skip


@pytest.mark.parametrize(("text", "is_in"), TIMES.items())
def test_times_outside_the_calendar_are_dropped_from_files_and_refused_in_messages(text: str, is_in: bool) -> None:
    time = datetime.fromisoformat(text)
    assert is_in_calendar(time) == is_in and (milliseconds(text) is not None) == is_in
    row = {"conversation": "c", "role": "user", "content": "x", "time": text}
    [said], bad = HistoryDeduplicator().messages(row, "log", "auto")
    assert not bad and (said.time is not None) == is_in and len(said.day) == 10
    if is_in:
        assert Message("c", "user", "x", time=time).day
    else:
        with pytest.raises(BadInput, match="outside the years 1 to 9999 UTC"):
            Message("c", "user", "x", time=time)


NUMBERS = {"0": 0, "12": 12, "007": 7, "999999999": 999_999_999, "": None, "-1": None, "+1": None, " 1": None, "1.0": None,
           "\u0661": None, "\u00b2": None, "1_0": None, "9" * 10: None, "9" * 5000: None}  # fmt: skip


@pytest.mark.parametrize(("text", "number"), NUMBERS.items(), ids=lambda value: ascii(value)[:20])
def test_whole_numbers_are_ascii_digits(text: str, number: int | None) -> None:
    assert parse_whole_number(text) == number


@pytest.mark.attack
def test_invalid_text_is_refused_in_yaml_and_replaced_in_cards(tmp_path: Path) -> None:
    for text in ('a: "\\ud800"', '"\\0": 1', 'a: ["x", "\\uDFFF"]'):
        (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(BadInput, match="a.yaml is not valid YAML: .*NUL or half a surrogate pair"):
            load_yaml(tmp_path / "a.yaml")
    (tmp_path / "card.json").write_text('{"a\\ud800": ["\\udfff", "\\ud83d\\ude00"]}', encoding="utf-8")
    assert read_json_file(tmp_path / "card.json") == {"a\ufffd": ["\ufffd", "😀"]}


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(1, 60), st.integers(0, 255))
@pytest.mark.attack
def test_damaged_archive_is_refused(content: bytes, cut: int, byte: int) -> None:
    """A truncated or changed archive gives the packed bytes, or an error."""
    packed = gzip.compress(content, mtime=0)
    changed = bytearray(packed)
    changed[cut % len(packed)] = byte
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.gz"
        for damaged in (packed[:-cut], bytes(changed)):
            path.write_bytes(damaged)
            if damaged[:2] != b"\x1f\x8b":
                continue
            try:
                with open_unpacked(path) as stream:
                    assert stream.read() == content
            except BadInput as error:
                assert "a.gz is" in str(error) and "\n" not in str(error)


# --- every reader, and every stage after it -----------------------------------------------------------------------------


def export(name: str) -> list[dict[str, Any]]:
    """Return the rows of an export in `tests/data/exports`."""
    rows = read_rows(Path(__file__).parent / "data" / "exports" / name)
    return [dict(row.fields) for row in rows if isinstance(row, Row)]


SAMPLES: dict[str, list[dict[str, Any]]] = {
    "openai-messages": [{"id": "c1", "metadata": {"system": "s", "topic": "t"}, "messages": MESSAGES, "documents": ["d"]}],
    "sharegpt": [{"conversations": [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "hi there"}]}],
    "table": [{"conversation_id": "c1", "role": each["role"], "content": each["content"], "system": "s"} for each in MESSAGES],
    "pairs": [{
        "item": "p1", "prompt": "hello", "response_a": "hi there", "response_b": "good day", "model_a": "v1",
        "model_b": "v2", "winner": "a", "annotator": "ann",
    }],
    "benchmark": [{
        "id": "b1", "dataset": "d", "level": "turn", "system": "s", "messages": MESSAGES, "response_index": 1,
        "knowledge": ["fact"], "references": [], "meta": {"not_applicable": [["ann", "Q2"]]},
        "ratings": [{"annotator": "ann", "question": "Q0", "value": 2, "scale": [1, 4]}],
    }],
    "langfuse": [{
        "id": "t2", "sessionId": "s1", "timestamp": "2", "input": "bye", "output": {"content": "see you"},
        "scores": [{"name": "Q0", "value": 3.0, "source": "ANNOTATION", "authorUserId": "ann"}],
    }],
    "otel": [span("o1", 1, [part("user", "hello")], [part("assistant", "hi there")], text=False)],
    "soda-eval": [{
        "dialogue_id": "s1", "turn_index": 1, "dialogue": ["a: hello", "b: hi there"], "score": 3,
        "issues": [{"type": "Coherence", "comment": "c", "quote": "hi"}], "comment": "fine",
    }],
    "mlflow": [{
        "info": {"trace_id": "m1", "assessments": [{
            "assessment_name": "Q0", "source": {"source_type": "HUMAN", "source_id": "ann"}, "feedback": {"value": 3},
        }]},
        "data": {"spans": [{"name": "root", "parent_id": None, "attributes": {
            "mlflow.spanInputs": json.dumps({"messages": MESSAGES[:1]}),
            "mlflow.spanOutputs": json.dumps({"choices": [{"message": MESSAGES[1]}]}),
        }}]},
    }],
    "label-studio": [LABEL_STUDIO],
    "argilla": [ARGILLA],
    "langsmith": [*LANGSMITH_RUNS, *LANGSMITH_FEEDBACK],
    "langfuse-scores": LANGFUSE_SCORES,
    "potato": POTATO_ROWS,
    "zendesk": export("zendesk_tickets.jsonl"),
    "intercom": export("intercom_conversations.json"),
    "slack": export("slack/support-bot/2026-05-31.json"),
    "chatgpt": export("chatgpt_conversations.json"),
}  # fmt: skip
ODD_TEXTS = st.sampled_from([
    *TEXTS, *TIMES, "=1+1", "NaN", "1e999", "[" * 200, "{", "a\nb\tc\r", "x" * 3000, "../../etc", "<script>",
]) | st.text(st.characters(), max_size=20)  # fmt: skip
ODD = (
    ODD_TEXTS
    | st.sampled_from(
        [math.nan, math.inf, -1, 10**400, 1e300, 0, True, None, [], {}, [[]], {"": None}, {"\ud800": ["\0"]}]
    )
    | st.lists(ODD_TEXTS, max_size=2)
    | st.dictionaries(ODD_TEXTS, ODD_TEXTS, max_size=2)
)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to everything inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, each in inner for path in ((*above, key), *places(each, (*above, key)))]


@st.composite
def changed_rows(draw: st.DrawFn, samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a format with a few values replaced and odd metadata added."""
    rows = copy.deepcopy(list(samples))
    for _ in range(draw(st.integers(0, 3))):
        paths = [path for path in places(rows) if len(path) > 1]
        *above, last = draw(st.sampled_from(paths))
        place: Any = rows
        for key in above:
            place = place[key]
        place[last] = draw(ODD)
    for name in draw(st.lists(st.sampled_from(["metadata", "system", "topic", "time", "language", "version", "user"]))):
        rows[0][name] = draw(ODD) if name != "metadata" else {
            key: draw(ODD) for key in ("system", "topic", "time", "version", "user_group", "language")
        }  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fitted evaluator."""
    return Path(scaled.saved(tmp_path_factory.mktemp("evaluator")))


def finite(text: str) -> Any:
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in {text[:200]}"))


def shown_board(project: Project) -> None:
    """Draw the board of every selection that its own choices offer."""
    board = Board(project)
    found = board.figures(BoardFilters())
    assert found is None or json.dumps(found[1].to_json(), allow_nan=False).encode()
    page = board.page(BoardFilters.from_query("order=newest"))
    if found is not None and page is not None:
        assert all(each.conversation.encode() and str(each.day or "").encode() for each in page[1].rows)
        json.dumps(found[0].selection.to_json(), allow_nan=False)


def taken_through(path: Path, folder: Path, rubric: Rubric, format: str = "auto") -> int:
    """Take a file through import, scoring, parts, the board and its repair; return how many scores there are."""
    here = path.parent
    with Project(Config.model_validate({"store": f"sqlite:///{here}/accord.db", "synthetic": "with"})) as project:
        with suppress(BadInput):  # an entrance
            import_files(project.store, rubric, [path], format, skip_bad_rows=True)
        try:
            done = project.score(path, here / "scores.jsonl", folder, format=format, skip_bad_rows=True)
        except BadInput:  # an entrance may refuse, later stages may not
            assert not (here / "scores.jsonl").exists()
            return 0
        rows = [finite(line) for line in (here / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
        assert len(rows) == done.counts.scored + sum(done.counts.unscored.values())
        shown_board(project)
        with suppress(BadInput):
            project.score_parts(path, here / "parts", folder, format=format)
            merge_parts(here / "parts", here / "merged.jsonl")
            assert all(finite(line) for line in (here / "merged.jsonl").read_text(encoding="utf-8").splitlines())
        assert project.mart.compact() and not project.mart.faults()
        shown_board(project)
        checked = check_store(f"sqlite:///{here}/accord.db", project.mart.folder)
        assert not checked.damage
        return len(rows)


def test_every_format_has_a_sample(tmp_path: Path) -> None:
    assert set(formats.names()) - {"abc-eval"} <= set(SAMPLES), formats.names()
    for name in set(SAMPLES) - {"langfuse-scores", "potato"}:  # answers about conversations of another file
        path = scaled.jsonl(tmp_path / f"{name}.jsonl", SAMPLES[name])
        assert list(read(path, name)) and list(read(path)), name


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
@pytest.mark.attack
def test_later_stages_accept_all_imported_rows(name: str, data: st.DataObject, folder: Path, rubric: Rubric) -> None:
    rows = data.draw(changed_rows(SAMPLES[name]))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rows.jsonl"
        whole = {"id": "good", "messages": MESSAGES} if name == "openai-messages" else None
        path.write_text(
            "".join(json.dumps(row) + "\n" for row in [*([whole] if whole else []), *rows]), encoding="utf-8"
        )
        found = taken_through(path, folder, rubric, name)
        assert found >= 1 if whole else True


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(message=st.fixed_dictionaries(
    {"conversation": ODD, "role": st.just("assistant") | ODD, "content": ODD},
    optional={name: ODD for name in ("id", "turn", "system", "time", "documents", "timestamp", "more")},
))  # fmt: skip
@example(message={"conversation": "c", "role": "assistant", "content": "Hello.", "time": "0001-01-01T00:00:00+14:00"})
@example(message={"conversation": "c", "role": "assistant", "content": "\ud800", "system": "\ud800", "id": "\0"})
@pytest.mark.attack
def test_board_shows_any_live_message(message: dict[str, Any], folder: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        Project(Config.model_validate({"store": f"sqlite:///{place}/accord.db"})) as project,
        open_ingestor(folder, context=LiveContext(mart=project.mart, store=project.store)) as ingestor,
    ):
        said, bad = HistoryDeduplicator().messages(message, "log@0", "auto")
        assert all(isinstance(reason, str) for reason in bad)
        rows = ingestor.take(said)
        json.dumps(rows, allow_nan=False).encode()
        ingestor.settle()
        shown_board(project)
        project.mart.compact()
        shown_board(project)


@pytest.mark.attack
def test_odd_metadata_of_rated_conversations_reach_every_page(tmp_path: Path, folder: Path, rubric: Rubric) -> None:
    """System, topic, time and every other key hold what no later stage could store, send or date."""
    odd = [*TEXTS, *TIMES, 10**400, -1, {"a\ud800": ["\0"]}]
    rows = [
        {**row, "metadata": {name: odd[(n + place) % len(odd)] for place, name in enumerate(
            ["system", "topic", "time", "version", "user_group", "language", "\ud800", "more"])}}
        for n, row in enumerate(scaled.drawn(40))
    ]  # fmt: skip
    path = scaled.jsonl(tmp_path / "rows.jsonl", rows)
    labels = tmp_path / "labels.csv"
    labels.write_text("conversation,annotator,Q0\n" + "".join(
        f"{row['id']},{who},{1 + (n + shift) % 4}\n" for n, row in enumerate(rows) for shift, who in enumerate("ab")
    ), encoding="utf-8")  # fmt: skip
    assert taken_through(path, folder, rubric) == 40
    about = {"store": f"sqlite:///{tmp_path}/accord.db", "metrics": ["bank"], "evaluator": "m", "folds": 2, "draws": 20,
             "rubric": "rubric.yaml", "evaluators": {"m": {"sources": ["metrics"], "head": "mixed"}}}  # fmt: skip
    (tmp_path / "rubric.yaml").write_text(
        "name: own\nmain: Q0\nquestions:\n- {id: Q0, text: 'Is it good?', options: [1, 2, 3, 4]}\n", encoding="utf-8"
    )
    with Project(Config.model_validate({**about, "rubric": str(tmp_path / "rubric.yaml")})) as project:
        import_files(project.store, project.rubric, [labels])
        html = write_report(project, tmp_path / "report.html").read_text(encoding="utf-8")
        assert "\0" not in html and "\x1b" not in html


def test_facts_of_constructed_conversations_are_sendable(tmp_path: Path) -> None:
    from accord import Conversation, Turn

    odd = {"system": "\ud800", "topic": "\0", "language": "é\udfff", "time": "0001-01-01T00:00:00+14:00"}
    facts = ConversationFacts.of(Conversation("c", (Turn("user", "x"),), metadata=odd))
    assert (facts.system, facts.topic, facts.language, facts.time) == ("\ufffd", "\ufffd", "é\ufffd", None)
