"""The two distributions of the repository: entry points, requirements, and wheels without files of the other."""

import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from accord.entry_points import installed, load
from accord.learning import heads
from accord.learning.answer_models.registry import answer_models
from accord.version import __version__

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.parents[1]
PROJECT = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize(
    ("group", "entry", "value"),
    [(group, entry, value) for group, each in PROJECT["entry-points"].items() for entry, value in each.items()],
)
def test_entry_points_are_installed_and_load(group, entry, value):
    [found] = [each for each in installed(group) if each.value.startswith("accord_papers.")]
    assert (found.name, found.value) == (entry, value)
    module, _, name = value.partition(":")
    assert load(found) is (getattr(import_module(module), name) if name else import_module(module))


def test_published_heads_and_answer_models_are_registered():
    assert {"svr", "gated", "concat", "label-free"} <= set(heads.names())
    assert set(answer_models.names()) == {"svr", "gated", "concat", "grid"}


def test_each_distribution_requires_a_range_of_the_other():
    [core] = [each for each in PROJECT["dependencies"] if each.startswith("accord>")]
    [papers] = CORE["optional-dependencies"]["papers"]
    release = ".".join(__version__.split(".")[:2])
    for requirement in (core, papers):
        assert f">={release}.0,<" in requirement and "==" not in requirement


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "package"), [(ROOT, "accord"), (PACKAGE, "accord_papers")])
def test_wheel_has_no_file_of_the_other_distribution(folder, package, tmp_path):
    pytest.importorskip("hatchling", reason="builds the wheels; a development requirement")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {package, f"{package}-{__version__}.dist-info"}
    assert {f"{package}/__init__.py", f"{package}/__init__.pyi", f"{package}/py.typed"} <= set(names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)
