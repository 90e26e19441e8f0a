"""Oracles (table 1, a to f), ablations (table 2), single questions (table 3), learning curve, adaptive questions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from accord.evidence import Column, EvidenceTable, ratings
from accord.learning import Calibration, Experiment, JudgeExpected
from accord.statistics import (
    STATISTICS,
    Clusters,
    Paired,
    bootstrap,
    grouped_folds,
)
from accord.statistics.agreement import smece_by_option
from accord.validation import adaptive_curve
from accord.values import Labels, Question, Rubric, Target
from accord_papers.llm_rubric.protocols import (
    FOLD_SEEDS,
    DataSet,
    Predict,
    Predicted,
    attempted,
    authors_network,
    cross_validated,
    fold_rows,
    learned,
    test_rows,
    transferred,
)
from accord_papers.study import Row

Floats = NDArray[np.float64]
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
DRAWS = 10
MOST_ASKED = 5
UNTIL = 0.005


# --- table 1, rows a to f ------------------------------------------------------------------------------------------


def told(data: DataSet, rubric: Rubric, llm: bool, own: bool) -> DataSet:
    """Return the ratings with people's answers to the other questions as evidence, as option shares.

    `own` gives the answers of the rating's own annotator (one option has the full share), otherwise the mean of the
    other annotators; `llm` keeps the judge's expected answers. Without any answer all shares are 0, as in the paper.
    """
    rated = data.rated
    options = [(q.id, float(option)) for q in rubric.questions if q.id != rubric.main for option in q.scale.options]
    said: dict[tuple[Target, str], dict[str, float]] = {}
    for label in data.labels:
        said.setdefault((label.target, label.question), {})[label.annotator] = float(label.value or 0)
    people = np.zeros((len(rated), len(options)))
    for row, label in enumerate(rated.labels):
        for place, (question, option) in enumerate(options):
            answers = said.get((label.target, question), {})
            chosen = [value for who, value in answers.items() if (who == label.annotator) == own]
            people[row, place] = np.mean([value == option for value in chosen]) if chosen else 0.0
    judged = data.evidence.expected().take(rated.row)
    columns = [*(judged.columns if llm else ()), *(Column(f"told {q} = {o:g}", "people") for q, o in options)]
    values = np.hstack([judged.values, people]) if llm else people
    targets = tuple(Target(label.target.conversation, row) for row, label in enumerate(rated.labels))
    table = EvidenceTable(targets, tuple(columns), values, np.ones(values.shape, dtype=bool))
    labels = Labels(
        (replace(label, target=target) for label, target in zip(rated.labels, targets, strict=True)),
        dict(zip(targets, rated.group, strict=True)),
    )
    return DataSet(data.name, data.system_of, table, labels, data.question)


def anonymous(make: Predict) -> Predict:
    """Return the data without personalization: all labels are by one annotator."""

    def predict(train: EvidenceTable, labels: Labels, test: EvidenceTable, annotators: Sequence[str]) -> Predicted:
        one = Labels((replace(label, annotator="anybody") for label in labels), labels.groups)
        return make(train, one, test, ["anybody"] * len(annotators))

    return predict


def isotonic(make: Predict, question: Question) -> Predict:
    """Correct each annotator's predictions by an isotonic regression that is learned on inner folds."""

    def predict(train: EvidenceTable, labels: Labels, test: EvidenceTable, annotators: Sequence[str]) -> Predicted:
        rated = ratings(train, labels, question)
        inner = np.zeros(len(rated))
        for split in grouped_folds(list(rated.group), 4, 0):
            rows = np.flatnonzero([name in split.test for name in rated.group])
            part = train.filter(split.train, labels.group_of), labels.filter(split.train)
            inner[rows] = make(*part, train.take(rated.row[rows]), list(rated.annotator[rows])).value
        value = make(train, labels, test, annotators).value
        for name in set(annotators):
            mine, here = rated.annotator == name, np.array([who == name for who in annotators])
            if mine.sum() >= 5:
                fitted = IsotonicRegression(out_of_bounds="clip").fit(inner[mine], rated.value[mine])
                value[here] = fitted.predict(value[here])
        return Predicted(value)

    return predict


def oracle(data: DataSet, rubric: Rubric, seeds: Sequence[int], tested: DataSet | None = None) -> list[Row]:
    """Table 1, rows a to f; the last two need several annotators of a dialogue.

    Args:
        data: The set to learn from; without `tested` it is cross-validated.
        rubric: Its questions.
        seeds: Seeds of the folds.
        tested: Another set to test on, as a new domain.
    """
    where = tested or data

    def measured(make: Callable[[Predict], Predict], llm: bool, own: bool) -> list[Paired]:
        ours = make(learned(partial(Calibration, data.question, "mixed"), in_new_domain=tested is not None))
        if tested is not None:
            return transferred(ours, told(data, rubric, llm, own), told(tested, rubric, llm, own))
        return cross_validated(ours, told(data, rubric, llm, own), seeds)

    def corrected(make: Predict) -> Predict:
        return isotonic(anonymous(make), data.question)

    found = {
        "a oracle": measured(lambda make: make, llm=True, own=True),
        "b without the judge's answers": measured(lambda make: make, llm=False, own=True),
        "c without personalization": measured(anonymous, llm=True, own=True),
        "d c, personalized isotonic": measured(corrected, llm=True, own=True),
    }
    if has_several_annotators(where):
        found["e depersonalized oracle"] = measured(anonymous, llm=True, own=False)
        found["f e, personalized isotonic"] = measured(corrected, llm=True, own=False)
    return fold_rows("oracle" if tested is None else "oracle, T", where, found)


def has_several_annotators(data: DataSet) -> bool:
    """Return True if a text of the set is rated by two annotators."""
    rated = data.rated
    return len({(label.target, label.annotator) for label in rated.labels}) > len(set(rated.target))


# --- tables 2 and 3 ------------------------------------------------------------------------------------------------


def without(data: DataSet, question: str) -> DataSet:
    """Return the set without one question's answers in the evidence."""
    kept = [place for place, column in enumerate(data.evidence.columns) if column.question != question]
    table = data.evidence
    columns = tuple(table.columns[place] for place in kept)
    part = EvidenceTable(table.targets, columns, table.values[:, kept], table.present[:, kept])
    return DataSet(data.name, data.system_of, part, data.labels, data.question)


def ablations(data: DataSet, rubric: Rubric, seeds: Sequence[int], tested: DataSet | None = None) -> list[Row]:
    """Table 2: our system first, each row tested against it; then the parts of the paper's network.

    Args:
        data: The set to learn from; without `tested` it is cross-validated.
        rubric: Its questions.
        seeds: Seeds of the folds.
        tested: Another set to test on, as a new domain.
    """

    def measured(
        predict: Predict, part: Callable[[DataSet], DataSet] = _whole, number: int | None = None
    ) -> list[Paired]:
        if tested is not None:
            return transferred(predict, part(data), part(tested))
        return cross_validated(predict, part(data), seeds[:number])

    ours = learned(partial(Calibration, data.question, "mixed"), in_new_domain=tested is not None)
    found = {"accord": measured(ours), "accord, without personalization": measured(anonymous(ours))}
    asked = {column.question for column in data.evidence.columns}
    for name in (question.id for question in rubric.questions if question.id in asked):
        found[f"accord, without {name}"] = measured(ours, partial(without, question=name))
    where, protocol = tested or data, "ablations" if tested is None else "ablations, T"
    rows = fold_rows(protocol, where, found) + test_rows(protocol, where, found)
    parts: dict[str, dict[str, Any]] = {
        "network": {},
        "network, without fine-tuning": {"pretrain": 40, "finetune": 0},
        "network, without pre-training": {"pretrain": 0, "finetune": 40},
        "network, without personalization": {"pooling": 1e6},
    }
    made = {name: learned(partial(authors_network, data.question, **changed)) for name, changed in parts.items()}
    networks, missing = attempted(
        {name: partial(measured, predict, number=3) for name, predict in made.items()}, {"dataset": where.name}
    )
    return rows + fold_rows(protocol, where, networks) + missing


def _whole(data: DataSet) -> DataSet:
    return data


def questions(data: DataSet, rubric: Rubric, seeds: Sequence[int], tested: DataSet | None = None) -> list[Row]:
    """Table 3: every question as the main one, on the texts with an answer of the judge.

    `tested` as in `ablations`.
    """
    rows = []
    for question in rubric.questions:
        train, test = (each and answered(replace(each, question=question)) for each in (data, tested))
        assert train is not None
        systems = {
            "accord": learned(partial(Calibration, question, "mixed"), in_new_domain=test is not None),
            "judge-expected": learned(partial(JudgeExpected, question)),
        }
        runs = {
            name: partial(transferred, predict, train, test) if test
            else partial(cross_validated, predict, train, seeds[:2])
            for name, predict in systems.items()
        }  # fmt: skip
        about = {"dataset": (test or train).name}
        unasked = []
        if all(column.question != question.id for column in train.evidence.columns):
            del runs["judge-expected"]
            unasked = [{**about, "system": "judge-expected", "missing": f"the judge never answered {question.id!r}"}]
        found, missing = attempted(runs, about)
        missing += unasked
        named = fold_rows(f"question {question.id}", test or train, found) + missing
        rows += [{**row, "question": question.id} for row in named]
    return rows


def answered(data: DataSet) -> DataSet:
    """Return the texts with an answer of the judge to the set's question; all texts if there is none."""
    places = [place for place, column in enumerate(data.evidence.columns) if column.question == data.question.id]
    known = data.evidence.present[:, places].any(axis=1)
    return replace(data, evidence=data.evidence.take(np.flatnonzero(known))) if known.any() else data


# --- appendices ----------------------------------------------------------------------------------------------------


def own_curve(data: DataSet, draws: int) -> list[Row]:
    """Appendix J inside one set: cross-validated, learned from growing random shares of the training groups."""
    ours = learned(partial(Calibration, data.question, "mixed"))
    rows = []
    for share in SHARES:
        runs = [cross_validated(_on_share(ours, share, draw), data, [FOLD_SEEDS[0]])[0]
                for draw in range(draws if share < 1 else 1)]  # fmt: skip
        rows.append(_curve_row(data, share, runs))
    return rows


def _on_share(make: Predict, share: float, draw: int) -> Predict:
    """Learn from a random share of the training groups, with a minimum of two."""

    def predict(train: EvidenceTable, labels: Labels, test: EvidenceTable, annotators: Sequence[str]) -> Predicted:
        names = sorted({labels.group_of(label.target) for label in labels})
        kept = frozenset(random.Random(draw).sample(names, max(round(share * len(names)), 2)))
        return make(train.filter(kept, labels.group_of), labels.filter(kept), test, annotators)

    return predict


def curve(train: DataSet, test: DataSet, draws: int) -> list[Row]:
    """Appendix J: T on growing random shares of the synthetic dialogues; mean and deviation over draws."""
    names = sorted({train.labels.group_of(target) for target in train.evidence.targets})
    predict = learned(partial(Calibration, train.question, "mixed"), in_new_domain=True)
    rows = []
    for share in SHARES:
        runs = []
        for draw in range(draws if share < 1 else 1):
            kept = random.Random(draw).sample(names, round(share * len(names)))
            part = DataSet(train.name, train.system_of, *train.of_groups(kept), train.question)
            runs += transferred(predict, part, test)
        rows.append(_curve_row(test, share, runs))
    return rows


def _curve_row(data: DataSet, share: float, runs: Sequence[Paired]) -> Row:
    """Return the mean and deviation of each statistic over runs."""
    row: Row = {"protocol": "curve", "dataset": data.name, "system": f"accord, {share:.0%}", "share": share}
    for name in ("rmse", "pearson", "log_loss"):
        values = [value for paired in runs if (value := STATISTICS[name](paired)) is not None]
        row |= {name: float(np.mean(values)), f"{name}_sd": float(np.std(values))} if values else {name: None}
    return row


def adaptive(data: DataSet, seeds: Sequence[int]) -> list[Row]:
    """Appendix B: questions chosen for each dialogue, after 0 to 9 questions, and with a stop."""
    rated, clusters = data.rated, Clusters(data.rated.group)
    make = partial(Calibration, answer_model="mixed")
    rows: list[Row] = []
    for name, most, until in (
        ("by number", None, 0.0),
        (f"at most {MOST_ASKED}, or surer than {UNTIL}", MOST_ASKED, UNTIL),
    ):
        runs = [
            adaptive_curve(
                Experiment(
                    data.question, data.evidence, data.labels, rated,
                    tuple(grouped_folds(list(rated.group), 5, seed)), 5, seed,
                ),
                make, most, until,
            )
            for seed in seeds
        ]  # fmt: skip
        for step in range(len(runs[0])) if most is None else [len(runs[0]) - 1]:
            repeats = [run[step].paired for run in runs]
            asked = float(np.mean([run[step].mean for run in runs]))
            about = "accord" if most is not None else f"after {step}"
            row: Row = {"protocol": "adaptive", "dataset": data.name, "system": about, "rule": name}
            row["questions_asked"] = asked
            for statistic in ("rmse", "pearson", "log_loss"):
                values = [STATISTICS[statistic](paired) for paired in repeats]
                row[statistic] = float(np.mean([value for value in values if value is not None]))
                interval = bootstrap(clusters, STATISTICS[statistic], repeats, 400)
                row |= {f"{statistic}_low": interval.low, f"{statistic}_high": interval.high}
            rows.append(row)
    return rows


def diagrams(data: DataSet) -> list[Row]:
    """Appendix K: smECE by answer from Accord, and from `relplot` if it is installed."""
    [paired] = cross_validated(learned(partial(Calibration, data.question, "mixed")), data, [FOLD_SEEDS[0]])
    rows: list[Row] = [{"protocol": "diagrams", "system": "accord", "smece": smece_by_option(paired)}]
    if find_spec("relplot"):
        relplot = import_module("relplot")
        errors = [
            float(relplot.smECE(paired.probabilities[:, option], (paired.answer == option).astype(float)))
            for option in range(len(paired.options))
        ]
        rows.append({"protocol": "diagrams", "system": "relplot", "smece": errors})
    return rows
