"""Calibration network against its formula written with loops, and the grid against cells trained one by one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accord import Evaluator, Label, Labels, load_evaluator
from accord.edges import BadInput, MissingExtra
from accord.evidence import EvidenceTable, ratings
from accord.learning import Calibration
from accord.learning.answer_models.network.answers import (
    PAPER,
    NetworkSettings,
    answers_to,
)
from accord.learning.answer_models.network.formula import (
    NetworkShape,
    blocks,
    chances,
    inputs,
    latent_answers,
    log_densities,
    predict,
)
from accord.learning.answer_models.network.training import Schedule, Sheets, TrainingJob, early_stops, train
from accord.testing import planted

SMALL = {"hidden": (6, 5), "finetune": 40, "members": 1, "pooling": 30.0}


def drawn(shape: NetworkShape, seed: int = 0) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return {
        name: {"shared": rng.normal(size=size), "own": rng.normal(size=(shape.annotators, *size)) * 0.3}
        for name, size in shape.sizes().items()
    }


def by_loops(shape: NetworkShape, p: dict[str, dict[str, np.ndarray]], x: np.ndarray, a: int) -> list[list[float]]:
    """Equations 3 to 5, and appendix B's ordinal answers, one number at a time."""

    def layer(name: str, z: np.ndarray) -> np.ndarray:
        W = p[name]["shared"] + p[name]["own"][a]
        return np.array([W[0, j] + sum(z[i] * W[i + 1, j] for i in range(len(z))) for j in range(W.shape[1])])

    z = 1 / (1 + np.exp(-layer("W1", x)))
    z = 1 / (1 + np.exp(-layer("W2", z)))
    out, found = layer("V", z), []
    for question, options in enumerate(shape.options):
        if shape.head == "softmax":
            mine = out[question * shape.widest :][:options]
            found.append(list(np.exp(mine) / np.exp(mine).sum()))
            continue
        r, log_s = out[2 * question : 2 * question + 2]
        steps = (p["cuts"]["shared"] + p["cuts"]["own"][a])[question]
        theta = [steps[0] + sum(np.exp(steps[1:k])) for k in range(1, options)]
        below = [0.0, *(1 / (1 + np.exp(-(t - r) / np.exp(log_s))) for t in theta), 1.0]
        found.append([high - low for low, high in zip(below, below[1:], strict=False)])
    return found


@pytest.mark.parametrize("head", ["softmax", "ordinal"])
def test_network_matches_the_papers_formula(head: str) -> None:
    shape = NetworkShape(3, (4, 5), (4, 2, 3), 2, head)
    p, rng = drawn(shape), np.random.default_rng(1)
    x = rng.normal(size=(2, 6, 3))
    found = chances(np, shape, p, x)
    for a in range(2):
        for row in range(6):
            for question, expected in enumerate(by_loops(shape, p, x[a, row], a)):
                assert found[a, row, question, : len(expected)] == pytest.approx(expected, abs=1e-6)
                assert found[a, row, question, len(expected) :] == pytest.approx(0, abs=1e-6)


def test_latent_answer_matches_the_papers_formula() -> None:
    shape = NetworkShape(3, (4, 5), (4, 2), 2, "ordinal")
    p, rng = drawn(shape), np.random.default_rng(1)
    x, answer = rng.normal(size=(2, 6, 3)), rng.integers(2, size=(2, 6, 2))
    density = np.exp(log_densities(np, shape, p, x, (answer[..., None] == np.arange(4)).astype(float)))
    steps = latent_answers(shape, [p], x.reshape(12, 3), np.repeat([0, 1], 6)).reshape(2, 6)
    for a in range(2):
        for row in range(6):
            z = x[a, row]
            for layer in ("W1", "W2"):
                z = 1 / (1 + np.exp(-np.append(1, z) @ (p[layer]["shared"] + p[layer]["own"][a])))
            out = np.append(1, z) @ (p["V"]["shared"] + p["V"]["own"][a])
            assert steps[a, row] == pytest.approx(out[0] + 1.5), "the options of a scale of four are at -1.5, ... 1.5"
            for question, options in enumerate(shape.options):
                r, s = out[2 * question], np.exp(out[2 * question + 1])
                y = answer[a, row, question] - (options - 1) / 2
                expected = np.exp(-(y - r) / s) / (s * (1 + np.exp(-(y - r) / s)) ** 2)
                assert density[a, row, question] == pytest.approx(expected, rel=1e-6)
    everyone = latent_answers(shape, [p], x[0], np.full(6, -1))
    other = latent_answers(shape, [p], x[0], np.ones(6, dtype=int))
    assert everyone == pytest.approx((steps[0] + other) / 2)


def test_latent_answers_are_tied_to_the_scale(tmp_path: Path) -> None:
    corpus = planted(conversations=150, annotators=3, share=0.9, noise=0.4)
    truth = np.array([2.5 + corpus.evidence.values @ corpus.weights + level for level in corpus.levels.values()])

    def errors(answer: str, **network: float) -> tuple[float, float]:
        settings = {"members": 1, "pooling": 30.0, **network}
        head = Calibration(corpus.question, "network", network=settings, answer=answer)
        head.fit(corpus.evidence, corpus.labels)
        each = [head.predict(corpus.evidence, name) for name in head.annotators]
        if answer == "latent":
            Evaluator(corpus.question, (), head, head_name="network").save(tmp_path)
            assert load_evaluator(tmp_path).head.predict(corpus.evidence, "p2") == each[2]
            assert "answer:latent" in str(head.signature())
        values = np.array([[score.value for score in scores] for scores in each])  # type: ignore[union-attr]
        rmse = float(np.sqrt(np.mean((values - truth) ** 2)))
        return rmse, 1 - float(np.corrcoef(values.ravel(), truth.ravel())[0, 1])

    tied, loose, options = errors("latent"), errors("latent", unquantized=0.0), errors("option")
    assert tied[0] < 0.6 * loose[0], "without the second term the scale is arbitrary"
    assert tied[0] < options[0] and tied[1] < 0.5 * options[1]


def test_new_annotator_is_the_mean_of_all_annotators() -> None:
    assert blocks(np.array([1, 0, 1, 1]), 2, np.arange(4)).tolist() == [[1, 4, 4], [0, 2, 3]]
    shape = NetworkShape(3, (4, 5), (4, 2), 2, "softmax")
    p, x = drawn(shape), np.random.default_rng(1).normal(size=(3, 3))
    each = [np.array([by_loops(shape, p, row, a)[0] for row in x]) for a in range(2)]
    assert predict(shape, [p], x, np.array([1, 0, -1])) == pytest.approx(
        np.array([each[1][0], each[0][1], (each[0][2] + each[1][2]) / 2])
    )


def test_missing_inputs_are_flagged_and_change_nothing_else() -> None:
    group = np.array([[1.0, 1, 0], [0, 0, 1]])
    x = inputs(np, np.array([[0.2, 0.8, 3.0]]), np.array([[0.0, 1.0]]), group)
    assert x.tolist() == [[0.0, 0.0, 3.0, 1.0, 0.0]]


def sheets(answers: np.ndarray, seed: int = 0) -> tuple[NetworkShape, Sheets]:
    rng = np.random.default_rng(seed)
    n = len(answers)
    x = rng.normal(size=(n, 3))
    shape = NetworkShape(3, (4, 4), (4, 3), 3, "softmax")
    return shape, Sheets(x, np.ones((n, 0)), np.ones((0, 3)), rng.integers(3, size=n), answers)


def answers(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(4, size=60), rng.integers(3, size=60)])


def test_masked_answers_and_other_folds_have_no_effect() -> None:
    terms = Schedule(3, 3, 16, 0.0, False)
    some = np.arange(60) % 4 != 0
    given = answers()
    masked, other = given.copy(), given.copy()
    masked[::7, 1] = -1
    other[~some] = (other[~some] + 1) % 3
    [a], [b] = (train(*sheets(each), terms, [TrainingJob(some, 0.01, 0, 0, 5)]) for each in (given, other))
    assert all(np.array_equal(a[layer]["own"], b[layer]["own"]) for layer in a)
    [c] = train(*sheets(masked), terms, [TrainingJob(some, 0.01, 0, 0, 5)])
    assert not np.allclose(c["W1"]["shared"], a["W1"]["shared"])
    nobody = np.where(np.arange(2) == 1, -1, given)
    [e] = train(*sheets(nobody), terms, [TrainingJob(some, 0.01, 0, 0, 5)])
    assert all(np.isfinite(e[layer]["shared"]).all() for layer in e)


def test_pooling_pulls_annotators_to_the_shared_weights() -> None:
    jobs = [TrainingJob(np.ones(60, dtype=bool), 0.02, strength, 0.0, 1) for strength in (0.0, 10.0, 1e4)]
    nets = train(*sheets(answers()), Schedule(0, 60, None, 0.0, True), jobs)
    distance = [sum(float((net[layer]["own"] ** 2).sum()) for layer in net) for net in nets]
    assert distance[0] > 4 * distance[1] > 40 * distance[2]


def test_first_stage_of_pretraining_moves_shared_weights_only() -> None:
    shape, given = sheets(answers())
    everything = [TrainingJob(np.ones(60, dtype=bool), 0.02, 0.0, 0.0, 1)]

    [first, second, third] = (
        train(shape, given, Schedule(4, 0, None, 0.0, False, shared=shared), everything)[0] for shared in (4, 3, 0)
    )
    own = [sum(float((weights["own"] ** 2).sum()) for weights in each.values()) for each in (first, second, third)]
    assert own[0] == 0 < own[1] < own[2]
    nobody = replace(given, annotator=np.arange(60) // 20 + 3)  # blocks without weights of their own
    [then] = train(shape, nobody, Schedule(4, 0, None, 0.0, False), everything)
    for layer in first:
        assert first[layer]["shared"] == pytest.approx(then[layer]["shared"], abs=1e-5)


def test_early_stopping_takes_the_epochs_with_the_least_held_out_loss() -> None:
    shape, given = sheets(answers())
    fold, terms = np.arange(60) % 3, Schedule(2, 3, 16, 0.0, False)
    jobs = [TrainingJob(fold != each, 0.5, 0.0, 0.0, 3) for each in range(3)]

    def held_out(pretrain: int, finetune: int) -> float:
        nets = train(shape, given, replace(terms, pretrain=pretrain, finetune=finetune), jobs)
        total = 0.0
        for each, network in enumerate(nets):
            rows = fold == each
            main = predict(shape, [network], given.values[rows], given.annotator[rows])
            total -= np.log(main[np.arange(rows.sum()), given.answers[rows, 0]]).sum()
        return total

    pretrain, finetune = early_stops(shape, given, terms, jobs)
    losses = [held_out(pretrain, epochs) for epochs in range(1, 4)]
    assert finetune == int(np.argmin(losses)) + 1
    alone = replace(given, answers=given.answers[:, :1])
    one = replace(shape, options=(4,), head="softmax")
    nets = [
        [float(-np.log(predict(one, [net], given.values[fold == k], given.annotator[fold == k])[
            np.arange(20), given.answers[fold == k, 0]]).sum())
         for k, net in enumerate(train(one, alone, replace(terms, pretrain=epochs, finetune=0), jobs))]
        for epochs in range(1, 3)
    ]  # fmt: skip
    assert early_stops(one, alone, replace(terms, finetune=0), jobs)[0] == int(np.argmin(np.sum(nets, axis=1))) + 1
    assert early_stops(shape, given, replace(terms, pretrain=0, finetune=0), jobs) == (0, 0)


def test_early_stopping_and_stages_are_settings() -> None:
    corpus = planted(conversations=60, annotators=3, noise=0.3)
    settings = {"like": "paper", "hidden": (6, 5), "rate": 0.05, "pretrain": 12, "finetune": 15, "pretrain_shared": 6}
    head = Calibration(corpus.question, "network", network={**settings, "early_stopping": True})
    found = head.fit(corpus.evidence, corpus.labels).describe()["network"]
    assert 1 <= found["pretrain"] <= 12 and 1 <= found["finetune"] <= 15
    assert (found["pretrain"], found["finetune"]) != (12, 15), "this rate overfits"
    repeated = {**settings, **{name: found[name] for name in ("pretrain", "finetune", "pretrain_shared")}}
    again = Calibration(corpus.question, "network", network=repeated).fit(corpus.evidence, corpus.labels)
    assert [s.probabilities for s in again.predict(corpus.evidence, "p1")] == [  # type: ignore[union-attr]
        s.probabilities for s in head.predict(corpus.evidence, "p1")  # type: ignore[union-attr]
    ]  # fmt: skip


def test_network_recovers_planted_habits_and_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = planted(conversations=150, annotators=4, share=0.9, noise=0.3)
    evaluator = Calibration(corpus.question, answer_model="network", network=SMALL).fit(corpus.evidence, corpus.labels)
    generous, strict = ([s.value for s in evaluator.predict(corpus.evidence, name)] for name in ("p3", "p0"))
    assert np.mean(generous) > np.mean(strict) + 0.5
    assert np.mean([s.value for s in evaluator.predict(corpus.evidence)]) == pytest.approx(
        np.mean([[s.value for s in evaluator.predict(corpus.evidence, p)] for p in evaluator.annotators]), abs=1e-6
    )
    elsewhere = evaluator.in_new_domain().predict(corpus.evidence, "p0")
    assert np.mean(strict) < np.mean([s.value for s in elsewhere]) < np.mean(generous)
    with pytest.raises(BadInput, match="answer_model: mixed"):
        evaluator.adapt(corpus.evidence, corpus.labels)
    Evaluator(corpus.question, (), evaluator, head_name="network").save(tmp_path)
    monkeypatch.setitem(sys.modules, "jax", None)  # a trained network predicts without it
    again = load_evaluator(tmp_path).head
    assert again.predict(corpus.evidence, "p0") == evaluator.predict(corpus.evidence, "p0")
    assert again.describe()["network"]["pooling"] == 30.0


def test_training_without_jax_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = planted(conversations=60, annotators=4, share=0.9)
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "accord.learning.answer_models.network.training")
    with pytest.raises(MissingExtra, match=r"pip install .*\[networks\]"):
        Calibration(corpus.question, answer_model="network").fit(corpus.evidence, corpus.labels)


def test_invalid_network_settings_are_rejected() -> None:
    corpus = planted(conversations=10)
    for wrong in (
        {"layers": 3},
        {"head": "linear"},
        {"hidden": (3,)},
        {"members": 0},
        {"search": 3},
        {"like": "me"},
        {"like": ["paper"]},
        {"hidden": 16},
        {"batch": 0},
        {"batch": 2.5},
        {"like": "paper", "search": "all"},
        {"like": "paper", "search": True},
        {"finetune": "x"},
        {"pretrain": 0, "finetune": 0},
        {"pretrain_shared": 1},
        {"pretrain": 5, "pretrain_shared": 1.5},
        {"early_stopping": 1},
        {"like": "paper", "search": 2, "early_stopping": True},
        {"unquantized": -0.1},
        {"unquantized": True},
        {"unquantized": "little"},
        {"unquantized": 0.1, "head": "softmax"},
    ):
        with pytest.raises(BadInput):
            Calibration(corpus.question, network=wrong)
    assert NetworkSettings.of({"hidden": [4, 5]}).hidden == (4, 5)
    assert NetworkSettings.of({"like": "paper", "rate": 0.01}) == replace(PAPER, rate=0.01)


def crossed(conversations: int = 120) -> tuple[EvidenceTable, Labels, object]:
    """Answers that depend on a product of two features: nothing a linear model can see."""
    corpus = planted(conversations=conversations, annotators=3, features=2, share=1.0)
    x = corpus.evidence.values
    value = np.clip(np.round(2.5 + 1.6 * np.sign(x[:, 0] * x[:, 1])), 1, 4).astype(int)
    labels = [
        Label(t, "main", f"p{i}", int(v)) for t, v in zip(corpus.evidence.targets, value, strict=True) for i in range(3)
    ]
    return corpus.evidence, Labels(labels), corpus.question


def test_auto_picks_models_by_inner_folds() -> None:
    evidence, labels, question = crossed(240)  # labels enough for the network to be tried, and clearly better
    network = {"hidden": (12, 8), "decay": 0.01, "finetune": 600, "members": 1, "pooling": 30.0}
    among = ["constant", "mixed", "network"]  # trees find the crossing as well
    bent = Calibration(question, network=network, candidates=among).fit(evidence, labels).describe()  # type: ignore[arg-type]
    errors = {name: found["rmse"] for name, found in bent["candidates"].items()}
    assert bent["candidates"]["network"]["weight"] >= 0.4
    assert errors["network"] < min(errors["mixed"], errors["constant"]) - 0.02
    corpus = planted(conversations=170, annotators=3, share=1.0)
    straight = Calibration(corpus.question, network=SMALL).fit(corpus.evidence, corpus.labels).describe()
    found = straight["candidates"]
    assert found["mixed"]["weight"] >= 0.4 and found["mixed"]["rmse"] < found["network"]["rmse"]
    assert found["constant"]["weight"] == 0 and sum(each["weight"] for each in found.values()) == pytest.approx(1)
    cheap = Calibration(corpus.question, network=SMALL, max_seconds=1).fit(corpus.evidence, corpus.labels).describe()
    assert "above max_seconds: 1" in cheap["candidates"]["network"]["why"]
    few = planted(conversations=30, annotators=2)
    said = Calibration(few.question).fit(few.evidence, few.labels).describe()
    assert "network" not in said["answer_model"] and "not tried" in said["candidates"]["network"]["why"]


def test_network_with_dropout_tolerates_missing_answers() -> None:
    corpus = planted(conversations=150, annotators=3, share=0.9, features=2, noise=0.2)
    settings = {**SMALL, "dropout": 0.4, "finetune": 200, "decay": 1.0}
    evaluator = Calibration(corpus.question, answer_model="network", network=settings).fit(
        corpus.evidence, corpus.labels
    )
    table = corpus.evidence
    hidden = table.present.copy()
    hidden[:, 1] = False
    part = EvidenceTable(table.targets, table.columns, np.where(hidden, table.values, 0), hidden)
    whole, less = ([s.value for s in evaluator.predict(t, "p1")] for t in (table, part))  # type: ignore[union-attr]
    assert np.corrcoef(whole, less)[0, 1] > 0.9
    assert not np.allclose(whole, less)


def test_every_answered_question_is_a_task() -> None:
    corpus = planted(conversations=20, annotators=2, share=1.0)
    t = corpus.evidence.targets
    more = [Label(t[0], "tone", "p0", "warm"), Label(t[1], "tone", "p0", "cold"), Label(t[2], "length", "p1", 3)]
    more += [Label(t[i], "seconds", "p0", i * 1.5) for i in range(20)] + [Label(t[3], "tone", "p0", None)]
    found, options = answers_to(
        ratings(corpus.evidence, corpus.labels, corpus.question), Labels([*corpus.labels, *more])
    )
    assert options == (4, 10, 2)  # one option of `length` is no task; twenty numbers become ten ranges
    assert found.shape == (40, 3) and (found[:, 2] >= 0).sum() == 2 and found[:, 1].max() == 9
