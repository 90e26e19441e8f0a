"""Tables of measured figures in the README and the documentation."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.fixture
def harness(tables: ModuleType) -> ModuleType:
    return sys.modules["harness"]


@pytest.fixture
def tables() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("write_tables", ROOT / "tools" / "write_tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module


def test_tables_match_the_results(tables: ModuleType) -> None:
    names: set[str] = set()
    for path in tables.pages():
        text = path.read_text(encoding="utf-8")
        assert tables.with_tables(text, is_marked=False) == tables.without_marks(text), f"{path.name}: run make tables"
        names |= {match["name"] for match in tables.TABLE.finditer(text)}
    assert names == set(tables.definitions()), "each defined table is on a page"


def test_pages_have_no_other_html_comments(tables: ModuleType) -> None:
    for path in tables.pages():
        rest = tables.TABLE.sub("", path.read_text(encoding="utf-8"))
        assert "<!--" not in rest, path.name


def test_figures_select_one_row(tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"system": "accord", "rmse": 0.7241, "rmse_low": 0.69, "rmse_high": 1.0, "share": 0.9949, "count": 12345.6},
        {"system": "other", "rmse": None, "of": "sums", "lost": 3, "version": "3.17.2"},
        {"system": "third", "of": "sums", "lost": 4},
        {"what": "gain", "value": -0.018, "low": -0.03, "high": None},
    ]
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.figure('some rmse system=accord as="{:.3} [{low:.2}, {high:.2}]"') == ".724 [.69, 1.00]"
    assert tables.figure("some share system=accord as={:.1%}") == "99.5%"
    assert tables.figure("some count system=accord as={:,.0f}") == "12,346"
    assert tables.figure("some value what=gain as='{:.3} from {low:.2}'") == "-.018 from -.03"
    assert tables.figure("some sum:lost of=sums as={:.0f}") == "7"
    assert tables.figure("some version system=other lost=3 as={}") == "3.17.2"
    for placeholder, message in {
        "some rmse": "4 rows match",
        "some sum:rmse of=sums": "2 rows, 2 without a value",
        "some sum:lost of=nothing": "0 rows",
        "some rmse system=missing": "0 rows match",
        "some rmse system=other": "no column 'rmse'",
        "nothing rmse": "no results of 'nothing'. Available: some",
    }.items():
        with pytest.raises(tables.UnknownFigure, match=message):
            tables.figure(placeholder)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_name_commit_and_machine_but_no_path(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    content = json.loads(text)
    assert (ROOT / "benchmarks" / f"{path.stem}.py").is_file() and content["benchmark"] == path.stem
    assert content["accord_version"] and re.fullmatch(r"[0-9a-f]{7,40}\+?", content["commit"]) and content["rows"]
    for part in (content, *(row for row in content["rows"] if "commit" in row)):
        assert part["code"] is None or re.fullmatch(r"[0-9a-f]{12}", part["code"]), "run benchmarks/harness.py --stamp"
    assert set(content["machine"]) == {"system", "processor", "cores", "gigabytes", "python", "load"}
    assert isinstance(content["quick"], bool)
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users|mnt|opt)/", text), "the results contain a path"


def test_readme_quotes_stored_figures_of_the_present_code(tables: ModuleType, harness: ModuleType) -> None:
    for row in tables.definitions()["readme"]["rows"]:
        typed = re.findall(
            r"(?<![\w.])\.?\d[\d.]*", " ".join(tables.PLACEHOLDER.sub("", str(cell)) for cell in row[2:4])
        )
        assert not typed, f"{row[0]}: {typed} are in no result"
        again = "; ".join(harness.command_of(tables.load_results(name)) for name in tables.changed(row))
        assert not again, f"the code behind a figure of the README changed: {row[0]}. Run {again}; make tables"


CHECKOUT = {
    "benchmarks/some.py": "from accord.learning import fit\nfrom helper import plant\n",
    "benchmarks/helper.py": "def plant():\n    from accord.statistics.means import mean\n",
    "src/accord/learning/__init__.pyi": "from .head import fit as fit, other as other\n",
    "src/accord/learning/__init__.py": "",
    "src/accord/learning/head.py": "from accord.learning.weights import SLOPE\n\ndef fit(x):\n    return SLOPE * x\n",
    "src/accord/learning/weights.py": "from accord.store import Store\nSLOPE = 2\n",
    "src/accord/learning/unused.py": "LIMIT = 1\n",
    "src/accord/statistics/__init__.py": "",
    "src/accord/statistics/means.py": "def mean(x):\n    return sum(x) / len(x)\n",
    "src/accord/store.py": "class Store: ...\n",
}
HEAD = CHECKOUT["src/accord/learning/head.py"]


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        ({"src/accord/learning/head.py": f'"""Fit."""\n# why\n{HEAD.replace("(x)", "( x )")}"""After it."""\n'}, True),
        ({"src/accord/learning/head.py": f"import math\nfrom typing import TYPE_CHECKING\n{HEAD}"}, True),
        ({"src/accord/learning/weights.py": f"SLOPE = 2\n{HEAD}",
          "src/accord/learning/head.py": "from accord.learning.weights import fit"}, True),
        ({"src/accord/learning/unused.py": "LIMIT = 2\n", "src/accord/store.py": "class Store: x = 1\n"}, True),
        ({"benchmarks/some.py": f"# {CHECKOUT['benchmarks/some.py']}{CHECKOUT['benchmarks/some.py']}DRAWS = 3\n"}, True),
        ({"src/accord/learning/weights.py": "SLOPE = 3\n"}, False),
        ({"src/accord/statistics/means.py": "def mean(x):\n    return sum(x) / (len(x) - 1)\n"}, False),
        ({"src/accord/learning/weights.py": "SLOPE = 2\nSLOPE *= 2\n"}, False),
    ],
    ids=["form", "imports", "moved", "unused", "benchmark", "constant", "imported by a helper", "added"],
)  # fmt: skip
def test_hash_of_the_code_changes_with_what_a_figure_depends_on(
    harness: ModuleType, tmp_path: Path, changed: dict[str, str], is_same: bool
) -> None:
    for name, files in (("before", CHECKOUT), ("after", CHECKOUT | changed)):
        for path, text in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text, encoding="utf-8")
    before, after = (harness.code_hash("some", tmp_path / name) for name in ("before", "after"))
    assert before is not None and (before == after) is is_same
    assert harness.code_hash("missing", tmp_path / "before") is None


def test_packages_of_measured_code_exist(harness: ModuleType) -> None:
    for benchmark, packages in harness.CODE.items():
        assert (ROOT / "benchmarks" / f"{benchmark}.py").is_file(), benchmark
        for name in packages:
            path = ROOT / "src" / name.replace(".", "/")
            papers = ROOT / "packages" / "accord-papers" / "src" / name
            assert path.is_dir() or path.with_suffix(".py").is_file() or papers.is_dir(), f"{benchmark}: {name}"


def test_rows_of_changed_code_are_marked(
    tables: ModuleType, harness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = harness.code_hash("drift")
    rows = [
        {"what": "new", "value": 0.1},
        {"what": "old", "value": 0.2, "commit": "1234567", "code": "0" * 12},
        {"what": "unknown", "value": 0.3, "commit": "1234567+", "code": None},
    ]
    (tmp_path / "drift.json").write_text(json.dumps({"commit": "7654321", "code": now, "rows": rows}), encoding="utf-8")
    cells = {name: f"{{{{drift value what={name}}}}}" for name in ("new", "old", "unknown")}
    defined = {
        "mixed": {
            "columns": ["row", "figure"],
            "rows": [["one", cells["new"]], ["two", f"{cells['new']} {cells['old']}"]],
        },
        "all": {"columns": ["row", "figure"], "rows": [["one", cells["old"]], ["two", cells["unknown"]]]},
        "none": {"columns": ["row", "figure"], "rows": [["one", cells["new"]], ["two", "by hand"]]},
    }
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(tables, "definitions", lambda: defined)
    head = "| row | figure |\n| --- | --- |\n"
    assert tables.render("none") == f"{head}| one | .100 |\n| two | by hand |\n"
    assert tables.render("mixed") == f"{head}| one | .100 |\n| two † | .100 .200 |\n\n{tables.SOME_CHANGED}\n"
    assert tables.render("all") == f"{head}| one | .200 |\n| two | .300 |\n\n{tables.ALL_CHANGED}\n"
    page = "".join(f"<!-- table: {name} -->\n<!-- end of table -->\n" for name in defined)
    marked = tables.with_tables(page)
    assert tables.without_marks(marked) == tables.with_tables(page, is_marked=False)
    assert tables.with_tables(marked) == marked, "marks are not added twice"


def test_sections_of_paper_pages_are_marked(
    tables: ModuleType, harness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = "1" * 12
    hashes = {"accord_papers.soda_eval.tables_and_figures": now}
    monkeypatch.setattr(harness, "code_hash", lambda name, root: hashes[name])
    new, old = (f"`accord paper soda-eval --only table-8` (commit 1234567, code {code})" for code in (now, "0" * 12))
    page = f"## Table 8\n\n{new}\n\n{old}\n\n`accord paper soda-eval --only figures`\n"
    marked = page.replace(old, old + tables.PART_CHANGED)
    assert tables.with_tables(page) == tables.with_tables(marked) == marked and tables.without_marks(marked) == page
    (tmp_path / "soda-eval.md").write_text("`accord paper soda-eval --only table-8`\n\n| 1 |\n", encoding="utf-8")
    harness.stamp_page(tmp_path / "soda-eval.md")
    assert f"--only table-8` (commit {(harness.commit() or '').rstrip('+')}, code {now})\n\n| 1 |" in (
        tmp_path / "soda-eval.md"
    ).read_text(encoding="utf-8")


def test_results_say_how_they_were_measured(
    harness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["drift.py", "--only", "drift-quiet", "--limit", "2", "--json", "drift.json"])
    harness.write("drift", [{"what": "quiet", "value": 0.1}], tmp_path / "drift.json")
    content = json.loads((tmp_path / "drift.json").read_text(encoding="utf-8"))
    assert content["code"] == harness.code_hash("drift") and harness.is_current("drift", content, content["rows"][0])
    assert harness.command_of(content) == (
        "python benchmarks/drift.py --only drift-quiet --limit 2 --json benchmarks/results/drift.json"
    )
    [row] = harness.ages(tmp_path)
    assert row["rows"] == 1 and row["rows_of_changed_code"] == 0
