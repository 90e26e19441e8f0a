"""Tables 1 to 3 of RUBICON for a project: SPUR and given rubrics, ablations of the prompts, selection policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np

from accord import Project
from accord.edges import BadInput
from accord.evidence import Training, ask_rubric, make_source
from accord.methods import selection_policies
from accord.methods.learned_rubric.assertion_pool import only
from accord.methods.learned_rubric.assertion_selector import (
    AssertionSelector,
    ClassifiedSamples,
    NetSatOutcome,
)
from accord.methods.learned_rubric.assertion_writer import load_prompts
from accord.methods.learned_rubric.findings import (
    RubricFit,
    RubricResult,
    ask_held_out,
    compare_rubrics,
)
from accord.methods.learned_rubric.selection_policies import (
    ALL,
    RUBICON,
)
from accord.methods.learned_rubric.source import (
    LearnedRubric,
    LearnedRubricSettings,
)
from accord.models import Models, run
from accord.statistics import Clusters
from accord.values import Rubric
from accord_papers.rubicon.baselines import NO_PRINCIPLES, spur
from accord_papers.rubicon.outcomes import result_row
from accord_papers.study import Row

RESAMPLES = 50


class ProjectTables:
    """The paper's tables for a project: learned on one side of its labels, tested on the other.

    The tables need the requests of `accord fit learned-rubric`, of SPUR, and of each ablation. Stored replies are used
    again.
    """

    def __init__(self, project: Project, train: Training) -> None:
        """Split the labels as `accord fit learned-rubric` does; `BadInput` for too few good or bad conversations."""
        self.given, self.context = project.config.settings_of("learned-rubric"), project.context
        self.models, source = project.models, self._source({})
        self.settings, self.rivals = source.settings, source.given_rubrics(train.question)
        split = source.hold_out(train)
        self.train, self.test = train.only(split.train), train.only(split.test)
        self.decided = ClassifiedSamples.of(self.test, self.settings, fewest=1)

    def table_1(self) -> list[Row]:
        """Return the learned rubric, the judge asked directly, SPUR's rubric and the given rubrics (`rivals`)."""
        rivals, failed = dict(self.rivals), []
        try:
            rivals["SPUR"] = run(spur(self.train, self.settings), self.models)
        except BadInput as error:
            failed.append(RubricResult("SPUR", None, failed=str(error)))
        results = self._results(self.learned(), rivals)
        return [result_row(each, self.test, self.decided) for each in _any_of((*results, *failed))]

    def table_2(self) -> list[Row]:
        """Return the learned rubric with the full prompts, and the ablations of the prompts."""
        if self.settings.pool is not None:
            raise BadInput(
                "table 2 leaves out parts of the prompts that write assertions, but the setting learned-rubric: "
                f"{{pool: {self.settings.pool}}} gives the assertions. Remove the setting to run it"
            )
        with TemporaryDirectory() as folder:
            changes = {self.settings.policy: {}, **self._ablations(Path(folder))}
            results = [self._ablated(name, change) for name, change in changes.items()]
        return [result_row(each, self.test, self.decided) for each in _any_of(results)]

    def table_3(self) -> list[Row]:
        """Return every registered selection policy on the pool of the learned rubric, its own policy first."""
        results = policy_results(self.learned(), self.settings, self.decided, self.models)
        return [result_row(each, self.test, self.decided) for each in results]

    def outcomes(self) -> dict[str, NetSatOutcome]:
        """Return the held-out scores of every selection policy."""
        results = policy_results(self.learned(), self.settings, self.decided, self.models)
        return {each.system: each.outcome for each in results if each.outcome is not None}

    def learned(self, change: Mapping[str, Any] | None = None) -> RubricFit:
        """Learn the rubric, with some settings changed."""
        source = cast(LearnedRubric, run(self._source(change or {}).learn(self.train), self.models).source)
        assert source.fit_ is not None
        return source.fit_

    def _ablations(self, folder: Path) -> dict[str, dict[str, str | None]]:
        """Return settings by name; prompt files without the design principles are written into the folder."""
        prompts = self.settings.prompts
        texts = {} if prompts is None else load_prompts(self.context.folder / prompts)
        for name, text in {**texts, **NO_PRINCIPLES}.items():
            (folder / f"{name}.md").write_text(text, encoding="utf-8")
        principles: dict[str, str | None] = {"prompts": str(folder)}
        if self.settings.task is None:
            return {"without design principles": principles}
        return {
            "without design principles": principles,
            "without task description": {"task": None},
            "without both": {**principles, "task": None},
        }

    def _ablated(self, name: str, change: Mapping[str, Any]) -> RubricResult:
        try:
            return self._results(self.learned(change), {})[0]._replace(system=name)
        except BadInput as error:
            return RubricResult(name, None, failed=str(error))

    def _results(self, fit: RubricFit, rivals: Mapping[str, Rubric]) -> list[RubricResult]:
        answers = run(ask_held_out(fit, self.decided), self.models)
        return run(compare_rubrics(fit, answers, self.decided, self.settings, rivals), self.models)

    def _source(self, change: Mapping[str, Any]) -> LearnedRubric:
        return cast(LearnedRubric, make_source("learned-rubric", {**self.given, **change}, self.context))


def _any_of(results: Sequence[RubricResult]) -> Sequence[RubricResult]:
    """Return the results; `BadInput` with the reason of the first one if all failed."""
    if all(each.outcome is None for each in results):
        raise BadInput(f"no rubric has a result; {results[0].system}: {results[0].failed}")
    return results


def policy_results(
    fit: RubricFit, settings: LearnedRubricSettings, decided: ClassifiedSamples, models: Models
) -> list[RubricResult]:
    """Return the held-out results of every registered selection policy on one pool, the project's own first."""
    others = [name for name in (RUBICON, *selection_policies.names()) if name not in (ALL, settings.policy)]
    selectors = {settings.policy: fit.selector, **{name: _selected_by(name, fit, settings) for name in others}}
    names = {name for selector in selectors.values() for name in selector.names_}
    answers = run(ask_rubric(only(fit.everything, names), decided.samples), models)
    return [RubricResult.of(name, selector, answers, decided) for name, selector in selectors.items()]


def _selected_by(policy: str, fit: RubricFit, settings: LearnedRubricSettings) -> AssertionSelector:
    """Return a selector fitted with another policy to the same pool and answers."""
    other = settings.model_copy(update={"policy": policy})
    selector = AssertionSelector.of_rubric(fit.everything, fit.train.question, other, fit.train.seed)
    return selector.fit(fit.answers, fit.train.labels)


def stability(fit: RubricFit, draws: int = RESAMPLES) -> list[Row]:
    """Return each assertion of the pool with the share of bootstrap resamples in which it is selected."""
    side = fit.selector.training_side(fit.answers, fit.train.labels)
    clusters, selected, used = Clusters(side.groups), np.zeros(len(side.names)), 0
    for count in clusters.counts(draws, fit.train.seed):
        drawn = side.pool.of(clusters.rows(count))
        if drawn.good.any() and not drawn.good.all():
            selected[list(fit.selector.choose(drawn))] += 1
            used += 1
    rows: list[Row] = [
        {"assertion": fit.everything[name].text, "class": str(fit.everything[name].side),
         "selected": "yes" if name in fit.selector.names_ else "no", "share": float(share)}
        for name, share in zip(side.names, selected / max(used, 1), strict=True)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -float(row["share"]))
