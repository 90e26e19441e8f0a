"""Tables of measured figures in the README and the documentation."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


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
        assert tables.with_tables(text) == text, f"{path.name}: run make tables"
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
    assert set(content["machine"]) == {"system", "processor", "cores", "gigabytes", "python", "load"}
    assert isinstance(content["quick"], bool)
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users|mnt|opt)/", text), "the results contain a path"
