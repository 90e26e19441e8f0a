"""RUBICON's numbers: selection against the algorithm as it is printed, windows and yields worked by hand, planted pools."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from accord import Label, Labels, Question, Rubric, Scale, Target
from accord.edges import BadInput, UnknownName, load_yaml, validate
from accord.evidence import Column, EvidenceTable
from accord.methods import (
    TOP,
    AssertionBudget,
    Pool,
    selection_policies,
)
from accord.methods.learned_rubric.assertion_selector import (
    NET_SAT,
    AssertionSelector,
    points,
    signed,
)
from accord.methods.learned_rubric.selection_policies import (
    DIGITS,
    POINT,
    Candidates,
    SelectionSettings,
    UncertaintyWindow,
    correctness_alone,
    curves,
    select,
    stratified,
    threshold_of,
    tuned,
)
from accord.models import NOT_APPLICABLE
from accord.testing import check_selection_policy
from accord.values import Polarity, dump_rubric, read_rubric


def drawn_pool(rubrics: int = 24, conversations: int = 60, seed: int = 0, lattice: bool = False) -> Pool:
    rng = np.random.default_rng(seed)
    good = np.arange(conversations) % 5 < 3
    sat = np.arange(rubrics) % 2 == 0
    strength = rng.gamma(1.0, 0.8, rubrics)
    raw = (
        5
        + np.where(good, 1, -1) * np.where(sat, 1, -1)[:, None] * strength[:, None]
        + rng.normal(scale=2, size=(rubrics, conversations))
    )
    values = np.clip(np.round(raw / 2.5) * 2.5 if lattice else raw, 0, 10)
    return Pool(signed(np.rint(values * POINT).astype(np.int32), sat, [1.0] * rubrics), sat, good)


def loss_as_printed(points: np.ndarray, good: np.ndarray, alpha: float) -> float:
    """LC/range − α·LS of a set, a threshold at a time, in floating point."""
    scores = points.sum(axis=0) / POINT
    plus, minus = scores[good].mean(), scores[~good].mean()
    correctness, theta_c, share = plus - minus, (plus + minus) / 2, good.mean()
    distinct = np.unique(scores)
    errors = []
    for theta in (distinct[1:] + distinct[:-1]) / 2:
        above, below = good[scores > theta], good[scores <= theta]
        curve = math.tanh(theta - theta_c)
        errors.append(abs(share + (1 - share) * (1 + curve) / 2 - above.mean()))
        errors.append(abs(1 - share + share * (1 - curve) / 2 - (~below).mean()))
    sharpness = float(np.mean(errors)) if errors else 1.0
    return float(correctness / (10 * len(points)) - alpha * sharpness)


def selected_as_printed(pool: Pool, budget: AssertionBudget, alpha: float) -> list[int]:
    """Algorithm 1, line by line."""
    chosen: list[int] = []
    while True:
        taken = sum(bool(pool.sat[row]) for row in chosen)
        open_ = [
            row for row in range(len(pool.sat))
            if row not in chosen and (taken < budget.sat if pool.sat[row] else len(chosen) - taken < budget.dsat)
        ]  # fmt: skip
        if not open_:
            return chosen
        values = [round(loss_as_printed(pool.points[[*chosen, row]], pool.good, alpha), DIGITS) for row in open_]
        chosen.append(open_[values.index(max(values))])


@pytest.mark.parametrize("lattice", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 4.0])
def test_selection_is_algorithm_1(alpha: float, lattice: bool) -> None:
    pool = drawn_pool(lattice=lattice)
    assert select(Candidates(pool), AssertionBudget(4, 3), alpha) == selected_as_printed(
        pool, AssertionBudget(4, 3), alpha
    )


def test_a_window_worked_by_hand() -> None:
    scores = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 3.0])
    good = np.array([0, 0, 1, 0, 1, 1, 1, 1], dtype=bool)
    theta, above, below = curves(scores, good)
    assert theta.tolist() == [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]
    assert below.tolist() == pytest.approx([1, 1, 2 / 3, 3 / 4, 3 / 5, 3 / 6])
    assert above.tolist() == pytest.approx([5 / 7, 5 / 6, 4 / 5, 1, 1, 1])
    window = UncertaintyWindow.read(scores, good, threshold_of(scores, good), 0.9)
    assert (window.low, window.high) == (-1.5, 0.5)
    assert window.says(np.array([-1.5, -1.4, 0.5, 0.6])).tolist() == ["bad", "uncertain", "uncertain", "good"]
    hopeless = UncertaintyWindow.read(scores, ~good, 0.0, 0.9)
    assert (hopeless.low, hopeless.high) == (-math.inf, math.inf)
    apart = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=bool)
    clear = UncertaintyWindow.read(scores, apart, threshold_of(scores, apart), 0.9)
    assert clear.low == clear.high == pytest.approx(0.5) and "uncertain" not in clear.says(scores)
    lenient = UncertaintyWindow.read(scores, good, 0.25, 0.6)
    assert lenient.low == lenient.high == 0.25  # where both sides are precise enough the threshold decides


def test_every_policy_keeps_the_contract() -> None:
    assert {"all", "correctness"} <= set(selection_policies.names())
    for _, policy in selection_policies:
        check_selection_policy(policy)

    def repeats(pool: Pool, budget: AssertionBudget, seed: int) -> list[int]:
        """The first rubric, twice."""
        return [0, 0]

    with pytest.raises(AssertionError, match="each assertion at most once"):
        check_selection_policy(repeats)


def test_tuning_finds_that_sharpness_helps_where_noise_is_shared() -> None:
    rng = np.random.default_rng(3)
    good = np.arange(100) % 2 == 0
    nuisance, label = rng.normal(size=100), np.where(good, 1.0, -1.0)
    loud = 5 + 1.7 * label + 2.6 * nuisance + rng.normal(scale=0.6, size=(10, 100))
    quiet = 5 + 1.4 * label + rng.normal(scale=1.8, size=(10, 100))
    values = np.rint(np.clip(np.vstack([loud, quiet]), 0, 10) * POINT).astype(np.int32)
    pool = Pool(values, np.ones(20, dtype=bool), good)
    fold = stratified([str(i) for i in range(100)], good, seed=0)
    found = tuned(pool, fold, (0.0, 1.0, 4.0), [AssertionBudget(8, 0)])
    assert found.alpha > 0
    chosen = select(Candidates(pool), found.budget, found.alpha)
    assert sum(row >= 10 for row in chosen) > sum(
        row >= 10 for row in correctness_alone(pool, AssertionBudget(8, 0), 0)
    )
    assert len(found.tried) == 3 and found.scores.shape == (100,)


def test_folds_hold_whole_groups_of_both_classes() -> None:
    groups = [f"g{i // 2}" for i in range(20)]
    good = np.arange(20) < 14
    fold = stratified(groups, good, seed=1)
    assert len(set(fold)) == 3  # as many as the rarer class has groups
    for each in set(fold):
        assert good[fold == each].any() and (~good)[fold == each].any()
    assert all(fold[i] == fold[i + 1] for i in range(0, 20, 2))
    with pytest.raises(BadInput, match="belong to one conversation"):
        stratified(["a"] * 5 + groups[:10], np.array([False] * 5 + [True] * 10), seed=0)


# --- selecting and summing ------------------------------------------------------------------------------------------------

LIKERT = (1, 2, 3, 4, 5)


def answered(shown: np.ndarray, names: list[str], kind: str = "q") -> EvidenceTable:
    """Distributions that agree (above 0) or disagree with each assertion; shown is (n, P)."""
    mass = np.exp(-((np.array(LIKERT) - 3 - 1.5 * shown[..., None]) ** 2))
    mass /= mass.sum(axis=-1, keepdims=True)
    columns = tuple(
        Column(f"{name}={k}", f"judge|model:m|question:{name}", name, float(k)) for name in names for k in LIKERT
    )
    targets = tuple(Target(f"c{row:03d}") for row in range(len(shown)))
    values = mass.reshape(len(shown), -1)
    return EvidenceTable(targets, columns, values, np.ones(values.shape, dtype=bool))


def corpus(count: int = 60, seed: int = 0) -> tuple[EvidenceTable, Labels, Question]:
    rng = np.random.default_rng(seed)
    good = np.arange(count) % 2 == 0
    label = np.where(good, 1.0, -1.0)[:, None]
    shown = np.hstack(
        [label + rng.normal(size=(count, 4)), -label + rng.normal(size=(count, 4)), rng.normal(size=(count, 8))]
    )
    names = [f"sat-{i}" for i in range(4)] + [f"dsat-{i}" for i in range(4)] + [f"noise-{i}" for i in range(8)]
    question = Question(id="helped", text="Did it help?", scale=Scale(options=(1, 2, 3, 4, 5)))
    said = [
        Label(Target(f"c{row:03d}"), "helped", f"p{row % 3}", 4 + row % 4 // 2 if is_good else 2 - row % 4 // 2)
        for row, is_good in enumerate(good)
    ]
    return answered(shown, names), Labels(said), question


CLASSES = {
    **{f"sat-{i}": "sat" for i in range(4)}, **{f"dsat-{i}": "dsat" for i in range(4)},
    **{f"noise-{i}": "sat" if i % 2 else "dsat" for i in range(8)},
}  # fmt: skip


FOUR = SelectionSettings(budgets=((4, 4),))


def test_selector_selects_scores_and_labels() -> None:
    evidence, labels, question = corpus()
    selector = AssertionSelector(question, CLASSES, settings=FOUR).fit(evidence, labels)
    assert {name.split("-")[0] for name in selector.names_} == {"sat", "dsat"}
    found = selector.measured(evidence)
    assert [column.name for column in found.columns] == [NET_SAT] and found.present.all()
    notes = [found.notes[target].shown for target in found.targets]
    labels_of = selector.window_.says(found.values[:, 0])
    by_label = {name: np.flatnonzero(labels_of == name) for name in ("good", "bad")}
    assert np.mean(by_label["good"] % 2 == 0) > 0.9 > 0.1 > np.mean(by_label["bad"] % 2 == 0)
    outcome = selector.outcome(evidence, np.ones(len(evidence), dtype=bool))
    sat, dsat = outcome.sat, outcome.dsat
    assert notes[0]["net_sat"] == found.values[0, 0] == pytest.approx(sat[0] + dsat[0]) and dsat.max() <= 0 <= sat.min()
    assert set(notes[0]["assertions"]) == set(selector.names_)
    assert sum(notes[0]["assertions"].values()) == pytest.approx(notes[0]["net_sat"])
    assert "alpha" in str(selector.signature()) and "judge|model:m" in found.columns[0].signature
    weighed = AssertionSelector(question, CLASSES, {"sat-0": 3.0}, FOUR).fit(evidence, labels)
    assert weighed.outcome(evidence, outcome.good).sat.max() > sat.max()
    assert weighed.measured(evidence).columns[0].signature != found.columns[0].signature


def test_training_scores_are_out_of_fold() -> None:
    evidence, labels, question = corpus()
    selector = AssertionSelector(question, CLASSES, settings=FOUR).fit(evidence, labels)
    seen = selector.measured(evidence, selector.unseen_)
    assert seen.values[:, 0].tolist() == selector.tuned_.scores.tolist()
    assert "assertions" not in seen.notes[evidence.targets[0]].shown
    assert abs(seen.values - selector.measured(evidence).values).max() > 0


def test_missing_classes_are_learned() -> None:
    evidence, labels, question = corpus()
    selector = AssertionSelector(question, settings=FOUR).fit(evidence, labels)
    sides = {one["id"]: one["class"] for one in selector.describe()["assertions"]}
    assert sides["sat-0"] == "sat" and sides["dsat-0"] == "dsat"


def test_missing_answers_count_as_neutral_up_to_half() -> None:
    evidence, labels, question = corpus()
    selector = AssertionSelector(question, CLASSES, settings=FOUR).fit(evidence, labels)
    present = evidence.present.copy()
    lost = {name: [i for i, c in enumerate(evidence.columns) if c.question == name] for name in selector.names_}
    present[0, lost["sat-0"]] = False
    for name in selector.names_[:5]:
        present[1, lost[name]] = False
    absences = {
        (Target("c000"), "sat-0"): "refused",
        **{(Target("c001"), name): "timeout" for name in selector.names_[:5]},
    }
    holes = EvidenceTable(evidence.targets, evidence.columns, np.where(present, evidence.values, 0), present, absences)
    found = selector.measured(holes)
    some, few, whole = (Target(f"c00{row}") for row in range(3))
    assert found.notes[some].warning == "1 of 8 assertions have no answer and count as neutral"
    assert found.present[:3, 0].tolist() == [True, False, True] and few not in found.notes
    assert found.absences[few, NET_SAT] == "5 of 8 assertions have no answer; timeout"
    assert found.notes[whole].warning is None
    silent = EvidenceTable(
        evidence.targets, evidence.columns, holes.values, present, {(Target("c000"), "sat-0"): NOT_APPLICABLE}
    )
    assert points(silent, ["sat-0"], "expected")[0][0, 0] == TOP // 2
    assert selector.measured(silent).notes[some].warning is None


def test_the_likeliest_option_can_stand_for_a_distribution() -> None:
    evidence, _, _ = corpus()
    assert set(points(evidence, ["sat-0"], "likeliest")[0][0].tolist()) <= {0, 2500, 5000, 7500, 10000}
    assert len(set(points(evidence, ["sat-0"], "expected")[0][0].tolist())) > 20


def test_too_little_data_is_an_error() -> None:
    evidence, labels, question = corpus()
    happy = Labels(Label(each.target, "helped", each.annotator, 5) for each in labels)
    with pytest.raises(BadInput, match="60 conversations with evidence are good, 0 bad"):
        AssertionSelector(question, CLASSES).fit(evidence, happy)
    lonely = Labels(
        Label(each.target, "helped", each.annotator, 1 if row < 1 else 5) for row, each in enumerate(labels)
    )
    with pytest.raises(BadInput, match="59 conversations with evidence are good, 1 bad"):
        AssertionSelector(question, CLASSES).fit(evidence, lonely)
    two = Labels(Label(each.target, "helped", each.annotator, 1 if row < 2 else 5) for row, each in enumerate(labels))
    assert AssertionSelector(question, CLASSES).fit(evidence, two).describe()["bad"] == 2
    torn = Labels([*labels, *(Label(each.target, "helped", "other", 6 - int(each.value or 0)) for each in labels)])
    with pytest.raises(BadInput, match="0 conversations with evidence are good, 0 bad and 60 undecided"):
        AssertionSelector(question, CLASSES).fit(evidence, torn)
    for wrong, said in (
        ({"policy": "best"}, "policy: unknown selection policy 'best'.* Available: all, .*correctness, rubicon"), ({"answers": "mode"}, "answers: Input should be"),
        ({"targets": "none"}, "targets: Input should be"), ({"budgets": [[0, 0]]}, "budgets are pairs"),
        ({"budgets": 3}, "budgets: "), ({"budgets": [[1, -1]]}, "budgets.0.1: "), ({"alphas": 3}, "alphas: "),
        ({"alphas": [-1]}, "alphas.0: .* greater than or equal to 0"), ({"alphas": [True]}, "alphas.0: "),
        ({"alphas": []}, "alphas: "), ({"precision": 0.4}, "precision: .* greater than 0.5"), ({"bad": "x"}, "bad: "),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=said):
            validate(SelectionSettings, wrong, "sources: learned-rubric")
    with pytest.raises(BadInput, match="may not overlap"):
        AssertionSelector(question, settings=SelectionSettings(bad=4, good=2))
    with pytest.raises(UnknownName, match="unknown class of an assertion"):
        AssertionSelector(question, {"sat-0": "happy"})
    with pytest.raises(BadInput, match="no judge answered question 'unheard'"):
        AssertionSelector(question, {"unheard": "sat"}).fit(evidence, labels)
    with pytest.raises(BadInput, match="weights of the assertions sum"):
        AssertionSelector(question, CLASSES, dict.fromkeys(CLASSES, 1e4)).fit(evidence, labels)


def test_saved_selection_measures_the_same() -> None:
    evidence, labels, question = corpus()
    selector = AssertionSelector(question, CLASSES, {"sat-1": 2.0}, FOUR).fit(evidence, labels)
    kept = AssertionSelector.from_json(json.loads(json.dumps(selector.to_json())), question, FOUR)
    again, before = kept.measured(evidence), selector.measured(evidence)
    assert again.values.tolist() == before.values.tolist() and again.columns == before.columns
    assert (
        again.notes == before.notes and kept.describe() == selector.describe() and kept.to_json() == selector.to_json()
    )
    columns = tuple(
        Column(c.name, c.signature.replace("question:sat-0", "question:other"), c.question, c.option)
        for c in evidence.columns
    )
    with pytest.raises(BadInput, match="fit again"):
        kept.measured(EvidenceTable(evidence.targets, columns, evidence.values, evidence.present))


def test_folds_and_resamples_keep_the_groups_of_the_labels_together() -> None:
    evidence, labels, question = corpus()
    groups = {target: f"g{row // 4}" for row, target in enumerate(evidence.targets)}
    side = AssertionSelector(question, CLASSES).training_side(evidence, labels.grouped(groups))
    assert list(side.groups) == [f"g{row // 4}" for row in range(60)]


# --- the rubric file ----------------------------------------------------------------------------------------------


def test_a_rubric_keeps_classes_weights_and_reasons_and_its_key(tmp_path) -> None:  # type: ignore[no-untyped-def]
    plain = Question(id="a", text="The user thanks the assistant.", scale=Scale(options=LIKERT))
    reason = {"conversation": "c1", "text": "It helped", "quote": "thanks"}
    learned = Question(**{**plain.model_dump(), "side": "sat", "weight": 2.0, "reasons": [reason]})
    assert learned.key == plain.key and learned.side is Polarity.SAT
    main = Question(id="m", text="?", scale=Scale(options=LIKERT))
    rubric = Rubric(name="r", main="m", questions=(learned, main), learned_on=("c1", "c2"))
    path = tmp_path / "rubric.yaml"
    path.write_text(dump_rubric(rubric), encoding="utf-8")
    again = read_rubric(load_yaml(path), "r")
    assert again == rubric and again.assertions == (learned,)
    assert rubric.hash == Rubric(name="x", main="m", questions=(plain, main)).hash
    path.write_text(dump_rubric(rubric).replace("class: sat", "class: happy"), encoding="utf-8")
    with pytest.raises(BadInput, match="class"):
        read_rubric(load_yaml(path), "r")
    path.write_text(dump_rubric(rubric).replace("weight: 2.0", "weight: -1"), encoding="utf-8")
    with pytest.raises(BadInput, match="greater than 0"):
        read_rubric(load_yaml(path), "r")


@pytest.mark.parametrize(
    ("precision", "threshold", "low", "high"),
    [(3 / 4, 0.25, 0.25, 0.25), (5 / 6, -1.5, -1.5, -1.5), (0.76, 0.25, -1.5, -1.5)],
)
def test_window_begins_where_the_precision_is_just_reached(
    precision: float, threshold: float, low: float, high: float
) -> None:
    scores = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 3.0])
    good = np.array([0, 0, 1, 0, 1, 1, 1, 1], dtype=bool)
    window = UncertaintyWindow.read(scores, good, threshold, precision)
    assert (window.low, window.high) == (low, high)


def test_correctness_ignores_sharpness() -> None:
    pool, budget = drawn_pool(), AssertionBudget(4, 3)
    plain, sharp = (select(Candidates(pool), budget, alpha) for alpha in (0.0, 1.0))
    assert correctness_alone(pool, budget, 0) == plain != sharp


def test_held_out_sharpness_is_in_deviations_around_the_threshold_of_the_training_folds() -> None:
    pool, budget = drawn_pool(conversations=40), AssertionBudget(3, 3)
    fold = np.arange(40) % 4
    found = tuned(pool, fold, [0.5], [budget])
    units, scores = np.zeros(40), np.zeros(40)
    for held_out in range(4):
        inside, outside = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
        train = pool.of(inside)
        net = pool.net_sat(select(Candidates(train), budget, 0.5)) / POINT
        good, bad = net[inside][train.good], net[inside][~train.good]
        spread = np.sqrt((((good - good.mean()) ** 2).sum() + ((bad - bad.mean()) ** 2).sum()) / (len(inside) - 2))
        scores[outside] = net[outside]
        units[outside] = (net[outside] - (good.mean() + bad.mean()) / 2) / spread
    [trial] = found.tried
    assert found.scores == pytest.approx(scores)
    assert trial.sharpness == pytest.approx(-np.log1p(np.exp(np.where(pool.good, -2, 2) * units)).mean())
    assert trial.separation == pytest.approx(scores[pool.good].mean() - scores[~pool.good].mean())
