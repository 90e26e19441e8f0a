"""The skill for coding agents names commands and exit codes that exist, and its scripts run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from accord.cli import commands  # noqa: F401 - registers the commands
from accord.cli.app import EXIT_CODES, app
from accord.hosts.agents import skill

ROOT = Path(__file__).parents[1]


def test_skill_has_name_and_description_within_the_limits_of_agents() -> None:
    printed = CliRunner().invoke(app, ["skill"], prog_name="accord").stdout
    _, front, body = printed.split("---\n", 2)
    about = yaml.safe_load(front)
    assert re.fullmatch(r"[a-z0-9-]{1,64}", about["name"]) and 100 < len(about["description"]) <= 1024
    assert body.strip() == skill.guide().strip() and "$" not in body


def test_every_command_and_option_of_the_skill_exists() -> None:
    lines = re.findall(r"`accord ([^`]+)`", skill.guide())
    assert len(lines) > 12
    for line in lines:
        words = [word for word in shlex.split(line) if word != "COMMAND"]
        path = words[:2] if words[0] in ("label", "store", "card") else words[:1]
        shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"}, prog_name="accord").stdout
        assert shown, line
        missing = [word for word in words if word.startswith("--") and word not in shown]
        assert not missing, f"accord {line}: {missing}"


def test_exit_codes_of_the_skill_are_those_of_the_commands() -> None:
    stated = re.findall(r"(\d+) ([a-z ]+)", EXIT_CODES)
    assert [code for code, *_ in skill.EXIT_CODES] == [int(code) for code, _ in stated]
    assert all(
        meaning.startswith(words.strip()) for (_, meaning, _), (_, words) in zip(skill.EXIT_CODES, stated, strict=True)
    )


@pytest.mark.posix
def test_scripts_of_the_skill_run_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "skill"
    for _ in range(2):  # the same folder can be written again
        result = CliRunner().invoke(app, ["skill", "--out", str(folder)], prog_name="accord")
        assert result.exit_code == 0, result.output
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "accord").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m accord "$@"\n', encoding="utf-8")
    (tmp_path / "bin" / "accord").chmod(0o755)
    rows = ["id,judge,human", *(f"{n},{n % 5 + 1},{(n + n // 7) % 5 + 1}" for n in range(60))]
    (tmp_path / "results.csv").write_text("\n".join(rows), encoding="utf-8")
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    script = [str(folder / "scripts" / "check_table.sh"), "results.csv", "--judge", "judge", "--human", "human"]
    done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "main_statistic" in json.loads(done.stdout)
    missing = subprocess.run([str(folder / "scripts" / "gate.sh")], cwd=tmp_path, env=environment, capture_output=True)
    assert missing.returncode == 1


def test_skill_does_not_replace_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    result = CliRunner().invoke(app, ["skill", "--out", str(tmp_path)], prog_name="accord")
    assert result.exit_code == 1 and not (tmp_path / "SKILL.md").exists()


def test_pages_for_agents_list_every_guide() -> None:
    listed = (ROOT / "llms.txt").read_text(encoding="utf-8")
    no_guides = {"index.md", "data-places.md", "measured.md"}  # the README's beginning, and tables
    guides = {path.name for path in (ROOT / "docs").glob("*.md")} - no_guides
    assert not [name for name in sorted(guides) if f"/docs/{name}): " not in listed], "link the page in the README"
