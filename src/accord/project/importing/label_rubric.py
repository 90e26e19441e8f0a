"""The rubric of a project that reads labels in Python: made from the labels, or extended by their questions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput, UnknownName
from accord.formats import Source, parse_orders
from accord.project.importing.file_survey import MOST_SURVEYED, FileSurvey, survey_files
from accord.project.importing.rubric_inference import InferredRubric, infer_questions, infer_rubric, set_orders
from accord.values import Rubric, load_rubric, shipped_rubrics

if TYPE_CHECKING:
    from accord.project.workspace import Workspace


def rubric_of_labels(
    used: Rubric,
    sources: Sequence[Source],
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    main: str | None = None,
    labels: Collection[str] = (),
) -> InferredRubric:
    """Return the rubric for sources with labels.

    A rubric whose main question the labels answer stays as it is. One of Accord's own rubrics, of which the labels
    answer no question, is replaced by one with a question for each kind of label. Any other rubric keeps its questions
    and gets those that it lacks.

    Args:
        used: Rubric of the project.
        sources: Files and tables with conversations and labels.
        format: Format of the conversations.
        columns: Column names of the sources, by Accord's column name.
        main: Main question. By default, the main question of the rubric; an inferred rubric chooses it by name and
        number of labels.
        labels: Columns with labels; by default chosen by name and values.

    Raises:
        BadInput: The labels on a question have two scales.
        UnknownName: The main question is unknown.
    """
    survey = survey_files(sources, format, columns, labels, limit=MOST_SURVEYED, skips_unreadable=True)
    return rubric_of_survey(used, survey, main)


def rubric_of_survey(used: Rubric, survey: FileSurvey, main: str | None = None) -> InferredRubric:
    """Return the rubric for surveyed sources; see `rubric_of_labels`."""
    answered = [name for name in survey.questions if used.get(name) is not None]
    if not survey.questions or (used.main in answered and main in (None, used.main)):
        return InferredRubric(used, [])
    is_own = all(load_rubric(name).hash != used.hash for name in shipped_rubrics())
    return _extended(used, survey, main) if is_own or answered else _inferred(used, survey, main)


def _inferred(used: Rubric, survey: FileSurvey, main: str | None) -> InferredRubric:
    try:
        return infer_rubric(survey.questions.values(), main)
    except UnknownName:
        raise
    except BadInput as error:  # labels without a scale are stored under their own names
        return InferredRubric(used, [str(error)])


def _extended(used: Rubric, survey: FileSurvey, main: str | None) -> InferredRubric:
    lacking = [each for name, each in survey.questions.items() if used.get(name) is None]
    added, notes = infer_questions(lacking, used.questions)
    questions = {each.id: each for each in (*used.questions, *added)}
    if main is not None and main not in questions:
        raise UnknownName("question", main, questions)
    fields: dict[str, Any] = {name: getattr(used, name) for name in Rubric.model_fields}
    rubric = Rubric(**{**fields, "questions": tuple(questions.values()), "main": main or used.main})
    return InferredRubric(rubric, notes)


def adopt_rubric(
    project: Workspace, sources: Sequence[Source], main: str | None, reading: Mapping[str, Any]
) -> FileSurvey:
    """Give a project the rubric for the labels of some sources, and log its new questions and each guess.

    Args:
        project: The project.
        sources: Files and tables.
        main: Main question; `None` keeps or infers it.
        reading: Arguments of `import_files`.

    Returns:
        The survey of the sources.

    Raises:
        BadInput, UnknownName: As `rubric_of_labels`.
    """
    labels = options.rating_columns or () if (options := reading.get("options")) is not None else ()
    format, columns = reading.get("format", "auto"), reading.get("columns")
    order = reading.get("order")
    limit = MOST_SURVEYED if order is None else None
    survey = survey_files(sources, format, columns, labels, limit=limit, skips_unreadable=True)
    set_orders(survey.questions, parse_orders(order), None)
    used, found = project.rubric, rubric_of_survey(project.rubric, survey, main)
    logger = logging.getLogger("accord")
    if added := [each for each in found.rubric.questions if used.get(each.id) is None]:
        named = (f"{each.id} ({'main, ' if each.id == found.rubric.main else ''}{each.scale})" for each in added)
        logger.warning(
            "questions from the labels: %s. To keep them: write dump_rubric(project.rubric) to a file, and name it in "
            "Config(rubric=FILE)", ", ".join(named),
        )  # fmt: skip
    for sentence in found.notes:
        logger.warning("%s", sentence)
    if found.rubric != used:
        project.rubric = project.store.rubric = found.rubric
        project.question = found.rubric.main_question if project.asked is None else found.rubric[project.asked]
    return survey
