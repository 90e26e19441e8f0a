"""Counts of `benchmarks/architecture.py` on a small tree, and those of this checkout that have to be zero."""

import ast
import importlib.util
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[1]

TREE = {
    "values/__init__.py": 'from accord.values.score import Score\n\n__all__ = ["Score"]\n',
    "values/score.py": "class Score:\n    def to_json(self) -> dict[str, Any]:\n        return {}\n",
    "evidence/__init__.py": "class Source:\n    pass\n",
    "methods/__init__.py": "from accord.evidence import Source\n\n\nclass InContext(Source):\n    pass\n",
    "learning/__init__.py": "from accord.methods import InContext\n\n\ndef is_in_context(x: Any) -> bool:\n    return isinstance(x, InContext)\n",
    "learning/presets.py": 'ONE = "in-context"\nTWO = x == "in-context"\n',
    "project/__init__.py": """
import accord.values.score
from accord.methods import InContext
from accord.values.score import Score

KIND = "mixture"


def judge(x, *rest: int) -> dict[str, Any]:
    if isinstance(x, InContext | dict) or x.name == KIND:
        return {"a": x.name == "default", "b": x.name == "tea"}
    return {}


class Run:
    def describe(self) -> dict[str, Any]: ...
""",
}


@pytest.fixture(scope="module")
def architecture():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        spec = importlib.util.spec_from_file_location("architecture", ROOT / "benchmarks" / "architecture.py")
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "architecture", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def tree(tmp_path):
    for name, text in TREE.items():
        path = tmp_path / "src" / "accord" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "src"


def test_counts_of_a_small_tree(architecture, tree):
    counts = architecture.measure(tree)
    assert counts["isinstance-of-evaluator"] == ["project/__init__.py:10 InContext"]
    assert counts["method-comparisons"] == [
        "project/__init__.py:10 mixture", "project/__init__.py:11 default",
    ]  # fmt: skip
    assert counts["dict-any-returns"] == ["project/__init__.py:9 judge"]
    assert counts["single-importer-dust"] == []  # score.py has two
    lines = sum(text.count("\n") for text in TREE.values())
    assert (counts["files"], counts["lines"]) == (len(TREE), lines)
    assert sum(value for name, value in counts.items() if name.startswith("lines-")) == lines
    assert counts["core code-lines"] == 19 and counts["papers code-lines"] == 0


@pytest.mark.parametrize("folder", ["packages/accord-papers/src/accord_papers", "src/accord/papers"])
def test_lines_of_the_papers_are_counted_apart(architecture, tree, folder):
    core = architecture.measure(tree)["core code-lines"]
    package = tree.parent / folder
    package.mkdir(parents=True)
    (package / "study.py").write_text('"""A study."""\n\nimport numpy\n\nX = 1\nY = 2\n', encoding="utf-8")
    counts = architecture.measure(tree)
    assert (counts["core code-lines"], counts["papers code-lines"]) == (core, 2)


def test_short_file_with_one_importer_is_listed_with_its_importer(architecture, tree):
    project = tree / "accord" / "project" / "__init__.py"
    project.write_text(
        project.read_text(encoding="utf-8").replace("accord.values.score", "accord.values"), encoding="utf-8"
    )
    counts = architecture.measure(tree)
    assert counts["single-importer-dust"] == ["values/score.py (3 lines, imported by values/__init__.py)"]


RING = {
    "store/__init__.py": "",
    "store/__init__.pyi": "from .rows import read as read, Row as Row\nfrom .store import Store as Store, size as size\n",
    "store/rows.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from accord.store.store import Store\n",
    "store/store.py": "def read():\n    from accord.store.rows import read\n",
    "project/__init__.py": "",
    "project/project.py": "from accord import project as steps\nfrom accord.store import Store\n\nsteps.fit()\n",
    "project/fitting.py": "from accord import store\n\nstore.size()\n\n\ndef fit():\n    from accord.project.project import x\n",
    "project/__init__.pyi": "from .fitting import fit as fit\n",
    "report/report.py": "from accord.project.project import x\n",
}


def test_rings_hidden_in_functions_and_type_checks_are_found(architecture, tmp_path):
    for name, text in RING.items():
        path = tmp_path / "src" / "accord" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    files = architecture.read_package(tmp_path / "src")
    ring = ["accord.project.fitting", "accord.project.project", "accord.store.rows", "accord.store.store"]
    assert architecture.hidden_cycles(files) == ring
    assert architecture.unused_face_names(files) == ["project.fit", "store.Row", "store.read"]
    assert architecture.all_face_names(files) == 5 and architecture.largest_floor(files) == 2


def test_branches_inside_expressions_count(architecture):
    code = """
def f(x):
    if x and x > 1:
        return [a for a in x if a]
    for a in x:
        try:
            g = a if x else lambda: x or a
        except ValueError:
            pass
    def inner():
        return x if x else 0
"""
    assert architecture.branches(ast.parse(code).body[0]) == 8


def test_sizes_of_functions_leave_out_docstrings_and_blank_lines(architecture):
    code = 'import os\n\n\ndef _one():\n    """Text."""\n\n    return 1\n\n\ndef two():\n    return _one() + 1\n'
    files = [architecture.File("values/a.py", code)]
    sizes = architecture.function_sizes(files)
    assert (sizes["functions"], sizes["code-lines-per-function"], sizes["longest-function"]) == (2, 2.0, 2)
    assert architecture.single_caller_functions(files) == ["values/a.py:4 _one"]


def test_baseline_is_a_second_column(architecture, tree, tmp_path, monkeypatch, capsys):
    out, own = tmp_path / "out.json", tmp_path / "own" / "src" / "accord" / "values"
    own.mkdir(parents=True)
    (own / "score.py").write_text("def one():\n    return 1\n", encoding="utf-8")
    monkeypatch.setattr(architecture, "ROOT", tmp_path / "own")
    monkeypatch.setattr(sys, "argv", ["architecture.py", "--baseline", str(tree), "--json", str(out), "--quick"])
    architecture.main()
    rows = {row["what"]: row for row in json.loads(out.read_text(encoding="utf-8"))["rows"]}
    assert rows["files"]["baseline"] == len(TREE)
    assert rows["files"]["value"] == 1
    assert rows["dict-any-returns"]["baseline"] == 1
    assert "baseline" in capsys.readouterr().out.splitlines()[0]


def test_this_checkout_has_no_type_checks_of_evaluators_and_no_rings(architecture):
    files = architecture.read_package(ROOT / "src")
    for count in (architecture.evaluator_type_checks, architecture.preset_comparisons, architecture.hidden_cycles):
        assert not count(files)


def test_docstrings_of_this_checkout_begin_with_a_noun_or_a_verb(architecture):
    assert not architecture.wording.count([ROOT / "src"]).kinds["docstring start"]
