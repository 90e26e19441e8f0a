"""The house rules: imports point down, the public surface is listed, commands and plug-ins explain themselves."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import accord
from accord.cli import commands
from accord.cli.app import app
from accord.evidence import metrics, sources
from accord.learning import heads
from accord.testing import check_metric

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "accord"
PAPERS = ROOT / "packages" / "accord-papers" / "src" / "accord_papers"

# From the top of the tree down: a package imports only from packages that stand above it.
ORDER = [
    "version", "edges", "entry_points", "values", "results", "statistics", "runtime", "formats", "redaction", "sample", "store", "models", "embedded", "evidence", "methods", "learning",
    "validation", "decisions", "finetune", "synth", "scoring", "project", "table_check", "charts", "board", "live", "studies", "report", "verbs", "web", "testing", "hosts", "cli",
    "__main__",
]  # fmt: skip


def cure(wrong: object, cure: str) -> str:
    """Return the message of a failed rule: what breaks it, and what to do."""
    lines = "\n".join(map(str, wrong)) if isinstance(wrong, list) else str(wrong)
    return f"{lines}\nTo do: {cure}. CONTRIBUTING.md has a map of the files."


RANK = {name: rank for rank, name in enumerate(ORDER)}


@cache
def tree_of(path: Path) -> ast.Module:
    """A file, parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All of its tree, gone through once."""
    return list(ast.walk(tree_of(path)))


@pytest.fixture(scope="module", autouse=True)
def parsed() -> None:
    """Parse all files before the first test, whose processor time would count it."""
    for path in [*SOURCE.rglob("*.py"), *PAPERS.rglob("*.py"), *(ROOT / "tests").glob("*.py")]:
        nodes_of(path)


def imports() -> Iterator[tuple[str, str, Path]]:
    """(importing room, imported room, file) for every import of one room by another."""
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in nodes_of(path):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module] if node.module != "accord" else [f"accord.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                parts = name.split(".")
                if parts[0] == "accord" and len(parts) > 1 and parts[1] != room:
                    yield room, parts[1], path


def test_imports_point_down_only() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {room} imports {other}"
        for room, other, path in imports()
        if room != "__init__" and RANK[other] > RANK[room]
    ]
    assert not wrong, cure(
        wrong, "move what both need to the lower package, or pass it as an argument; ORDER has the layers"
    )


OPTIONAL = {"embedded", "finetune"}
"""Optional packages, which the rest of Accord imports inside functions, or in a module that is loaded on demand."""
ON_DEMAND = {"finetuning.py"}


def test_the_core_imports_no_optional_package() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {ast.unparse(node)}"
        for path in SOURCE.rglob("*.py")
        if not OPTIONAL & set(path.relative_to(SOURCE).parts) and path.name not in ON_DEMAND
        for node in tree_of(path).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[1:2] in [[name] for name in OPTIONAL]
    ]
    assert not wrong, cure(wrong, "import the optional package inside the function that needs it")


def test_nothing_imports_the_package_of_the_papers() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCE.rglob("*.py*")
        if path.suffix in {".py", ".pyi"}
        for node in nodes_of(path)
        if isinstance(node, ast.Import | ast.ImportFrom) and "accord_papers" in ast.unparse(node)
    ]
    assert not wrong, "accord-papers stands above accord, and is found by its entry points: " + ", ".join(wrong)


def test_only_web_packages_import_a_web_framework() -> None:
    importers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {"fastapi", "starlette"}
    }
    wrong = sorted(name for name in importers if not name.startswith(("web/", "live/service/")))
    assert not wrong, cure(wrong, "move the route to web/pages or live/service; other packages return values")


def test_every_package_has_its_place() -> None:
    packages = {
        path.name.removesuffix(".py")
        for path in SOURCE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    found = packages - {"__init__"}
    assert found == set(RANK), cure(
        found ^ set(RANK), "add a new package to ORDER and to the table of docs/architecture.md"
    )


def test_packages_import_only_public_names() -> None:
    heavy = {"accord.finetune", "accord.learning.answer_models.network.training", "accord.embedded"}
    deep = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in SOURCE.rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("accord.")
        and len(node.module.split(".")) > 2
        and node.module.split(".")[1] != path.relative_to(SOURCE).parts[0].removesuffix(".py")
        and not any(node.module.startswith(each) for each in heavy)
    ]  # fmt: skip
    assert len(deep) < 20, cure(
        sorted(deep), "list the name in the `__init__.pyi` of its package, and import it from there"
    )


def test_tests_import_no_private_names() -> None:
    """Tests of pages and commands use public names; tests of mathematics import modules."""
    wrong = []
    for path in (ROOT / "tests").glob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "accord":
                names = [*str(node.module).split("."), *(alias.name for alias in node.names)]
                if any(name.startswith("_") for name in names):
                    wrong.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong, cure(wrong, "test the behavior through a public name, or remove the underscore")


def test_names_imported_by_tests_exist() -> None:
    """A file whose tests are skipped, for a library that is missing, would not tell."""
    wrong = []
    roots = {"accord": SOURCE, "accord_papers": PAPERS}
    for path in [*(ROOT / "tests").glob("*.py"), *(PAPERS.parents[1] / "tests").glob("*.py")]:
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in roots:
                package, *inner = str(node.module).split(".")
                defined = names_in(roots[package].joinpath(*inner))
                missing = {alias.name for alias in node.names} - defined
                wrong += [f"{path.name}:{node.lineno}: {node.module} has no {name}" for name in sorted(missing)]
    assert not wrong, cure(
        wrong, "import it from the module that defines it; a face holds names that other packages use"
    )


@cache
def names_in(module: Path) -> set[str]:
    """Return the names that a module defines, imports or lists."""
    single = module.with_suffix(".py")
    files = [single] if single.exists() else [module / "__init__.py", module / "__init__.pyi"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files if path.exists())
    found = {each.stem for each in module.iterdir()} if module.is_dir() else set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # opened by the package on demand
    return found


PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.pyi"))


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_exist(package: str) -> None:
    """Public names are imported at first use, so a missing one would fail late."""
    module = importlib.import_module(f"accord.{package}")
    assert module.__all__ == sorted(set(module.__all__)) and not any(name.startswith("_") for name in module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None, name


def test_public_names_do_not_shadow_modules() -> None:
    """A module imported first would replace the name."""
    for stub in SOURCE.glob("*/__init__.pyi"):
        modules = {
            path.stem for path in stub.parent.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
        }
        for node in tree_of(stub).body:
            assert isinstance(node, ast.ImportFrom) and node.level == 1
            twice = {each.name for each in node.names} & modules - {node.module}
            assert not node.module or not twice, cure(f"{stub.parent.name}: {twice}", "rename the module or the name")


LIGHT = [
    "numpy",
    "polars",
    "sklearn",
    "scipy",
    "httpx2",
    "accord.learning.evaluator",
    "accord.models.role_models",
]


def test_opening_a_project_imports_no_learning_or_clients(tmp_path: Path) -> None:
    (tmp_path / "accord.yaml").write_text("seed: 0\n", encoding="utf-8")
    code = "import sys, accord; accord.open().close(); print([name for name in sys.argv[1:] if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code, *LIGHT], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]", cure(
        f"imported when a project is opened: {ran.stdout}",
        "import it inside the function that needs it; move constants to a module without it, such as statistics/defaults.py. "
        "Find the import: python -X importtime -c 'import accord; accord.open()'",
    )


def test_few_ratings_use_one_core() -> None:
    """SciPy brings a library of its own, which nothing can hold before it is loaded."""
    code = (
        "import numpy; from accord.project.evaluators.fit_cache import single_threaded; from threadpoolctl import threadpool_info as found\n"
        "with single_threaded(10):\n    import scipy.linalg; print({each['num_threads'] for each in found()})"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.strip() == "{1}", ran.stdout


def test_only_the_store_speaks_sql() -> None:
    for path in [*SOURCE.rglob("*.py"), *PAPERS.rglob("*.py")]:
        if "store" not in path.parts:
            text = path.read_text(encoding="utf-8")
            assert "sqlalchemy" not in text and "sqlite3" not in text, cure(
                path, "move the query to a module of `store`"
            )


def test_pickle_and_networking_are_limited_to_listed_modules() -> None:
    for path in [*SOURCE.rglob("*.py"), *PAPERS.rglob("*.py")]:
        nodes = nodes_of(path)
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("accord"):
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        is_client = path.match("models/requests/client.py") or path.match("models/requests/web_request.py")
        fetches = {"httpx2"} if is_client else set()
        fetches |= {"requests"} if path.match("hosts/otel.py") else set()  # of the exporter of OpenTelemetry
        assert not names & {"pickle", "requests", "urllib.request", "httpx", "httpx2", "shelve", "marshal"} - fetches, (
            cure(path, "store JSON or safetensors, and send requests by models/requests/web_request.py")
        )


def test_public_surface_is_documented() -> None:
    assert accord.__all__ == sorted(accord.__all__)
    for name in accord.__all__:
        thing = getattr(accord, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name  # its own docstring, not an inherited one
    assert set(dir(accord)) == set(accord.__all__)
    with pytest.raises(AttributeError):
        accord.nothing  # noqa: B018


def test_every_command_has_help_and_a_place_in_the_docs() -> None:
    documented = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    every = [(registered.name, registered) for registered in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None and group.typer_instance.registered_commands
        every += [(f"{group.name} {each.name}", each) for each in group.typer_instance.registered_commands]
    assert len(every) > len(app.registered_commands)
    for name, registered in every:
        assert registered.callback is not None and registered.callback.__doc__, name
        assert f"accord {name}" in documented, cure(name, "run: make docs")


def test_every_plugin_has_a_description() -> None:
    for name, plugin in [*metrics, *sources, *heads]:
        assert plugin.__doc__ or type(plugin).__doc__, name


def test_plugin_is_one_decorated_function() -> None:
    from accord import Conversation

    @metrics.register("test-shouting")
    def shouting(conversation: Conversation) -> float | None:
        """Share of turns in capitals."""
        return (
            sum(turn.content.isupper() for turn in conversation.turns) / len(conversation.turns)
            if conversation.turns
            else None
        )

    try:
        check_metric(metrics.get("test-shouting"))
        with pytest.raises(AssertionError, match="docstring"):
            check_metric(lambda conversation: 1.0)
        with pytest.raises(AssertionError, match="is not a finite number or None"):

            def endless(conversation: Conversation) -> float:
                """Not finite."""
                return float("inf")

            check_metric(endless)
    finally:
        metrics.forget("test-shouting")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom accord.cli import app, commands\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'httpx2', 'sqlalchemy', 'polars', 'pydantic', 'yaml'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == "[]\n", cure(f"imported by accord --help: {found}", "import it inside the command")


def test_each_command_is_registered_by_the_modules_that_its_name_imports() -> None:
    found: dict[str, set[str]] = {}
    groups = [(each.name, each.typer_instance) for each in app.registered_groups]
    for name, each in [
        *((one.name, one) for one in app.registered_commands),
        *((name, one) for name, group in groups for one in group.registered_commands),
    ]:
        found.setdefault(inspect.unwrap(each.callback).__module__.rpartition(".")[2], set()).add(name)
    expected = {module: set(names) for module, names in commands.MODULES.items()}
    assert found == expected, cure("src/accord/cli/commands/__init__.py", "correct its table MODULES")


def test_files_are_documented() -> None:
    for path in [*SOURCE.rglob("*.py"), *PAPERS.rglob("*.py")]:
        assert ast.get_docstring(tree_of(path)), cure(path, "say in the first line what the module contains")


NORMAL_QUANTILES = {1.28, 1.645, 1.96, 2.33, 2.576}


def _defines_level(node: ast.AST) -> bool:
    """Return True for a comparison of a p-value with a number, a normal quantile, or a constant named like a level."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        names = {getattr(side, "attr", getattr(side, "id", "")) for side in sides}
        levels = [side.value for side in sides if isinstance(side, ast.Constant)]
        return bool(names & {"p", "p_holm", "p_value"}) and any(
            isinstance(level, float) and 0.005 <= level <= 0.2 for level in levels
        )
    if isinstance(node, ast.Assign):
        names = {getattr(target, "id", "") for target in node.targets}
        return any(re.fullmatch(r"_?(SIGNIFICAN\w*|CONFIDENCE|SURE|ALPHA|LEVEL)", name) for name in names)
    return isinstance(node, ast.Constant) and node.value in NORMAL_QUANTILES


def test_levels_of_tests_and_intervals_are_defined_in_one_place() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] in {"statistics", "decisions"}:
            continue
        found = [node for node in nodes_of(path) if _defines_level(node)]
        wrong += [f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}" for node in found]
    assert not wrong, "use CONFIDENCE, SIGNIFICANT or SURE of accord.statistics:\n" + "\n".join(wrong)


def test_linter_settings_name_classes_that_exist() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("extend-immutable-calls")[1].split("]\n")[0]
    named = re.findall(r'"(accord[\w.]+)\.(\w+)"', settings)
    assert named and all(hasattr(importlib.import_module(module), name) for module, name in named), named


def test_sample_ratings_equal_the_script_output() -> None:
    drawn = ROOT / "src" / "accord" / "sample" / "ratings.csv"
    before = drawn.read_bytes()
    subprocess.run([sys.executable, str(ROOT / "tools" / "draw_sample_ratings.py")], check=True)
    assert drawn.read_bytes() == before


def test_architecture_page_lists_the_packages_in_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page, flags=re.M)
    expected = [name for name in ORDER if name not in {"version", "__main__"}] + ["accord_papers"]
    assert listed == expected, cure(set(listed) ^ set(expected), "list the packages in the order of ORDER")


def test_pages_for_contributors_name_files_that_exist() -> None:
    pages = [
        ROOT / "docs" / "architecture.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs" / "decisions" / "0055-libraries.md",
    ]
    folders = [ROOT, SOURCE, ROOT / "tests", ROOT / "docs"]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|pyi|md|txt|yaml|html|css))`", text):
            is_there = any((folder / name).exists() or list(folder.glob(f"*/{name}")) for folder in folders)
            assert is_there or name in {"accord.yaml", "prices.yaml"}, cure(
                f"{page.name}: {name}", "name the file as it is now"
            )
    architecture = pages[0].read_text(encoding="utf-8")
    floors = {
        path.parent.relative_to(SOURCE).as_posix()
        for path in SOURCE.glob("*/*/__init__.py")
        if path.parent.parent.name in {"formats", "store", "models", "learning", "project"}
    }
    missing = sorted(floors - set(re.findall(r"^\| `([\w/]+/[\w/]+)` \|", architecture, flags=re.M)))
    assert not missing, cure(missing, "describe the folder under `Folders inside packages` in docs/architecture.md")


def test_map_of_contributors_names_tests_and_targets_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("| to add |")[2].partition("\n\n")[0]
    assert table.count("\n") >= 9
    for name in re.findall(r"`(test_\w+)`", table):
        assert (ROOT / "tests" / f"{name}.py").exists(), name
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    assert set(re.findall(r"`make (\w+)`", page)) <= targets
