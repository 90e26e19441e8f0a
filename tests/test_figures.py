"""No figure of the README or of the docs stands by hand: it is a benchmark's, names its version, or is no measurement."""

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
    names = [name for name, _ in figures.pages()]
    assert {"README.md", "docs/measured.md", "docs/methods.md"} < set(names)
    for name, page in figures.pages():
        assert not (found := list(figures.unsourced(page))), f"{name}: {found}"


def test_the_page_of_measurements_names_the_commit_and_the_machine_of_every_result(figures: ModuleType) -> None:
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    sources = {found["source"] for found in figures.SHOWN.finditer(page)}
    for path in RESULTS:
        assert {f"{path.stem} {what}" for what in figures.OF_FILE} <= sources, (
            f"add a row for {path.stem}; make figures"
        )


def test_a_figure_without_a_source_is_refused(figures: ModuleType) -> None:
    assert list(figures.unsourced("RMSE is .724 here.\n\nNothing.\n\nSo are 85 % of them.")) == [
        "'.724' in: RMSE is .724 here.",
        "'85 %' in: So are 85 % of them.",
    ]
    table = "| a | b |\n|---|---|\n| x | .5 <!-- measured: 0.1 --> |\n| y | **1.5** |"
    assert list(figures.unsourced(table)) == ["'1.5' in: | y | **1.5** |"], "each row of a table for itself"
    assert not list(figures.unsourced("Intervals are 95 %. `draws: 0.5`, see [x](0.5.md), version 0.2.1, Apache-2.0."))
    assert not list(figures.unsourced("At most 64 MB.\n<!-- given: a bound -->\n\n```sh\ntakes 3 s\n```\n"))


@pytest.mark.parametrize(
    "said",
    ["12 ms", "1,138 times", "it is .05.", "r = -.43", "28,000 a second", "2,000 spans a second", "3.5 kB", "95 %"],
)
def test_figures_are_found_by_their_decimals_and_units(said: str, figures: ModuleType) -> None:
    assert list(figures.unsourced(f"That took {said} here."))
    assert not list(figures.unsourced(f"That took {said} here. <!-- measured: 0.2 -->"))


def test_figures_are_rows_of_results(figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"system": "accord", "rmse": 0.7241, "rmse_low": 0.69, "rmse_high": 1.0, "share": 0.9949, "count": 12345.6},
        {"system": "other", "rmse": None, "of": "sums", "lost": 3},
        {"system": "third", "of": "sums", "lost": 4},
        {"what": "gain", "value": -0.018, "low": -0.03, "high": None},
    ]
    machine = {"processor": "Fast(R) CPU", "cores": 2, "gigabytes": 24, "python": "3.11.7", "load": 1.26}
    found = {"commit": "abc+", "quick": True, "only": "a,b", "machine": machine, "rows": rows}
    (tmp_path / "some.json").write_text(json.dumps(found))
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    figures.results_of.cache_clear()
    shown = 'RMSE <!-- figure: some rmse system=accord as="{:.3} [{low:.2}, {high:.2}]" -->x<!-- /figure -->.'
    assert figures.SHOWN.sub("|", shown) == "RMSE |."
    assert re.search(r"-->(.*?)<!-- /", figures.written(shown))[1] == ".724 [.69, 1.00]"  # type: ignore[index]
    assert figures.figure("some share system=accord as={:.1%}") == "99.5 %"
    assert figures.figure("some count system=accord as={:,.0f}") == "12,346"
    assert figures.figure("some value what=gain as='{:.3} from {low:.2}'") == "-.018 from -.03"
    assert figures.figure("some sum:lost of=sums as={:.0f}") == "7"
    assert figures.figure("some commit") == "abc+" and figures.figure("some parts") == "a, b; a short run"
    assert figures.figure("some machine") == "Fast CPU, 2 cores, 24 GB, Python 3.11.7, load 1.3"
    for source, said in {
        "some rmse": "4 rows",
        "some sum:rmse of=sums": "2 rows, 2 of them without a figure",
        "some sum:lost of=nothing": "0 rows",
        "some rmse system=nobody": "0 rows",
        "some rmse system=other": "no 'rmse'",
        "nothing rmse": "no results of 'nothing'; there are: some",
    }.items():
        with pytest.raises(figures.WrongFigure, match=said):
            figures.figure(source)
    figures.results_of.cache_clear()


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_say_what_was_measured_where_and_name_no_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = json.loads(text)
    assert (ROOT / "benchmarks" / f"{path.stem}.py").is_file() and found["benchmark"] == path.stem
    assert found["accord_version"] and re.fullmatch(r"[0-9a-f]{7,40}\+?", found["commit"]) and found["rows"]
    assert set(found["machine"]) == {"system", "processor", "cores", "gigabytes", "python", "load"}
    assert isinstance(found["quick"], bool)
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users|mnt|opt)/", text), "it names a path"
