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


def test_commands_of_other_packages_run_with_their_help_and_their_errors(install: Install, site: Path) -> None:
    for form, module in COMMANDS.items():
        install(f"of_{form}", module, f"[accord.commands]\n{form} = of_{form}:hello\n", f"Summary: Greets as {form}.\n")
    listed = accord(site, "--help").stdout.replace("\n", " ")
    assert all(f"Greets as {form}" in listed for form in COMMANDS) and "paper" in listed
    for form in COMMANDS:
        assert accord(site, form, "Ann", "--loud").stdout == "HELLO Ann\n"
        shown = accord(site, form, "-h").stdout
        assert "Greet somebody." in shown and f"Usage: python -m accord {form}" in shown
        assert "--quiet-ly" in accord(site, form, "--quiet-ly", code=2).stderr


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
    "missing module": ("", "hello{0} = nowhere:hello", "No module named 'nowhere'"),
    "missing name": ("", "hello{0} = greeter{0}:hello", "has no attribute 'hello'"),
    "raises": ("raise RuntimeError('first\\nsecond')", "hello{0} = greeter{0}:hello", r"RuntimeError: first\nsecond"),
    "exits": ("raise SystemExit(0)", "hello{0} = greeter{0}:hello", "SystemExit: 0"),
    "no command": ("hello = 3", "hello{0} = greeter{0}:hello", "is a int; it must be a function"),
    "syntax error": ("def hello(:", "hello{0} = greeter{0}:hello", "SyntaxError"),
}
"""Module, entry point and reason of commands that cannot run."""


@pytest.mark.attack
def test_broken_command_is_one_line_that_names_the_package(install: Install, site: Path) -> None:
    for place, (module, entry, _) in enumerate(BROKEN.values()):
        install(f"greeter{place}", module, f"[accord.commands]\n{entry.format(place)}\n")
    assert not accord(site, "--help").stderr
    for place, (fault, (*_, reason)) in enumerate(BROKEN.items()):
        said = accord(site, f"hello{place}", code=1).stderr
        assert said.count("\n") == 1 and f"package greeter{place}" in said and reason in said, fault


UNUSABLE = {
    "malformed": ("[accord.commands]\nhello\n", "malformed-1.0.dist-info are left out"),
    "namesake": ("[accord.commands]\nscore = namesake:hello\n", "accord has a command of this name"),
    "coloured": ("[accord.commands]\nhel\x1b[31mlo = coloured:hello\n", "its name is malformed"),
}
"""Entry points that are left out, by package, with the warning."""


@pytest.mark.attack
def test_unusable_command_is_left_out_of_the_help_with_one_warning(install: Install, site: Path) -> None:
    for package, (entry_points, _) in UNUSABLE.items():
        install(package, COMMANDS["function"], entry_points)
    done = accord(site, "--help")
    assert done.stderr.count("\n") == len(UNUSABLE)
    for package, (_, warning) in UNUSABLE.items():
        [line] = [line for line in done.stderr.splitlines() if warning in line]
        assert package in line
    assert "\x1b" not in done.stderr + done.stdout and "Score conversations" in done.stdout
    assert "Score conversations" in accord(site, "score", "--help").stdout


def test_head_of_another_package_is_found(install: Install, site: Path) -> None:
    install("planter", HEAD, "[accord.heads]\nplanted = planter\n")
    done = accord(site, "plugins")
    assert "planted" in done.stdout and "A head of another package." in done.stdout and not done.stderr


FAULTY = {
    "missing": ("import nowhere", "missing", "No module named 'nowhere'"),
    "exiting": ("raise SystemExit(3)", "exiting", "SystemExit: 3"),
    "namesake": (HEAD.replace('"planted"', '"mixed"'), "namesake", "two plug-ins are registered as the head 'mixed'"),
    "malformed0": (HEAD, "3 !!", ""),
    "malformed1": (HEAD, "malformed1:", ""),
    "malformed2": (HEAD, "malformed2:nothing", ""),
    "malformed3": (HEAD, "malformed3.inner", ""),
}
"""Module, entry point and reason of heads that cannot be loaded, by package."""


@pytest.mark.attack
def test_broken_heads_are_one_warning_each_that_names_the_package_and_other_plugins_work(
    install: Install, site: Path
) -> None:
    for package, (module, value, _) in FAULTY.items():
        install(package, module, f"[accord.heads]\n{package} = {value}\n")
    install("grower", HEAD.replace("planted", "grown"), "[accord.heads]\ngrown = grower\n")
    done = accord(site, "plugins")
    assert "mixed" in done.stdout and "grown" in done.stdout and done.stderr.count("\n") == len(FAULTY)
    for package, (*_, reason) in FAULTY.items():
        [line] = [line for line in done.stderr.splitlines() if f"package {package} cannot be loaded" in line]
        assert reason in line


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


BASELINES = """
from accord.evidence import Column, EvidenceTable
from accord.learning import Experiment, PMI
from accord.testing import planted
from accord.validation import baselines

corpus = planted(conversations=60)
names = EvidenceTable(corpus.evidence.targets, tuple(
    Column(PMI if column.name == "f0" else column.name, column.source) for column in corpus.evidence.columns
), corpus.evidence.values, corpus.evidence.present)
print(*[each.name for each in baselines(Experiment.of(names, corpus.labels, corpus.question, 5, 0))])
"""
"""Names of the baselines of a project that has likelihoods, so that `label-free` would be possible."""
COMMANDS_IN_ONE = """
import sys
sys.path.insert(0, TESTS)
from commands import invoke
from accord.cli import commands
print(invoke("plugins").stdout, "=====")
invoke("import", CHATS, RATINGS)
print(invoke("compare", "--json").stdout, "=====")
print(invoke("fit", "svr", code=1).stderr)
"""


def test_compare_without_the_package_leaves_out_its_heads(
    without_papers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(BASELINES, "with the package", "exec"), {})
    assert "label-free" in capsys.readouterr().out.split()
    few = "folds: 2\nrepeats: 1\ndraws: 20\nmetrics: [words]\nevaluators: {default: {head: mixed}}\n"
    (without_papers / "accord.yaml").write_text(few, encoding="utf-8")
    names = {"TESTS": str(Path(__file__).parent), "CHATS": str(sources()[0]), "RATINGS": str(sources()[1])}
    constants = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    printed = ran(without_papers, "-c", constants + COMMANDS_IN_ONE + "print('=====')\n" + BASELINES).stdout
    listed, compared, failed, baselines = printed.split("=====")
    assert "label-free" not in baselines.split() and "constant" in baselines.split()
    assert "mixture" in listed and "svr" not in listed and "label-free" not in listed
    assert '"mixture"' in compared and '"svr"' not in compared and '"label-free"' not in compared
    assert "the head 'svr' needs the package accord-papers" in failed
