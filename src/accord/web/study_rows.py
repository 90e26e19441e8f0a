"""The row of a study in the tables of Home and of the list of studies."""

from __future__ import annotations

from typing import Any

from accord.edges import BadInput, reason_of
from accord.results import agreement_words
from accord.studies import Adjudication, StudyProgress, StudySession, study_annotators
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext


def study_row(context: WorkbenchContext, study: StudySession, visitor: Visitor) -> dict[str, Any]:
    """Return the own progress of a person in a study, and for leads the progress of all annotators."""
    try:
        study.begin()
        done, total = study.progress(visitor.person.name)
    except BadInput as error:
        done, total, problem = 0, 0, reason_of(error)
    else:
        problem = ""
    row: dict[str, Any] = {
        "study": study.name, "title": study.title, "level": study.settings.level, "rubric": study.rubric.name,
        "address": study.start, "done": done, "total": total, "problem": problem,
        "is_chat": study.settings.chat is not None, "closed": context.reason_closed(study, visitor),
    }  # fmt: skip
    if visitor.may("lead") and not problem:
        progress = StudyProgress(study)
        main, queue = progress.main_progress, Adjudication(progress)
        row |= {
            "summary": progress.sentence(), "full": main.full, "items": progress.item_count,
            "annotators_per_item": study.settings.annotators_per_item, "people": study_annotators(study),
            "waiting": _waiting(study), "agreement": agreement_words(main.agreement), "alpha": main.alpha.to_json(),
            "disputed": len(queue.disputes), "adjudicated": queue.done,
        }  # fmt: skip
    return row


def _waiting(study: StudySession) -> list[str]:
    """Return the annotators who have not rated their part of a study."""
    if study.settings.chat is not None:
        return []
    progress = [(name, *study.progress(name)) for name in study_annotators(study)]
    return [name for name, done, total in progress if done < total]
