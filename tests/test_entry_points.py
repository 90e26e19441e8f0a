"""Commands and heads of other packages: found by entry points, imported on demand, and left out if they are broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_sample import sources

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "function": "def hello(name: str, loud: bool = False) -> None:\n    '''Greet somebody.'''\n"
    "    print('HELLO' if loud else 'hello', name)\n",
    "typer": "import typer\nhello = typer.Typer()\n\n@hello.command()\n"
    "def run(name: str, loud: bool = False) -> None:\n    '''Greet somebody.'''\n"
    "    print('HELLO' if loud else 'hello', name)\n",
    "click": "import click\n\n@click.command()\n@click.argument('name')\n@click.option('--loud', is_flag=True)\n"
    "def hello(name, loud):\n    '''Greet somebody.'''\n    print('HELLO' if loud else 'hello', name)\n",
}
"""The same command in every form that an entry point may have."""
HEAD = """
from accord.learning import Calibration, heads

@heads.register("planted")
def planted(question, **settings):
    '''A head of another package.'''
    return Calibration(question, "constant", **settings)
"""

Install = Callable[..., None]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder in which `install` puts packages, in front of the installed ones."""
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


@pytest.fixture
def install(site: Path) -> Install:
    """Write a package: its module, its metadata and its entry points."""

    def install(name: str, module: str, entry_points: str, metadata: str = "Summary: Greets people.\n") -> None:
        (site / f"{name}.py").write_text(module, encoding="utf-8")
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")

    return install


def ran(site: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run Accord with the packages of the folder."""
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=site, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def accord(site: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return ran(site, "-m", "accord", *arguments, code=code)


@pytest.mark.slow
@pytest.mark.parametrize("form", COMMANDS)
def test_command_of_another_package_runs_with_its_help_and_its_errors(form: str, install: Install, site: Path) -> None:
    install("greeter", COMMANDS[form], "[accord.commands]\nhello = greeter:hello\n")
    listed = accord(site, "--help").stdout
    assert "hello" in listed and "Greets people" in listed.replace("\n", " ") and "paper" in listed
    assert accord(site, "hello", "Ann", "--loud").stdout == "HELLO Ann\n"
    shown = accord(site, "hello", "-h").stdout
    assert "Greet somebody." in shown and "Usage: python -m accord hello" in shown
    assert "--quiet-ly" in accord(site, "hello", "--quiet-ly", code=2).stderr


def test_help_and_other_commands_import_no_plugin(install: Install, site: Path) -> None:
    install("greeter", "raise SystemExit('imported')\n", "[accord.commands]\nhello = greeter:hello\n")
    for arguments in (["--help"], ["schema"]):
        assert "imported" not in (done := accord(site, *arguments)).stderr and done.stdout


def test_built_in_command_reads_no_entry_points(site: Path) -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom accord.cli import app, commands\n"
        "assert CliRunner().invoke(app, ['score', '--help']).exit_code == 0\n"
        "print('accord.entry_points' in sys.modules)"
    )
    assert ran(site, "-c", code).stdout == "False\n"


def test_command_may_raise_expected_errors(install: Install, site: Path) -> None:
    raising = "from accord.edges import GateFailed\n\ndef hello() -> None:\n    raise GateFailed('too low: 0.2')\n"
    install("greeter", raising, "[accord.commands]\nhello = greeter:hello\n")
    assert accord(site, "hello", code=3).stderr == "accord: too low: 0.2\n"


BROKEN = {
    "missing module": ("", "hello = nowhere:hello", "No module named 'nowhere'"),
    "missing name": ("", "hello = greeter:hello", "has no attribute 'hello'"),
    "raises": ("raise RuntimeError('first\\nsecond')", "hello = greeter:hello", r"RuntimeError: first\nsecond"),
    "exits": ("raise SystemExit(0)", "hello = greeter:hello", "SystemExit: 0"),
    "no command": ("hello = 3", "hello = greeter:hello", "is a int; it must be a function"),
    "syntax error": ("def hello(:", "hello = greeter:hello", "SyntaxError"),
}
"""Module, entry point and reason of commands that cannot run."""


@pytest.mark.attack
@pytest.mark.slow
@pytest.mark.parametrize("fault", BROKEN)
def test_broken_command_is_one_line_that_names_the_package(fault: str, install: Install, site: Path) -> None:
    module, entry, reason = BROKEN[fault]
    install("greeter", module, f"[accord.commands]\n{entry}\n")
    assert not accord(site, "--help").stderr
    said = accord(site, "hello", code=1).stderr
    assert said.count("\n") == 1 and "package greeter" in said and reason in said


UNUSABLE = {
    "malformed metadata": ("[accord.commands]\nhello\n", "greeter-1.0.dist-info are left out"),
    "name of a built-in command": ("[accord.commands]\nscore = greeter:hello\n", "accord has a command of this name"),
    "malformed name": ("[accord.commands]\nhel\x1b[31mlo = greeter:hello\n", "its name is malformed"),
}
"""Entry points that are left out, with the warning."""


@pytest.mark.attack
@pytest.mark.slow
@pytest.mark.parametrize("fault", UNUSABLE)
def test_unusable_command_is_left_out_of_the_help_with_one_warning(fault: str, install: Install, site: Path) -> None:
    entry_points, warning = UNUSABLE[fault]
    install("greeter", COMMANDS["function"], entry_points)
    done = accord(site, "--help")
    assert done.stderr.count("\n") == 1 and "greeter" in done.stderr and warning in done.stderr
    assert "\x1b" not in done.stderr + done.stdout and "Score conversations" in done.stdout
    assert "Score conversations" in accord(site, "score", "--help").stdout


def test_head_of_another_package_is_found(install: Install, site: Path) -> None:
    install("planter", HEAD, "[accord.heads]\nplanted = planter\n")
    done = accord(site, "plugins")
    assert "planted" in done.stdout and "A head of another package." in done.stdout and not done.stderr


@pytest.mark.attack
@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("import nowhere", "No module named 'nowhere'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (HEAD.replace('"planted"', '"mixed"'), "two plug-ins are registered as the head 'mixed'"),
    ],
)
def test_broken_head_is_one_warning_that_names_the_package(
    module: str, reason: str, install: Install, site: Path
) -> None:
    install("planter", module, "[accord.heads]\nplanted = planter\n")
    done = accord(site, "plugins")
    assert "mixed" in done.stdout and done.stderr.count("\n") == 1
    assert "package planter" in done.stderr and reason in done.stderr


@pytest.mark.attack
@pytest.mark.parametrize("value", ["3 !!", "planter:", "planter:nothing", "planter.inner"])
def test_malformed_entry_point_is_one_warning_and_other_plugins_work(value: str, install: Install, site: Path) -> None:
    install("planter", HEAD, f"[accord.heads]\nplanted = {value}\n")
    install("grower", HEAD.replace("planted", "grown"), "[accord.heads]\ngrown = grower\n")
    done = accord(site, "plugins")
    assert "mixed" in done.stdout and "grown" in done.stdout and done.stderr.count("\n") == 1
    assert "package planter cannot be loaded" in done.stderr


@pytest.mark.attack
def test_head_of_a_package_that_fails_later_is_left_out(install: Install, site: Path) -> None:
    install("planter", HEAD + "raise ValueError('late')\n", "[accord.heads]\nplanted = planter\n")
    done = accord(site, "plugins")
    assert "A head of another package." not in done.stdout and "ValueError: late" in done.stderr
    code = "from accord.learning import heads\ntry:\n    heads.get('planted')\nexcept Exception as error:\n    print(error)"
    assert "Left out, because they cannot be loaded: planter." in ran(site, "-c", code).stdout


@pytest.mark.attack
def test_unexpected_error_of_a_command_is_one_line(install: Install, site: Path) -> None:
    install("greeter", "def hello() -> None:\n    {}['gone']\n", "[accord.commands]\nhello = greeter:hello\n")
    said = accord(site, "hello", code=1).stderr
    assert said.startswith("accord: the command 'hello' of the package greeter raised KeyError: 'gone'")
    assert said.count("\n") == 1


# --- without accord-papers --------------------------------------------------------------------------------------------


@pytest.fixture
def without_papers(install: Install, site: Path) -> Path:
    """The folder with an empty package in the place of accord-papers, which comes before an installed one."""
    install("accord_papers", "", "")
    return site


@pytest.mark.parametrize("arguments", [["ciu", "--data", "."], ["--help"], []])
def test_paper_without_its_package_is_one_sentence_with_the_command_to_install_it(
    arguments: list[str], without_papers: Path
) -> None:
    said = accord(without_papers, "paper", *arguments, code=1).stderr
    assert said.startswith("accord: accord paper needs the package accord-papers. Install it: pip install ")
    assert said.count("\n") == 1


WITHOUT = """
from accord.edges import MissingExtra
from accord.learning import Calibration, heads, make_head
from accord.testing import planted

question = planted(conversations=4).question
for make in (
    lambda: make_head("svr", question, {}),
    lambda: make_head("gated", question, {}),
    lambda: make_head("concat", question, {}),
    lambda: make_head("label-free", question, {}),
    lambda: Calibration(question, "svr"),
    lambda: Calibration(question, "grid"),
    lambda: Calibration(question, candidates=["mixed", "svr"]),
    lambda: Calibration(question, "curves", curves={"form": "gated"}),
    lambda: Calibration(question, "network", network={"like": "paper", "search": 2}),
):
    try:
        make()
        print("made")
    except MissingExtra as error:
        print(error)
print("svr" in heads)
"""


def test_published_variants_without_their_package_name_it(without_papers: Path) -> None:
    *lines, is_known = ran(without_papers, "-c", WITHOUT).stdout.splitlines()
    names = ["svr", "gated", "concat", "label-free", "svr", "grid", "svr", "gated", "grid"]
    assert len(lines) == len(names) and is_known == "False"
    for name, line in zip(names, lines, strict=True):
        assert repr(name) in line and "needs the package accord-papers. Install it: pip install " in line


@pytest.mark.slow
def test_compare_without_the_package_leaves_out_its_heads(without_papers: Path) -> None:
    """The project has likelihoods, so that the baseline `label-free` would be possible."""
    code = """
from accord.evidence import Column, EvidenceTable
from accord.learning import PMI
from accord.testing import planted
from accord.validation import baselines
from accord.learning import Experiment

corpus = planted(conversations=60)
names = EvidenceTable(corpus.evidence.targets, tuple(
    Column(PMI if column.name == "f0" else column.name, column.source) for column in corpus.evidence.columns
), corpus.evidence.values, corpus.evidence.present)
print(*[each.name for each in baselines(Experiment.of(names, corpus.labels, corpus.question, 5, 0))])
"""
    assert "label-free" in ran(without_papers.parent, "-c", code).stdout.split()
    assert "label-free" not in ran(without_papers, "-c", code).stdout.split()
    listed = accord(without_papers, "plugins").stdout
    assert "mixture" in listed and "svr" not in listed and "label-free" not in listed
    few = "folds: 2\nrepeats: 1\ndraws: 20\nmetrics: [words]\n"
    (without_papers / "accord.yaml").write_text(few, encoding="utf-8")
    accord(without_papers, "import", *map(str, sources()))
    compared = accord(without_papers, "compare", "--json").stdout
    assert '"mixture"' in compared and '"svr"' not in compared and '"label-free"' not in compared
    assert "the head 'svr' needs the package accord-papers" in accord(without_papers, "fit", "svr", code=1).stderr
