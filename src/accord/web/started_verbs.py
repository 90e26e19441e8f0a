"""Verbs that a page starts: they run in the background, one run of each at a time, and their last result is kept.

Each run opens the project again, with a budget of its own, and closes it at its end; so it goes on after the pages open
a changed project.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from accord.edges import AccordError, BadInput, BudgetReached
from accord.models import Budget
from accord.store import Erasures, store_file
from accord.studies import BackgroundJobs, failure_text
from accord.verbs import Project

CLOSING = "the server stops"


class Stopped(AccordError):
    """A run was stopped by a person or with the server."""


@dataclass(eq=False)
class Run:
    """Progress and result of one run of a verb.

    Attributes:
        about: Settings of the request, as the page shows them.
        erased: Number of erased texts when the run began: no result outlives texts that it may quote.
        step: Name of the present step; empty if the verb reports none.
        done: Number of steps so far.
        total: Number of all steps, or `None` if it is unknown.
        result: What the verb returned; `None` before its end and after an error.
        error: Reason of a failure, or an empty text.
        is_running: True until the end.
        budget: Budget of the run, once it is open.
    """

    about: Mapping[str, Any] = field(default_factory=dict)
    erased: int = 0
    step: str = ""
    done: int = 0
    total: int | None = None
    result: Any = None
    error: str = ""
    is_running: bool = True
    budget: Budget | None = None
    _reason: str = ""

    @property
    def is_stopping(self) -> bool:
        """True if the run was asked to stop and has not ended yet."""
        return self.is_running and bool(self._reason)

    def opened(self, budget: Budget) -> None:
        """Keep the budget of the run, which a stop closes."""
        self.budget = budget
        if self._reason:
            budget.stopped = BudgetReached(self._reason)

    def stop(self, reason: str) -> None:
        """Let the run end at its next step, and send no further request."""
        self._reason = reason
        if self.budget is not None:
            self.budget.stopped = BudgetReached(reason)

    def begin(self, step: str) -> None:
        """Note that the verb begins a step.

        Raises:
            Stopped: The run was stopped.
        """
        if self._reason:
            raise Stopped(self._reason)
        self.step = step
        self.done += 1

    def answered(self) -> None:
        """Note one more answer."""
        self.done += 1

    def state(self) -> dict[str, Any]:
        """Return the progress as pages and their JSON show it."""
        return {"is_running": self.is_running, "is_stopping": self.is_stopping, "step": self.step, "done": self.done,
                "total": self.total, "error": self.error}  # fmt: skip


Work = Callable[[Project, Run], Any]
"""Runs a verb of a project that was opened for it, and returns the result that is kept."""


class StartedVerb:
    """One verb with its last run.

    Attributes:
        count: Number of runs so far.

    Args:
        name: Words for the run in messages, such as "a comparison".
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs = BackgroundJobs()
        self.count = 0
        self._lock = Lock()
        self._run: Run | None = None

    def last(self, project: Project) -> Run | None:
        """Return the run in progress or the last one; `None` without one, and if texts were erased since."""
        run = self._run
        if run is not None and not run.is_running and run.erased != _erased(project):
            return None
        return run

    def start(self, project: Project, work: Work, about: Mapping[str, Any], question: str | None = None) -> Run:
        """Start a run.

        Args:
            project: Project whose settings the run has.
            work: Runs the verb.
            about: Settings of the request, as the page shows them.
            question: Question of the rubric; by default the main one.

        Raises:
            BadInput: A run is in progress, or the project cannot be opened a second time.
        """
        if project.config.store.startswith("sqlite") and store_file(project.config.store) is None:
            raise BadInput("the project is in memory only; give it a file: store: sqlite:///accord.db in accord.yaml")
        run = Run(about, _erased(project))
        with self._lock:
            if self._run is not None and self._run.is_running:
                raise BadInput(f"{self.name} is running already; wait until it ends")
            if not self.jobs.add(self.name, lambda: self._do(run, project, work, question)):
                raise BadInput("the server stops; start it again")
            self._run = run
            self.count += 1
        return run

    def stop(self, reason: str) -> None:
        """Stop the run in progress, if there is one."""
        if self._run is not None and self._run.is_running:
            self._run.stop(reason)

    def close(self) -> None:
        """Stop the run and wait for its end; a waiting one is dropped."""
        self.stop(CLOSING)
        self.jobs.close()

    def _do(self, run: Run, project: Project, work: Work, question: str | None) -> None:
        try:
            with Project(project.config, project.rubric, project.given, question) as own:
                run.result = work(own, run)
        except Exception as error:
            run.error = failure_text(error)
            raise
        finally:
            run.is_running, run.budget = False, None


class StartedVerbs:
    """The verbs that pages start; the same after the pages opened the project again."""

    def __init__(self) -> None:
        self.compare = StartedVerb("a comparison")
        self.estimate = StartedVerb("an estimate")
        self.plan = StartedVerb("a plan")
        self.judge = StartedVerb("a run of the models")

    def close(self) -> None:
        """Stop all runs, and wait until they have ended."""
        verbs = (self.compare, self.estimate, self.plan, self.judge)
        for verb in verbs:
            verb.stop(CLOSING)
        for verb in verbs:
            verb.close()


def _erased(project: Project) -> int:
    return Erasures(project.store).count_digests()
