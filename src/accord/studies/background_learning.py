"""Learning while annotators rate: predictions before answers, order of items, and retraining of the evaluator.

All work runs in one background thread, one job at a time. Requests only read results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Any

from accord.edges import AccordError, BadInput, hide_folders
from accord.learning import CARD, Evaluator
from accord.project import (
    Workspace,
    check_question,
    comparable_labels,
    fit_offline,
    load_report,
    modified_at,
    promote_candidate,
    recover_promotion,
    restore_evaluator,
    retrain,
    use_evaluator,
)
from accord.scoring import score_file
from accord.store import Assignment
from accord.studies.background_jobs import BackgroundJobs
from accord.studies.blind_predictions import BlindPredictor
from accord.studies.item_order import UPDATE_EVERY, ItemOrder, make_ranking
from accord.studies.study_progress import study_annotators
from accord.studies.study_session import StudySession
from accord.values import Annotation

PREPARE, FIT, SCORE = "prepare", "fit", "score"


class BackgroundLearning:
    """Studies, and the evaluator that learns from them; `reasons` tell why a study has no predictor.

    Args:
        studies: Sessions of the studies, by name.
        project: The project; by default the project of the studies. Without a project, the studies have no evaluator.
    """

    def __init__(self, studies: dict[str, StudySession], project: Workspace | None = None) -> None:
        self.studies = studies
        self.evaluator: Evaluator | None = None
        self.predictors: dict[str, BlindPredictor] = {}
        self.orders: dict[str, ItemOrder] = {}
        self.reasons: dict[str, str] = {}
        self.jobs = BackgroundJobs()
        self._new_answers = Counter[str]()
        self._lock = Lock()
        self.project = project = project or next((study.project for study in studies.values()), None)
        self.folder = None if project is None else project.folder().resolve()
        for name, study in studies.items():
            study.on_assigned = self._predict
            study.on_answer = self._counter(name)
            if study.settings.order == "informative" and study.settings.level != "pair":
                study.rank = make_ranking(study.settings, lambda name=name: self.orders.get(name))  # type: ignore[misc]
        if project is not None:
            self.jobs.add(PREPARE, self.prepare)

    # --- background jobs ----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Load the evaluator in use, collect the evidence of each study's items, and order them."""
        assert self.folder is not None
        recover_promotion(self.folder)
        assert self.project is not None
        self.evaluator = self.project.load(self.folder) if (self.folder / CARD).is_file() else None
        for study in self.studies.values():
            self.predictors.pop(study.name, None)
            if not _has_items(study):
                continue
            if self.evaluator is None:
                self.reasons[study.name] = "no evaluator is fitted yet"
            else:
                self._collect_evidence(study, self.evaluator)
            if study.rank is not None:
                self.update_order(study)

    def _collect_evidence(self, study: StudySession, evaluator: Evaluator) -> None:
        assert self.folder is not None
        try:
            self.predictors[study.name] = BlindPredictor.create(study, evaluator, modified_at(self.folder))
            self.reasons.pop(study.name, None)
        except AccordError as error:
            self.reasons[study.name] = hide_folders(error.for_commands)

    def update_order(self, study: StudySession) -> None:
        """Order the items of a study by how much the evaluator would learn from them."""
        project, predictor = study.project, self.predictors.get(study.name)
        if predictor is not None:
            evidence = predictor.evidence
        else:
            targets = dict.fromkeys(item.target for item in study.studies.items(study.name, 1))
            evidence = project.measure(project.evaluator().sources, project.samples(targets))
        people = study_annotators(study) or sorted({each.person for each in study.studies.all_assignments(study.name)})
        try:
            labels = comparable_labels(project.store, project.question.id)
            self.orders[study.name] = ItemOrder.compute(evidence, labels, project.question, people)
            self.jobs.failed.pop(f"order {study.name}", None)
        except BadInput as error:
            self.jobs.failed[f"order {study.name}"] = hide_folders(error.for_commands)

    def retrain(self) -> None:
        """Fit the evaluator again as a candidate, which can then be promoted; a first one is in use at once."""
        assert self.folder is not None and self.project is not None
        project, folder = self.project, self.folder
        retrain(project, folder, lambda every: fit_offline(project, every_question=every))
        if not folder.exists():  # there is nothing to compare it with
            promote_candidate(folder)
            self.evaluator = project.load(folder)
            self.jobs.add(PREPARE, self.prepare)

    def score(self) -> None:
        """Score all stored conversations with the evaluator in use; the scores appear on the board."""
        assert self.folder is not None and self.project is not None
        chats = [conversation.to_json() for conversation in self.project.store.conversations()]
        evaluator = self.project.load(self.folder)
        check_question(self.project.store, self.project.rubric, evaluator)
        score_file(self.project, evaluator, chats)

    def promote(self) -> None:
        """Replace the evaluator in use by the candidate.

        Raises:
            BadInput: The candidate is missing, or a fit is running.
        """
        assert self.folder is not None
        if self.jobs.state(FIT):
            raise BadInput("the evaluator is being fitted; wait until the fit ends, and check its result")
        promote_candidate(self.folder)
        self.jobs.add(PREPARE, self.prepare)

    def use(self, name: str) -> None:
        """Choose another fitted evaluator, or an earlier version of the one in use (`NAME.before-TIME`).

        Raises:
            BadInput: There is no such evaluator, or a fit is running.
        """
        assert self.folder is not None and self.project is not None
        if self.jobs.state(FIT):
            raise BadInput("the evaluator is being fitted; wait until the fit ends, and choose then")
        if name.startswith(f"{self.folder.name}.before-"):
            restore_evaluator(self.folder, name)
        else:
            store, question = self.project.store, self.project.question.id
            self.folder = use_evaluator(store, question, self.project.evaluators_folder, name).resolve()
        self.jobs.add(PREPARE, self.prepare)

    # --- callbacks of studies -----------------------------------------------------------------------------------

    def _predict(self, assignment: Assignment) -> None:
        """Save a prediction for a new assignment of the first round, if there is a predictor."""
        predictor = self.predictors.get(assignment.item.study)
        if predictor is not None and assignment.item.round == 1 and assignment.item.kind != "repeat":
            try:
                predictor.save_prediction(assignment)
            except AccordError as error:
                self.reasons[assignment.item.study] = hide_folders(error.for_commands)

    def _counter(self, name: str) -> Callable[[Annotation], None]:
        """Return a callback that starts an update of the order, or a fit, after enough answers."""

        def count(annotation: Annotation) -> None:
            study = self.studies[name]
            if annotation.question != study.project.question.id or annotation.replaces:
                return
            retrain_every = study.settings.retrain_every or 0
            with self._lock:
                self._new_answers.update([f"order {name}", f"fit {name}"])
                order_is_due = study.rank is not None and self._new_answers[f"order {name}"] >= UPDATE_EVERY
                fit_is_due = 0 < retrain_every <= self._new_answers[f"fit {name}"]
                self._new_answers -= Counter({f"order {name}": UPDATE_EVERY * order_is_due})
                self._new_answers -= Counter({f"fit {name}": retrain_every * fit_is_due})
            if order_is_due:
                self.jobs.add(f"order {name}", lambda: self.update_order(study))
            if fit_is_due:
                self.jobs.add(FIT, self.retrain)

        return count

    def forget_erased(self) -> None:
        """Drop texts in memory after an erasure, and load the evaluator in use again in the background."""
        for study in self.studies.values():
            study.cached = {}
        self.jobs.add(PREPARE, self.prepare)

    def state(self) -> dict[str, Any]:
        """Return the evaluator in use, the candidate, and the states and errors of the jobs."""
        evaluator = self.evaluator
        summary = None if evaluator is None else {
            "name": evaluator.name, "digest": evaluator.digest(), "question": evaluator.question.id,
            "annotators": len(evaluator.annotators),
        }  # fmt: skip
        return {
            "evaluator": summary, "candidate": None if self.folder is None else load_report(self.folder),
            "fitting": self.jobs.state(FIT), "preparing": self.jobs.state(PREPARE), "scoring": self.jobs.state(SCORE),
            "failed": dict(self.jobs.failed),
        }  # fmt: skip


def _has_items(study: StudySession) -> bool:
    """Sample the items of a study if needed; False if none match, which its own page reports."""
    try:
        return study.begin() > 0
    except BadInput:
        return False
