"""What goes on behind the studies while people rate: expectations, the order, and an evaluator that learns again.

All of it happens in one thread in the background, one piece after another. A request only reads what is there.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Any, TypedDict

from accord.edges import AccordError, BadInput
from accord.learning import CARD, Evaluator
from accord.store import Assignment
from accord.studies.background_jobs import Jobs
from accord.studies.blind_predictions import Expectations
from accord.studies.item_order import EVERY, Order, ranking
from accord.studies.retrain import Report, promote, recovered, refitted, waiting
from accord.studies.study_progress import taking_part
from accord.studies.study_session import OpenStudy
from accord.values import Annotation

PREPARE, FIT = "prepare", "fit"


def _begun(study: OpenStudy) -> bool:
    """Whether a study has items; one that finds none says so to whoever opens it."""
    try:
        return study.begin() > 0
    except BadInput:
        return False


class State(TypedDict):
    """The evaluator in use, the candidate, and what is being done; `failed` says why, by what was tried."""

    evaluator: dict[str, str | int] | None
    candidate: Report | None
    fitting: str
    preparing: str
    failed: dict[str, str]


class Loop:
    """The studies of a bench, and the evaluator that learns from them.

    Attributes:
        evaluator: The one in use; `None` where nothing was learned yet.
        expectations, orders: By study, where there are any.
        reasons: Why a study has none, in words.
        jobs: What is being done.
    """

    def __init__(self, studies: dict[str, OpenStudy]) -> None:
        self.studies = studies
        self.evaluator: Evaluator | None = None
        self.expectations: dict[str, Expectations] = {}
        self.orders: dict[str, Order] = {}
        self.reasons: dict[str, str] = {}
        self.jobs = Jobs()
        self._new = Counter[str]()
        self._lock = Lock()
        project = next((study.project for study in studies.values()), None)
        self.folder = None if project is None else project.folder().resolve()
        for name, study in studies.items():
            study.on_assigned = self._expect
            study.on_answer = self._counter(name)
            if study.settings.order == "informative" and study.settings.level != "pair":
                study.rank = ranking(study.settings, lambda name=name: self.orders.get(name))  # type: ignore[misc]
        if project is not None:
            self.jobs.add(PREPARE, self.prepare)

    # --- in the background --------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Open the evaluator in use, gather what is known of each study's items, and order them."""
        assert self.folder is not None
        recovered(self.folder)
        project = next(iter(self.studies.values())).project
        self.evaluator = project.load(self.folder) if (self.folder / CARD).is_file() else None
        for study in self.studies.values():
            self.expectations.pop(study.name, None)
            if not _begun(study):
                continue
            if self.evaluator is None:
                self.reasons[study.name] = "no evaluator has learned yet"
            else:
                self._gather(study, self.evaluator)
            if study.rank is not None:
                self.reorder(study)

    def _gather(self, study: OpenStudy, evaluator: Evaluator) -> None:
        try:
            self.expectations[study.name] = Expectations.of(study, evaluator)
            self.reasons.pop(study.name, None)
        except AccordError as error:
            self.reasons[study.name] = str(error)

    def reorder(self, study: OpenStudy) -> None:
        """Order the items of a study by what the evaluator would learn from the labels there are now."""
        project, known = study.project, self.expectations.get(study.name)
        if known is not None:
            evidence = known.evidence
        else:
            targets = dict.fromkeys(item.target for item in study.studies.items(study.name, 1))
            evidence = project.measure(project.evaluator().sources, project.samples(targets))
        people = taking_part(study) or sorted({each.person for each in study.studies.everything(study.name)})
        try:
            labels = project.store.labels(project.question.id)
            self.orders[study.name] = Order.of(evidence, labels, project.question, people)
            self.jobs.failed.pop(f"order {study.name}", None)
        except BadInput as error:
            self.jobs.failed[f"order {study.name}"] = str(error)

    def refit(self) -> None:
        """Learn the evaluator again; it waits to be promoted."""
        assert self.folder is not None
        refitted(next(iter(self.studies.values())).project, self.folder)

    def promote(self) -> None:
        """Use the candidate from now on.

        Raises:
            BadInput: There is none.
        """
        assert self.folder is not None
        if self.jobs.state(FIT):
            raise BadInput("the evaluator is learning again; wait until that is done, and look at what it comes to")
        promote(self.folder)
        self.jobs.add(PREPARE, self.prepare)

    # --- while people rate --------------------------------------------------------------------------------------

    def _expect(self, assignment: Assignment) -> None:
        """Keep what is expected of an item that somebody is given; where that cannot be said, nothing."""
        known = self.expectations.get(assignment.item.study)
        if known is not None and assignment.item.round == 1 and assignment.item.kind != "repeat":
            try:
                known.keep(assignment)
            except AccordError as error:
                self.reasons[assignment.item.study] = str(error)

    def _counter(self, name: str) -> Any:
        def count(said: Annotation) -> None:
            study = self.studies[name]
            if said.question != study.project.question.id or said.replaces:
                return
            with self._lock:
                self._new.update([f"order {name}", f"fit {name}"])
                is_old = study.rank is not None and self._new[f"order {name}"] >= EVERY
                is_due = 0 < (study.settings.retrain_every or 0) <= self._new[f"fit {name}"]
                self._new -= Counter({f"order {name}": EVERY * is_old})
                self._new -= Counter({f"fit {name}": (study.settings.retrain_every or 0) * is_due})
            if is_old:
                self.jobs.add(f"order {name}", lambda: self.reorder(study))
            if is_due:
                self.jobs.add(FIT, self.refit)

        return count

    # --- what is shown ------------------------------------------------------------------------------------------

    def state(self) -> State:
        """What pages tell of it."""
        used = self.evaluator
        about: dict[str, str | int] | None = None if used is None else {
            "name": used.name, "digest": used.digest(), "question": used.question.id,
            "annotators": len(used.annotators),
        }  # fmt: skip
        return {
            "evaluator": about, "candidate": None if self.folder is None else waiting(self.folder),
            "fitting": self.jobs.state(FIT), "preparing": self.jobs.state(PREPARE), "failed": dict(self.jobs.failed),
        }  # fmt: skip
