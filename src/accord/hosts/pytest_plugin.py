"""Pytest plug-in: fixtures and assertions on agreement with people and on scores.

It is loaded by every pytest run, so that it imports nothing of Accord until a test uses it.

def test_replies_are_good(accord_project):
    assert_score("chats.jsonl", mean_at_least=3.5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from accord.hosts.shared.trials import PREFIX, PRESENT, Trial

if TYPE_CHECKING:
    from accord.hosts.shared.assertions import assert_agreement, assert_not_worse, assert_score
    from accord.learning import Evaluator
    from accord.verbs import Project

__all__ = ["assert_agreement", "assert_not_worse", "assert_score"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from accord.hosts.shared import assertions

    return getattr(assertions, name)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting `accord_evaluator`."""
    parser.addini("accord_evaluator", "folder of the evaluator or project of assertions; default: the nearest project")


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker."""
    config.addinivalue_line(
        "markers", "accord(runs=1): run the test several times; its assertions pool the conversations of all runs"
    )


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run a marked test several times; fixtures are set up once."""
    marker = item.get_closest_marker("accord")
    trial = Trial(item, 1 if marker is None else _runs(*marker.args, **marker.kwargs))
    token = PRESENT.set(trial)
    try:
        while trial.run < trial.runs:
            item.runtest()
            trial.run, trial.calls = trial.run + 1, 0
        yield
        if any(len(pool) < trial.runs for pool in trial.pools.values()):
            pytest.fail(
                f"an assertion was called in some of the {trial.runs} runs only; call each assertion once in every run",
                pytrace=False,
            )
    finally:
        PRESENT.reset(token)


def _runs(runs: Any = 1) -> int:
    if not isinstance(runs, int) or isinstance(runs, bool) or not 1 <= runs <= 1000:
        pytest.fail(f"@pytest.mark.accord(runs={runs!r}): give a whole number from 1 to 1000", pytrace=False)
    return runs


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the values of all assertions; other processes report them as properties."""
    lines = [
        f"{report.nodeid}: {name.removeprefix(PREFIX)}: {value}"
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name.startswith(PREFIX)
    ]
    if lines:
        terminalreporter.section("accord")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def accord_evaluator() -> Callable[[str | Path], Evaluator]:
    """Return a function that loads an evaluator from its folder, each folder once."""

    @cache
    def load(folder: str | Path) -> Evaluator:
        from accord.learning import load_evaluator

        return load_evaluator(folder)

    return load


@pytest.fixture(scope="session")
def accord_project(request: pytest.FixtureRequest) -> Iterator[Project]:
    """Open the project of the tests from `accord.yaml` in the folder of pytest's settings or in a parent folder."""
    from accord.project import load_project
    from accord.values import find_project_file
    from accord.verbs import Project

    with Project(load_project(find_project_file(request.config.rootpath))) as project:
        yield project
