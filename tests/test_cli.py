"""The command line as a user meets it: the whole way, and every wrong input in one line with its exit code."""

from __future__ import annotations

import html
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from commands import accord_json, invoke, printed, read_rows, refused, write, write_rows
from misbehaving_endpoint import answer_any
from new_project import new_project
from processes import Forked, run
from small_sample import sources
from waiting import PATIENCE

from accord import open as open_project
from accord.cli.terminal import Progress
from accord.edges import BadInput
from accord.project import with_settings
from accord.store import Store, Studies
from accord.studies import StudySession
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import tokens_in

CHATS, RATINGS = map(str, sources())
pytestmark = pytest.mark.usefixtures("working_folder")
PLAIN = "folds: 2\nevaluators: {default: {head: mixed}}\n"
"""For what is no matter of which head is fitted, or of how wide its intervals are."""


@cache
def stored(*questions: str) -> bytes:
    """The store into which `accord import` took the sample, with its ratings on all questions or on some alone."""
    ratings = RATINGS
    if questions:
        ratings = "rated.csv"
        pl.read_csv(RATINGS).select("conversation", "annotator", *questions).write_csv(ratings)
    new_project()
    printed("import", CHATS, ratings)
    return Path("accord.db").read_bytes()


def imported(*questions: str) -> None:
    """The sample as it is imported, which is done once."""
    content = stored(*questions)
    new_project()
    Path("accord.db").write_bytes(content)


def test_the_whole_way_by_single_steps() -> None:
    written = accord_json("init", "--prompts", "prompts")["written"]
    assert {"accord.yaml", "rubric.yaml"} < set(written) and all(Path(name).is_file() for name in written)
    assert "kept accord.yaml as it is" in printed("init")
    assert "unknown rubric 'llm-rubirc'" in refused("init", "--rubric", "llm-rubirc")
    settings = Path("accord.yaml").read_text(encoding="utf-8")
    assert settings.count("folds: 5\n") == 1 and settings.count("metrics: [lexical]") == 1
    write("accord.yaml", settings.replace("folds: 5\n", PLAIN).replace("[lexical]", "[words]"))
    assert "40 conversations imported" in printed("import", CHATS, RATINGS)
    again = accord_json("import", RATINGS, CHATS)
    assert again["conversations"] == {"new": 0, "known": 40} and again["labels"]["new"] == 0
    fitted, compared = accord_json("fit", "default"), accord_json("compare")
    rows = {row["evaluator"]: row for row in compared["rows"]}
    assert len(fitted["comparison"]["rows"]) > 2 and "mixture" in rows
    assert all(row == rows[row["evaluator"]] for row in fitted["comparison"]["rows"]), (
        "the same seed gives the same table"
    )
    printed("score", CHATS, "--out", "scores.jsonl", "--panel", "amira", "--panel", "bruno", "--rule", "min")
    assert {row["annotator"] for row in read_rows("scores.jsonl")} == {"min"}
    assert "learned from every conversation" in refused("gate", "--min-mean", "1")
    failing = invoke("gate", "--min-agreement", "0.99", "--min-mean", "1", "--include-training", code=3)
    assert failing.output.count("required 0.99: failed") == 1
    assert failing.stderr.strip() == "accord: gate failed: 2 of 4 conditions not met"
    assert "verdict of default: failed: Not yet" in failing.output
    unproven = ["gate", "--allow-unproven", "--min-within"]
    assert "the gate passes without this proof" in printed(*unproven, "-1")
    assert "1 of 3 conditions" in refused(*unproven, "0.99", "--min-agreement=-1", code=3)
    write("twice.jsonl", 2 * Path(CHATS).read_text(encoding="utf-8"))
    assert "two conversations have the id 'support-001'" in refused("score", "twice.jsonl", "--out", "s.jsonl")


def test_the_report_is_self_contained_and_escapes_what_came_from_outside() -> None:
    evil = "<script>alert(1)</script>{{ 7*7 }}"
    chats = read_rows(CHATS)
    for chat in chats:
        chat["messages"][0]["content"] = evil
        chat["messages"][-1]["content"] += f" {evil}"
    write_rows("evil.jsonl", chats)
    ratings = Path(RATINGS).read_text(encoding="utf-8").replace("amira", '"<img src=x onerror=alert(2)>"')
    Path("ratings.csv").write_text(ratings, encoding="utf-8")
    write("accord.yaml", "metrics: [words]\n" + PLAIN)
    printed("run", "evil.jsonl", "ratings.csv", "--out", "out", "--evaluator", "default")
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert (
        "<script" not in page and "onerror=alert(2)>" not in page and "49" not in page.split("&lt;script&gt;")[1][:60]
    )
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{ 7*7 }}" in page
    assert "http://" not in page.replace("http://www.w3.org/", "") and "https://" not in page.replace(evil, "")
    assert "default-src 'none'" in page


def test_demo_with_a_scripted_judge_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("accord.sample.sources", sources)
    options = (["--details"], [])
    results = [invoke("demo", "--judge", "scripted", "--out", f"judged-{n}", *options[n]) for n in range(2)]
    text, screen = results[0].stdout, results[1].stdout
    assert "judge-expected" not in screen and "All evaluators" not in screen and "All evaluators" in text
    assert any(line.startswith("report: file://") for line in screen.splitlines())
    assert "accord compare --all" in screen.splitlines()[-1]
    assert "The judge is scripted: a reply loses points" in text and "judge-expected" in text
    assert "the judge is scripted, not a model" in results[0].stderr
    assert "plan of the judge: 320 questions in 40 requests" in results[0].stderr
    assert "OPENAI_API_KEY" not in os.environ
    first, second = (Path(f"judged-{place}/scores.jsonl").read_text(encoding="utf-8") for place in range(2))
    assert first == second and "scripted" in html.unescape(Path("judged-0/report.html").read_text(encoding="utf-8"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    assert "unknown judge of the demo 'gpt'. Available: scripted" in refused("demo", "--judge", "gpt", "--out", "other")
    for other in ("--with-models", "--no-judge"):
        assert f"{other} each take" in refused("demo", "--judge", "scripted", other, "--out", "other")
    assert os.environ["OPENAI_API_KEY"] == "sk-own"


@pytest.mark.defaults
def test_demo_and_real_data_are_one_command(data: Path) -> None:
    result = invoke("demo", "--details")
    first, *rest = result.stdout.split("\n\n")
    assert first.startswith(
        "You can judge single new conversations by their scores: scores typically miss a person's rating by 0."
    )
    about = next(part for part in rest if part.startswith("Demo: the conversations")).splitlines()[0]
    assert "a script" in about and about in html.unescape(Path("accord-demo/report.html").read_text(encoding="utf-8"))
    assert "150 conversations, 507 ratings by 4 people" in result.stdout
    assert "accord models pull" in refused("demo", "--with-models", "--out", "other")
    assert sorted(path.name for path in Path("accord-demo").iterdir()) == [
        "accord.db", "accord.db.scores", "accord.yaml", "disputed.csv", "evaluators", "judgments", "report.html",
        "rubric.yaml", "run.json", "scores.jsonl",
    ]  # fmt: skip
    # The network has tests of its own, and so have intervals.
    write("accord.yaml", "metrics: [words]\nrepeats: 1\ndraws: 20\nevaluators: {default: {head: mixed}}\n")
    synth = str(data / "llm_rubric_synth")
    named = ["--evaluator", "default"]  # all that can be made are compared in the demo
    result = json.loads(printed("run", synth, "--recorded", synth, "--out", "real", "--json", *named))
    rows = {row["evaluator"]: row for row in result["comparison"]["rows"]}
    assert rows["default"]["n"] == 662
    assert rows["default"]["rmse"] < 0.73 and rows["default"]["pearson"] > 0.46


def test_fewer_questions_more_labels_groups_and_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with ChatServer(lambda request: completion("3", {"3": 0.5, str(1 + len(str(request)) % 4): 0.4})) as server:
        model = f"models: {{judge: {{mode: logprobs, model: m1, base_url: '{server.url}'}}}}\n"
        write("accord.yaml", f"{model}metrics: [words]\n{PLAIN}")
        imported()
        printed("judge", "--limit", "36")
        printed("fit")
        asked = len(server.requests)
        said = accord_json("score", CHATS, "--out", "few.jsonl", "--ask", "2")
        assert said["scored"] == 40 and len(server.requests) - asked <= 2 * 40
        few = read_rows("few.jsonl")
        assert all("|asked:" in row["signature"] and row["band_low"] <= row["band_high"] for row in few)
        before = len(server.requests)
        assert "unknown annotator 'nobody'" in refused(
            "score", CHATS, "--out", "s.jsonl", "--ask", "2", "--annotator", "nobody"
        )
        assert len(server.requests) == before, "nothing is asked for a score that cannot be"
        assert "--ask needs one annotator" in refused(
            "score", CHATS, "--out", "s.jsonl", "--ask", "2", "--panel", "amira"
        )
        assert "unknown loss 'cubed'" in refused("score", CHATS, "--out", "s.jsonl", "--loss", "cubed")
        printed("score", CHATS, "--out", "median.jsonl", "--loss", "absolute")
        assert {
            json.loads(line)["value"] for line in Path("median.jsonl").read_text(encoding="utf-8").splitlines()
        } <= {1, 2, 3, 4}
        costs = np.array([[0, 1, 5, 9], [2, 0, 1, 5], [4, 2, 0, 1], [9, 4, 1, 0]])
        table = write("costs.csv", "\n".join(",".join(map(str, row)) for row in costs.tolist()))
        for given in (table, "0,1,5,9;2,0,1,5;4,2,0,1;9,4,1,0"):
            printed("score", CHATS, "--out", "decided.jsonl", "--costs", given, "--force")
            for row in read_rows("decided.jsonl"):
                assert row["value"] == 1 + np.argmin(costs @ list(row["distribution"].values()))
                assert "|costs:" in row["signature"]
        parts = ("--out", "decided/", "--costs", table, "--workers", "1")
        printed("score", CHATS, *parts)
        values = pl.read_parquet("decided/**/*.parquet")["value"].to_list()
        assert sorted(values) == sorted(row["value"] for row in read_rows("decided.jsonl"))
        for wrong, message in (
            ("0,1;1,0", "the table of costs has 2 rows; the scale 1, 2, 3, 4 needs 4 rows"),
            ("missing.csv", "--costs: 'missing.csv' is neither a file nor rows of numbers"),
        ):
            assert message in refused("score", CHATS, "--out", "s.jsonl", "--costs", wrong)
        assert "leave out one of them" in refused(
            "score", CHATS, "--out", "s.jsonl", "--costs", table, "--loss", "absolute"
        )
    assert "to fill in: queue.csv" in printed("label", "next", "-n", "3", "--out", "queue.csv")
    rows = pl.read_csv("queue.csv").rows(named=True)
    assert len(rows) == 3 and {row["question"] for row in rows} == {"Q0"}
    assert "unknown annotator 'nobody'" in refused("label", "next", "--annotator", "nobody")
    assert "unknown group 'anotator'. Did you mean 'annotator'?" in refused(
        "compare", "--only", "default", "--by", "anotator"
    )
    groups = accord_json("compare", "--only", "default", "--by", "annotator")["groups_by"]
    assert {group["group"] for group in groups} == set(pl.read_csv(RATINGS)["annotator"])
    assert "worth" in printed("estimate")


def test_settings_are_chosen_inside_the_training_folds() -> None:
    choose = "{own_slopes: [false, true], threshold_spread: [0.1, 0.3]}"
    write(
        "accord.yaml",
        f"metrics: [words]\nevaluators: {{default: {{head: mixed, tune: {choose}}}}}\nfolds: 2\ndraws: 20\n",
    )
    imported("Q0")
    fitted = accord_json("fit")
    assert fitted["comparison"]["rows"][0]["n"] == 127
    assert "slopes:" in fitted["evaluator"]["signature"]
    assert "passed" in printed("gate", "--min-agreement=-1", "--allow-unproven")


def test_scores_say_what_is_missing_and_end_with_5() -> None:
    write("accord.yaml", "metrics: [overlap-documents]\n" + PLAIN)
    imported()
    printed("fit")
    said = printed("score", CHATS, "--out", "scores.jsonl", code=5)
    assert "30 conversations scored" in said and "10 unscored: no evidence; nothing to measure" in said
    gate = ["gate", "--min-mean", "1", "--include-training", "--allow-unproven"]
    failed = invoke(*gate, code=3)
    assert "share of targets that are scored: 0.750, required 1: failed" in failed.stdout
    assert "passed" in printed(*gate, "--max-unscored", "0.3")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["import", "nowhere.jsonl"], "no file nowhere.jsonl"),
        (["import", CHATS, "--format", "sharegtp"], "unknown format 'sharegtp'. Did you mean 'sharegpt'?"),
        (["import", CHATS, "--columns", "role"], "--columns takes OURS=THEIRS, got 'role'"),
        (["fit", "defualt"], "unknown evaluator 'defualt'. Did you mean 'default'?"),
        (["fit", "calibration"], "unknown evaluator 'calibration'. It is now called 'default': write default."),
        (["fit"], "no label on the main question 'Q0': the store sqlite:///accord.db does not exist"),
        (["fit", "label-free"], "no conversations to learn from"),
        (["models", "pull", "smollm2"], "unknown embedded model 'smollm2'. Did you mean 'smollm2-135m'?"),
        (["models", "pull", "--from", "x.whl"], "--from names the file of one model"),
        (["compare"], "no label on the main question 'Q0'"),
        (["judge"], "no source of the project asks a model. Add one to accord.yaml: models: {judge: {mode: logprobs"),
        (["judge", "--source", "isues"], "unknown source 'isues'. Did you mean 'issues'?"),
        (["judge", "--source", "metrics"], "no source of the project asks a model"),
        (["judge", "--batch"], "batches need a judge. Add one to accord.yaml"),
        (["models", "audit"], "no judge to audit. Add one to accord.yaml: models: {judge:"),
        (["compare", "--only", "defualt"], "unknown evaluator 'defualt'. Did you mean 'default'?"),
        (["report", "defualt"], "unknown evaluator 'defualt'. Did you mean 'default'?"),
        (["report"], "no label on the main question 'Q0'"),
        (["fit", "--question", "Q44"], "unknown question 'Q44'"),
        (["fit", "default", "--best"], "--best finds the evaluator to fit; leave out its name"),
        (
            ["fit", "default", "mixture", "--out", "one"],
            "--out names one folder, and 2 evaluators are to be fitted",
        ),
        (["fit", "--set", "folds"], "--set takes KEY=VALUE, got 'folds'; for example sources."),
        (["fit", "--set", "fold=3"], "--set: unknown key 'fold'. Did you mean 'folds'?"),
        (["fit", "--set", "folds=1"], "folds: Input should be greater than or equal to 2, got 1"),
        (["fit", "--set", "folds.inner=3"], "--set: folds: Input should be a valid integer"),
        (["fit", "--set", "seed=[1"], "--set seed is not valid YAML"),
        (["fit", "--set", "sources.issues.taxonmy=x"], "unknown key 'taxonmy'. Did you mean 'taxonomy'?"),
        (["fit", "--set", "sources.isues.taxonomy=x"], "unknown source 'isues'. Did you mean 'issues'?"),
        (["label", "next"], "no conversation is left to label; import more: accord import chats.jsonl"),
        (["estimate"], "no conversation has a label on 'Q0'"),
        (["export", "out.txt"], "the suffix is one of .jsonl, .csv, .parquet"),
        (["export", "out.csv", "--kind", "persn"], "unknown kind of annotation 'persn'. Did you mean 'person'?"),
        (["gate", "--min-agreement", "0.5"], "nothing was compared yet"),
        (["gate"], "no condition given: pass --min-agreement"),
        (["gate", "--min-agreement", "30"], "--min-agreement 30: a correlation lies between -1 and 1"),
        (["gate", "--min-within=-1.5"], "--min-within -1.5: a correlation lies between -1 and 1"),
        (["gate", "--min-mean", "30"], "--min-mean 30: scores on this scale lie between 1 and 4"),
        (["gate", "--min-mean", "1"], "there are no scores yet"),
        (["score", CHATS, "--out", "s.jsonl"], "holds no evaluator"),
        (["compare", "--config", "nowhere.yaml"], "cannot read nowhere.yaml"),
    ],
)
def test_wrong_input_ends_in_one_line(arguments: list[str], says: str) -> None:
    new_project()
    assert says in refused(*arguments)


@pytest.mark.parametrize(
    ("study", "error"),
    [
        ("a/b: {}", "study 'a/b': the name of a study is text of 1 to 60 letters"),
        ("a: {items: {filter: {system: 1}}}", "study 'a': items.filter.system: Input should be a valid tuple, got 1"),
        (
            "a: {annotators_per_itm: 2}",
            "study 'a': unknown key 'annotators_per_itm'. Did you mean 'annotators_per_item'?",
        ),
        ("a: {level: pair, issue_taxonomy: soda-eval}", "study 'a': issues are marked in single conversations"),
        (
            "a: {chat: {topics: [x], assistants: {b: {model: m, base_url: '${NOT_SET_ANYWHERE}'}}}}",
            "study 'a': chat.assistants.b.base_url: an environment variable",
        ),
        ("a: null", "study 'a': should be a mapping of keys to values"),
    ],
)
@pytest.mark.attack
def test_a_broken_study_blocks_no_command_and_is_named_once(study: str, error: str) -> None:
    write("accord.yaml", "models: {}\n")
    imported()
    write("accord.yaml", f"studies:\n  {study}\n  good: {{title: Fine}}\n")
    for arguments in (["users", "list", "--json"], ["watch", "--json"]):
        result = invoke(*arguments)
        assert result.stderr.count(f"note: {error}") == 1 and "study '" not in result.stdout
    with open_project() as opened:
        assert list(opened.config.studies) == [yaml.safe_load(f"{{{study}}}").popitem()[0], "good"]
        assert (
            with_settings(opened.config, ["studies.good.annotators_per_item=2"]).broken_studies
            == opened.config.broken_studies
        )
        studies = Studies(opened.store)
        assert StudySession(opened, "good", studies).title == "Fine"
        with pytest.raises(BadInput, match=re.escape(error)):
            StudySession(opened, *opened.config.broken_studies, studies)
        studies.close()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("stor: x\n", "unknown key 'stor'. Did you mean 'store'?"),
        ("models: {judge: {mode: logprobs, modell: x}}\n", "unknown key 'modell'. Did you mean 'model'?"),
        ("models: {judge: {mode: guessing}}\n", "models.judge.mode: allowed: decisions, systemone, logprobs"),
        ("models: {jugde: {model: m}}\n", "unknown role 'jugde'. Did you mean 'judge'?"),
        ("models: {judge: {mode: logprobs}}\n", "no model for role 'judge'. Add one to accord.yaml: models: {judge: {model: NAME}}"),
        ("models: {judge: {model: m}}\n", "which gives distributions. Add one to accord.yaml: models: {judge: {mode: logprobs}}"),
        ("models: {judge: {mode: recorded}}\n", "no recording for role"),
        ("models: {judge: {mode: logprobs, model: m, base_url: ''}}\n", "base_url: an endpoint begins with http://"),
        ("models: {judge: {mode: logprobs, model: m, base_url: 'localhost:8000'}}\n", "base_url: an endpoint begins with http://"),
        ("models: {judge: {mode: logprobs, model: m}}\n", "set OPENAI_API_KEY"),
        ("sources: {isues: {}}\n", "unknown source 'isues'. Did you mean 'issues'?"),
        ("sources: {issues: {taxonmy: x}}\n", "unknown key 'taxonmy'. Did you mean 'taxonomy'?"),
        ("folds: 1\n", "folds: Input should be greater than or equal to 2, got 1"),
        ("rubric: llm-rubirc\n", "unknown rubric 'llm-rubirc'. Did you mean 'llm-rubric'?"),
        ("store: mysql://x/y\n", "a store is SQLite or PostgreSQL, got mysql"),
        ("store: '${NOT_SET_ANYWHERE}'\n", "store: an environment variable that it names as ${...} is not set"),
        ("metrics: [lenght]\n", "unknown metric 'lenght'"),
        ("evaluator: defualt\n", "unknown evaluator 'defualt'. Did you mean 'default'?"),
        ("evaluator: calibration\n", "unknown evaluator 'calibration'. It is now called 'default'"),
        ("evaluators: {mine: {heda: mixed}}\n", "unknown key 'heda'. Did you mean 'head'?"),
        ("evaluators: {mine: {head: mixd}}\n", "unknown head 'mixd'. Did you mean 'mixed'?"),
        ("evaluators: {mine: {sources: [rubrik]}}\n", "unknown source 'rubrik'. Did you mean 'rubric'?"),
        ("evaluators: {mine: {settings: {domain_corelation: 1}}}\n", "unknown setting of the head 'auto' 'domain_corelation'. Did you mean 'domain_correlation'?"),
        ("evaluators: {mine: {tune: {slopes: [true]}}}\n", "unknown setting of the head 'auto' 'slopes'. Did you mean 'own_slopes'?"),
        ("studies: [a]\n", "studies: Input should be a valid dictionary"),
        ("- a list\n", "accord.yaml"),
        ("", "accord.yaml is empty"),
    ],
)  # fmt: skip
@pytest.mark.attack
def test_a_wrong_project_file_ends_in_one_line(config: str, says: str) -> None:
    imported()
    write("accord.yaml", config)
    command = "judge" if config.startswith("models") else "fit" if config.startswith("evaluator:") else "compare"
    said = refused(command)
    assert says in said and "no evaluator can be made" not in said


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("evaluator: {method: mixture}\n", "`evaluator` is a name, such as default; its settings are under"),
    ],
)  # fmt: skip
def test_the_keys_of_the_first_version_are_refused_with_what_is_written_instead(config: str, says: str) -> None:
    write("accord.yaml", config)
    said = refused("fit")
    assert said.startswith("accord: accord.yaml: ") and says in said


def labels(*rows: str) -> str:
    Path("labels.csv").write_text(
        "conversation,annotator,question,value\n" + "".join(row + "\n" for row in rows), encoding="utf-8"
    )
    return "labels.csv"


def test_labels_off_the_scale_and_of_unknown_conversations() -> None:
    new_project()
    printed("import", CHATS)
    good = "support-001,ann,Q0,3"
    assert "labels.csv, line 3: label of 'ann' on support-001, question 'Q0': got 7, allowed: 1, 2, 3, 4" in refused(
        "import", labels(good, "support-001,ann,Q0,7")
    )
    assert "no conversation 'nobody' in the store; import it first" in refused(
        "import", labels(good, "nobody,ann,Q0,3")
    )
    said = json.loads(
        printed("import", labels(good, "nobody,ann,Q0,3", "support-001,ann,Q0,9"), "--skip-bad-rows", "--json")
    )
    assert said["labels"]["new"] + said["labels"]["known"] == 1 and said["skipped"] == 2


def test_good_rows_and_labels_before_a_bad_one_are_kept() -> None:
    new_project()
    good = Path(CHATS).read_text(encoding="utf-8").splitlines()[:3]
    write("chats.jsonl", "\n".join([*good, "{broken"]) + "\n")
    error = refused("import", "chats.jsonl")
    assert "chats.jsonl, line 4: not JSON" in error and "; --skip-bad-rows leaves bad rows out" in error
    assert "0 conversations imported, 3 already there" in printed("import", "chats.jsonl", "--skip-bad-rows")
    rows = ["support-001,ann,Q0,3", "support-002,ann,Q0,3"]
    refused("import", labels(*rows, "support-003,ann,Q0,9"))
    assert accord_json("import", labels(*rows, "support-003,ann,Q0,4"))["labels"] == {"new": 1, "known": 2}


@pytest.mark.posix
def test_a_failing_score_leaves_the_file_that_was_there() -> None:
    write("keep.jsonl", "precious")
    write("accord.yaml", PLAIN)
    imported()
    printed("fit")
    assert "no file nowhere.jsonl" in refused("score", "nowhere.jsonl", "--out", "keep.jsonl", "--force")
    write("bad.jsonl", Path(CHATS).read_text(encoding="utf-8") + "{broken\n")
    assert "line 41: not JSON" in refused("score", "bad.jsonl", "--out", "keep.jsonl", "--force")
    assert Path("keep.jsonl").read_text(encoding="utf-8") == "precious"
    for arguments, says in (
        ("--annotator amirra", "unknown annotator 'amirra'. Did you mean 'amira'? Available: amira, bruno, chen, dilek."),
        ("--panel amira --rule median", "unknown panel rule 'median'"),
        ("--annotator amira --panel bruno", "exclude each other"),
        ("--rule max", "name its members with --panel"),
    ):  # fmt: skip
        assert says in refused("score", CHATS, "--out", "s.jsonl", *arguments.split())
    assert "the suffix is one of .jsonl, .csv, .parquet" in refused("score", CHATS, "--out", "s.txt")
    for nowhere in ("bad.jsonl/scores.jsonl", "/proc/nowhere/scores.jsonl"):
        refused("score", CHATS, "--out", nowhere)


def test_one_column_map_serves_conversations_and_labels() -> None:
    new_project()
    Path("t.csv").write_text("cid,prompt,response\nx,hello,hi\n", encoding="utf-8")
    Path("l.csv").write_text("cid,who,Q0,Quality\nx,ann,3,2\n", encoding="utf-8")
    columns = ["--columns", "conversation=cid", "--columns", "annotator=who"]
    said = printed("import", "t.csv", "l.csv", *columns, "--format", "table")
    assert "1 conversation imported" in said and "1 label imported" in said
    assert "unknown column to read as 'annotator': 'whom'" in refused("import", "t.csv", "--columns", "annotator=whom")
    Path("l2.csv").write_text("cid,who,question,value\nx,ann,Quality,2\n", encoding="utf-8")
    found = accord_json("import", "l2.csv", *columns)
    assert found["labels"]["new"] == 1 and found["other_questions"] == {"Quality": 1}
    assert "give a number" in refused("gate", "--min-agreement", "nan")


def test_usage_errors_end_with_2() -> None:
    invoke("score", code=2)


@pytest.mark.defaults
def test_plugins_and_schema() -> None:
    listed = accord_json("plugins")
    assert set(listed) == {
        "formats", "metrics", "sources", "heads", "judges", "selection policies", "selectors", "rivals", "presets", "rubrics",
        "recognizers",
    }  # fmt: skip
    assert set(listed["sources"]) == {
        "rubric", "metrics", "likelihood", "meaning", "issues", "learned-rubric", "in-context",
        "lexical", "bank", "steps", "embedding", "reference", "bertscore",
    }  # fmt: skip
    assert {"correctness", "all"} <= set(listed["selection policies"])
    assert set(listed["presets"]) == {
        "default", "mixture", "svr", "issues", "learned-rubric", "in-context", "label-free",
    }  # fmt: skip
    assert all(says.strip() for found in listed.values() for says in found.values())
    schema: dict[str, Any] = json.loads(printed("schema"))
    assert schema["additionalProperties"] is False and {"models", "sources"} < set(schema["properties"])
    assert schema["properties"]["sources"]["properties"]["issues"]["additionalProperties"] is False
    published = Path(__file__).parents[1] / "docs" / "accord.schema.json"
    assert json.loads(published.read_text(encoding="utf-8")) == schema, "run: make docs"


def process(*arguments: str, program: Sequence[str] = ("-m", "accord")) -> subprocess.Popen[str]:
    return Forked([*program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


STOPS = """
import time
from accord.cli import main
from accord.store import Store
add, calls = Store.add_conversation_rows, []
def slowly(self, rows, *rest):
    calls.append(1)
    if len(calls) == 3:
        add(self, rows[:50], *rest)
        print("in the middle", flush=True)
        time.sleep(1e6)
    return add(self, rows, *rest)
Store.add_conversation_rows = slowly
main()
"""
"""The command line, which waits in the middle of the third part that it writes."""


@pytest.mark.posix
def test_an_interrupt_in_the_middle_keeps_what_was_done_and_the_command_goes_on() -> None:
    new_project()
    row = json.loads(Path(CHATS).read_text(encoding="utf-8").splitlines()[0])
    with Path("many.jsonl").open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps({**row, "id": f"c{i:05d}"}) + "\n" for i in range(5000))
    running = process("import", "many.jsonl", program=("-c", STOPS))
    assert running.stdout is not None and running.stdout.readline() == "in the middle\n"
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130, errors
    assert errors.strip().splitlines()[-1].startswith("accord: interrupted. Finished work is stored")
    assert "Traceback" not in errors
    result = accord_json("import", "many.jsonl")["conversations"]
    assert 0 < result["known"] < 5000 and result["new"] + result["known"] == 5000


def test_a_full_disk_ends_in_one_line() -> None:
    new_project()
    row = json.loads(Path(CHATS).read_text(encoding="utf-8").splitlines()[0])
    Path("many.jsonl").write_text(
        "".join(json.dumps({**row, "id": f"c{i}"}) + "\n" for i in range(5000)), encoding="utf-8"
    )
    limited = run_with_full_disk(2**20, "import", "many.jsonl")
    assert limited.returncode == 1
    assert "Traceback" not in limited.stderr and limited.stderr.count("\n") == 1, limited.stderr
    assert "Earlier writes are kept" in limited.stderr


def run_with_full_disk(size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that can make no file larger than `size` bytes."""
    limits = (
        "import resource, runpy, signal, sys\n"
        "sys.dont_write_bytecode = True\n"  # no bytecode file is cut off
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
        "runpy.run_module('accord', run_name='__main__')"
    )
    result: subprocess.CompletedProcess[str] = run(["-c", limits, *arguments], text=True)
    return result


@pytest.mark.parametrize("has_log", [False, True], ids=["closed", "with-log"])
def test_store_is_readable_on_a_full_disk(has_log: bool) -> None:
    write("accord.yaml", FEW)
    imported("Q0")
    database = sqlite3.connect("accord.db", isolation_level=None)
    if has_log:  # as a process that was killed leaves it
        database.execute("PRAGMA wal_autocheckpoint=0")
        database.execute("INSERT INTO claims VALUES ('s256:x', 'killed', '2026-01-01T00:00:00.000+00:00')")
        shutil.copytree(".", "copy")
        os.chdir("copy")
        Path("accord.db-shm").unlink()
        assert Path("accord.db-wal").stat().st_size
    database.close()
    limit = 20_000  # the index that processes share has 32 kB
    exported = run_with_full_disk(limit, "export", "small.csv", "--kind", "metric")
    assert exported.returncode == 0 and "it is opened for reading" in exported.stderr, exported.stderr
    checked = run_with_full_disk(limit, "store", "check", "--json")
    rows = json.loads(checked.stdout)["rows"]
    assert rows["conversations"] and rows["claims"] == has_log, "what waits in the log is read too"
    reported = run_with_full_disk(limit, "report", "curved", "--out", "report.html")
    assert "the store (" not in reported.stderr, "the report itself is larger than the limit, the store is read"
    printed("store", "check")


def test_a_judging_run_is_priced_before_and_capped_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with ChatServer(answer_any) as server:
        write("accord.yaml", f"models: {{judge: {{mode: decisions, model: m1, base_url: '{server.url}'}}}}\n")
        imported()
        plan = accord_json("judge", "--plan")
        assert plan["requests"] == 40 and plan["questions"] == 30 * 9 + 10 * 5 and plan["unpriced"] == "m1"
        assert not server.requests, "a plan asks nobody"
        assert "price of 'm1' unknown; add it to prices.yaml" in printed("judge", "--plan")
        Path("prices.yaml").write_text("models: {m1: {input: 1, output: 2}}\n", encoding="utf-8")
        assert "in money" in printed("judge", "--plan")
        said = refused("judge", "--max-requests", "25", code=4)
        assert "the next request would exceed the budget of 25 requests" in said
        assert len(server.requests) == 25
        half = accord_json("judge", "--plan")
        assert half["requests"] == 15 and half["answered"] > 0
        result = accord_json("judge")
        assert len(server.requests) == 40 and result["spent"]["requests"] == 15
        sent = [tokens_in(each["input"], json.dumps(each["questions"])) for each in server.requests[25:]]
        assert result["spent"]["money"] == pytest.approx(sum(sent) / 1e6)


FEW = "metrics: [words, ciu]\nfolds: 2\ndraws: 20\nevaluators: {plain: {head: mixed}, curved: {head: curves}}\n"


def test_several_evaluators_are_fitted_one_after_the_other() -> None:
    write("accord.yaml", FEW)
    imported("Q0")
    plans = accord_json("fit", "plain", "curved", "--plan")
    assert [each["requests"] for each in plans] == [0, 0] and not Path("evaluators").exists()
    said = printed("fit", "plain", "curved")
    assert "saved in evaluators/plain" in said and "saved in evaluators/curved" in said
    assert sorted(path.name for path in Path("evaluators").iterdir()) == ["curved", "plain"]
    told = accord_json("fit", "plain", "curved")
    assert [one["folder"] for one in told] == ["evaluators/plain", "evaluators/curved"]
    assert [one["comparison"]["rows"][0]["evaluator"] for one in told] == ["plain", "curved"]
    curved = ["--evaluator", "evaluators/curved"]
    assert "40 conversations scored" in printed("score", CHATS, "--out", "s.jsonl", *curved)
    assert "needs a calibration" in refused("score", CHATS, "--out", "s.csv", "--ask", "2", *curved)
    assert accord_json("report", "curved", "--out", "curved.html")["report"] == "curved.html"
    assert "curved" in Path("curved.html").read_text(encoding="utf-8")
    printed("report", "plain", "--out", "drawn.html", "--curve-draws", "3")
    assert "mean and standard deviation over 3 random subsets" in Path("drawn.html").read_text(encoding="utf-8")
    assert "'--curve-draws': Input should be greater" in invoke("report", "--curve-draws", "0", code=2).stderr
    assert "saved in elsewhere" in printed("fit", "curved", "--out", "elsewhere")
    assert "40 conversations scored" in printed("score", CHATS, "--out", "s.jsonl"), "the one fitted last"


def test_fit_best_learns_the_evaluator_that_compare_decides_for() -> None:
    write("accord.yaml", FEW)
    imported("Q0")
    compared = accord_json("compare")
    decision = compared["decision"]
    best = decision["evaluator"]
    assert decision["status"] == "not enough labels" and best == "default"
    assert decision["text"] in printed("compare")
    assert f"saved in evaluators/{best}" in printed("fit", "--best")
    assert [path.name for path in Path("evaluators").iterdir()] == [best]


def test_settings_of_one_run_do_not_need_a_file() -> None:
    write("accord.yaml", FEW)
    imported("Q0")
    settings = [
        "--set",
        "folds=3",
        "--set",
        "metrics=[turns]",
        "--set",
        "evaluators.plain.settings.threshold_spread=0.2",
    ]
    fitted = accord_json("fit", "plain", *settings)
    assert fitted["comparison"]["folds"] == 3
    assert Path("accord.yaml").read_text(encoding="utf-8") == FEW, "the file stays as it is"
    again = accord_json("fit", "plain")
    assert again["comparison"]["folds"] == 2
    assert again["evaluator"] != fitted["evaluator"]
    compared = accord_json("compare", "--only", "plain", *settings)
    assert compared["folds"] == 3


def test_another_question_than_the_main_one_is_learned() -> None:
    write("accord.yaml", FEW)
    imported("Q0", "Q3")
    fitted = accord_json("fit", "plain", "--question", "Q3", "--out", "third")
    assert fitted["comparison"]["question"] == "Q3"
    third = pl.read_csv(RATINGS)["Q3"]
    assert fitted["comparison"]["ratings"] == (third != "NA").sum() == 96
    printed("score", CHATS, "--out", "s.jsonl", "--evaluator", "third")
    assert all(
        "|question:Q3|" in json.loads(line)["signature"]
        for line in Path("s.jsonl").read_text(encoding="utf-8").splitlines()
    )


def test_evaluators_are_compared_in_processes_of_their_own() -> None:
    write("accord.yaml", FEW)
    imported("Q0")
    one, two = (accord_json("compare", "--only", "plain", "--only", "curved", "--jobs", jobs)
                for jobs in "12")  # fmt: skip
    assert one == two
    systems = [row["evaluator"] for row in one["rows"]]
    assert {"plain", "curved"} < set(systems) and not {"default", "mixture"} & set(systems)
    alone = printed("compare", "--only", "curved")
    assert "\ncurved " in alone and "\nplain " not in alone and "not enough labels: on 127 ratings" in alone
    everything = printed("compare")
    assert "not compared: mixture: the same as curved" in everything
    assert (
        "not compared: in-context: no model configured for role 'scorer': models: {scorer: {model: NAME}}" in everything
    )


def test_what_was_exported_is_imported_again() -> None:
    new_project()
    imported()
    said = accord_json("export", "kept.jsonl")
    assert said["annotations"]["person"] == len(Path("kept.jsonl").read_text(encoding="utf-8").splitlines()) > 1000
    assert f"{said['annotations']['person']} by people" in printed("export", "people.csv", "--kind", "person")
    write("accord.yaml", "store: sqlite:///other.db\n")
    printed("import", CHATS)
    counted = accord_json("import", "kept.jsonl")["annotations"]
    assert counted == {"new": said["annotations"]["person"], "known": 0}
    printed("export", "again.jsonl")
    assert Path("again.jsonl").read_bytes() == Path("kept.jsonl").read_bytes()


# --- files that nobody prepared -----------------------------------------------------------------------------------

QUICK = ["--set", "draws=20", "--set", "metrics=[words]", "--set", "folds=2"]
"""Settings of `run` that take as little time as possible."""


def talks(count: int = 24, **beside: Any) -> list[dict[str, Any]]:
    """Conversations as JSON, each with what `beside` makes of its place."""
    return [
        {
            "id": f"c{place}",
            "messages": [
                {"role": "user", "content": f"Wo ist Paket {place}?"},
                {"role": "assistant", "content": f"Es kommt am {place}. Mai, " + "sehr " * (place % 5) + "bald."},
            ],
            **{name: make(place) for name, make in beside.items()},
        }
        for place in range(count)
    ]


def chats(name: str = "chats.jsonl", count: int = 24, **beside: Any) -> str:
    return write_rows(name, talks(count, **beside))


def asked() -> dict[str, dict[str, Any]]:
    """The questions of the rubric that accord.yaml names."""
    named = yaml.safe_load(Path("accord.yaml").read_text(encoding="utf-8"))["rubric"]
    return {
        question["id"]: question for question in yaml.safe_load(Path(named).read_text(encoding="utf-8"))["questions"]
    }


@pytest.mark.parametrize("labels", [True, False], ids=["from labels", "without labels"])
def test_init_offers_narrow_questions(labels: bool) -> None:
    rows = "".join(f"c{place},ann,{place % 5 + 1},{place % 2}\n" for place in range(20))
    given = ["--from", write("l.csv", f"chat_id,rater,stars,Polite\n{rows}"), "--main", "stars"] if labels else []
    accord_json("init", "--rubric", "narrow-questions", *given)
    questions = asked()
    main = {"stars", "Polite"} if labels else {"overall"}
    narrow = {name: each for name, each in questions.items() if name not in main}
    assert main < set(questions) and len(narrow) == 10 - labels, "the labels answer one of them"
    assert all(each["scale"] == "binary" and each["options"] == {0: "No", 1: "Yes"} for each in narrow.values())


def test_init_from_labels_writes_a_rubric_that_fits_them() -> None:
    rows = [
        f"c{i},ann,{i % 4 + 1},{['no', 'yes'][i % 2]},{['kind', 'cold', 'rude'][i % 3]},{i * 4.5},{i * 4},text {i}"
        for i in range(24)
    ]
    labels = write("l.csv", "chat_id,rater,stars,resolved,tone,score,quality,comment\n" + "\n".join(rows) + "\n")
    found = accord_json("init", "--from", labels, "--main", "resolved")
    questions = asked()
    assert set(questions) == {"stars", "resolved", "tone", "score", "quality"} and found["main"] == "resolved"
    assert list(questions["stars"]["options"]) == [1, 2, 3, 4] and questions["stars"]["scale"] == "ordinal"
    assert questions["resolved"]["scale"] == "binary" and questions["resolved"]["options"] == {0: "no", 1: "yes"}
    assert questions["tone"]["scale"] == "nominal" and set(questions["tone"]["options"]) == {"kind", "cold", "rude"}
    assert [(questions[q]["scale"], questions[q]["low"], questions[q]["high"]) for q in ("score", "quality")] == [
        ("real", 0.0, 104.0), ("real", 0.0, 100.0),
    ]  # fmt: skip
    said = printed("import", chats(), labels)
    assert "24 conversations imported" in said and "120 labels imported" in said


def test_the_main_question_is_guessed_and_said_where_nobody_names_it() -> None:
    chats()
    rows = "".join(f"c{i},tone,{i % 3 + 1}\nc{i},overall,{i % 5 + 1}\n" for i in range(10))
    said = printed("init", "--from", write("l.csv", "id,question,value\n" + rows))
    assert "overall (main): ordinal, 1, 2, 3, 4, 5; 10 labels" in said
    assert "the main question is 'overall' (a guess; --main names another: tone, overall)" in said
    assert "chats.jsonl" not in said and "accord import CONVERSATIONS l.csv" in said
    assert printed("init", chats(), "--from", "l.csv").endswith("Next: accord import l.csv chats.jsonl\n")
    assert "unknown question 'tine'. Did you mean 'tone'?" in refused("init", "--from", "l.csv", "--main", "tine")
    assert "--main" in refused("init", "--main", "tone") and "every answer is '3'" in refused(
        "init", "--from", write("same.csv", "id,rating\na,3\nb,3\n")
    )


def test_init_from_labels_leaves_the_rubric_file_as_it_is() -> None:
    printed("init")
    before = Path("rubric.yaml").read_text(encoding="utf-8")
    labels = write("l.csv", "id,rater,helpful\n" + "".join(f"c{i},ann,{i % 2}\n" for i in range(8)))
    said = printed("init", "--from", labels)
    assert "wrote rubric-from-labels.yaml" in said and "changed accord.yaml: rubric: rubric-from-labels.yaml" in said
    assert Path("rubric.yaml").read_text(encoding="utf-8") == before and list(asked()) == ["helpful"]
    assert "8 labels imported" in printed("import", chats(), labels)


def test_positions_are_said_and_may_be_read_as_one_crowd() -> None:
    new_project()
    rows = "".join(f"c{i},r{k},Q0,{(i + k) % 4 + 1}\n" for i in range(4) for k in (1, 2))
    labels = write("l.csv", "id,rater,question,value\n" + rows)
    result = invoke("import", chats(), labels)
    assert "annotators r1 to r2 look like positions in a list" in result.stderr
    printed("import", labels, "--anonymous")
    kept = Store("sqlite:///accord.db")
    assert kept.labels().annotators == ["r1", "r2", "unnamed"]
    kept.close()


def test_speakers_without_an_assistant_are_said_and_mapped() -> None:
    new_project()
    rows = [{"id": "c", "messages": [{"role": "alpha", "content": "a"}, {"role": "beta", "content": "b"}]}]
    name = write("two.jsonl", json.dumps(rows[0]) + "\n")
    result = invoke("import", name)
    assert "alpha, beta speak" in result.stderr and "--role NAME=assistant" in result.stderr
    assert "--role takes THEIRS=OURS, got beta=robot" in refused("import", name, "--role", "beta=robot")


@pytest.mark.parametrize("is_text", [False, True])
def test_roles_that_nobody_has_are_named_with_the_roles_found(is_text: bool) -> None:
    new_project()
    turns = [("Ann", "My bill is wrong."), ("Acme Support", "We correct it."), ("Ann", "Thank you.")]
    if is_text:
        name = write("chat.txt", "".join(f"{role}: {content}\n" for role, content in turns))
    else:
        messages = [{"role": role, "content": content} for role, content in turns]
        name = write("chat.jsonl", json.dumps({"id": "c", "messages": messages}) + "\n")
    said = refused("import", name, "--role", "Acme Suport=assistant", "--role", "Ann=user")
    assert "no conversation has the role 'Acme Suport'. Roles found: 'Ann', 'Acme Support'" in said
    assert "no imports yet" in printed("import", "--list")
    known = write_rows("known.jsonl", [{"id": "k", "prompt": "Hi.", "response": "Hello!"}])
    printed("import", known, "--role", "operator=assistant")
    printed("import", "--undo")
    result = invoke("import", name, "--role", "Acme Support=assistant", "--role", "Ann=user")
    assert "no conversation has the role" not in result.stderr


def test_training_conversations_are_known_with_and_without_their_mapped_roles() -> None:
    new_project()
    rows = [
        {"id": row["id"], "messages": [{**turn, "role": {"user": "cust", "assistant": "agnt"}[turn["role"]]}
                                       for turn in row["messages"]]}
        for row in talks(16)
    ]  # fmt: skip
    name = write_rows("roles.jsonl", rows)
    ratings = "".join(f"{row['id']},{by},Q0,{place % 4 + 1}\n" for place, row in enumerate(rows) for by in "ab")
    printed("import", name, write("l.csv", "id,annotator,question,value\n" + ratings), "--role", "agnt=assistant")
    printed("fit", "default", "--set", "draws=20", "--set", "folds=2", "--set", "metrics=[words]")

    def scored(*more: str) -> tuple[dict[str, Any], str]:
        result = invoke("score", name, "--out", "s.jsonl", *more)
        found = read_rows("s.jsonl")
        assert [row["in_training"] for row in found] == [True] * 16
        return {row["conversation"]: row["value"] for row in found}, result.stderr

    _, said = scored()
    assert "cust, agnt speak" in said and "--role NAME=assistant" in said
    values, said = scored("--role", "agnt=assistant", "--role", "agt=user")
    assert "no conversation has the role 'agt'. Roles found: 'cust', 'agnt'" in said and "speak" not in said
    printed("score", name, "--out", "parts/", "--workers", "1", "--role", "agnt=assistant")
    assert "holds other scores (--role: " in refused("score", name, "--out", "parts/", "--workers", "1")
    printed("export", "merged.jsonl", "--scores", "parts")
    merged = read_rows("merged.jsonl")
    assert {row["conversation"]: row["value"] for row in merged} == pytest.approx(values)
    assert all(row["in_training"] for row in merged)

    with open_project() as opened:
        rows_scored = list(opened.score(rows, roles={"agnt": "assistant"}))
        assert {row["conversation"]: row["value"] for row in rows_scored} == pytest.approx(values)
        with pytest.raises(BadInput, match="got agnt=robot"):
            opened.score(rows, roles={"agnt": "robot"})

    for place in range(2):
        write(f"folder/t{place}.txt", "Ann: My bill is wrong.\nAcme Support: We correct it.\nAnn: Thank you.\n")
    write("folder/README.txt", "Chats of May.\n")
    assert refused("score", "folder", "--out", "s.jsonl").endswith(
        "accord score folder --out scores/, then accord export s.jsonl --scores scores/"
    )
    printed("score", "folder", "--out", "scores/", "--workers", "1", "--role", "Acme Support=assistant")
    printed("export", "s.jsonl", "--scores", "scores/")
    found = read_rows("s.jsonl")
    assert [row["conversation"] for row in found] == ["t0", "t1"]
    assert not any(row["in_training"] for row in found)


def whole(*files: str) -> dict[str, Any]:
    """What `accord run` says of some files, after a look at what it leaves behind."""
    said: dict[str, Any] = json.loads(printed("run", *files, "--out", "out", "--json", *QUICK))
    scores = read_rows("out/scores.jsonl")
    assert Path("out/report.html").stat().st_size > 10_000 and len(scores) == said["scored"]["scored"]
    assert all(isinstance(row["value"], int | float) for row in scores)
    return {**said, "turns": {row["turn"] for row in scores}}


def test_run_on_labels_in_a_folder_beside_empty_and_unreadable_files() -> None:
    chats("d/chats.jsonl")
    rows = [f"c{i},{who},{(i + k) % 5 + 1}" for i in range(24) for k, who in enumerate(("ann", "ben")) if i % 7]
    write("d/l.csv", "chat_id,rater,Zufriedenheit\n" + "\n".join([*rows, rows[0], "c1,cyd,"]) + "\n")
    write("d/empty.csv", "")
    write("d/strange.json", '{"a": 1}')
    write("d/notes.md", "# notes")
    done = whole("d")
    assert done["comparison"]["question"] == "Zufriedenheit" and done["turns"] == {None}
    assert done["imported"]["labels"]["new"] == len(rows) + 1
    passed = [line for line in done["notes"] if line.startswith("skipped: ")]
    assert len(passed) == 2 and "empty.csv is empty" in passed[0] and "strange.json" in passed[1]


def test_run_on_thumbs_at_single_replies() -> None:
    rows = talks()
    for place, row in enumerate(rows):
        row["messages"] += [{"role": "user", "content": "Danke"}, {"role": "assistant", "content": f"Gern, {place}"}]
        row["messages"][1]["feedback"] = "thumbs_up" if place % 3 else "thumbs_down"
    name = write("chats.json", json.dumps(rows, indent=1))
    done = whole(name)
    assert done["scored"]["level"] == "turn" and done["turns"] == {1} and done["scored"]["scored"] == 24
    assert done["comparison"]["question"] == "feedback"
    every = whole(name, "--turns", "all")
    assert every["turns"] == {1, 3} and every["scored"]["scored"] == 48 and every["scored"]["rated"] == 24


def test_run_on_one_table_with_transcripts_and_scores_to_a_hundred() -> None:
    lines = [
        f'k{i},"Kunde: Wo ist Paket {i}?\nBerater: {"sehr " * (i % 6)}bald am {i}.",{17 * i % 101}' for i in range(24)
    ]
    done = whole(write("calls.csv", "id,transcript,score\n" + "\n".join(lines) + "\n"))
    assert done["imported"]["labels"]["new"] == 24 and done["scored"]["scored"] == 24
    assert "how well people predict each other is unknown" in json.dumps(done["verdict"]["checks"])
    assert "24 conversations, 24 ratings by 1 person (agreement of people: " in printed(
        "run", "calls.csv", "--out", "out", "--details", *QUICK
    )


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("chats.jsonl", '{"id": "c", "messages": [{"role": "user", "content": "a"}]}\n', "no ratings in chats.jsonl: no rating column recognized"),
        ("empty.csv", "", "empty.csv is empty"),
        ("few.csv", "id,prompt,response,rating\na,hi,yo,3\nb,hi,ho,4\n", "2 labels on 'rating' have evidence and no judge answered"),
        ("l.csv", "id,rater,rating\nc,ann,3\nd,ann,4\n", "only labels"),
    ],
)  # fmt: skip
def test_run_ends_in_one_line_where_there_is_nothing_to_learn_from(name: str, content: str, says: str) -> None:
    assert says in refused("run", write(name, content), "--out", "out")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_in_a_terminal_shows_count_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("judged", 3000) as progress:
        progress.at(1000)
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"judged.*1,000 of 3,000\s+[\d,.]+/s\s+\d+:\d\d left", shown)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("rows read") as progress:
        progress.at(7)
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"rows read\s+7\s+[\d,.]+/s", shown) and "left" not in shown


def test_judging_knows_how_much_there_is_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    new_project()
    printed("import", chats(), rated_c("Q0"))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with ChatServer(answer_any) as server:
        config = f"models: {{judge: {{mode: decisions, model: m1, base_url: '{server.url}'}}}}\n"
        write("accord.yaml", config)
        steps: list[None] = []
        with open_project("accord.yaml") as opened:
            total = opened.plan_judge().steps
            opened.judge(on_step=lambda: steps.append(None))
            assert total == len(steps) == 24


def test_traces_that_yield_nothing_end_with_what_to_do() -> None:
    new_project()
    quiet = [
        {"span_id": str(place), "trace_id": "t", "attributes": {"gen_ai.operation.name": "chat"}} for place in (1, 2)
    ]
    write_rows("spans.jsonl", quiet)
    assert "is the capture of content on? OTEL_INSTRUMENTATION_GENAI" in refused("import", "spans.jsonl")
    other = {"span_id": "3", "trace_id": "u", "attributes": {"http.method": "GET"}}
    write("other.jsonl", json.dumps(other) + "\n")
    assert "hold no model call that can be read" in refused("import", "other.jsonl")
    told = {"gen_ai.prompt": json.dumps([{"role": "user", "content": "Hi"}]), "gen_ai.completion": "Hello."}
    write_rows("some.jsonl", [*quiet, {**other, "attributes": told}])
    assert "1 conversation imported" in printed("import", "some.jsonl")
    said = accord_json("import", "some.jsonl")
    assert said["ignored"] == {"a model call without its messages": 2}


def rated_c(question: str) -> str:
    rows = "".join(f"c{i},ann,{question},{i % 4 + 1}\n" for i in range(24))
    return write("rated.csv", "conversation,annotator,question,value\n" + rows)


def test_learning_and_comparing_name_their_stages_and_what_agreement_is_made_of() -> None:
    write(
        "accord.yaml", "metrics: [words]\nevaluators: {plain: {head: mixed}}\nevaluator: plain\nfolds: 3\ndraws: 50\n"
    )
    imported()
    fitted = invoke("fit")
    stages = ["evidence ...", "plain: 3 folds ...", "intervals ...", "plain: all labels ..."]
    assert fitted.stderr.splitlines()[: len(stages)] == stages
    compared = invoke("compare", "--all", "--only", "plain", "--set", "draws=40")
    assert "plain (cached: nothing has changed) ..." in compared.stderr
    assert "r within annotators" in compared.stdout and "r within assistant versions" in compared.stdout
    rows = [line.split() for line in compared.stdout.splitlines() if line.startswith("constant")]
    [constant, *_] = [row for row in rows if row[1].isdigit()]
    assert constant[:2] == ["constant", "127"] and constant.count("–") == 5, (
        "the correlations of the constant are dashes"
    )
    printed("report", "--set", "draws=40")
    assert "lower bound of r within annotators" in Path("report.html").read_text(encoding="utf-8")


def test_what_a_leak_would_have_gained_is_told_where_groups_join_samples() -> None:
    write("accord.yaml", "evaluators: {plain: {head: mixed}}\nfolds: 2\ndraws: 50\n")
    imported()
    alone = accord_json("compare", "--only", "plain")
    assert alone["leak"] is None and alone["common"] == 127 and alone["draws"] == 50
    joined = accord_json("compare", "--only", "plain", "--set", "group_by=[system]")
    leak = joined["leak"]
    [line], [single] = ([row for row in each["rows"] if row["evaluator"] == "plain"] for each in (joined, alone))
    assert leak["evaluator"] == "plain" and leak["samples"] == 40 and leak["groups"] == joined["groups"]["groups"]
    assert leak["honest_rmse"] == line["rmse"]
    assert leak["rmse"] == pytest.approx(single["rmse"], rel=0.2), "single conversations were the folds there"
    assert (leak["said"] in joined["remarks"]) == leak["is_large"]


def test_two_answers_are_told_by_kappa_and_the_shares_called_rightly() -> None:
    question = "{id: ok, text: 'Was it good?', scale: binary, options: {0: Bad., 1: Good.}}"
    Path("thumbs.yaml").write_text(f"name: thumbs\nmain: ok\nquestions: [{question}]\n", encoding="utf-8")
    write("accord.yaml", "rubric: thumbs.yaml\nevaluators: {plain: {head: mixed}}\ndraws: 50\n")
    rows = pl.read_csv(RATINGS).drop_nulls("Q0").rows(named=True)
    thumbs = [f"{row['conversation']},ok,{row['annotator']},{int(row['Q0'] >= 3)}" for row in rows]
    Path("thumbs.csv").write_text(
        "\n".join(["conversation,question,annotator,value", *thumbs]) + "\n", encoding="utf-8"
    )
    printed("import", CHATS, "thumbs.csv")
    found = accord_json("compare", "--only", "plain")
    line = found["rows"][0]
    assert line["base_rate"] == pytest.approx(sum(row.endswith(",1") for row in thumbs) / len(thumbs))
    assert 0 <= line["tpr"] <= 1 and 0 <= line["tnr"] <= 1 and line["kappa"] == pytest.approx(line["weighted_kappa"])
    shown = printed("compare", "--only", "plain", "--all")
    assert "TPR" in shown and "of the ratings are the upper one" in shown


def test_recorded_judgements_are_never_read_as_peoples_labels() -> None:
    new_project()
    chats("d/chats.jsonl")
    row = {"item_id": "c0", "question": "Q0", "judge_model": "m", "value": 3}
    name = write("d/judge.jsonl", json.dumps(row) + "\n")
    for source in (name, "d"):
        result = invoke("import", source)
        assert "0 labels imported" in result.stdout
        assert "recorded judgements of m are the judge" in result.stderr


@pytest.mark.parametrize("said", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("given", ["gate --min-mean", "judge --max-money", "finetune issues --base x --learning-rate"])
@pytest.mark.attack
def test_an_option_is_a_finite_number(given: str, said: str) -> None:
    *command, option = given.split()
    result = invoke(*command, f"{option}={said}", code=1)
    assert result.stderr == f"accord: {option} takes a finite number, got {said}; give a number\n"
