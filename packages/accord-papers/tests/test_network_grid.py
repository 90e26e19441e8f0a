"""LLM-RUBRIC's grid against cells trained one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs accord[networks]")

import jax

from accord import Evaluator, load_evaluator
from accord.learning import Calibration
from accord.learning.answer_models.network.answers import PAPER
from accord.learning.answer_models.network.formula import (
    NetworkShape,
    predict,
)
from accord.learning.answer_models.network.training import Schedule, Sheets, TrainingJob, train
from accord.testing import planted
from accord.values import Label, Labels
from accord_papers.variants.grid import Grid, losses, search
from accord_papers.variants.users import UserShape, begun, with_flag
from accord_papers.variants.users import train as train_with_users


def sheets(answers: np.ndarray, seed: int = 0) -> tuple[NetworkShape, Sheets]:
    rng = np.random.default_rng(seed)
    n = len(answers)
    x = rng.normal(size=(n, 3))
    shape = NetworkShape(3, (4, 4), (4, 3), 3, "softmax")
    return shape, Sheets(x, np.ones((n, 0)), np.ones((0, 3)), rng.integers(3, size=n), answers)


def answers(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(4, size=60), rng.integers(3, size=60)])


def test_grid_matches_training_each_cell() -> None:
    shape, given = sheets(answers())
    folds = [np.arange(60) % 3 != fold for fold in range(3)]
    grid = Grid(hidden=(4,), batch=(16,), rate=(0.001, 0.02), epochs=(2, 3, 5))
    assert len(grid) == 2 * 9 and len(Grid()) == 16_128
    found = losses(shape, 16, given, folds, grid, seed=3)
    for place, rate in enumerate(grid.rate):
        for pretrain, finetune in ((0, 1), (2, 0)):
            terms = Schedule(grid.epochs[pretrain], grid.epochs[finetune], 16, 0.0, False)
            nets = train(shape, given, terms, [TrainingJob(rows, rate, 0, 0, 3) for rows in folds])
            total = 0.0
            for net, rows in zip(nets, folds, strict=True):
                shares = predict(shape, [net], given.values[~rows], given.annotator[~rows])
                total -= np.log(shares[np.arange((~rows).sum()), given.answers[~rows, 0]]).sum()
            assert found[place, pretrain, finetune] == pytest.approx(total / 60, rel=1e-4)
    cells = search(shape, given, folds, grid, seed=3)
    assert cells[0].loss == pytest.approx(found.min()) and [c.loss for c in cells] == sorted(c.loss for c in cells)
    assert len(search(shape, given, folds, Grid((4, 5), (16,), (0.02,), (2,)), seconds=0)) == 1


@pytest.mark.parametrize(
    ("name", "settings", "widths"), [("network", {"like": "paper", "search": 2}, (3, 5)), ("grid", {}, (3,))]
)
def test_grid_search_uses_the_training_side_only(
    name: str, settings: dict[str, object], widths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small = Grid(hidden=widths, batch=(64,), rate=(0.00001, 0.02), epochs=(5, 20))
    monkeypatch.setattr("accord_papers.variants.grid.Grid", lambda: small)
    corpus = planted(conversations=60, annotators=3, noise=0.3)
    evaluator = Calibration(corpus.question, name, network=settings).fit(corpus.evidence, corpus.labels)
    found = evaluator.describe()["network"]
    assert found["rate"] == 0.02 and found["batch"] == 64 and (found["pretrain"], found["finetune"]) == (20, 20)
    Evaluator(corpus.question, (), evaluator, head_name="auto").save(tmp_path)
    again = load_evaluator(tmp_path).head
    assert again.describe()["network"] == found and again.predict(corpus.evidence) == evaluator.predict(corpus.evidence)
    assert again.describe()["answer_model"] == name
    assert PAPER.pooling == PAPER.decay == 0


def test_users_have_a_last_layer_of_their_own_and_nothing_else() -> None:
    shape, given = sheets(answers())
    users = np.arange(60) % 4 == 0
    marks = np.column_stack([np.where(users, -1, given.answers[:, 0]), np.where(users, given.answers[:, 1], -1)])
    owner = np.where(users, 3 + np.arange(60) % 8 // 4, given.annotator)
    mixed = replace(given, annotator=owner, answers=marks)
    wide = UserShape(**vars(shape), users=2)
    start = begun(wide, jax.random.key(0))
    assert {name: len(parts["own"]) for name, parts in start.items()} == {"W1": 3, "W2": 3, "V": 5}
    jobs = [TrainingJob(np.ones(60, dtype=bool), 0.02, 0, 0, 3)]
    [net] = train_with_users(wide, mixed, Schedule(3, 2, 16, 0.0, False), jobs)
    assert all(len(parts["own"]) == 3 for parts in net.values()), "users' weights are dropped"
    known = replace(given, answers=given.answers)
    [same] = train_with_users(UserShape(**vars(shape), users=0), known, Schedule(3, 2, 16, 0.0, False), jobs)
    [plain] = train(shape, given, Schedule(3, 2, 16, 0.0, False), jobs)
    np.testing.assert_allclose(same["V"]["shared"], plain["V"]["shared"], rtol=1e-5)


def test_thumbs_of_users_are_learned_beside_ratings_and_texts_are_flagged() -> None:
    corpus = planted(conversations=30, annotators=3)
    targets = list(dict.fromkeys(corpus.evidence.targets))
    thumbs = [Label(target, "thumb", f"user{place % 5}", place % 2) for place, target in enumerate(targets)]
    labels = Labels([*corpus.labels, *thumbs])
    network = {"hidden": (4, 4), "pretrain": 2, "finetune": 2}
    head = Calibration(corpus.question, "users", network=network).fit(corpus.evidence, labels)
    assert head.describe()["answer_model"] == "users" and len(head.predict(corpus.evidence)) == len(corpus.evidence)
    flagged = with_flag(corpus.evidence, frozenset(targets[:3]))
    assert flagged.columns[-1].name == "downsampled" and flagged.values[:, -1].sum() == 3
