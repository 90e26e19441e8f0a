"""Shared by all tests: where the benchmark data lie, stores of both kinds, a small corpus."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import signal
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer.main

# Before anything imports NumPy: two tests at once on two cores must not wait for each other's linear algebra, and what
# Python or JAX compiled for one test, one worker or one child process serves all others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ACCORD_JOBS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# Each client that is opened reads the certificates of the machine anew, 40 ms; thousands are, and none speaks TLS.
ssl.create_default_context = functools.cache(ssl.create_default_context)
# Three hundred modules and what they import live as long as the tests: not to be gone through at every other test.
gc.set_threshold(20_000, *gc.get_threshold()[1:])
# The tree of commands is the same each time that one is run: some hundreds are, and it takes 50 ms to make.
typer.main.get_command = functools.cache(typer.main.get_command)
# A shell's background jobs ignore an interrupt, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A client and the server that it asks share this process: each waits a hundredth of a second less for its turn.
sys.setswitchinterval(5e-4)

import pytest
from throwaway_postgres import ThrowAwayPostgres
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from accord.edges import BadInput
from accord.store import Store
from accord.values import Rubric, load_rubric


def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto` three on two cores: tests wait for servers and processes now and then; a fourth is in the way."""
    return 3 * (os.cpu_count() or 1) // 2


class Sharing(LoadScopeScheduling):
    """A file whose tests share what is dear to make is one worker's; every other test is whoever's has time."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::")[0]
        return path if _shares(self.config.rootpath / path) else nodeid

    def remove_node(self, node: WorkerController) -> str | None:
        """What a worker was at when it died has failed; what it had not begun is for the others, what is done is done.

        The one inherited hands out again all that the worker has ever run, and waits for it without end.
        """
        units = self.assigned_work.pop(node)
        left = [(unit, test) for unit, tests in units.items() for test, done in tests.items() if not done]
        if not left:
            return None
        unit, died = left[0]
        units[unit][died] = True
        self.workqueue.update((unit, tests) for unit, tests in units.items() if not all(tests.values()))
        for other in self.nodes:
            self._reschedule(other)
        return died

    def schedule(self) -> None:
        """A worker that takes the place of another is told what comes second, or that nothing does, and begins."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        """One that takes the place of another is told what to do once it has looked at all tests, not before."""
        if node in self.registered_collections:
            super()._reschedule(node)


@functools.cache
def _shares(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return 'scope="module"' in text or "\n@cache\n" in text


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    return Sharing(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files come first, each in one piece: the last minute of a run is of quick tests, which all workers share."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


def pytest_collection_finish() -> None:
    """Nothing that collecting made is garbage before the end: it is no more gone through."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """What is garbage says so once more; then the process ends without going through all that it has held."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data() -> Path:
    folder = Path(os.environ.get("ACCORD_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the benchmark data are not at {folder}; set ACCORD_DATA")
    return folder


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import a benchmark's module by its name; what it sets, loads and registers is forgotten again."""
    from accord.methods import rivals, selection_policies, selectors

    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    registries = (selection_policies, selectors, rivals)
    names = [set(each.names()) for each in registries]
    before, environment = set(sys.modules), dict(os.environ)
    yield importlib.import_module
    for registry, known in zip(registries, names, strict=True):
        for name in set(registry.names()) - known:
            registry.forget(name)
    os.environ.clear()
    os.environ.update(environment)
    for name in set(sys.modules) - before:
        if (folder / f"{name}.py").exists():
            del sys.modules[name]


@pytest.fixture(scope="session")
def rubric() -> Rubric:
    return load_rubric("llm-rubric")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a throw-away PostgreSQL cluster."""
    try:
        cluster = ThrowAwayPostgres()
    except BadInput as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster.url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres")
    _empty(url)
    return url


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """An empty store, once of each kind."""
    opened = Store(database)
    yield opened
    opened.close()


def _empty(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


@pytest.fixture
def memory() -> Iterator[Store]:
    """An empty store that nothing outlives."""
    store = Store("sqlite:///:memory:")
    yield store
    store.close()


@pytest.fixture
def api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the environment, which no message may repeat."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")


@pytest.fixture(autouse=True)
def secrets_of_a_test_are_forgotten() -> Iterator[None]:
    """Restore the registered secrets: the word that one test registers would be redacted in the texts of others."""
    from accord.edges import secrets

    before = set(secrets._registered)
    yield
    secrets._registered.intersection_update(before)
