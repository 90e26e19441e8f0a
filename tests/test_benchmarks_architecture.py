"""`benchmarks/architecture.py` counts what it says: a tree whose faults are known, and the files of this checkout."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TREE = {
    "values/__init__.py": 'from accord.values.score import Score\n\n__all__ = ["Score"]\n',
    "values/score.py": "class Score:\n    def to_json(self) -> dict[str, Any]:\n        return {}\n",
    "evidence/__init__.py": "class Source:\n    pass\n",
    "methods/__init__.py": "from accord.evidence import Source\n\n\nclass InContext(Source):\n    pass\n",
    "learning/__init__.py": "from accord.methods import InContext\n\n\ndef mine(x: Any) -> bool:\n    return isinstance(x, InContext)\n",
    "learning/presets.py": 'ONE = "in-context"\nTWO = x == "in-context"\n',
    "project/__init__.py": """
import accord.values.score
from accord.methods import InContext
from accord.values.score import Score

KIND = "mixture"


def judge(x, *rest: int) -> dict[str, Any]:
    if isinstance(x, InContext | dict) or x.name == KIND:
        return {"a": x.name == "calibration", "b": x.name == "tea"}
    return {}


class Run:
    def __init__(self, a: int) -> None: ...

    def bad(self, a): ...

    @staticmethod
    def worse(a) -> None: ...

    def describe(self) -> dict[str, Any]: ...
""",
}


@pytest.fixture
def architecture(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "benchmarks" / "architecture.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "architecture", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path):
    for name, text in TREE.items():
        path = tmp_path / "src" / "accord" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "sixth_source.py").write_text("one\ntwo\n")
    return tmp_path / "src"


def test_it_counts_what_is_there_and_nothing_else(architecture, tree):
    found = architecture.measure(tree)
    assert found["files-naming-in_context"] == ["learning/__init__.py", "project/__init__.py"]
    assert found["files-naming-mixture"] == ["project/__init__.py"] and found["files-naming-issues"] == []
    assert found["isinstance-of-evaluator"] == ["project/__init__.py:10 InContext"]
    assert found["method-comparisons"] == [
        "project/__init__.py:10 mixture", "project/__init__.py:11 calibration",
    ]  # fmt: skip
    assert found["imports-past-init"] == [
        "project/__init__.py:2 accord.values.score", "project/__init__.py:4 accord.values.score",
    ]  # fmt: skip
    assert found["dict-any-returns"] == ["project/__init__.py:9 judge"]
    assert sorted(found["untyped"]) == [
        "project/__init__.py:18 bad", "project/__init__.py:21 worse", "project/__init__.py:9 judge",
    ]  # fmt: skip
    assert found["single-importer-dust"] == []  # score.py has two
    lines = sum(text.count("\n") for text in TREE.values())
    assert (found["files"], found["lines"], found["sixth-source"]) == (len(TREE), lines, 2)
    assert sum(value for name, value in found.items() if name.startswith("lines-")) == lines
    assert found["import-share"] == pytest.approx(7 / lines)


def test_a_short_file_with_one_importer_is_named_with_it(architecture, tree):
    project = tree / "accord" / "project" / "__init__.py"
    project.write_text(project.read_text().replace("accord.values.score", "accord.values"))
    found = architecture.measure(tree)
    assert found["single-importer-dust"] == ["values/score.py (3 lines, by values/__init__.py)"]
    assert found["imports-past-init"] == []


@pytest.mark.slow
def test_the_baseline_stands_beside_it_in_the_same_run(architecture, tree, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["architecture.py", "--baseline", str(tree), "--json", str(out), "--quick"])
    architecture.main()
    rows = {row["what"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows["files"]["baseline"] == len(TREE)
    assert rows["files"]["value"] == len(list((ROOT / "src" / "accord").rglob("*.py")))
    assert rows["dict-any-returns"]["baseline"] == 1
    assert "baseline" in capsys.readouterr().out.splitlines()[0]
