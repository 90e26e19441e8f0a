"""No figure of the README or of the page of measurements stands by hand: it is a benchmark's, or names its version."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_figures", ROOT / "tools" / "write_figures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_stands_in_the_texts_is_what_was_measured(figures: ModuleType) -> None:
    shown = 0
    for path in figures.texts():
        text = path.read_text(encoding="utf-8")
        assert figures.written(text) == text, f"{path.name}; run: make figures"
        shown += len(figures.SHOWN.findall(text))
    assert shown > 5


def test_every_figure_has_a_source_or_says_which_version_was_measured(figures: ModuleType) -> None:
    for name, part in figures.measured_parts():
        assert not (found := list(figures.unsourced(part))), f"{name}: {found}"


def test_a_figure_without_a_source_is_refused(figures: ModuleType) -> None:
    assert list(figures.unsourced("RMSE is .724 here.\n\nNothing.\n\nSo are 85 % of them.")) == [
        "'.724' in: RMSE is .724 here.",
        "'85 %' in: So are 85 % of them.",
    ]
    table = "| a | b |\n|---|---|\n| x | .5 <!-- measured: 0.1 --> |\n| y | **1.5** |"
    assert list(figures.unsourced(table)) == ["'1.5' in: | y | **1.5** |"], "each row of a table for itself"
    assert not list(figures.unsourced("Intervals are 95 %. `draws: 0.5`, see [x](0.5.md), version 0.2.1."))


def test_figures_are_rows_of_results(figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"system": "accord", "rmse": 0.7241, "rmse_low": 0.69, "rmse_high": 1.0, "share": 0.9949, "count": 12345.6},
        {"system": "other", "rmse": None},
    ]
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    figures.rows_of.cache_clear()
    shown = 'RMSE <!-- figure: some rmse system=accord as="{:.3} [{low:.2}, {high:.2}]" -->x<!-- /figure -->.'
    assert figures.SHOWN.sub("|", shown) == "RMSE |."
    assert re.search(r"-->(.*?)<!-- /", figures.written(shown))[1] == ".724 [.69, 1.00]"  # type: ignore[index]
    assert figures.figure("some share system=accord as={:.1%}") == "99.5 %"
    assert figures.figure("some count system=accord as={:,.0f}") == "12,346"
    for source, said in {
        "some rmse": "2 rows",
        "some rmse system=nobody": "0 rows",
        "some rmse system=other": "no 'rmse'",
        "nothing rmse": "no results of 'nothing'; there are: some",
    }.items():
        with pytest.raises(figures.WrongFigure, match=said):
            figures.figure(source)
    figures.rows_of.cache_clear()


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_say_what_was_measured_where_and_name_no_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = json.loads(text)
    assert (ROOT / "benchmarks" / f"{path.stem}.py").is_file() and found["benchmark"] == path.stem
    assert found["accord_version"] and re.fullmatch(r"[0-9a-f]{7,40}\+?", found["commit"]) and found["rows"]
    assert set(found["machine"]) == {"system", "processor", "cores", "gigabytes", "python", "load"}
    assert isinstance(found["quick"], bool)
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users|mnt|opt)/", text), "it names a path"
