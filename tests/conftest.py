"""Fixtures of all tests: benchmark data, stores on both databases, a small corpus; distribution over workers."""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import logging
import os
import shutil
import signal
import ssl
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import typer.main

if TYPE_CHECKING:
    from served_workbench import Workbench

    from accord import Conversation, Evaluator, Project

# Before NumPy is imported: parallel tests must not compete for threads of linear algebra, and all processes share the
# compilation caches of Python and JAX.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ACCORD_JOBS", "1")
# Trusted folders of the tests stay out of the user's configuration.
if "ACCORD_CONFIG" not in os.environ:
    os.environ["ACCORD_CONFIG"] = tempfile.mkdtemp(prefix="accord-tests-")
    atexit.register(shutil.rmtree, os.environ["ACCORD_CONFIG"], ignore_errors=True)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# Compiling a network takes longer than training it, and this takes 40% off, with the same results. XLA ends the process
# at an option that it does not know, so only the locked version gets it.
if find_spec("jaxlib") and version("jaxlib").startswith("0.10."):
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")
# Each new client reads the certificates of the machine (40 ms), but no test uses TLS.
ssl.create_default_context = functools.cache(ssl.create_default_context)
# Imported modules live as long as the tests; garbage collection does not have to visit them.
gc.set_threshold(20_000, *gc.get_threshold()[1:])
# Building the tree of commands takes 50 ms; hundreds of tests use the same tree.
typer.main.get_command = functools.cache(typer.main.get_command)
# Background jobs of a shell ignore interrupts, and child processes would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Clients and servers share this process; a shorter switch interval reduces their waiting.
sys.setswitchinterval(5e-4)

import pytest
from throwaway_postgres import ThrowAwayPostgres
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from accord.cli import commands  # noqa: F401 - registers the commands
from accord.edges import BadInput
from accord.store import Store
from accord.values import Rubric, load_rubric


def pytest_xdist_auto_num_workers() -> int:
    """Return three workers for two cores with `-n auto`, because tests wait for servers and processes."""
    return 3 * (os.cpu_count() or 1) // 2


class Sharing(LoadScopeScheduling):
    """Scheduler that runs files with expensive shared fixtures on one worker, and other tests on any worker."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::")[0]
        return path if _shares(self.config.rootpath / path) else nodeid

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test of a crashed worker, and distribute its remaining tests to the others.

        The inherited method distributes finished tests again, and waits for them forever.
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
        """Send a replacement worker its second test, or the end of the run, and start it."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Send a replacement worker its tests after it has collected all of them."""
        if node in self.registered_collections:
            super()._reschedule(node)


@functools.cache
def _shares(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return 'scope="module"' in text or "\n@cache\n" in text or "mark.browser" in text


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    return Sharing(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this system lacks, and run slow files first, each on one worker, so that quick tests fill the end."""
    lacking = {"posix": os.name != "posix", "linux": sys.platform != "linux"}
    for name in (name for name, is_lacking in lacking.items() if is_lacking):
        for item in items:
            if marker := item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=marker.kwargs.get("reason", f"needs a {name} system")))
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


def pytest_collection_finish() -> None:
    """Exclude the objects of the collection phase from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Collect garbage for its warnings, then end the process without tearing down all objects."""
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
    """Import a benchmark's module by name, and undo its settings, imports and registrations afterwards."""
    from accord.methods import rivals, selection_policies, selectors

    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    registries = (selection_policies, selectors, rivals)
    names = [set(each.names()) for each in registries]
    before, environment = set(sys.modules), dict(os.environ)
    yield importlib.import_module
    for registry, known in zip(registries, names, strict=True):
        for name in set(registry.names()) - known:
            if not registry.get(name).__module__.startswith("accord."):
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
    """URL of a temporary PostgreSQL cluster."""
    try:
        cluster = ThrowAwayPostgres()
    except BadInput as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster.url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database, for each kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres")
    _empty(url)
    return url


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """Empty store, for each kind of database."""
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
    """Empty store in memory."""
    store = Store("sqlite:///:memory:")
    yield store
    store.close()


@pytest.fixture
def workbench(tmp_path: Path) -> Iterator[Callable[..., Workbench]]:
    """Serve a study over twelve conversations, or a given project, and close it when the test ends."""
    from served_workbench import open_workbench, project

    with ExitStack() as stack:

        def start(
            people: Sequence[str] = (), leads: Sequence[str] = (), opened: Project | None = None, **study: Any
        ) -> Workbench:
            opened = stack.enter_context(opened or project(tmp_path, **study))
            return stack.enter_context(open_workbench(opened, people, leads))

        yield start


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; closed with each file, because its event loop would stop others in this thread."""
    from browsing import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def chats() -> list[Conversation]:
    """The support conversations of the sample."""
    from live_evaluator import support_chats

    return support_chats()


@pytest.fixture(scope="session")
def evaluator(chats: list[Conversation]) -> Evaluator:
    """An evaluator of metrics that learned from the replies of `chats`."""
    from live_evaluator import learned

    return learned(chats)


@pytest.fixture
def api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """API key in the environment, which no message may contain."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty working folder, without settings of the environment and downloaded models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_MODELS", str(tmp_path / "models"))
    for name in ("ACCORD_STORE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def secrets_of_a_test_are_forgotten() -> Iterator[None]:
    """Restore the registered secrets, the addresses of projects and the verbosity: later tests would meet them."""
    from accord.edges import secrets, trust
    from accord.values import project_plugins

    before = set(secrets._registered)
    yield
    secrets._registered.intersection_update(before)
    trust._unconfirmed.clear()
    trust._file_variables.clear()
    project_plugins._noted.clear()
    logging.disable(logging.NOTSET)
    if terminal := sys.modules.get("accord.cli.terminal"):
        terminal.set_verbosity(False, False)
