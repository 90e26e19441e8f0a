"""The pytest plug-in in pytest runs of their own: assertions, repeated tests, summary and JUnit files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from live_evaluator import learned, support_chats

from accord import Conversation, Turn
from accord.edges import BadInput
from accord.hosts.shared.assertions import assert_agreement, assert_not_worse, assert_score
from accord.testing import sample_project

ROOT = Path(__file__).parents[1]
TESTS = """
import json, os
from dataclasses import replace
import pytest
from accord import Turn
from accord.hosts.pytest_plugin import assert_agreement, assert_not_worse, assert_score

ROWS = [json.loads(line) for line in open("chats.jsonl")]
LABELS = [{"conversation": row["id"], "turn": len(row["messages"]) - 1, "annotator": "bob", "question": "useful",
           "value": 1 + min(3, len(row["messages"][-1]["content"]) // 120)} for row in ROWS]

def shortened(rows):
    return [{**row, "messages": [*row["messages"][:-1], {"role": "assistant", "content": "No."}]} for row in rows]

def test_mean_passes():
    assert_score("chats.jsonl", mean_at_least=1.1)

def test_mean_fails():
    assert_score("chats.jsonl", mean_at_least=3.9)

def test_agreement_passes():
    assert_agreement("chats.jsonl", 0.6, labels=LABELS)

def test_agreement_fails():
    assert_agreement(ROWS, 0.6, labels=[{**label, "value": 1 + n % 4} for n, label in enumerate(LABELS)])

def test_new_version_is_as_good(accord_evaluator):
    evaluator = accord_evaluator("judge")
    assert accord_evaluator("judge") is evaluator
    assert_not_worse(ROWS, ROWS, evaluator=evaluator)

def test_new_version_is_worse():
    assert_not_worse(shortened(ROWS), ROWS)

seen = []

@pytest.mark.accord(runs=3)
def test_runs_are_pooled(record_property):
    seen.append(len(seen))
    rows = shortened(ROWS) if len(seen) == 3 else ROWS
    assert_score(rows, mean_at_least=1.1)
    record_property("mine", len(seen))

@pytest.mark.accord(runs=2)
def test_assertion_of_one_run_is_an_error():
    seen.append(0)
    if len(seen) % 2:
        assert_score(ROWS, mean_at_least=1)

@pytest.mark.accord(runs=0)
def test_number_of_runs_is_checked():
    pass

def test_row_without_conversation_is_no_score():
    assert_score([*ROWS, {"id": "broken"}], mean_at_least=1)

def test_labels_are_missing():
    assert_agreement("chats.jsonl")

def test_file_is_missing():
    assert_score("none.jsonl", mean_at_least=1)
"""
OUTCOMES = {
    "test_mean_passes": "",
    "test_mean_fails": "mean score on 'useful': ",
    "test_agreement_passes": "",
    "test_agreement_fails": "farthest from people:",
    "test_new_version_is_as_good": "",
    "test_new_version_is_worse": "new minus old mean score on 'useful': -",
    "test_runs_are_pooled": "",
    "test_assertion_of_one_run_is_an_error": "in some of the 2 runs only; call each assertion once in every run",
    "test_number_of_runs_is_checked": "(runs=0): give a whole number from 1 to 1000",
    "test_row_without_conversation_is_no_score": "1 of 21 conversations have no score, allowed: 0%.",
    "test_labels_are_missing": "no labels on 'useful' for 20 conversations",
    "test_file_is_missing": "no file none.jsonl",
}


MEASURED = [
    "test_mean_passes", "test_mean_fails", "test_agreement_passes", "test_agreement_fails", "test_runs_are_pooled",
    "test_new_version_is_as_good", "test_new_version_is_worse",
]  # fmt: skip


@dataclass(frozen=True)
class Finished:
    """A finished run of pytest: its output, and the text of each failure by test."""

    text: str
    failures: dict[str, str]
    properties: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tests")
    chats = support_chats()
    learned(chats[:10], ["words"]).save(folder / "judge")
    rows = [{"id": chat.id, "messages": [turn.to_json() for turn in chat.turns]} for chat in chats[20:40]]
    rows[0]["messages"][0]["content"] = "\x1b[31m" + "Why? " * 50
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "test_replies.py").write_text(TESTS, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\naccord_evaluator = judge\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=["one process", "two workers"])
def finished(request: pytest.FixtureRequest, folder: Path) -> Finished:
    workers = ["-p", "xdist", "-n", "2"] if request.param == "two workers" else []
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "accord.hosts.pytest_plugin",
        *workers,
        "--junitxml",
        "junit.xml",
        "-p",
        "no:cacheprovider",
    ]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run([*command, "test_replies.py"], cwd=folder, env=environment, capture_output=True)
    cases = list(ElementTree.parse(folder / "junit.xml").iter("testcase"))
    failures = {case.attrib["name"]: "".join(found.itertext()) for case in cases for found in case.iter("failure")}
    properties = {
        case.attrib["name"]: {found.attrib["name"]: found.attrib["value"] for found in case.iter("property")}
        for case in cases
    }
    return Finished((done.stdout + done.stderr).decode(), failures, properties)


@pytest.mark.parametrize(("name", "words"), OUTCOMES.items())
def test_outcome_of_each_assertion_states_its_reason(finished: Finished, name: str, words: str) -> None:
    assert (name in finished.failures) == bool(words), finished.text
    text = finished.failures.get(name, "")
    assert words in text and not re.search(r"accord.*\.py:\d+", text), "the traceback has no frames of Accord"


def test_failure_shows_the_five_lowest_conversations_escaped_and_the_limit(finished: Finished) -> None:
    text = finished.failures["test_mean_fails"]
    assert len(re.findall(r"80% interval", text)) == 5
    assert "95% interval" in text and "required: lower bound at least 3.9" in text and "To do: " in text
    assert "\x1b" not in finished.text.replace("\x1b[", "") or "\x1b[31mWhy" not in finished.text


def test_summary_and_junit_file_show_every_measured_value(finished: Finished) -> None:
    shown = finished.text.partition("= accord =")[2]
    measured = {
        name: found for name, found in finished.properties.items() if any(key.startswith("accord ") for key in found)
    }
    assert measured.keys() == set(MEASURED)
    assert finished.properties["test_runs_are_pooled"]["mine"] == "3"
    for name, found in measured.items():
        [value] = [value for key, value in found.items() if key.startswith("accord ")]
        assert f"test_replies.py::{name}: " in shown and value in shown


def test_plug_in_loads_nothing_of_accord_before_its_use(folder: Path) -> None:
    code = "import accord.hosts.pytest_plugin, sys; print([name for name in sys.modules if name.startswith(('accord', 'numpy', 'polars'))])"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=True)
    assert sorted(eval(done.stdout)) == [
        "accord",
        "accord.hosts",
        "accord.hosts.pytest_plugin",
        "accord.hosts.shared",
        "accord.hosts.shared.trials",
    ]


def test_entry_point_names_the_plug_in() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert hasattr(import_module(points["pytest11"]["accord"]), "pytest_configure")


def chat(name: str, reply: str = "Yes.") -> Conversation:
    return Conversation(name, (Turn("user", "Can I return it?"), Turn("assistant", reply)))


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda given: assert_score([chat("a")], 2, evaluator=given), "at least 2 conversations with a score, got 1"),
        (lambda given: assert_score([chat("a"), chat("b")], 9, evaluator=given), "mean_at_least=9: give a number from 1 to 4"),
        (lambda given: assert_score([chat("a"), chat("b")], 2, "upper", evaluator=given), "bound='upper': give"),
        (lambda given: assert_agreement([chat("a")], metric="rmse", evaluator=given), "metric 'rmse': at_least needs"),
        (lambda given: assert_agreement([chat("a")], 2, evaluator=given), "at_least=2: give a number from -1 to 1"),
        (lambda given: assert_not_worse([chat("a")], [chat("b")], evaluator=given), "at least 2 conversations"),
        (lambda given: assert_not_worse([chat("a"), chat("b")], [chat("c"), chat("d")], evaluator=given), "no id is in both"),
        (lambda given: assert_not_worse([chat("a")], [chat("b")], -1, evaluator=given), "margin=-1: give a number from 0 to 3"),
        (lambda given: assert_score([Conversation("a", ()), chat("b")], 2, evaluator=given), "a: no score: no reply to score"),
        (lambda given: assert_agreement([{"conversation": "a", "annotator": "b", "useful": 1}], evaluator=given), "labels alone need the project"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_bad_input_of_an_assertion_is_a_sentence(check, words) -> None:
    with pytest.raises((AssertionError, BadInput), match=re.escape(words)):
        check(learned(support_chats()[:10], ["words"]))


def test_labels_of_the_project_are_used_except_those_that_the_evaluator_learned_from() -> None:
    with sample_project() as project:
        project.fit("constant")
        chats = list(project.store.conversations())
        labels = [
            {
                "conversation": each.target.conversation,
                "annotator": each.annotator,
                "question": each.question,
                "value": each.value,
            }
            for each in project.store.labels()
        ]
        for given in (chats, labels):
            with pytest.raises(AssertionError, match="learned from all 12 rated conversations"):
                assert_agreement(given, evaluator=project)
            with pytest.raises(AssertionError, match=r"(?s)accuracy of 'constant' .*41 ratings of 12 conversations"):
                assert_agreement(given, 1, "accuracy", evaluator=project, include_training=True)
