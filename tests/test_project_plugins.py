"""Plug-ins of a project: code that `plugins:` in accord.yaml names, where it runs, and how its errors are told."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from small_sample import sources as sample_files
from special_files import make_link
from typer.testing import CliRunner

import accord
from accord import Conversation, EvidenceTable, Labels, Project, Question, Score, Unscored
from accord.cli import commands
from accord.cli.app import app
from accord.edges import BadInput, PluginError, UnknownName, ask_with, is_trusted, trust_folder
from accord.entry_points import loading
from accord.evidence import metrics, sources, turn_metrics
from accord.formats import formats
from accord.learning import Head, heads
from accord.learning.head import make_head
from accord.models import judge_modes
from accord.runtime import WorkerPool
from accord.scoring import BatchScorer, Execution
from accord.testing import check_head, check_metric, planted
from accord.values import POPULATION, plugin_error, score_from

assert commands  # importing them registers them
REGISTRIES = (formats, metrics, turn_metrics, sources, heads, judge_modes)
METRIC = '''
from accord import metrics

@metrics.register("exclamation-rate")
def exclamation_rate(conversation):
    """Share of replies with an exclamation mark."""
    turns = conversation.by("assistant")
    return sum("!" in turn.content for turn in turns) / len(turns) if turns else None
'''
SOURCE = '''
from accord.evidence import Column, EvidenceTable, Source, sources
from accord.models import without_requests

@sources.register("reply-count")
class ReplyCount(Source):
    """Number of replies."""

    def measure(self, samples):
        rows = {each.target: {"replies": len(each.conversation.by("assistant"))} for each in samples}
        return (yield from without_requests(EvidenceTable.from_rows([Column("replies", "count|version:1")], rows)))
'''
SETTINGS = (
    "plugins: [{}]\nmetrics: [words]\nevaluators: {{default: {{sources: [metrics, reply-count], head: mixed}}}}\n"
    "folds: 2\nrepeats: 1\ndraws: 20\n"
)


@pytest.fixture(autouse=True)
def plugins_are_forgotten() -> Iterator[None]:
    from accord.values import project_plugins

    before = [set(each.names()) for each in REGISTRIES]
    yield
    project_plugins._noted.clear()
    project_plugins._loaded.clear()
    for registry, known in zip(REGISTRIES, before, strict=True):
        for name in set(registry.names()) - known:
            registry.forget(name)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trusted project folder as working folder."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o755)
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path / "configuration"))
    monkeypatch.delenv("ACCORD_TRUST", raising=False)
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    monkeypatch.chdir(folder)
    trust_folder(folder)
    return folder


def write(name: str, code: str = METRIC, settings: str = "metrics: [exclamation-rate]\n") -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(code, encoding="utf-8")
    Path(name).chmod(0o644)
    Path("accord.yaml").write_text(f"plugins: [{name}]\n{settings}", encoding="utf-8")


def ran(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.mark.parametrize("name", ["my_metrics.py", "plugins/deep/own.py", "statistics.py"])
def test_file_of_the_project_brings_a_metric(name: str, home: Path) -> None:
    write(name)
    with accord.open() as project:
        project.import_(sample_files())
        table = project.measure([project.source("metrics")], list(project.all_samples())[:3])
    assert [column.name for column in table.columns] == ["exclamation-rate"] and table.present.all()
    assert metrics.owner("exclamation-rate") == name and "exclamation-rate" in ran("plugins").stdout


def test_module_is_imported(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "site" / "chatty").mkdir(parents=True)
    (tmp_path / "site" / "chatty" / "__init__.py").touch()
    (tmp_path / "site" / "chatty" / "own.py").write_text(METRIC, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")
    Path("accord.yaml").write_text("plugins: [chatty.own]\nmetrics: [exclamation-rate]\n", encoding="utf-8")
    with accord.open() as project:
        assert project.source("metrics") and metrics.owner("exclamation-rate") == "chatty.own"


def test_help_and_commands_without_plugins_run_no_code(home: Path) -> None:
    write("own.py", "raise SystemExit('was run')")
    for arguments in (["--help"], ["schema"], ["trust", "."]):
        assert ran(*arguments).exit_code == 0
    accord.open().close()
    assert "SystemExit: was run" in ran("plugins", code=1).stderr


WRONG_NAMES = [
    "../own.py",
    "/tmp/own.py",
    "a/../own.py",
    "a\\own.py",
    "own.txt.py/",
    "os; x",
    "",
    "./own.py",
    "a//own.py",
    3,
    None,
]


@pytest.mark.attack
@pytest.mark.parametrize("name", WRONG_NAMES)
def test_name_that_is_no_file_of_the_project_and_no_module_is_refused(name: Any, home: Path) -> None:
    with pytest.raises(BadInput, match="plugins is a list of files in the project's folder"):
        accord.project.config_from({"plugins": [name]})


@pytest.mark.attack
@pytest.mark.parametrize(
    "fault", ["link", "linked folder", "missing", "folder", "writable file", "writable folder", "own link"]
)
def test_file_that_others_could_have_written_is_not_run(fault: str, home: Path, tmp_path: Path) -> None:
    if fault.startswith("writable") and sys.platform == "win32":
        pytest.skip("Windows has no such modes")
    write("parts/own.py", "raise SystemExit('was run')")
    file, outside = home / "parts" / "own.py", tmp_path / "outside"
    outside.mkdir()
    if fault == "link":
        file.rename(outside / "own.py")
        make_link(file, outside / "own.py")
    elif fault == "linked folder":
        file.rename(outside / "own.py")
        file.parent.rmdir()
        make_link(file.parent, outside)
    elif fault in ("missing", "folder"):
        file.unlink()
        if fault == "folder":
            file.mkdir()
    elif fault == "own link":
        file.rename(home / "other.py")
        make_link(file, home / "other.py")
        (home / "other.py").chmod(0o666)
    else:
        place = file if fault == "writable file" else file.parent
        place.chmod(place.stat().st_mode | stat.S_IWOTH)
    said = {"link": "is a link out of", "linked folder": "is a link out of", "missing": "no file", "folder": "no file"}
    with accord.open() as project, pytest.raises(BadInput, match=said.get(fault, "others can write to")) as error:
        project.source("metrics")
    assert "parts/own.py" in str(error.value) and "was run" not in str(error.value)


@pytest.mark.posix
@pytest.mark.attack
def test_file_of_another_account_is_not_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("own.py", "raise SystemExit('was run')")
    owner = os.stat
    monkeypatch.setattr("accord.edges.trust._own_accounts", lambda: {owner("own.py").st_uid + 1})
    real = Path.stat

    def of_a_stranger(path: Path, **options: Any) -> os.stat_result:
        found = list(real(path, **options))
        found[4] += 7 * (path.name == "own.py")
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", of_a_stranger)
    with accord.open() as project, pytest.raises(BadInput, match="another account owns"):
        project.source("metrics")


@pytest.mark.attack
@pytest.mark.parametrize("name", ["own.py", "os"])
def test_project_of_another_person_runs_code_after_a_confirmation(name: str, home: Path) -> None:
    trust_folder(home, trusted=False)
    write("own.py", METRIC, "metrics: [words]\n")
    Path("accord.yaml").write_text(f"plugins: [{name}]\nmetrics: [words]\n", encoding="utf-8")
    said = ran("plugins", code=1).stderr
    assert said.count("\n") == 1 and f"accord trust {home}" in said and "ACCORD_TRUST=1" in said and name in said
    asked: list[str] = []
    try:
        ask_with(lambda question: bool(asked.append(question)))
        with pytest.raises(BadInput, match="not confirmed"), accord.open() as project:
            project.source("metrics")
        ask_with(lambda question: asked.append(question) is None)
        with accord.open() as project:
            assert project.source("metrics")
    finally:
        ask_with(None)
    assert len(asked) == 2 and name in asked[0] and not is_trusted(home)
    ran("plugins")
    ran("trust", "--withdraw")
    from accord.values import project_plugins

    project_plugins._loaded.clear()
    assert "not confirmed" in ran("plugins", code=1).stderr


BROKEN = {
    "name error": ("x = 1\nundefined", r"own\.py cannot be loaded: line 2: NameError: name 'undefined'"),
    "syntax": ("def f(:", "own.py cannot be loaded: SyntaxError: .*line 1"),
    "exit": ("raise SystemExit(3)", "line 1: SystemExit: 3"),
    "import": ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
    "encoding": (b"x = '\xff'", "own.py"),
    "too large": ("#" * 2_000_000, "own.py"),
    "wrong type": ("from accord import metrics\nmetrics.register('x')(3)", "the metric 'x' cannot be registered"),
    "name taken": (METRIC.replace("exclamation-rate", "turns"), "'turns': one is built in, the other one is of own.py"),
}


@pytest.mark.attack
@pytest.mark.parametrize("fault", BROKEN)
def test_broken_file_is_one_line_and_can_be_corrected(fault: str, home: Path) -> None:
    code, said = BROKEN[fault]
    write("own.py")
    Path("own.py").write_bytes(code if isinstance(code, bytes) else code.encode())
    result = ran("plugins", code=1)
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.output
    with accord.open() as project:
        for _ in range(2):
            with pytest.raises(BadInput, match=said):
                project.source("metrics")
        Path("own.py").write_text(METRIC, encoding="utf-8")
        assert project.source("metrics"), "the plug-in is tried again"


def test_names_of_a_file_that_fails_are_removed_again(home: Path) -> None:
    write("own.py", METRIC + "\nraise ValueError('late')\n", "metrics: [words]\n")
    with accord.open() as project:
        with pytest.raises(BadInput, match="late"):
            project.source("metrics")
        Path("own.py").write_text(METRIC, encoding="utf-8")
        assert project.source("metrics") and "exclamation-rate" in metrics


def test_broken_plugin_of_one_project_does_not_stop_another(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write("own.py", "undefined")
    first = accord.open()
    other = tmp_path / "other"
    other.mkdir()
    (other / "accord.yaml").write_text("metrics: [words]\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING), accord.open(other / "accord.yaml") as project:
        assert project.source("metrics")
    assert "own.py cannot be loaded" in caplog.text
    first.close()


# --- errors inside plug-ins -------------------------------------------------------------------------------------------

FAILING_METRIC = METRIC.replace('turns = conversation.by("assistant")', 'turns = conversation.metadata["missing"]')
FAILING_SOURCE = SOURCE.replace("rows = {", "samples.missing\n        rows = {")
FAILING_HEAD = """
from accord.learning import Calibration, heads

def helper(labels):
    return labels[0]["answer"]

@heads.register("own-head")
class OwnHead(Calibration):
    '''Fails.'''

    def __init__(self, question):
        super().__init__(question, "constant")

    def fit(self, evidence, labels):
        helper([{}])
"""


@pytest.mark.attack
@pytest.mark.parametrize(
    ("code", "settings", "said"),
    [
        (FAILING_METRIC, "metrics: [exclamation-rate]\nevaluators: {default: {head: mixed}}\n",
         "the metric 'exclamation-rate' (own.py, line 7) raised KeyError: 'missing'"),
        (METRIC.replace("return sum", "return 'high' if turns else sum"), "metrics: [exclamation-rate]\nevaluators: {default: {head: mixed}}\n",
         "the metric 'exclamation-rate' returned 'high'"),
        (METRIC.replace("return sum", "return float('inf') if turns else sum"), "metrics: [exclamation-rate]\nevaluators: {default: {head: mixed}}\n",
         "the metric 'exclamation-rate' returned inf"),
        (FAILING_SOURCE, "evaluators: {default: {sources: [reply-count], head: mixed}}\n",
         "the source 'reply-count' (own.py, line 10) raised AttributeError: 'tuple' object has no attribute 'missing'"),
        (FAILING_HEAD, "metrics: [words]\nevaluators: {default: {head: own-head}}\n",
         "the head 'own-head' (own.py, line 5) raised KeyError: 'answer'"),
    ],
)  # fmt: skip
def test_error_inside_a_plugin_names_it_and_the_cause(code: str, settings: str, said: str, home: Path) -> None:
    write("own.py", code, settings + "folds: 2\nrepeats: 1\ndraws: 20\n")
    with accord.open() as project:
        project.import_(sample_files())
        with pytest.raises(PluginError) as error:
            project.fit()
    assert said in str(error.value)
    result = ran("fit", code=1)
    assert (
        said in result.stderr
        and "Traceback" not in result.output
        and result.stderr.splitlines()[-1].startswith("accord:")
    )
    if "raised" in said:
        assert "Traceback" in ran("fit", "--verbose", code=1).stderr


def test_error_of_accord_itself_is_not_blamed_on_a_plugin(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("own.py")
    with accord.open() as project:
        project.import_(sample_files())
        monkeypatch.setattr("accord.project.fit", lambda *arguments: {}["bug"])
        with pytest.raises(KeyError, match="bug"):
            project.fit()


def test_unknown_name_mentions_where_plugins_come_from(home: Path) -> None:
    for registry in REGISTRIES:
        with pytest.raises(
            UnknownName, match=rf"plugins: in accord.yaml.*group accord\.{registry.kind.replace(' ', '_')}s"
        ):
            registry.get("nothing")


class NoSource:
    pass


@pytest.mark.parametrize(
    ("registry", "plugin", "said"),
    [
        (formats, lambda row, name: None, "it is a function of 2 arguments, and a format is an object: .*Format.*check_format"),
        (metrics, "words", "it is an object of type str, and a metric is a function of one Conversation.*check_metric"),
        (metrics, lambda reply, history, documents: 1.0, "function of 3 arguments, and a metric is a function of one"),
        (metrics, NoSource, "it is the class NoSource"),
        (turn_metrics, lambda conversation: 1.0, "turn metric is a function of a reply"),
        (sources, NoSource, "it is the class NoSource, and a source is a subclass of accord.evidence.Source.*check_source"),
        (sources, lambda settings, context: None, "a source is a subclass"),
        (heads, NoSource, "a head is a subclass of accord.learning.Head.*check_head"),
        (heads, 3, "a head is a subclass"),
    ],
)  # fmt: skip
def test_object_of_another_kind_is_refused_when_it_is_registered(registry: Any, plugin: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        registry.register("own")(plugin)
    assert "own" not in registry


# --- where plug-ins are needed ----------------------------------------------------------------------------------------


@pytest.fixture
def fitted(home: Path) -> Path:
    """Folder of an evaluator with a source of the project."""
    write("own.py", SOURCE, "")
    Path("accord.yaml").write_text(SETTINGS.format("own.py"), encoding="utf-8")
    with accord.open() as project:
        project.import_(sample_files())
        return project.fit().folder.resolve()


def in_a_new_process(code: str, *arguments: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_evaluator_with_a_source_of_the_project_is_loaded_elsewhere(fitted: Path, home: Path, tmp_path: Path) -> None:
    load = "import sys; from accord import load_evaluator; print(*[each.name for each in load_evaluator(sys.argv[1]).sources])"
    assert "reply-count" in in_a_new_process(load, str(fitted), cwd=tmp_path)
    trust_folder(home, trusted=False)
    refused = load.replace("print(", "print('x') if 0 else print(")
    with pytest.raises(AssertionError, match="accord trust"):
        in_a_new_process(refused, str(fitted), cwd=tmp_path)


def test_pickled_scorer_brings_its_plugins_to_a_machine_without_the_project(
    fitted: Path, home: Path, tmp_path: Path
) -> None:
    import cloudpickle

    (tmp_path / "scorer").write_bytes(cloudpickle.dumps(BatchScorer(fitted)))
    home.rename(tmp_path / "gone")
    code = (
        "import pickle, sys, polars; scorer = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(scorer(polars.DataFrame({'id': ['a'], 'prompt': ['Hi.'], 'response': ['Hello!']}))['status'].to_list())"
    )
    assert in_a_new_process(code, str(tmp_path / "scorer"), cwd=tmp_path) == "['scored']\n"


def test_worker_processes_score_and_fit_with_plugins(fitted: Path, home: Path) -> None:
    ran("score", str(sample_files()[0]), "--out", "parts/", "--workers", "2")
    with accord.open() as project:
        run = project.score_parts(str(sample_files()[0]), "other-parts", execution=Execution("local", 2))
        assert run.counts
        project.source("reply-count")
        kind = sources.get("reply-count")
        with WorkerPool(2) as pool:
            assert pool(lambda piece: (sources.get("reply-count") is kind, kind.__name__, piece), [1, 2]) == [
                (True, "ReplyCount", 1), (True, "ReplyCount", 2),
            ]  # fmt: skip


def test_failing_source_is_a_reason_of_each_row_in_a_batch(home: Path) -> None:
    import polars as pl

    fails = "if any(each.conversation.id == 'bad' for each in samples):\n            raise KeyError('gone')\n        rows = {"
    code = SOURCE.replace("rows = {", fails).replace("version:1", "version:2")  # open scorers are kept by their content
    write("own.py", code, "")
    Path("accord.yaml").write_text(SETTINGS.format("own.py"), encoding="utf-8")
    with accord.open() as project:
        project.import_(sample_files())
        scorer = BatchScorer(project.fit().folder)
    rows = {"id": ["good", "bad"], "prompt": ["Hi.", "Hi."], "response": ["Hello!", "Hello!"]}
    table = scorer(pl.DataFrame(rows))
    assert table["status"].to_list() == ["scored", "unscored"]
    assert "the source 'reply-count' (own.py, line 11) raised KeyError: 'gone'" in table["unscored"][1]


# --- formats of text logs ---------------------------------------------------------------------------------------------

LOG = '''
import re
from accord.formats import Format, Record, formats
from accord.values import Conversation, Turn

LINE = re.compile(r"\\[(\\d\\d:\\d\\d)\\] #(\\w+) (\\w+): (.*)")

def parse(line):
    found = LINE.match(line)
    return found and dict(zip(("time", "ticket", "role", "text"), found.groups()))

def convert(rows, name):
    """Convert the lines of one ticket."""
    turns = [Turn({"agent": "assistant"}.get(row["role"], "user"), row["text"]) for row in rows]
    return Record(Conversation(rows[0]["ticket"], tuple(turns)))

ticket_log = formats.register("ticket-log")(Format(
    matches=lambda row: row.keys() == {"time", "ticket", "role", "text"}, convert=convert,
    key=lambda row: row["ticket"], parse=parse,
))
'''  # fmt: skip
LINES = (
    "[10:00] #A1 customer: Hi.\n--- server restarted\n[10:01] #B2 customer: Is it open?\n\n[10:02] #A1 agent: Hello!\n"
)


@pytest.mark.parametrize("name", ["chats.log", "chats.txt", "chats"])
def test_text_log_is_read_by_a_format_of_the_project(name: str, home: Path) -> None:
    write("own.py", LOG, "")
    Path(name).write_bytes(b"\xef\xbb\xbf" + LINES.replace("\n", "\r\n").encode())
    Path("other.jsonl").write_text('{"id": "c", "prompt": "Hi.", "response": "Hello!"}\n', encoding="utf-8")
    Path("talk.txt").write_text("Customer: Hi.\nAgent: Hello!\n", encoding="utf-8")
    ran("import", name, "other.jsonl", "talk.txt")
    with accord.open() as project:
        found = {each.id: [(turn.role, turn.content) for turn in each.turns] for each in project.store.conversations()}
    assert found["A1"] == [("user", "Hi."), ("assistant", "Hello!")] and found["B2"] == [("user", "Is it open?")]
    assert len(found) == 4


@pytest.mark.attack
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("found = LINE.match(line)", "found = LINE.match(line)\n    assert 'Hello' not in line, 'odd'"),
         "the format 'ticket-log' (own.py, line 10) raised AssertionError: odd"),
        (("return found and dict(", "return 3 if 'Hello' in line else found and dict("), "a row is a mapping, got 3"),
        (("turns = [", "1 / (len(rows) - 2)\n    turns = ["), "the format 'ticket-log' (own.py, line 14) raised ZeroDivisionError"),
        (("key=lambda row: row[\"ticket\"]", "key=lambda row: row[\"nothing\"]"), "raised KeyError: 'nothing'"),
    ],
)  # fmt: skip
def test_error_in_a_format_is_a_bad_row_that_names_it(change: tuple[str, str], said: str, home: Path) -> None:
    write("own.py", LOG.replace(*change), "")
    Path("chats.log").write_text(LINES, encoding="utf-8")
    assert said in ran("import", "chats.log", code=1).stderr
    result = ran("import", "chats.log", "--skip-bad-rows")
    assert said in result.output and "Traceback" not in result.output


@pytest.mark.attack
def test_format_whose_match_fails_does_not_stop_other_imports(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    write("own.py", LOG.replace("row.keys() ==", "row['nothing'] and row.keys() =="), "")
    Path("chats.jsonl").write_text('{"unknown_text": "x", "prompt": "Hi.", "response": "Hello!"}\n', encoding="utf-8")
    result = ran("import", "chats.jsonl")
    assert "1 conversation" in result.output and caplog.text.count("the format is left out") == 1


def test_format_that_converts_to_another_type_is_told_what_to_return(home: Path) -> None:
    write("own.py", LOG.replace("return Record(Conversation(", "return (Conversation("), "")
    Path("chats.log").write_text(LINES, encoding="utf-8")
    said = ran("import", "chats.log", code=1).stderr
    assert "returned an object of type Conversation; it returns an accord.formats.Record, or None" in said


# --- judges -----------------------------------------------------------------------------------------------------------

JUDGE = '''
from accord.models import Answer, Judge, judge_modes

class Length(Judge):
    name, mode, together = "length", "own", 100

    async def answer(self, sample, questions):
        long = len(sample.conversation.turns) > 4
        return [Answer(each.id, self.shares(each, long)) for each in questions]

    def shares(self, question, long):
        first, *others = map(str, question.scale.options)
        return {first: 0.7 if long else 0.1, **dict.fromkeys(others, (0.3 if long else 0.9) / len(others))}

@judge_modes.register("own")
def own(settings, instructions):
    """A judge that counts turns."""
    return Length()
'''
JUDGED = "metrics: [words]\nmodels: {judge: {model: length, mode: own}}\n"


def test_mode_of_a_plugin_judges(home: Path) -> None:
    write("own.py", JUDGE, JUDGED)
    with accord.open() as project:
        project.import_(sample_files())
        run = project.judge()
        assert run.answered and not run.unanswered
        assert project.plan_judge().requests == 0, "a judge without `requests` sends none"
    assert "A judge that counts turns." in ran("plugins").stdout


@pytest.mark.attack
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("return {first: 0.7 if long else 0.1, **", "return {**"), "no distribution"),
        (("return {first:", "return {'9': 0.0, first:"), "no distribution"),
        (("return {first:", "return 3 or {first:"), "no distribution"),
        (("0.7 if long else 0.1", "'high'"), "no distribution"),
        (("Answer(each.id,", "Answer('other',"), "no distribution"),
        (("        return [Answer", "        return None or [][0] if long else [Answer"), "judge failed"),
        (("        return [Answer", "        return [] and [Answer"), "judge failed"),
        (("        return [Answer", "        return 3 if long else [Answer"), "judge failed"),
    ],
)  # fmt: skip
def test_bad_answer_of_a_judge_is_a_failure_of_that_answer(change: tuple[str, str], reason: str, home: Path) -> None:
    assert change[0] in JUDGE
    write("own.py", JUDGE.replace(*change), JUDGED)
    with accord.open() as project:
        project.import_(sample_files())
        run = project.judge()
        assert set(run.unanswered) == {reason} and run.unanswered[reason] > 0


@pytest.mark.attack
def test_object_that_is_no_judge_is_refused(home: Path) -> None:
    write("own.py", JUDGE.replace("return Length()", "return 3"), JUDGED)
    with accord.open() as project:
        project.import_(sample_files())
        with pytest.raises(BadInput, match="the judge of mode 'own' is an object of type int without 'name'"):
            project.judge()
    judge_modes.forget("own")
    Path("accord.yaml").write_text(JUDGED, encoding="utf-8")
    with pytest.raises(BadInput, match=r"got 'own'.*plugins: in accord.yaml"):
        accord.open()
    Path("accord.yaml").write_text(JUDGED.replace("own", "verbalised"), encoding="utf-8")
    said = "given for the role 'judge' is an object of type object"
    with (
        Project(accord.project.load_project(), given={"judge": object()}) as project,
        pytest.raises(BadInput, match=said),
    ):
        project.judge()


# --- the documented example -------------------------------------------------------------------------------------------


def test_documented_metric_works_as_its_page_says(home: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
    section = page.partition("## A metric in ten minutes")[2].partition("\n## ")[0]
    [code, check], [settings], [commands_] = (
        re.findall(rf"^```{language}\n(.*?)^```", section, flags=re.M | re.S) for language in ("python", "yaml", "sh")
    )
    trust_folder(home, trusted=False)
    Path("my_metrics.py").write_text(code, encoding="utf-8")
    Path("my_metrics.py").chmod(0o644)
    quick = "evaluators: {default: {head: mixed}}\nfolds: 2\nrepeats: 1\ndraws: 20\n"
    Path("accord.yaml").write_text(settings + quick, encoding="utf-8")
    assert f"accord trust {home}" in ran("plugins", code=1).stderr
    first, *others = [line.removeprefix("accord ").split() for line in commands_.splitlines()]
    ran(*first)
    ran("import", *map(str, sample_files()))
    for arguments in others:
        result = ran(*arguments)
    assert "exclamation-rate" in ran("plugins").stdout and result.stdout
    metrics.forget("exclamation-rate")
    exec(compile(code + check, "my_metrics.py", "exec"), {})


def test_documented_head_fits_and_scores(home: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
    section = page.partition("## A head")[2].partition("\n## ")[0]
    code = re.findall(r"^```python\n(.*?)^```", section, flags=re.M | re.S)[0]
    Path("my_heads.py").write_text(code.replace('"halves"', '"own-halves"'), encoding="utf-8")
    Path("my_heads.py").chmod(0o644)
    Path("accord.yaml").write_text(
        "plugins: [my_heads.py]\nevaluators: {mine: {head: own-halves}}\nfolds: 2\nrepeats: 1\ndraws: 20\n",
        encoding="utf-8",
    )
    conversations, *ratings = map(str, sample_files())
    ran("import", conversations, *ratings)
    ran("fit", "mine")
    ran("score", conversations, "--out", "scores.jsonl", "--evaluator", "mine")
    rows = [json.loads(line) for line in Path("scores.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows and all(row["value"] is not None for row in rows)
    heads.forget("own-halves")


def test_a_head_without_methods_cannot_be_registered() -> None:
    class Unfinished(Head):
        """Lacks its methods."""

    with pytest.raises(BadInput, match="it is the class Unfinished, which does not define annotators, describe, fit, "):
        heads.register("unfinished")(Unfinished)


class Mean(Head):
    """Shares of the answers, whatever the evidence; broken in one way by each test."""

    method, is_fitted, annotators, columns = "mean", False, (), None  # type: ignore[assignment]

    def __init__(self, question: Question, prior: float = 1.0) -> None:
        super().__init__(question)
        self.prior = prior

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        options = [float(each) for each in self.question.scale.numbers]
        counts = [self.prior + sum(label.value == each for label in labels) for each in options]
        shares = [each / sum(counts) for each in counts]
        return self.restore({"options": options, "shares": shares, "people": sorted(labels.annotators)}, {})

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        options, shares = self.learned["options"], self.learned["shares"]
        return [
            score_from(target, name or POPULATION, options, shares, self.signature())
            for target, name in zip(evidence.targets, annotators, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        return {}

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.learned, {}

    def restore(self, card: Any, arrays: Any) -> Self:
        self.learned, self.annotators, self.is_fitted = dict(card), card["people"], True  # type: ignore[misc]
        return self


class Unstored(Mean):
    """Does not store its setting."""

    def __init__(self, question: Question, strength: float = 1.0) -> None:
        super().__init__(question)


class ByPlace(Mean):
    """Reads the first column, whichever it is."""

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        scores = super().predict_each(evidence, annotators)
        return scores if evidence.values[0, 0] < 5 else scores[::-1]


class ByWidth(Mean):
    """Expects as many columns as in `fit`."""

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        assert evidence.values @ np.ones(3) is not None
        return super().predict_each(evidence, annotators)


class Nameless(Mean):
    """Has no method."""

    method = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Unstored, "the constructor stores each setting under its name: strength"),
        (ByPlace, "finds its columns by name, .*; a further column changes the scores"),
        (ByWidth, "finds its columns by name, .*; a further column raised ValueError"),
        (Nameless, "a head has a name in `method`"),
    ],
)
def test_the_check_of_a_head_names_the_fault(kind: type[Head], says: str) -> None:
    check_head(Mean)
    with pytest.raises(AssertionError, match=says):
        check_head(kind)


def test_an_error_in_a_package_names_its_module() -> None:
    code = "from accord import metrics\n@metrics.register('fails')\ndef fails(conversation):\n    return 1 / 0\n"
    with loading("the package greeter"):
        exec(compile(code, "metrics.py", "exec"), {"__name__": "greeter.metrics"})
    with pytest.raises(ZeroDivisionError) as error:
        metrics.get("fails")(Conversation("c", ()))
    said = "the metric 'fails' (the package greeter, greeter.metrics, line 4) raised ZeroDivisionError"
    assert str(plugin_error(error.value)).startswith(said)


def test_a_name_that_two_places_have_is_listed_once() -> None:
    assert str(UnknownName("evaluator", "none", ["default", "default"])).count("default") == 1


def test_a_function_that_makes_no_head_is_one_sentence(home: Path) -> None:
    heads.register("no-head")(lambda question: 1.0)  # type: ignore[arg-type,return-value]
    try:
        with pytest.raises(BadInput, match=r"the head 'no-head' returned 1.0; a head is a subclass"):
            make_head("no-head", planted(conversations=2).question, {})
    finally:
        heads.forget("no-head")


def test_a_decorator_without_a_name_is_refused() -> None:
    def metric(conversation: object) -> float:
        """Nothing."""
        return 0.0

    with pytest.raises(BadInput, match="a metric is registered under a name"):
        metrics.register(metric)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        (lambda conversation: "high", "'high' is not a finite number or None"),
        (lambda conversation: 1 / 0, "the metric raised ZeroDivisionError: division by zero"),
        (lambda conversation: float("nan"), "nan is not a finite number or None"),
    ],
)
def test_the_check_of_a_metric_names_the_conversation_and_the_cause(metric: Any, says: str) -> None:
    metric.__doc__ = "A faulty metric."
    with pytest.raises(AssertionError, match=rf"^[\w-]+: {re.escape(says)}"):
        check_metric(metric)
