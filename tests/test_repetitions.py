"""Plan of folds, and the sequential rule of repetitions: the state is the same as with all repetitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accord import Project
from accord.decisions import is_settled
from accord.decisions.figures import Measured
from accord.decisions.verdict import CLEAR, state_of
from accord.edges import UnknownName
from accord.evidence import Column, EvidenceTable, ratings
from accord.learning import Experiment, FoldPlan, Planned, Predictions, make_head
from accord.learning.baselines import LabelsAlone
from accord.learning.calibration.calibration import Calibration
from accord.project import Config
from accord.project.evaluators.experiments import further_repetitions
from accord.testing import planted, sample_project
from accord.validation import R_NEW, MetricsTable, baselines, other_people
from accord.values import Label, Labels, Question, Scale, Target

QUESTION = Question(id="main", text="How good is it?", scale=Scale(options=(1, 2, 3, 4, 5)))
Systems = dict[str, list[Predictions]]


def world(seed: int) -> tuple[MetricsTable, EvidenceTable, Systems]:
    """Predictions of a planted quality in five repetitions that differ at random, by an evaluator of random skill."""
    rng = np.random.default_rng(seed)
    texts, people = int(rng.choice([20, 40, 80])), int(rng.integers(1, 4))
    skill, spread, width = rng.uniform(0, 1), rng.choice([0.05, 0.1, 0.2, 0.3]), rng.uniform(0.6, 1.4)
    quality, noise = rng.normal(0, 1.2, texts), rng.normal(0, 1, texts)
    targets = [Target(f"c{place:03d}") for place in range(texts)]
    labels = [
        Label(target, "main", f"p{person}", int(np.clip(round(3 + each + 0.2 * person + rng.normal(0, 0.7)), 1, 5)))
        for target, each in zip(targets, quality, strict=True)
        for person in range(people)
    ]
    column = Column("words", "metric|words")
    evidence = EvidenceTable.from_rows([column], {target: {"words": float(rng.normal())} for target in targets})
    rated = ratings(evidence, Labels(labels), QUESTION)
    speakers = np.array([f"bot-{row % 2}" for row in rated.row], dtype=object)

    def predicted(name: str, value: Any, reach: float) -> Predictions:
        value = np.clip(value, 1, 5)[rated.row]
        shares = np.exp(-((np.arange(1, 6) - value[:, None]) ** 2) / 1.6)
        shares /= shares.sum(axis=1, keepdims=True)
        band = np.column_stack([value - reach, value + reach])
        return Predictions(name, shares, value, value, np.ones(len(rated), dtype=bool), band, shares, band)

    systems: Systems = {"it": [], "constant": [], "best-column": []}
    for _ in range(5):
        ours = 3 + 0.9 * (skill * quality + 0.9 * np.sqrt(1 - skill**2) * noise) + rng.normal(0, spread, texts)
        systems["it"].append(predicted("it", ours, width))
        level = rated.value.mean() + rng.normal(0, 0.02, texts)
        systems["constant"].append(predicted("constant", level, 2.0))
        systems["best-column"].append(predicted("best-column", 3 + 0.3 * quality + rng.normal(0, 0.3, texts), 2.0))
    return MetricsTable(rated, 5, 0, 60, speakers), evidence, systems


def state(table: MetricsTable, systems: Mapping[str, Sequence[Predictions]], count: int) -> tuple[str, bool]:
    """State of the averages over some repetitions, and True if it is borderline."""
    first = {name: each[:count] for name, each in systems.items()}
    whole = Measured(table.rated, first, "it", other_people(table.rated), table.speakers)
    r = table.served(first["it"], np.arange(len(table.rated)))[R_NEW]
    found, singles = state_of(whole.figures(r)), [state_of(each.figures(r)) for each in whole.singles]
    return found, singles.count(found) / count < CLEAR


@pytest.mark.parametrize(
    ("seed", "repetitions", "expected"),
    [
        (0, 2, "not yet"),
        (8, 2, "systems"),
        (12, 5, "not yet"),
        (59, 5, "single"),
        (7, 5, "systems"),
        (143, 5, "triage"),
    ],
)
def test_skipped_repetitions_would_not_change_the_state(seed: int, repetitions: int, expected: str) -> None:
    table, evidence, systems = world(seed)
    counts = (
        count
        for count in (2, 3, 4)
        if is_settled({name: each[:count] for name, each in systems.items()}, "it", table, evidence)
    )
    count = next(counts, 5)
    assert count == repetitions
    assert state(table, systems, count) == state(table, systems, 5)
    assert state(table, systems, 5)[0] == expected


def test_a_single_repetition_settles_nothing() -> None:
    table, evidence, systems = world(0)
    assert not is_settled({name: each[:1] for name, each in systems.items()}, "it", table, evidence)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Method of each head that is fitted."""
    found: list[str] = []
    for kind in (Calibration, LabelsAlone):
        original = kind.fit

        def fit(self: Any, *given: Any, original: Any = original) -> Any:
            found.append(self.method)
            return original(self, *given)

        monkeypatch.setattr(kind, "fit", fit)
    return found


def folds_of() -> Experiment:
    corpus = planted(conversations=40, annotators=2, features=4, noise=2.5)
    return Experiment.of(corpus.evidence, corpus.labels, corpus.question, 2, 0)


def ridge(question: Question) -> Any:
    return make_head("ridge", question, {})


def test_equal_systems_on_equal_folds_are_predicted_once(fits: list[str]) -> None:
    experiment = folds_of()
    plan = FoldPlan([Planned("a", ridge, experiment, ["ridge"]), Planned("b", ridge, experiment, ["ridge"])])
    first, second = plan.run()
    assert fits == ["calibration"] * 2 and (first.name, second.name) == ("a", "b")
    assert first.value is second.value
    FoldPlan([Planned("a", ridge, experiment), Planned("b", ridge, experiment)]).run()
    assert len(fits) == 2 + 4, "without a key nothing is known to be equal"


def test_systems_of_a_fold_follow_each_other() -> None:
    experiment = folds_of()
    plan = FoldPlan([Planned("a", ridge, experiment), Planned("b", ridge, experiment)])
    assert plan.pieces == [(0, 0), (1, 0), (0, 1), (1, 1)]
    begun: list[int] = []
    plan.run(on_fold=begun.append)
    assert begun == [0, 0, 1, 1]


def test_evaluators_are_compared_in_all_repetitions_and_shown_as_if_alone() -> None:
    experiment = folds_of()
    others = [each for each in baselines(experiment) if each.name in ("constant", "best-column")]
    ours = [Planned(name, ridge, experiment, [name]) for name in ("one", "two")]
    first = {each.name: each for each in FoldPlan([*ours, *others]).run()}
    table = MetricsTable(experiment.ratings, 2, 0, 40)
    both, alone = (further_repetitions(tested, others, first, 4, table) for tested in (ours, ours[:1]))
    assert {name: len(each) for name, each in both.every.items()} == dict.fromkeys(first, 3)
    shown = both.shown("one")
    assert len(alone.every["one"]) == len(shown["one"]) == len(shown["constant"]) < 3
    assert np.array_equal(alone.shown("one")["one"][0].value, shown["one"][0].value)


def test_fit_after_compare_fits_the_final_evaluator_only(tmp_path: Path, fits: list[str]) -> None:
    with sample_project(repeats=3) as project:
        compared = project.compare(only=["default"], jobs=1)
        assert fits
        fits.clear()
        fitted = project.fit("default", out=tmp_path / "default")
        assert fits == ["calibration"]
        assert fitted.comparison is not None
        for name in ("default", "constant", "best-column"):
            assert fitted.comparison[name].to_json() == compared.comparison[name].to_json()
        assert fitted.comparison.to_json()["repeats"] == compared.comparison.to_json()["repeats"]


def test_all_is_offered_with_sources_that_learn_only() -> None:
    with Project(Config(store="sqlite:///:memory:")) as project:
        assert "all" not in project.evaluator_names()
        with pytest.raises(UnknownName, match="unknown evaluator 'all'. It is now called 'default': write default."):
            project.evaluator("all")
    with Project(Config(store="sqlite:///:memory:", sources={"learned-rubric": {}})) as project:
        assert "all" in project.evaluator_names()
        assert "learned-rubric" in [source.name for source in project.evaluator("all").sources]


def test_saved_evaluator_named_all_is_still_loaded() -> None:
    with sample_project() as project:
        folder = project.evaluators_folder / "all"
        replace(project.fit("default").evaluator, name="all").save(folder)
        assert project.load(folder).name == "all"
