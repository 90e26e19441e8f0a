"""Projects are found from subfolders, their paths start at accord.yaml, and commands outside of one leave nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from misbehaving_endpoint import answer_any
from processes import run
from small_sample import sources
from typer.testing import CliRunner

import accord
from accord.cli.app import app
from accord.edges import BadInput, trust_folder
from accord.learning import load_evaluator
from accord.project import config_from, load_config
from accord.testing import ChatServer
from accord.values import dump_rubric, load_rubric

CHATS, RATINGS = map(str, sources())
PROJECT = """\
rubric: my/rubric.yaml
models: {judge: {mode: recorded, paths: [data/judge.jsonl]}}
sources: {issues: {by: recorded, model: m, taxonomy: my/taxonomy.yaml}}
evaluators: {plain: {sources: [rubric, lexical], head: mixed}}
evaluator: plain
studies: {rate: {issue_taxonomy: my/taxonomy.yaml, rubric: my/rubric.yaml}}
folds: 2
draws: 20
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ACCORD_STORE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "project"
    for each in ("my", "data", "deep/er"):
        (folder / each).mkdir(parents=True)
    (folder / "accord.yaml").write_text(PROJECT, encoding="utf-8")
    (folder / "my/rubric.yaml").write_text(dump_rubric(load_rubric("llm-rubric")), encoding="utf-8")
    taxonomy = Path(accord.__file__).parent / "values/taxonomies/soda-eval.yaml"
    (folder / "my/taxonomy.yaml").write_text(taxonomy.read_text(encoding="utf-8"), encoding="utf-8")
    ids = [json.loads(line)["id"] for line in Path(CHATS).read_text(encoding="utf-8").splitlines()]
    rows = [{"item_id": each, "question": "Q0", "judge_model": "m", "value": 1 + at % 4} for at, each in enumerate(ids)]
    (folder / "data/judge.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "prices.yaml").write_text("models: {m: {input: 1, output: 2}}\n", encoding="utf-8")
    monkeypatch.chdir(folder / "deep/er")
    return folder


def ran(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


def test_a_project_works_from_a_subfolder_and_from_anywhere_by_its_file(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran("import", CHATS, RATINGS)
    ran("judge")
    ran("fit")
    assert (project / "accord.db").is_file() and (project / "evaluators/plain").is_dir()
    assert list(Path().iterdir()) == []
    ran("score", CHATS, "--out", "scores.jsonl")
    assert Path("scores.jsonl").is_file(), "paths of the command line start from the working folder"
    monkeypatch.chdir(tmp_path)
    ran("score", CHATS, "--out", "scores.jsonl", "--config", "project/accord.yaml")
    assert Path("scores.jsonl").read_text(encoding="utf-8") == (project / "deep/er/scores.jsonl").read_text(
        encoding="utf-8"
    )
    monkeypatch.chdir(project)
    assert "40 conversations scored" in ran("score", CHATS, "--out", "scores.jsonl")
    assert not (tmp_path / "accord.db").exists() and not (tmp_path / "evaluators").exists()


def test_every_path_of_the_file_starts_from_its_folder(project: Path) -> None:
    from accord.store import Studies
    from accord.studies import StudySession

    with accord.open() as opened:
        assert opened.rubric.hash == load_rubric("llm-rubric").hash
        assert Path(opened.mart.folder) == project / "accord.db.scores"
        assert opened.budget.prices["m"].output == 2
        assert opened.source("issues").taxonomy.names  # type: ignore[attr-defined]
        studies = Studies(opened.store)
        assert StudySession(opened, "rate", studies).taxonomy is not None
        studies.close()
    opened_config = load_config()
    assert opened_config.models["judge"].paths == ["data/judge.jsonl"], "names in fitted evaluators do not move"
    assert config_from({"rubric": "llm-rubric"}, folder=project).rubric == "llm-rubric"


def test_an_evaluator_finds_its_files_wherever_it_is_loaded(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran("import", CHATS, RATINGS)
    by_judge = PROJECT.replace("by: recorded, model: m", "by: judge").replace("[rubric, lexical]", "[issues, lexical]")
    (project / "accord.yaml").write_text(by_judge, encoding="utf-8")
    with accord.open() as opened:
        fitted = opened.fit_offline("plain")
        fitted.evaluator.save(project / "evaluators/plain")
    monkeypatch.chdir(tmp_path)
    assert load_evaluator(project / "evaluators/plain").sources


@pytest.mark.parametrize(
    "arguments",
    [["import", CHATS], ["fit"], ["compare"], ["score", CHATS, "--out", "s.jsonl"], ["users", "list"], ["store", "check"],
     ["report"], ["export", "a.csv"], ["watch"], ["import", "--list"]],
)  # fmt: skip
def test_commands_without_a_project_fail_and_create_nothing(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "Create one: accord init" in ran(*arguments, code=1)
    with pytest.raises(BadInput, match="accord init"):
        accord.open()
    assert [each.name for each in tmp_path.iterdir()] == ["project"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["compare"], 1), (["export", "../a.csv"], 0), (["users", "list"], 0), (["import", "--list"], 0), (["watch"], 0),
     (["store", "check"], 1), (["store", "vacuum"], 1), (["gate", "--min-mean", "1"], 1)],
)  # fmt: skip
def test_commands_that_read_create_no_store(project: Path, arguments: list[str], code: int) -> None:
    ran(*arguments, code=code)
    assert not list(project.glob("accord.db*"))


def test_variables_of_the_env_file_are_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran("import", CHATS, RATINGS, "--set", "store=sqlite:///my.db")
    with ChatServer(answer_any) as server:
        (project / ".env").write_text(
            f"# of this project\nexport OPENAI_BASE_URL='{server.url}'\nOPENAI_API_KEY=\"sk-from-the-file\" # a key\n"
            "DATA=my.db   # its name\nEMPTY=\nHASH=a#b\n",
            encoding="utf-8",
        )
        (project / "accord.yaml").write_text(
            "store: 'sqlite:///${DATA}'\nmodels: {judge: {mode: logprobs, model: m1}}\n", encoding="utf-8"
        )
        code = (
            "import accord, os\nfrom accord.edges import redact\n"
            "with accord.open() as project:\n"
            "    print(project.config.store.rpartition('/')[2], os.environ['HASH'], repr(os.environ['EMPTY']))\n"
            "    print(redact('sk-from-the-file'), os.environ['OPENAI_API_KEY'])\n"
        )
        environment = {**os.environ, "HASH": "real"}
        trust_folder(project)
        message = run(["-c", code], text=True, env=environment)
        assert message.returncode == 0, message.stderr
        assert message.stdout.splitlines()[0] == "my.db real ''"
        assert message.stdout.splitlines()[1].endswith(" sk-from-the-file") and message.stdout.count("sk-from") == 1
        limited = run(["-m", "accord", "judge", "--limit", "1"], text=True)
        assert limited.returncode == 0, limited.stderr
        assert server.requests
    (project / ".env").write_text("A=1\nnot a variable\n", encoding="utf-8")
    assert ".env, line 2: not KEY=VALUE" in ran("compare", code=1)


def test_set_changes_settings_for_one_run_and_keeps_the_preset(project: Path) -> None:
    (project / "accord.yaml").write_text(PROJECT.replace("sources: {issues", "#"), encoding="utf-8")
    with accord.open() as opened:
        preset = opened.config.about("mixture")
    ran("import", CHATS, RATINGS)
    curves = ["--set", "evaluators.mixture.settings.curves={flat: 1, smooth: 2}"]
    ran("fit", "mixture", "--set", "metrics=[words]", *curves)
    card = json.loads((project / "evaluators/mixture/evaluator.json").read_text(encoding="utf-8"))
    assert card["head"]["name"] == "curves" and card["head"]["settings"]["curves"]["smooth"] == 2
    result = config_from({"evaluators": {"mixture": {"settings": {"curves": {"form": "gated"}}}}}).about("mixture")
    assert (result.sources, result.head, result.settings) == (preset.sources, "curves", {"curves": {"form": "gated"}})
    assert "unknown key 'fold'" in ran("judge", "--set", "fold=1", code=1)
    assert "40 samples" in ran("judge", "--set", "models.judge.mode=recorded")
