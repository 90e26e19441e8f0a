"""The command line as a user meets it: the whole way, and every wrong input in one line with its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from accord.cli import commands  # noqa: F401 - registers the commands
from accord.cli.app import app  # noqa: F401 - registers the commands
from accord.sample import sources
from accord.testing import ChatServer, answer_any, completion

CHATS, RATINGS = map(str, sources())


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_MODELS", str(tmp_path / "models"))  # what was pulled here changes no test
    for name in ("ACCORD_STORE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def accord(*arguments: str, code: int = 0) -> str:
    """Run a command in this process; its stdout, or for a failure its one line on stderr."""
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    if code in (0, 5):
        return result.stdout
    complaint = [line for line in result.stderr.splitlines() if line.startswith("accord: ")]
    assert len(complaint) == 1, result.stderr
    return complaint[0]


def refused(*arguments: str) -> str:
    return accord(*arguments, code=1)


def test_the_whole_way_by_single_steps(project: Path) -> None:
    assert "wrote accord.yaml" in accord("init")
    assert "kept accord.yaml as it is" in accord("init")
    assert "40 conversations imported" in accord("import", CHATS, RATINGS)
    again = json.loads(accord("import", RATINGS, CHATS, "--json"))
    assert again["conversations"] == {"new": 0, "known": 40} and again["labels"]["new"] == 0
    fitted = json.loads(accord("fit", "calibration", "--json"))
    compared = json.loads(accord("compare", "--json"))
    assert fitted["comparison"]["rows"] == compared["rows"], "the same seed gives the same table"
    for ending in ("jsonl", "csv", "parquet"):
        said = accord(
            "score", CHATS, "--out", f"scores.{ending}", "--panel", "amira", "--panel", "bruno", "--rule", "min"
        )
        assert "40 scored" in said
    rows = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
    frame = pl.read_parquet("scores.parquet")
    assert frame["value"].to_list() == [row["value"] for row in rows] == pl.read_csv("scores.csv")["value"].to_list()
    assert {row["annotator"] for row in rows} == {"min"}
    assert "report in report.html" in accord("report")
    assert "passed" in accord("gate", "--min-agreement=-1", "--min-mean", "1")
    assert "demanded 0.99: failed" in accord("gate", "--min-agreement", "0.99", code=3)
    Path("twice.jsonl").write_text(2 * Path(CHATS).read_text())
    assert "two conversations have the id 'support-001'" in refused("score", "twice.jsonl", "--out", "s.jsonl")


def test_the_report_is_self_contained_and_escapes_what_came_from_outside(project: Path) -> None:
    evil = "<script>alert(1)</script>{{ 7*7 }}"
    chats = [json.loads(line) for line in Path(CHATS).read_text().splitlines()]
    for chat in chats:
        chat["messages"][0]["content"] = evil
    Path("evil.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    ratings = Path(RATINGS).read_text().replace("amira", '"<img src=x onerror=alert(2)>"')
    Path("ratings.csv").write_text(ratings)
    accord("run", "evil.jsonl", "ratings.csv", "--out", "out")
    page = Path("out/report.html").read_text()
    assert (
        "<script" not in page and "onerror=alert(2)>" not in page and "49" not in page.split("&lt;script&gt;")[1][:60]
    )
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{ 7*7 }}" in page
    assert "http://" not in page.replace("http://www.w3.org/", "") and "https://" not in page.replace(evil, "")
    assert "default-src 'none'" in page


def test_demo_and_real_data_are_one_command(project: Path, data: Path) -> None:
    result = CliRunner().invoke(app, ["demo"])
    assert "127 ratings of 40 conversations by 4 annotators" in result.stdout
    assert "lexical evidence alone" in result.stderr and "accord models pull" in result.stderr
    assert sorted(path.name for path in Path("accord-demo").iterdir()) == [
        "accord.db", "evaluator", "report.html", "scores.jsonl",
    ]  # fmt: skip
    Path("accord.yaml").write_text("evaluator: {settings: {core: mixed}}\n")  # the network has tests of its own
    synth = str(data / "llm_rubric_synth")
    result = json.loads(accord("run", synth, "--recorded", synth, "--out", "real", "--json"))
    best = result["comparison"]["rows"][0]
    assert best["system"] == "calibration" and best["n"] == 662
    assert best["rmse"] < 0.75 and best["pearson"] > 0.42


def test_a_judge_on_the_wire_is_asked_once_and_never_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with ChatServer(lambda request: completion("3", {"3": 0.6, "2": 0.3, "1": 0.05})) as server:
        config = f"judge: {{mode: logprobs, model: m1, base_url: '{server.url}'}}\nfolds: 3\n"
        Path("accord.yaml").write_text(config)
        accord("import", CHATS, RATINGS)
        accord("judge", "--limit", "10")
        asked = len(server.requests)
        whole = json.loads(accord("judge", "--json"))
        assert whole["samples"] == 40 and whole["answered"] == 30 * 9 + 10 * 5
        assert len(server.requests) == whole["answered"], "the first ten were not asked for again"
        assert 0 < asked < whole["answered"]
        before = len(server.requests)
        accord("fit")
        accord("score", CHATS, "--out", "scores.csv")
        assert len(server.requests) == before
        rows = json.loads(accord("compare", "--json"))["rows"]
        assert "judge-expected" in {row["system"] for row in rows}
    assert "sk-secret" not in "".join(path.read_text(errors="ignore") for path in Path().rglob("*") if path.is_file())


def test_fewer_questions_more_labels_groups_and_estimates(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with ChatServer(lambda request: completion("3", {"3": 0.5, str(1 + len(str(request)) % 4): 0.4})) as server:
        config = f"judge: {{mode: logprobs, model: m1, base_url: '{server.url}'}}\nfolds: 3\n"
        Path("accord.yaml").write_text(config)
        accord("import", CHATS, RATINGS)
        accord("judge", "--limit", "36")
        accord("fit")
        asked = len(server.requests)
        said = json.loads(accord("score", CHATS, "--out", "few.jsonl", "--ask", "2", "--json"))
        assert said["scored"] == 40 and len(server.requests) - asked <= 2 * 40
        few = [json.loads(line) for line in Path("few.jsonl").read_text().splitlines()]
        assert all("|asked:" in row["signature"] and row["band_low"] <= row["band_high"] for row in few)
        before = len(server.requests)
        assert "unknown annotator 'nobody'" in refused(
            "score", CHATS, "--out", "s.jsonl", "--ask", "2", "--annotator", "nobody"
        )
        assert len(server.requests) == before, "nothing is asked for a score that cannot be"
        assert "one speaker" in refused("score", CHATS, "--out", "s.jsonl", "--ask", "2", "--panel", "amira")
        assert "unknown loss 'cubed'" in refused("score", CHATS, "--out", "s.jsonl", "--loss", "cubed")
        accord("score", CHATS, "--out", "median.jsonl", "--loss", "absolute")
        assert {json.loads(line)["value"] for line in Path("median.jsonl").read_text().splitlines()} <= {1, 2, 3, 4}
    assert "to fill in: queue.csv" in accord("label", "next", "-n", "3", "--out", "queue.csv")
    rows = pl.read_csv("queue.csv").rows(named=True)
    assert len(rows) == 3 and {row["question"] for row in rows} == {"Q0"}
    assert "unknown annotator 'nobody'" in refused("label", "next", "--annotator", "nobody")
    groups = json.loads(accord("compare", "--by", "annotator", "--json"))["groups"]
    assert {group["group"] for group in groups} == {"amira", "bruno", "chloe", "dario"} or len(groups) >= 2
    assert "worth" in accord("estimate")


def test_a_mixture_of_cheap_metrics_from_labels_to_a_report(project: Path) -> None:
    Path("accord.yaml").write_text("metrics: [bank]\nevaluator: {method: mixture}\nfolds: 3\n")
    accord("import", CHATS, RATINGS)
    assert "saved in evaluators/mixture" in accord("fit")
    assert "40 scored" in accord("score", CHATS, "--out", "s.parquet")
    assert {"words", "ciu"} <= set(json.loads(pl.read_parquet("s.parquet")["attributions"][0]))
    assert "unknown annotator 'bruno'" in refused("score", CHATS, "--out", "s.csv", "--annotator", "bruno")
    assert "needs a calibration" in refused("score", CHATS, "--out", "s.csv", "--ask", "2")
    accord("report")
    assert "How far each metric can move the score" in Path("report.html").read_text()


def test_settings_are_chosen_inside_the_training_folds(project: Path) -> None:
    Path("accord.yaml").write_text(
        "evaluator: {choose: {own_slopes: [false, true], threshold_spread: [0.1, 0.3]}}\nfolds: 3\n"
    )
    accord("import", CHATS, RATINGS)
    fitted = json.loads(accord("fit", "--json"))
    assert fitted["comparison"]["rows"][0]["n"] == 127
    assert "slopes:" in fitted["evaluator"]["signature"]
    assert "passed" in accord("gate", "--min-agreement=-1")


def test_scores_say_what_is_missing_and_end_with_5(project: Path) -> None:
    Path("accord.yaml").write_text("metrics: [overlap-documents]\n")
    accord("import", CHATS, RATINGS)
    accord("fit")
    said = accord("score", CHATS, "--out", "scores.jsonl", code=5)
    assert "30 scored" in said and "10 unscored: no evidence; nothing to measure" in said
    assert "share of targets that are scored: 0.750, demanded 1: failed" in accord("gate", "--min-mean", "1", code=3)
    assert "passed" in accord("gate", "--min-mean", "1", "--max-unscored", "0.3")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["import", "nowhere.jsonl"], "no file nowhere.jsonl"),
        (["import", CHATS, "--format", "sharegtp"], "unknown format 'sharegtp'. Did you mean 'sharegpt'?"),
        (["import", CHATS, "--columns", "role"], "--columns takes OURS=THEIRS, got 'role'"),
        (["fit", "calibratoin"], "unknown evaluator 'calibratoin'. Did you mean 'calibration'?"),
        (["fit"], "no label on the main question 'Q0'"),
        (["fit", "label-free"], "no conversations to learn from"),
        (["models", "pull", "smollm2"], "unknown embedded model 'smollm2'. Did you mean 'smollm2-135m'?"),
        (["models", "pull", "--from", "x.whl"], "--from names the file of one model"),
        (["compare"], "no label on the main question 'Q0'"),
        (["judge"], "the project names no judge"),
        (["gate", "--min-agreement", "0.5"], "nothing was compared yet"),
        (["gate"], "the gate demands nothing"),
        (["gate", "--min-mean", "1"], "there are no scores yet"),
        (["score", CHATS, "--out", "s.jsonl"], "holds no evaluator"),
        (["compare", "--config", "nowhere.yaml"], "cannot read nowhere.yaml"),
    ],
)
def test_wrong_input_ends_in_one_line(arguments: list[str], says: str) -> None:
    assert says in refused(*arguments)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("stor: x\n", "unknown key 'stor'. Did you mean 'store'?"),
        ("judge: {mode: logprobs, modle: x}\n", "unknown key 'modle'. Did you mean 'model'?"),
        ("judge: {mode: guessing}\n", "judge.way: Input should be 'decisions', 'systemone', 'logprobs'"),
        ("judge: {mode: logprobs}\n", "needs a model"),
        ("judge: {mode: recorded}\n", "needs the paths"),
        ("judge: {mode: logprobs, model: m}\n", "set OPENAI_API_KEY"),
        ("folds: 1\n", "folds: Input should be greater than or equal to 2, got 1"),
        ("rubric: llm-rubirc\n", "unknown rubric 'llm-rubirc'. Did you mean 'llm-rubric'?"),
        ("store: mysql://x/y\n", "a store is SQLite or PostgreSQL, got mysql"),
        ("store: '${NOT_SET_ANYWHERE}'\n", "the environment variable NOT_SET_ANYWHERE is not set"),
        ("metrics: [lenght]\n", "unknown metric 'lenght'"),
        ("evaluator: {method: calibratoin}\n", "unknown evaluator 'calibratoin'. Did you mean 'calibration'?"),
        ("evaluator: {settings: {carry: 1}}\n", "unknown setting of 'calibration' 'carry'. Did you mean 'domain_correlation'?"),
        ("evaluator: {choose: {slopes: [true]}}\n", "unknown setting of 'calibration' 'slopes'"),
        ("- a list\n", "accord.yaml"),
        ("", "accord.yaml is empty"),
    ],
)  # fmt: skip
def test_a_wrong_project_file_ends_in_one_line(config: str, says: str) -> None:
    accord("import", CHATS, RATINGS)
    Path("accord.yaml").write_text(config)
    assert says in refused("judge" if config.startswith("judge") else "compare")


def labels(*rows: str) -> str:
    Path("labels.csv").write_text("conversation,annotator,question,value\n" + "".join(row + "\n" for row in rows))
    return "labels.csv"


def test_labels_off_the_scale_and_of_unknown_conversations(project: Path) -> None:
    accord("import", CHATS)
    good = "support-001,ann,Q0,3"
    assert "labels.csv, line 3: label of 'ann' on support-001, question 'Q0': got 7, allowed: 1, 2, 3, 4" in refused(
        "import", labels(good, "support-001,ann,Q0,7")
    )
    assert "no conversation 'nobody' in the store; import it first" in refused(
        "import", labels(good, "nobody,ann,Q0,3")
    )
    said = json.loads(
        accord("import", labels(good, "nobody,ann,Q0,3", "support-001,ann,Q0,9"), "--skip-bad-rows", "--json")
    )
    assert said["labels"]["new"] + said["labels"]["known"] == 1 and said["skipped"] == 2


def test_an_annotator_nobody_knows(project: Path) -> None:
    accord("import", CHATS, RATINGS)
    accord("fit")
    said = refused("score", CHATS, "--out", "s.jsonl", "--annotator", "amirra")
    assert "unknown annotator 'amirra'. Did you mean 'amira'? Available: amira, bruno, chen, dilek." in said
    assert "the ending is one of .jsonl, .csv, .parquet" in refused("score", CHATS, "--out", "s.txt")
    assert "unknown panel rule 'median'" in refused(
        "score", CHATS, "--out", "s.jsonl", "--panel", "amira", "--rule", "median"
    )


def test_good_rows_before_a_bad_one_are_kept(project: Path) -> None:
    good = Path(CHATS).read_text().splitlines()[:3]
    Path("chats.jsonl").write_text("\n".join([*good, "{broken"]) + "\n")
    assert "chats.jsonl, line 4: not JSON" in refused("import", "chats.jsonl")
    assert "0 conversations imported, 3 already there" in accord("import", "chats.jsonl", "--skip-bad-rows")


def test_a_failing_score_leaves_the_file_that_was_there(project: Path) -> None:
    Path("keep.jsonl").write_text("precious")
    accord("import", CHATS, RATINGS)
    accord("fit")
    assert "no file nowhere.jsonl" in refused("score", "nowhere.jsonl", "--out", "keep.jsonl")
    Path("bad.jsonl").write_text(Path(CHATS).read_text() + "{broken\n")
    assert "line 41: not JSON" in refused("score", "bad.jsonl", "--out", "keep.jsonl")
    assert Path("keep.jsonl").read_text() == "precious"
    both = ["--annotator", "amira", "--panel", "bruno"]
    assert "name one of the two" in refused("score", CHATS, "--out", "s.jsonl", *both)
    assert "name its members with --panel" in refused("score", CHATS, "--out", "s.jsonl", "--rule", "max")
    for nowhere in ("bad.jsonl/scores.jsonl", "/proc/nowhere/scores.jsonl"):
        refused("score", CHATS, "--out", nowhere)


def test_good_labels_before_a_bad_one_are_kept(project: Path) -> None:
    accord("import", CHATS)
    refused("import", labels("support-001,ann,Q0,3", "support-002,ann,Q0,3", "support-003,ann,Q0,9"))
    fixed = labels("support-001,ann,Q0,3", "support-002,ann,Q0,3", "support-003,ann,Q0,4")
    assert json.loads(accord("import", fixed, "--json"))["labels"] == {"new": 1, "known": 2}


def test_one_column_map_serves_conversations_and_labels(project: Path) -> None:
    Path("t.csv").write_text("cid,prompt,response\nx,hello,hi\n")
    Path("l.csv").write_text("cid,who,Q0,Quality\nx,ann,3,2\n")
    columns = ["--columns", "conversation=cid", "--columns", "annotator=who"]
    said = accord("import", "t.csv", "l.csv", *columns, "--format", "table")
    assert "1 conversations imported" in said and "1 labels imported" in said
    assert "none of the files has a column 'whom'" in refused("import", "t.csv", "--columns", "annotator=whom")
    Path("l2.csv").write_text("cid,who,question,value\nx,ann,Quality,2\n")
    assert "labels on questions that the rubric does not ask: Quality (1)" in accord("import", "l2.csv", *columns)
    assert "give a number" in refused("gate", "--min-agreement", "nan")


def test_usage_errors_end_with_2() -> None:
    result = CliRunner().invoke(app, ["score"])
    assert result.exit_code == 2


def test_plugins_and_schema() -> None:
    listed = json.loads(accord("plugins", "--json"))
    assert set(listed) == {"formats", "metrics", "evaluators", "rubrics"}
    assert all(says for found in listed.values() for says in found.values())
    schema: dict[str, Any] = json.loads(accord("schema"))
    assert schema["additionalProperties"] is False and "judge" in schema["properties"]
    published = Path(__file__).parents[1] / "docs" / "accord.schema.json"
    assert json.loads(published.read_text()) == schema, "run: make docs"


def process(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "accord", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_an_interrupt_in_the_middle_keeps_what_was_done_and_the_command_goes_on(project: Path) -> None:
    row = json.loads(Path(CHATS).read_text().splitlines()[0])
    with Path("many.jsonl").open("w") as stream:
        stream.writelines(json.dumps({**row, "id": f"c{i:05d}"}) + "\n" for i in range(30_000))
    running = process("import", "many.jsonl")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (
        not Path("accord.db-wal").exists() or os.path.getsize("accord.db-wal") < 2_000_000
    ):
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130, errors
    assert errors.strip().splitlines()[-1].startswith("accord: interrupted. What was done is kept")
    assert "Traceback" not in errors
    result = json.loads(accord("import", "many.jsonl", "--json"))["conversations"]
    assert result["known"] > 0 and result["new"] + result["known"] == 30_000


def test_a_full_disk_ends_in_one_line(project: Path) -> None:
    import resource

    row = json.loads(Path(CHATS).read_text().splitlines()[0])
    Path("many.jsonl").write_text("".join(json.dumps({**row, "id": f"c{i}"}) + "\n" for i in range(5000)))
    limited = subprocess.run(
        [sys.executable, "-m", "accord", "import", "many.jsonl"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: (
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
            resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20)),
        ),
    )
    assert limited.returncode == 1
    assert "Traceback" not in limited.stderr and limited.stderr.count("\n") == 1, limited.stderr
    assert "What was written before is kept" in limited.stderr


def test_a_judging_run_is_priced_before_and_capped_while_it_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with ChatServer(answer_any) as server:
        Path("accord.yaml").write_text(f"judge: {{mode: decisions, model: m1, base_url: '{server.url}'}}\n")
        accord("import", CHATS, RATINGS)
        plan = json.loads(accord("judge", "--plan", "--json"))
        assert plan["requests"] == 40 and plan["questions"] == 30 * 9 + 10 * 5 and plan["unpriced"] == "m1"
        assert not server.requests, "a plan asks nobody"
        assert "price of 'm1' unknown; add it to prices.yaml" in accord("judge", "--plan")
        Path("prices.yaml").write_text("models: {m1: {input: 1, output: 2}}\n")
        assert "in money" in accord("judge", "--plan")
        said = accord("judge", "--max-requests", "25", code=4)
        assert "the budget of 25 requests would be passed by the next call; what was answered is kept" in said
        assert len(server.requests) == 25
        half = json.loads(accord("judge", "--plan", "--json"))
        assert half["requests"] == 15 and half["answered"] > 0
        result = json.loads(accord("judge", "--json"))
        assert len(server.requests) == 40 and result["spent"]["requests"] == 15
        assert result["spent"]["money"] == pytest.approx(15 * 10 / 1e6)
