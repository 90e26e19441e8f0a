"""The two distributions of the repository: entry points, requirements, wheels and source archives."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
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
    assert set(answer_models.names()) == {"svr", "gated", "concat", "grid", "users", "balanced"}


def test_each_distribution_requires_a_range_of_the_other():
    [core] = [each for each in PROJECT["dependencies"] if each.startswith("accord>")]
    [papers] = CORE["optional-dependencies"]["papers"]
    release = ".".join(__version__.split(".")[:2])
    for requirement in (core, papers):
        assert f">={release}.0,<" in requirement and "==" not in requirement


DISTRIBUTIONS = {"accord": ROOT, "accord_papers": PACKAGE}


def build(folder: Path, target: str, out: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    [built] = out.iterdir()
    return built


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    pytest.importorskip("hatchling", reason="builds the wheels; a development requirement")
    return {name: build(folder, "wheel", tmp_path_factory.mktemp(name)) for name, folder in DISTRIBUTIONS.items()}


@pytest.mark.parametrize("package", DISTRIBUTIONS)
def test_wheel_holds_the_package_and_nothing_else(package, wheels):
    archive = zipfile.ZipFile(wheels[package])
    source = DISTRIBUTIONS[package] / "src"
    files = {path for path in (source / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    about = f"{package}-{__version__}.dist-info"
    metadata = {f"{about}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
    assert set(archive.namelist()) == metadata | {path.relative_to(source).as_posix() for path in files}
    assert f"{package}/py.typed" in archive.namelist()
    headers, _, readme = archive.read(f"{about}/METADATA").decode().partition("\n\n")
    assert {line.partition(",")[0] for line in headers.splitlines() if line.startswith("Project-URL")} == {
        f"Project-URL: {name}" for name in ("Changelog", "Documentation", "Issues", "Source")
    }
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert links and all(link.startswith("https://") for link in links)
    assert "$HFPR" not in readme


@pytest.mark.parametrize("package", DISTRIBUTIONS)
def test_source_archive_builds_the_same_wheel(package, wheels, tmp_path):
    with tarfile.open(build(DISTRIBUTIONS[package], "sdist", tmp_path / "sdist")) as archive:
        names = [name.split("/") for name in archive.getnames()]
        archive.extractall(tmp_path, filter="data")
    [top] = {name[0] for name in names}
    assert {name[1] for name in names} <= {
        "src", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"
    }  # fmt: skip
    rebuilt = build(tmp_path / top, "wheel", tmp_path / "wheel")
    assert rebuilt.name == wheels[package].name and rebuilt.read_bytes() == wheels[package].read_bytes()


def test_commands_run_from_the_wheels_alone(wheels, tmp_path):
    """In a new environment, whose other packages are those of this one."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=os.name != "nt")
    pip = [sys.executable, "-m", "pip", "--python", str(environment), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, *wheels.values()], check=True, capture_output=True)
    bin_folder = environment / ("Scripts" if os.name == "nt" else "bin")
    command = shutil.which("accord", path=str(bin_folder))
    [python] = [each for each in (bin_folder / "python", bin_folder / "python.exe") if each.exists()]
    own = Path(output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    for package in DISTRIBUTIONS:
        assert str(own) in output(python, "-c", f"import {package}; print({package}.__file__)")
    assert output(command, "--version") == f"accord {__version__}\n"
    output(command, "demo", "--out", str(tmp_path / "demo"))
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
    assert "table-1" in output(command, "paper", "ciu", "--list")


def output(*command: str | Path) -> str:
    folder = Path(command[0]).parent
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    assert result.returncode == 0, result.stderr
    return result.stdout
