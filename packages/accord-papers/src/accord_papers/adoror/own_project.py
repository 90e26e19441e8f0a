"""The study on a project: its scorer answers for every system, on examples that are held out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from accord import Project
from accord.edges import BadInput
from accord.evidence import Training, make_source
from accord.methods.in_context.experiment import InContextSettings
from accord.methods.in_context.source import (
    IN_CONTEXT,
    InContext,
)
from accord.models import (
    Flow,
    run,
)
from accord.models.requests.drivers import plan
from accord_papers.adoror.more_systems import registered
from accord_papers.adoror.system_answers import learned_and_asked, system_rows
from accord_papers.study import Row, StudyInput


@contextmanager
def rated_project(given: StudyInput) -> Iterator[tuple[Project, Training]]:
    """Register the paper's systems, and yield the project with its rated examples."""
    project = given.required_project()
    with registered():
        yield project, project.training(project.evaluator(IN_CONTEXT))[0]


def settings_of(project: Project) -> InContextSettings:
    """Return the project's settings of `in-context`."""
    return cast(InContext, project.source(IN_CONTEXT)).settings


def ask(project: Project, training: Training, runs: Sequence[Mapping[str, Any]]) -> list[tuple[list[Row], InContext]]:
    """Learn and ask once for each run, and return the rows of all systems, with the examined source.

    Args:
        project: The project; its settings of `in-context` hold unless a run sets its own, and the default selector is
            the paper's.
        training: Rated examples.
        runs: Settings of each run; `seed` is the seed of the split and all draws.

    Raises:
        BadInput: The budget of the project does not allow the requests; none was sent.
    """
    studies = [_Study.of(project, training, settings) for settings in runs]
    _check_budget(project, [study.flow() for study in studies])
    asked = []
    for study, settings in zip(studies, runs, strict=True):
        found = run(study.flow(), project.models)
        asked.append((list(system_rows(found, study.test, dict(settings))), found))
    return asked


class _Study:
    """A source, and the two sides of its split."""

    def __init__(self, source: InContext, train: Training, test: Training) -> None:
        self.source, self.train, self.test = source, train, test

    @classmethod
    def of(cls, project: Project, training: Training, settings: Mapping[str, Any]) -> _Study:
        own = {"selector": "adoror", **project.config.settings_of(IN_CONTEXT), **settings, "calibrate": False}
        seed = training.seed + int(own.pop("seed", 0))
        source = cast(InContext, make_source(IN_CONTEXT, own, project.context))
        drawn = replace(training, seed=seed)
        split = source.hold_out(drawn)
        return cls(source, drawn.only(split.train), drawn.only(split.test))

    def flow(self) -> Flow[InContext]:
        return learned_and_asked(self.source, self.train, self.test)


def _check_budget(project: Project, flows: Sequence[Flow[Any]]) -> None:
    """Raise an error if the budget does not allow the requests of all flows; a study never starts by surprise."""
    requests, spent = sum(plan(flow, project.stored_models).requests for flow in flows), project.budget.requests
    left = max((project.budget.caps.requests or 0) - spent, 0)
    if requests > left:
        raise BadInput(
            f"this part sends about {requests:,} requests, and the budget of accord.yaml has {left:,} left. To run it, "
            f"set budget: {{requests: {spent + requests}}}, or lower --repeats and in-context: {{candidates, sets}}"
        )
