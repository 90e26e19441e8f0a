"""Plug-in of the tests: the processor time of each test decides whether it is slow.

`slow_tests.json` has the seconds of each test above `LIMIT`; these get the marker `slow`, and `make check` leaves them
out. `make times` measures the tests, writes the file and prints the tests that moved. Every other run prints quick tests
that took twice the limit. They do not fail: the first test of a process pays for imports, and machines differ in speed.
Shared fixtures are not part of a test's time; those of its own and its child processes are.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

LIMIT = 0.5
"""Seconds of processor time above which a test is slow. A slow test becomes quick below half of it."""
RECORD = Path(__file__).with_name("slow_tests.json")

_seconds = pytest.StashKey[float]()


def seconds() -> float:
    """Return the processor time of this process, its threads, and its ended children."""
    times, forked = os.times(), sys.modules.get("processes")
    children = times.children_user + times.children_system
    return time.process_time() + children + (forked.Forked.processor_time if forked is not None else 0.0)


def recorded() -> dict[str, float]:
    """Return the seconds of the slow tests by their names."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8"))) if RECORD.exists() else {}


def moved(record: Mapping[str, float], measured: Mapping[str, float]) -> tuple[dict[str, float], list[str], list[str]]:
    """Return the record after a run, with the tests that become slow and those that become quick."""
    new = {name: took for name, took in record.items() if name not in measured}
    for name, took in measured.items():
        if took > LIMIT or (name in record and took > LIMIT / 2):
            new[name] = round(took, 2)
    slow = sorted(name for name in new if name not in record)
    return dict(sorted(new.items())), slow, sorted(name for name in record if name not in new)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("processor time")
    group.addoption("--record-times", action="store_true", help=f"write {RECORD.name} from the tests of this run")
    group.addoption("--times", metavar="PATH", help="write the seconds of every test, and of the run, to a JSON file")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Measurement(), "processor-time-measurement")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(config), "processor-time-summary")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests, before `-m` selects."""
    slow = recorded()
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)


class Measurement:
    """Processor time of each test: set-up, call and teardown, without shared fixtures."""

    def __init__(self) -> None:
        self.shared = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measure(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measure(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measure(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        begun, inner = seconds(), self.shared
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.shared = inner + seconds() - begun  # includes the shared fixtures that it asked for

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown":
            item.user_properties.append(("seconds", item.stash.get(_seconds, 0.0)))

    def _measure(self, item: pytest.Item) -> Generator[None, Any, Any]:
        begun, self.shared = seconds(), 0.0
        try:
            return (yield)
        finally:
            item.stash[_seconds] = item.stash.get(_seconds, 0.0) + seconds() - begun - self.shared


class Summary:
    """Seconds of all tests, in the process that prints the results."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.begun = config, time.monotonic()
        self.took: dict[str, float] = {}
        self.skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.skipped.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self.skipped:
            self.took[report.nodeid] = float(dict(report.user_properties).get("seconds", 0.0))  # type: ignore[arg-type]

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        finally:
            slow = recorded()
            self.late = sorted(
                (took, name) for name, took in self.took.items() if name not in slow and took > 2 * LIMIT
            )
            if path := self.config.getoption("--times"):
                run = {"wall": time.monotonic() - self.begun, "processor": seconds(), "tests": self.took}
                Path(path).write_text(json.dumps(run), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._writes():
            new, slow, quick = moved(recorded(), self.took)
            RECORD.write_text(json.dumps(new, indent=0) + "\n", encoding="utf-8")
            terminalreporter.section(f"{len(new)} slow tests in {RECORD.name}")
            for title, names in (("now slow", slow), ("now quick", quick)):
                for name in names:
                    terminalreporter.write_line(f"{title}: {name} ({self.took[name]:.2f} s)")
        elif self.late:
            terminalreporter.section(f"quick tests that took {2 * LIMIT:g} s or more")
            for took, name in self.late:
                terminalreporter.write_line(f"{took:.2f} s  {name}")
            terminalreporter.write_line("Make them cheaper, or run: make times")

    def _writes(self) -> bool:
        return bool(self.config.getoption("--record-times"))
