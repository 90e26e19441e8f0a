"""Human validation: who gets what, what stays hidden, what is refused, and what the answers come to."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score

from accord.evidence import Figure
from accord.methods import statistics
from accord.report import write_issues_page
from accord.statistics import cohen_kappa, fleiss_kappa, mean_kappa, no_fleiss
from accord.store import IssueAnnotations, Store
from accord.values import (
    BadInput,
    Conversation,
    Issue,
    IssueAnnotation,
    Label,
    Target,
    Turn,
    UnknownName,
    load_taxonomy,
    span_of,
)
from accord.workbench import (
    At,
    NotNow,
    Part,
    Participants,
    Plan,
    Resampling,
    Study,
    agreement_with_all,
    agreement_with_model,
    agreement_with_others,
    assigned,
    detection_outcome,
    eligible,
    overall_outcome,
    parts,
    planned,
    read_plan,
    sampled,
    table,
    write_plan,
)

TAXONOMY = load_taxonomy("soda-eval")
MAKER = "issues|model:secret-model"
HIDDEN = "OVERALL-COMMENT-OF-THE-MODEL"


def issue(kind: str = "Coherence", comment: str = "ISSUE-COMMENT", quote: str = "", reply: str = "") -> Issue:
    return Issue(kind, comment, quote, span_of(quote, reply))


def assessed(name: str, turn: int, *kinds: str, score: int = 3) -> IssueAnnotation:
    return IssueAnnotation(Target(name, turn), tuple(map(issue, kinds)), score, HIDDEN, MAKER)


# --- who validates what -------------------------------------------------------------------------------------------


def many(dialogues: int = 40, turns: int = 6) -> list[IssueAnnotation]:
    draw = random.Random(1)
    return [
        assessed(f"d{name:03}", turn, *(["Coherence"] if draw.random() < 0.4 else []))
        for name in range(dialogues)
        for turn in range(1, turns)
    ]


def test_a_turn_with_issues_is_only_taken_where_it_is_the_first_of_its_dialogue() -> None:
    rows = [
        assessed("a", 3, "Fluency"),
        assessed("a", 1),
        assessed("a", 2, "Coherence"),
        assessed("b", 1, "Other"),
        assessed("a", 4),
    ]
    assert eligible(rows) == [("a", 1), ("a", 2), ("a", 4), ("b", 1)]
    first = {}
    for each in sorted(many(), key=lambda each: each.target):
        if each.issues:
            first.setdefault(each.target.conversation, each.target)
    flagged = {each.target for each in many() if each.issues}
    assert all(turn == first[turn.conversation] for turn in sampled(many(), 100) if turn in flagged)


def test_of_a_dialogue_a_second_turn_only_when_all_have_one() -> None:
    rows = many()
    drawn = sampled(rows, 40, seed=3)
    assert len({turn.conversation for turn in drawn}) == 40
    assert set(Counter(turn.conversation for turn in sampled(rows, 60, seed=3)).values()) == {1, 2}
    assert sampled(list(reversed(rows)), 40, seed=3) == drawn != sampled(rows, 40, seed=4)
    with pytest.raises(BadInput, match="allowed: 1 to"):
        sampled(rows, 1000)
    with pytest.raises(BadInput, match="0 turns to validate"):
        sampled(rows, 0)


@pytest.mark.parametrize(
    ("turns", "per_turn", "most", "people"), [(200, 3, 100, 6), (100, 5, 100, 5), (7, 2, 3, 5), (10, 3, 100, 3)]
)
def test_every_turn_gets_its_answers_from_different_people_with_equal_loads(
    turns: int, per_turn: int, most: int, people: int
) -> None:
    targets = [Target(f"d{place}", 1) for place in range(turns)]
    slots = assigned(targets, per_turn, most, seed=5)
    assert len(slots) == people and slots == assigned(targets, per_turn, most, seed=5)
    assert Counter(turn for slot in slots for turn in slot) == dict.fromkeys(targets, per_turn)
    assert all(len(set(slot)) == len(slot) <= most for slot in slots)
    assert max(map(len, slots)) - min(map(len, slots)) <= 1


def test_people_share_turns_with_many_others() -> None:
    slots = assigned([Target(f"d{place}", 1) for place in range(200)], 3, 100)
    assert all(len(set(a) & set(b)) > 20 for a in slots for b in slots)


def test_numbers_that_do_not_fit_are_refused() -> None:
    turns = [Target("a", 1), Target("b", 1)]
    with pytest.raises(BadInput, match="allowed: 3 to 6"):
        assigned(turns, 3, 100, annotators=2)
    with pytest.raises(BadInput, match="per_turn: got 0"):
        assigned(turns, 0, 1)
    with pytest.raises(BadInput, match="makers; allowed: 1"):
        planned("detection", [], TAXONOMY)
    with pytest.raises(UnknownName):
        planned("detect", many(), TAXONOMY, 10)


def test_a_plan_is_kept_and_never_drawn_again(tmp_path: Path) -> None:
    plan = planned("overall", many(), TAXONOMY, 10, 2, 5, seed=1)
    write_plan(plan, tmp_path / "plan.json")
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    assert (tmp_path / "plan.json").stat().st_mode & 0o077 == 0
    with pytest.raises(BadInput, match="holds another plan"):
        write_plan(planned("overall", many(), TAXONOMY, 10, 2, 5, seed=2), tmp_path / "plan.json")
    (tmp_path / "bad.json").write_text("[]")
    for name in ("bad.json", "none.json"):
        with pytest.raises(BadInput):
            read_plan(tmp_path / name)


# --- seats --------------------------------------------------------------------------------------------------------


def test_a_person_takes_the_next_free_slot_and_keeps_it(tmp_path: Path) -> None:
    participants = Participants(tmp_path / "seats.json", 2)
    ann = participants.take("ann", "key-a")
    assert ann.slot == 0 and participants.take("ann", "key-a") == ann and participants.take("bob", "key-b").slot == 1
    assert "key-a" not in (tmp_path / "seats.json").read_text()
    for name, key, why in [
        ("Ann", "key-c", "is taken"),
        ("eve", "key-a", "you began as 'ann'"),
        ("eve", "key-c", "all 2 places"),
    ]:
        with pytest.raises(BadInput, match=why):
            participants.take(name, key)
    for name in ("", "a b", "<b>", "-a", "a" * 41, "a\n", "ä", "../x"):
        with pytest.raises(BadInput, match="the name"):
            participants.take(name, "key-d")
    again = Participants(tmp_path / "seats.json", 2)
    assert again.of("key-a") == ann and again.of("") is None and again.of("nobody") is None
    again.release("ann")
    assert again.of("key-a") is None and again.take("ann", "key-new").slot == 0
    with pytest.raises(BadInput, match="nobody is called"):
        again.release("eve")
    with pytest.raises(BadInput, match="beyond the 1"):
        Participants(tmp_path / "seats.json", 1)
    (tmp_path / "seats.json").write_text("{}")
    with pytest.raises(BadInput, match="holds no seats"):
        Participants(tmp_path / "seats.json", 2)


# --- a study ------------------------------------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script> \"'> {{ 7*7 }} \ud800 </mark><img src=x onerror=alert(2)>"
REPLY = f"Well, I am 7 feet tall. {HOSTILE}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(f"sqlite:///{tmp_path}/accord.db")
    names = [f"d{place}" for place in range(6)]
    turns = (
        Turn("user", f"Hi {HOSTILE}", name="Kim"),
        Turn("assistant", REPLY, extra={"score": 4321}),
        Turn("user", "LATER-TURN"),
    )
    store.add_conversations(Conversation(name, turns, metadata={"score": 4321}) for name in names)
    found = issue("Commonsense", f"ISSUE-COMMENT {HOSTILE}", "i am 7 feet", REPLY)
    assert found.span is not None
    flawed, clean = (found, issue("Engagement"), issue("Zzz", quote="never said")), ()
    IssueAnnotations(store).add(
        IssueAnnotation(Target(name, 1), flawed if place % 2 else clean, 5 - place % 5, HIDDEN, MAKER)
        for place, name in enumerate(names)
    )
    return store


def plan_of(store: Store, flow: str) -> Plan:
    return planned(flow, list(IssueAnnotations(store).of(store.conversations(), MAKER)), TAXONOMY, 6, 2, 6)


def study_of(store: Store, flow: str) -> Study:
    return Study(plan_of(store, flow), store, TAXONOMY)


def hides_the_verdict(text: str) -> bool:
    return not any(word in text for word in (HIDDEN, "secret-model", "4321", "LATER-TURN"))


def hides_the_issues(text: str) -> bool:
    kinds = "|".join(map(re.escape, [*TAXONOMY.names, "Zzz", "ISSUE-COMMENT", "<mark>", "never said"]))
    return re.search(kinds, text) is None and '"issues"' not in text


def test_detection_is_one_answer_a_turn_in_order(store: Store, tmp_path: Path) -> None:
    study, participants = study_of(store, "detection"), Participants(tmp_path / "seats.json", 2)
    ann, bob = participants.take("ann", "a"), participants.take("bob", "b")
    for place in range(1, 7):
        here = At(place, "detection")
        assert study.current(ann) == here and study.current(bob) == At(1, "detection")
        shown = json.dumps(study.task(ann, here).to_json())
        assert hides_the_verdict(shown) and hides_the_verdict(repr(study.task(ann, here)))
        for wrong in (3, -1, True):
            with pytest.raises(BadInput, match="allowed: 0, 1, 2"):
                study.answer(ann, here, wrong)
        for early in (At(place + 1, "detection"), At(place, "initial"), At(0, "detection"), At(99, "detection")):
            with pytest.raises(BadInput):
                study.answer(ann, early, 2)
        study.answer(ann, here, place % 3)
        with pytest.raises(NotNow, match="an answer stays") as refused:
            study.answer(ann, here, 0)
        assert refused.value.stored == place % 3
    assert study.current(ann) is None and study.current(bob) == At(1, "detection")
    labels = store.labels()
    assert [label.value for label in labels] == [1, 2, 0, 1, 2, 0] and labels.annotators == ["ann"]
    assert {label.question for label in labels} == {"validation:detection"} and all(label.time for label in labels)
    assert [label.target for label in labels] == list(study.plan.slots[0])
    again = study_of(store, "detection")
    assert again.current(ann) is None and again.progress() == [{"annotator": "ann", "answers": 6}]


def test_guidance_comes_after_the_first_rating_which_stays(store: Store, tmp_path: Path) -> None:
    study, ann = study_of(store, "overall"), Participants(tmp_path / "seats.json", 2).take("ann", "a")
    for place in range(1, 7):
        first, second = At(place, "initial"), At(place, "revised")
        alone = study.task(ann, first)
        assert alone.issues is None and alone.before is None
        assert hides_the_verdict(repr(alone)) and hides_the_issues(json.dumps(alone.to_json()))
        with pytest.raises(NotNow, match="rate it with the dialogue alone first"):
            study.task(ann, second)
        with pytest.raises(NotNow):
            study.answer(ann, second, 3)
        study.answer(ann, first, 4)
        guided = study.task(ann, second)
        flagged = bool(study.assessments[study.turns(ann)[place - 1]].issues)
        assert bool(guided.issues) == flagged and guided.before == 4 and hides_the_verdict(repr(guided))
        with pytest.raises(NotNow, match="is answered with 4"):
            study.answer(ann, first, 5)
        study.answer(ann, second, 2)
    questions = Counter((label.question, label.value) for label in store.labels())
    assert questions == {("validation:initial", 4): 6, ("validation:revised", 2): 6}


def test_answers_about_other_assessments_are_not_mixed_in(store: Store, tmp_path: Path) -> None:
    seat = Participants(tmp_path / "seats.json", 2).take("ann", "a")
    target = study_of(store, "detection").plan.slots[0][0]
    store.add_labels([Label(target, "validation:detection", "ann", 0, None, "another plan")])
    study = study_of(store, "detection")
    assert study.current(seat) == At(1, "detection")
    with pytest.raises(BadInput, match="drawn with taxonomy"):
        Study(study.plan, store, load_taxonomy("abc-eval"))
    stranger = Plan("detection", "nobody", TAXONOMY.hash, 0, study.plan.slots)
    with pytest.raises(BadInput, match="not in the store, or not assessed"):
        Study(stranger, store, TAXONOMY)


def test_quotes_that_overlap_are_marked_once() -> None:
    assert parts("abcdef", [(1, 3), (2, 4), (4, 5), (9, 12), (-3, 0)]) == (
        Part("a", False),
        Part("bcde", True),
        Part("f", False),
    )
    assert parts("abc", []) == (Part("abc", False),) and parts("", [(0, 1)]) == ()


# --- agreement ----------------------------------------------------------------------------------------------------


def test_cohens_kappa_is_its_formula() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        first = draw.integers(0, 3, 50).astype(float)
        second = np.where(draw.random(50) < 0.5, first, draw.integers(0, 3, 50)).astype(float)
        chance = sum((first == each).mean() * (second == each).mean() for each in range(3))
        assert cohen_kappa(first, second) == pytest.approx(((first == second).mean() - chance) / (1 - chance))
    yes, no = np.array([1.0] * 25 + [0] * 25), np.array([1.0] * 20 + [0] * 5 + [1] * 10 + [0] * 15)
    assert cohen_kappa(yes, no) == pytest.approx(0.4)  # 35 of 50 agree, 25 by chance
    assert cohen_kappa(np.ones(4), np.ones(4)) is None and cohen_kappa(np.array([]), np.array([])) is None


FLEISS = np.array([
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1], [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
])  # fmt: skip


def test_fleiss_kappa_on_the_worked_example() -> None:
    assert fleiss_kappa(FLEISS) == pytest.approx(0.210, abs=5e-4)
    uneven = FLEISS.copy()
    uneven[0, 4] = 13
    for counts, why in [
        (uneven, "from 13 to 14 answers"), (np.eye(3, dtype=int), "fewer than two"), (np.array([[3, 0], [3, 0]]), "all answers are the same"),
        (np.zeros((0, 3), dtype=int), "nothing is answered"),
    ]:  # fmt: skip
        assert fleiss_kappa(counts) is None and why in (no_fleiss(counts) or "")


def test_kappa_of_pairs_uses_what_they_share() -> None:
    nan = np.nan
    answers = np.array([[0, 0, nan], [2, 2, nan], [1, 2, 1], [2, nan, 2], [0, nan, 1]])
    expected = [cohen_kappa_score([0, 2, 1], [0, 2, 2]), cohen_kappa_score([1, 2, 0], [1, 2, 1])]
    last = cohen_kappa(np.array([2.0]), np.array([1.0]))  # one shared item: 0
    assert last == 0 and mean_kappa(answers) == pytest.approx(np.mean([*expected, last]))


def answers_to(question: str, plan: Plan, rows: dict[str, dict[Target, int]]) -> list[Label]:
    return [
        Label(turn, question, who, value, None, plan.key)
        for who, given in rows.items()
        for turn, value in given.items()
    ]


def by_hand() -> tuple[Plan, list[IssueAnnotation], list[Label]]:
    """Three people; answers of every turn in their order."""
    table_ = {
        "n1": ((), (2, 2, 2)), "n2": ((), (0, 0, 2)), "n3": ((), (0, 0, 0)), "n4": ((), (1, 2, 0)),
        "c1": (("Coherence",), (2, 1, 0)), "c2": (("Coherence", "Coherence"), (0, 0, 1)),
        "r1": (("Repetition", "Coherence"), (0, 0, 0)), "e1": (("Engagement",), (2, 2, 2)),
    }  # fmt: skip
    rows = [assessed(name, 1, *kinds) for name, (kinds, _) in table_.items()]
    plan = planned("detection", rows, TAXONOMY, len(rows), 3, 100)
    given = {
        who: {Target(name, 1): said[place] for name, (_, said) in table_.items()}
        for place, who in enumerate(["ann", "bob", "cid"])
    }
    return plan, rows, answers_to("validation:detection", plan, given)


@pytest.mark.slow
def test_table_13_by_hand() -> None:
    plan, rows, labels = by_hand()
    found = detection_outcome(labels, plan, rows, TAXONOMY, draws=200).to_json()
    by_type = {row["type"]: row for row in found["types"]}
    expected = {
        "None": (4, 2 / 4, 3 / 4),
        "Coherence": (3, 1 / 3, 2 / 3),
        "Repetition": (1, 0.0, 0.0),
        "Fluency": (0, None, None),
        "Engagement": (1, None, None),
    }
    for name, (examples, majority, absolute) in expected.items():
        row = by_type[name]
        assert (row["examples"], row["majority"]["value"], row["all_agree"]["value"]) == (
            examples,
            majority,
            absolute,
        ), name
    assert by_type["None"]["share"] == 0.5 and not by_type["Engagement"]["objective"]
    assert next(iter(by_type)) == "None" and set(by_type) == {"None", *TAXONOMY.names}
    assert [row["valid"] for row in found["annotators"]] == [4 / 8, 4 / 8, 4 / 8] and found["valid_range"] == [0.5, 0.5]
    assert found["majority"]["value"] == 4 / 8 and found["all_agree"]["value"] == 6 / 8
    assert found["valid"]["low"] < 0.5 < found["valid"]["high"]
    assert found["answers"] == 24 and [row["answers"] for row in found["answers_by_value"]] == [12, 3, 9]
    said = np.array([[2, 2, 2], [0, 0, 2], [0, 0, 0], [1, 2, 0], [2, 1, 0], [0, 0, 1], [0, 0, 0], [2, 2, 2]])
    pairs = [cohen_kappa_score(said[:, a], said[:, b]) for a, b in [(0, 1), (0, 2), (1, 2)]]
    assert (
        found["cohen_kappa"]["value"] == pytest.approx(np.mean(pairs))
        and [p["shared"] for p in found["pairs"]] == [8] * 3
    )
    assert found["fleiss_kappa"]["value"] is not None and found["fleiss_kappa"]["undefined"] is None
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_page_of_issues_shows_the_validations_that_there_are(tmp_path: Path) -> None:
    plan, rows, labels = by_hand()
    detection = detection_outcome(labels, plan, rows, TAXONOMY, draws=20)
    ratings = overall_outcome([], planned("overall", rows, TAXONOMY, len(rows), 3, 100), rows)
    found = statistics(rows, [], TAXONOMY)
    for shown in ([], [detection], [ratings], [detection, ratings]):
        html = write_issues_page(found, rows, [], TAXONOMY, tmp_path / "issues.html", shown).read_text()
        assert ("turns were looked at by 3 people" in html) == (detection in shown)
        assert ("turns were rated twice" in html) == (ratings in shown)


def test_a_tie_is_no_majority_and_of_two_answers_of_one_person_the_first_counts() -> None:
    plan, rows, _ = by_hand()
    turn = Target("c1", 1)
    labels = answers_to("validation:detection", plan, {"ann": {turn: 0}, "bob": {turn: 2}}) + answers_to(
        "validation:detection", plan, {"ann": {turn: 2}}
    )
    found = detection_outcome(labels, plan, rows, TAXONOMY).to_json()
    assert found["majority"] == {"value": 0.0, "low": None, "high": None} and found["all_agree"]["value"] == 1.0
    assert found["examples"] == 1 and found["planned"] == 8
    nothing = detection_outcome([], plan, rows, TAXONOMY).to_json()
    assert (
        nothing["examples"] == 0
        and nothing["valid"]["value"] is None
        and nothing["fleiss_kappa"]["undefined"] == "nothing is answered"
    )
    json.dumps(nothing, allow_nan=False)


@pytest.mark.slow
def test_ratings_before_and_after() -> None:
    names = [f"d{place}" for place in range(30)]
    draw = np.random.default_rng(3)
    truth = draw.integers(1, 6, 30)
    rows = [
        assessed(name, 1, *(["Coherence"] if score < 4 else []), score=int(score))
        for name, score in zip(names, truth, strict=True)
    ]
    plan = planned("overall", rows, TAXONOMY, 30, 5, 100)
    initial = np.clip(truth[:, None] + draw.integers(-1, 3, (30, 5)), 1, 5)
    revised = np.where((truth < 4)[:, None], truth[:, None], initial)
    labels = [
        label
        for person in range(5)
        for question, ratings in (("initial", initial), ("revised", revised))
        for label in answers_to(
            f"validation:{question}",
            plan,
            {f"p{person}": {Target(n, 1): int(v) for n, v in zip(names, ratings[:, person], strict=True)}},
        )
    ]
    cut = [
        label
        for label in labels
        if (label.annotator, label.target.conversation, label.question) != ("p0", "d0", "validation:revised")
    ]
    found = overall_outcome(labels, plan, rows, draws=100).to_json()
    means = initial.mean(axis=1)
    assert found["initial"]["agreement_with_all"]["value"] == pytest.approx(
        np.mean([spearmanr(initial[:, p], means).statistic for p in range(5)])
    )
    others = [spearmanr(initial[:, p], np.delete(initial, p, 1).mean(axis=1)).statistic for p in range(5)]
    assert found["initial"]["agreement_with_others"]["value"] == pytest.approx(np.mean(others))
    assert found["initial"]["agreement_with_model"]["value"] == pytest.approx(spearmanr(means, truth).statistic)
    assert found["initial"]["distance_to_model"]["value"] == pytest.approx(np.abs(initial - truth[:, None]).mean())
    step = revised - initial
    told = found["revisions"]
    assert (told["revised"], told["lower"], told["higher"]) == ((step != 0).sum(), (step < 0).sum(), (step > 0).sum())
    assert told["share"]["value"] == pytest.approx((step != 0).mean()) and told["revised_without_issues"] == 0
    assert told["revised_with_issues"] == told["revised"]
    change = found["change"]["agreement_with_model"]
    assert change["value"] == pytest.approx(
        found["revised"]["agreement_with_model"]["value"] - found["initial"]["agreement_with_model"]["value"]
    )
    assert 0 < change["low"] <= change["value"] <= change["high"]
    assert found["ratings"] == 150 and found["without_second"] == 0
    shorter = overall_outcome(cut, plan, rows, draws=20).to_json()
    assert shorter["ratings"] == 149 and shorter["without_second"] == 1
    json.dumps([found, overall_outcome([], plan, rows).to_json()], allow_nan=False)


def test_agreement_of_one_person_is_undefined() -> None:
    alone = np.array([[1.0], [2.0], [3.0]])
    assert agreement_with_all(alone) is None and agreement_with_others(alone) is None
    assert agreement_with_model(alone, np.array([1.0, 2.0, 2.0])) == pytest.approx(0.8660254)
    assert agreement_with_model(alone, np.ones(3)) is None


def test_intervals_draw_whole_dialogues() -> None:
    targets = [Target("a", 1), Target("a", 2), Target("b", 1)]
    drawn = Resampling.of(targets, draws=50)
    assert all(Counter(rows.tolist())[0] == Counter(rows.tolist())[1] for rows in drawn.draws)
    assert Resampling.of([]).figure(lambda rows: 1.0) == Figure()
    given: dict[tuple[str, Target, str], Any] = {
        ("p", targets[0], "q"): 1,
        ("p", targets[1], "q"): 2,
        ("p", targets[1], "r"): 3,
    }
    q, r = table(given, ["q", "r"], targets)
    assert q.targets == r.targets == (targets[1],) and q.answers.tolist() == [[2.0]] and r.answers.tolist() == [[3.0]]


# --- the pages ----------------------------------------------------------------------------------------------------

FORM = "application/x-www-form-urlencoded"


class Browser:
    """Keeps cookies and follows redirects, as a browser does."""

    def __init__(self, port: int, **headers: str) -> None:
        self.port, self.headers = port, headers
        self.cookies: dict[str, str] = {}
        self.page, self.path, self.about = "", "/", dict[str, str]()

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> int:
        sent = {"Host": f"127.0.0.1:{self.port}", **self.headers, **headers}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in sent.items()})
        answer = connection.getresponse()
        self.page, self.about = answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                assert "HttpOnly" in value and "SameSite=strict" in value
                self.cookies |= {key: morsel.value for key, morsel in SimpleCookie(value).items()}
        connection.close()
        self.path = path
        return answer.status

    def get(self, path: str, **headers: str) -> int:
        status = self.ask("GET", path, None, **headers)
        return self.get(self.about["location"]) if status == 303 else status

    def post(self, path: str, fields: dict[str, Any], **headers: str) -> int:
        """Send a form as the page it is on would; an empty header is left out."""
        sent = {"Origin": f"http://127.0.0.1:{self.port}", "Content_Type": FORM, **headers}
        status = self.ask("POST", path, urlencode(fields), **{name: value for name, value in sent.items() if value})
        return self.get(self.about["location"]) if status == 303 else status

    @property
    def form(self) -> str:
        return re.findall(r'name="form" value="([0-9a-f]{64})"', self.page)[0]

    def begin(self, name: str) -> int:
        self.get("/")
        return self.post("/start", {"name": name, "form": self.form}) if self.path == "/" else 200

    def answer(self, value: Any) -> int:
        return self.post(self.path, {"answer": value, "form": self.form})


@contextmanager
def served(study: Study, participants: Participants, token: str | None = None) -> Iterator[int]:
    uvicorn = pytest.importorskip("uvicorn", reason="needs accord[serve]")
    pytest.importorskip("fastapi", reason="needs accord[serve]")
    from accord.workbench.pages import validation_app

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = validation_app(study, participants, token)
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join()


def values(store: Store) -> list[tuple[str, str, Any]]:
    return [(label.annotator, label.question.rpartition(":")[2], label.value) for label in store.labels()]


def test_pages_show_no_verdict_and_no_issue_before_the_first_rating(store: Store, tmp_path: Path) -> None:
    with served(study_of(store, "overall"), Participants(tmp_path / "s.json", 2)) as port:
        ann = Browser(port)
        assert ann.begin("ann") == 200 and ann.path == "/task/1/initial"
        seen = 0
        for place in range(1, 7):
            assert ann.path == f"/task/{place}/initial" and f"{place} of 6, step 1 of 2" in ann.page
            assert hides_the_verdict(ann.page) and hides_the_issues(ann.page)
            alone = Browser(port)
            alone.cookies = ann.cookies
            assert alone.get(f"/task/{place}/initial.json") == 200
            assert hides_the_verdict(alone.page) and hides_the_issues(alone.page)
            for early in (f"/task/{place}/revised", f"/task/{place}/revised.json"):
                assert alone.get(early) == 409 and hides_the_issues(alone.page) and hides_the_verdict(alone.page)
            assert alone.post(f"/task/{place}/revised", {"answer": 3, "form": ann.form}) == 403
            before = len(store.labels())
            assert ann.answer(4) == 200 and ann.path == f"/task/{place}/revised" and len(store.labels()) == before + 1
            assert hides_the_verdict(ann.page) and "Your first rating: 4." in ann.page
            seen += "ISSUE-COMMENT" in ann.page
            assert alone.get(f"/task/{place}/revised.json") == 200 and hides_the_verdict(alone.page)
            assert ann.answer(3) == 200
        assert seen == 3 and "Thank you, ann" in ann.page
        assert ann.get("/") == 200 and "Thank you" in ann.page
    assert values(store) == [
        ("ann", stage, value) for _ in range(6) for stage, value in (("initial", 4), ("revised", 3))
    ]


def test_detection_pages_mark_the_quote_and_escape_everything(store: Store, tmp_path: Path) -> None:
    with served(study_of(store, "detection"), Participants(tmp_path / "s.json", 2)) as port:
        ann, flagged = Browser(port), 0
        assert ann.get("/") == 200 and "Objective issues" in ann.page and "<script" not in ann.page
        ann.begin("ann")
        for place in range(1, 7):
            assert ann.path == f"/task/{place}/detection" and hides_the_verdict(ann.page)
            assert not re.search(r"<(script|img|link|iframe)|https?://|[ \"']on\w+=\"", ann.page)
            assert "{{ 7*7 }}" in ann.page and "&lt;script&gt;alert(1)&lt;/script&gt;" in ann.page
            marked = re.findall("<mark>(.*?)</mark>", ann.page)
            if "ISSUE-COMMENT" in ann.page:
                flagged += 1
                assert marked == ["I am 7 feet"] and "(not in the response)" in ann.page
                assert "ISSUE-COMMENT &lt;script&gt;" in ann.page and "Lacks common knowledge and logic." in ann.page
            else:
                assert marked == [] and "the model found no issue" in ann.page
            assert ann.page.count("the response to judge") == 1
            policy = ann.about["content-security-policy"]
            style = re.findall(r"<style>(.*?)</style>", ann.page, re.DOTALL)[0].encode()
            digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
            assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'") and "unsafe" not in policy
            assert ann.about["cache-control"] == "no-store" and " style=" not in ann.page
            assert ann.answer(place % 3) == 200
        assert flagged == 3
    assert values(store) == [("ann", "detection", place % 3) for place in range(1, 7)]


def test_forms_are_taken_once_and_from_their_own_page_alone(store: Store, tmp_path: Path) -> None:
    with served(study_of(store, "overall"), Participants(tmp_path / "s.json", 2)) as port:
        ann = Browser(port)
        ann.begin("ann")
        path, form = ann.path, ann.form
        good = {"answer": 2, "form": form}
        for status, fields, headers in [
            (403, good, {"Origin": "http://evil.example"}), (403, good, {"Origin": "null"}), (403, good, {"Origin": ""}),
            (403, good, {"Origin": "", "Referer": "http://evil.example/"}), (403, good, {"Origin": f"https://127.0.0.1:{port}"}),
            (403, good, {"X-Forwarded-Proto": "https"}), (403, good, {"Origin": "", "Referer": f"https://127.0.0.1:{port}/"}), (403, good, {"Origin": f"http://127.0.0.1:{port + 1}"}),
            (403, {"answer": 2}, {}), (403, {"answer": 2, "form": "0" * 64}, {}), (403, {"answer": 2, "form": "ä"}, {}),
            (400, {"form": form}, {}), (400, {**good, "answer": "two"}, {}), (400, {**good, "answer": 6}, {}), (400, {**good, "answer": "٣"}, {}),
            (400, {**good, "annotator": "bob"}, {}), (400, {**good, "stage": "revised"}, {}), (400, good, {"Content_Type": "text/plain"}),
        ]:  # fmt: skip
            assert ann.post(path, fields, **headers) == status, (fields, headers)
            assert "This did not work" in ann.page
        assert (
            ann.ask(
                "POST", path, f"answer=2&answer=3&form={form}", Origin=f"http://127.0.0.1:{port}", Content_Type=FORM
            )
            == 400
        )
        assert ann.ask("POST", path, "x" * 20_000, Origin=f"http://127.0.0.1:{port}", Content_Type=FORM) == 413
        assert (
            ann.ask("GET", "/task/x/initial") == 400
            and ann.ask("GET", "/nothing") == 404
            and ann.ask("GET", "/task/99/initial") == 400
        )
        assert ann.ask("GET", "/", Host="evil.example") == 421
        assert values(store) == []
        assert (
            ann.post(path, good, Origin="", Referer=f"http://127.0.0.1:{port}{path}") == 200
            and ann.path == "/task/1/revised"
        )
        assert ann.post(path, good) == 200 and ann.path == "/task/1/revised"  # sent twice
        assert ann.post(path, {**good, "answer": 5}) == 409 and "an answer stays" in ann.page
        assert ann.get(path) == 200 and ann.path == "/task/1/revised"  # back, or loaded again
        assert ann.post("/task/1/revised", good) == 403  # the form of another step
        assert values(store) == [("ann", "initial", 2)]


def test_nobody_answers_as_somebody_else(store: Store, tmp_path: Path) -> None:
    study, participants = study_of(store, "detection"), Participants(tmp_path / "s.json", 2)
    with served(study, participants) as port:
        ann, bob, eve = Browser(port), Browser(port), Browser(port)
        assert ann.begin("ann") == 200 and bob.begin("bob") == 200
        assert eve.get("/task/1/detection") == 401 and hides_the_issues(eve.page)
        assert eve.get("/task/1/detection.json") == 401 and set(json.loads(eve.page)) == {"error"}
        for name, why in [("ann", "is taken"), ("ANN", "is taken"), ("<b>", "the name"), ("eve", "all 2 places")]:
            assert eve.begin(name) == 400 and why in eve.page and "<b>" not in eve.page
        assert eve.post("/task/1/detection", {"answer": 2, "form": ann.form}) == 401
        assert bob.post(bob.path, {"answer": 2, "form": ann.form}) == 403
        assert bob.get("/") == 200 and bob.path == "/task/1/detection"
        eve.cookies = {name: "x" * 43 for name in ann.cookies}
        assert eve.get("/task/1/detection") == 401
        threads = [threading.Thread(target=lambda b=b: [b.answer(1) for _ in range(6)]) for b in (ann, bob)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "Thank you, ann" in ann.page and "Thank you, bob" in bob.page
    assert Counter(values(store)) == {("ann", "detection", 1): 6, ("bob", "detection", 1): 6}
    assert len({(label.annotator, label.target) for label in store.labels()}) == 12


def test_an_answer_sent_many_times_at_once_is_stored_once(store: Store, tmp_path: Path) -> None:
    with served(study_of(store, "detection"), Participants(tmp_path / "s.json", 2)) as port:
        ann = Browser(port)
        ann.begin("ann")
        form, found = ann.form, list[int]()

        def send(value: int) -> None:
            other = Browser(port)
            other.cookies = dict(ann.cookies)
            found.append(other.post("/task/1/detection", {"answer": value, "form": form}))

        threads = [threading.Thread(target=send, args=(place % 3,)) for place in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(found) == {200: 4, 409: 8}
    assert len(values(store)) == 1


def test_a_restarted_server_knows_everybody(store: Store, tmp_path: Path) -> None:
    ann, bob = Browser(0), Browser(0)
    with served(study_of(store, "overall"), Participants(tmp_path / "s.json", 2)) as ann.port:
        ann.begin("ann")
        ann.answer(5)
        shown = ann.page
    with served(study_of(store, "overall"), Participants(tmp_path / "s.json", 2)) as port:
        ann.port = bob.port = port
        assert ann.get("/") == 200 and ann.path == "/task/1/revised" and ann.page == shown
        assert bob.begin("ann") == 400 and bob.begin("bob") == 200
        assert ann.answer(1) == 200 and ann.path == "/task/2/initial"
    assert values(store) == [("ann", "initial", 5), ("ann", "revised", 1)]


def test_beyond_this_machine_the_token_is_asked_for(store: Store, tmp_path: Path) -> None:
    token = "a-token-of-sixteen-characters"
    with served(study_of(store, "detection"), Participants(tmp_path / "s.json", 2), token) as port:
        ann = Browser(port, Accept="text/html")
        assert Browser(port).get("/") == 401 and Browser(port).get("/task/1/detection.json") == 401
        assert Browser(port).get("/healthz") == 200
        assert Browser(port, Authorization=f"Bearer {token}").get("/") == 200
        assert ann.get("/") == 200 and ann.path == "/door" and token not in ann.page
        assert ann.post("/start", {"name": "ann", "form": "x"}) == 401
        assert ann.post("/door", {"token": "wrong"}) == 401 and not ann.cookies
        assert ann.post("/door", {"token": token}, Origin="http://evil.example") == 403 and not ann.cookies
        assert ann.post("/door", {"token": token}) == 200 and ann.path == "/" and token not in str(ann.cookies)
        assert ann.begin("ann") == 200 and ann.answer(2) == 200
        ann.cookies["accord_door"] = "0" * 64
        assert ann.get("/task") == 200 and ann.path == "/door"
    assert values(store) == [("ann", "detection", 2)]


def test_a_seat_released_by_another_process_is_free_at_once(tmp_path: Path) -> None:
    serving = Participants(tmp_path / "seats.json", 2)
    serving.take("zed", "old-key")
    Participants(tmp_path / "seats.json", 2).release("zed")
    assert serving.take("zed", "new-key").slot == 0 and serving.of("old-key") is None
    serving.take("amy", "amys-key")
    assert {seat.name for seat in Participants(tmp_path / "seats.json", 2)} == {"zed", "amy"}
