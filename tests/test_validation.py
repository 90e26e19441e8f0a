"""Human validation: sampling, stages, and outcomes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score

from accord import Project
from accord.edges import BadInput, UnknownName
from accord.project import Config
from accord.report import write_issues_page
from accord.report.issues_page import (
    QuotedPart,
    quoted_parts,
)
from accord.statistics import (
    fleiss_kappa,
    mean_kappa,
    no_fleiss,
)
from accord.statistics.chance_corrected import cohen_kappa
from accord.store import Conflict, IssueAnnotations, Store, Studies
from accord.studies import (
    SubmittedAnswer,
    load_outcome,
    open_validation,
    sample_items,
)
from accord.studies.agreement.annotators import (
    agreement_with_all,
    agreement_with_model,
    agreement_with_others,
)
from accord.studies.human_studies import (
    DialogueResampling,
    ValidatedTurns,
    answer_tables,
    detection_outcome,
    overall_outcome,
)
from accord.studies.item_sampling import eligible_turns
from accord.validation import summarize_issues
from accord.values import (
    Conversation,
    Estimate,
    Issue,
    IssueAnnotation,
    ItemSettings,
    StudySettings,
    Target,
    Turn,
    find_quote,
    load_taxonomy,
    turn_digests,
)

TAXONOMY = load_taxonomy("soda-eval")
MAKER = "issues|model:secret-model|taxonomy:drawn"
HIDDEN = "OVERALL-COMMENT-OF-THE-MODEL"


def issue(kind: str = "Coherence", comment: str = "ISSUE-COMMENT", quote: str = "", reply: str = "") -> Issue:
    return Issue(kind, comment, quote, find_quote(quote, reply))


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


def test_first_turn_with_issues_of_a_dialogue_is_sampled() -> None:
    rows = [
        assessed("a", 3, "Fluency"),
        assessed("a", 1),
        assessed("a", 2, "Coherence"),
        assessed("b", 1, "Other"),
        assessed("a", 4),
    ]
    assert eligible_turns(rows) == [("a", 1), ("a", 2), ("a", 4), ("b", 1)]


def test_second_turn_is_sampled_after_all_dialogues_have_one(tmp_path: Path) -> None:
    rows = many()
    store = Store(f"sqlite:///{tmp_path}/accord.db")
    chat = tuple(Turn("assistant", "Fine.") for _ in range(6))
    store.add_conversations(Conversation(f"d{name:03}", chat) for name in range(40))

    def sampled(count: int, seed: int, assessments: list[IssueAnnotation] = rows) -> list[Target]:
        settings = StudySettings(level="turn", items=ItemSettings(assessed=True, sample=count), seed=seed)
        return [each.target for each in sample_items("look", settings, store, 1, assessments)]

    first: dict[str, Target] = {}
    for each in sorted(rows, key=lambda each: each.target):
        if each.issues:
            first.setdefault(each.target.conversation, each.target)
    flagged = {each.target for each in rows if each.issues}
    assert all(turn == first[turn.conversation] for turn in sampled(100, 0) if turn in flagged)
    assert len({turn.conversation for turn in sampled(40, 3)}) == 40
    assert set(Counter(turn.conversation for turn in sampled(60, 3)).values()) == {1, 2}
    assert sampled(40, 3, list(reversed(rows))) == sampled(40, 3) != sampled(40, 4)
    store.close()


def test_study_of_assessed_turns_is_sampled_once(tmp_path: Path) -> None:
    with project(tmp_path) as opened:
        studies = Studies(opened.store)
        with pytest.raises(BadInput, match="allowed: 1 to 6"):
            open_validation(opened, "detection", studies, turns=7)
        with pytest.raises(UnknownName, match="detection"):
            open_validation(opened, "detect", studies)
        look = open_validation(opened, "detection", studies, turns=4, per_turn=2)
        items = studies.items("detection")
        assert len(items) == 4 and "Objective issues" in look.settings.guidelines
        again = open_validation(opened, "detection", studies)
        assert studies.items("detection") == items and again.settings.annotators_per_item == 2
        with pytest.raises(BadInput, match="exists"):
            open_validation(opened, "detection", studies, turns=3)
        few = open_validation(opened, "detection", studies, items_per_annotator=2)
        for place in range(2):
            one = few.take("ann")
            assert one is not None
            few.answer("ann", submitted(one.id, "validation:detection", 2, f"detected-{place:0>12}"))
            few.finish("ann", one.id)
        assert few.take("ann") is None and few.take("bob") is not None
        studies.close()


def test_issues_are_shown_after_the_first_rating(tmp_path: Path) -> None:
    with project(tmp_path) as opened:
        studies = Studies(opened.store)
        look = open_validation(opened, "overall", studies, per_turn=1)
        one = look.take("ann")
        assert one is not None
        assert look.view(one).stage.id == "initial" and "issues" not in look.view(one).stage.show
        with pytest.raises(BadInput, match="not part of this stage"):
            look.answer("ann", submitted(one.id, "validation:revised", 2))
        look.answer("ann", submitted(one.id, "validation:initial", 4))
        second = look.finish("ann", one.id)
        assert second.state == "open" and look.view(second).stage.show == ("issues",)
        assert look.view(second).before == {"validation:initial": 4}
        with pytest.raises(Conflict, match="is finished"):
            look.answer("ann", submitted(one.id, "validation:initial", 1, "c" * 20, stage="initial"))
        with pytest.raises(BadInput, match="not part of this stage"):
            look.answer("ann", submitted(one.id, "validation:initial", 1, "d" * 20))
        look.answer("ann", submitted(one.id, "validation:revised", 3, "e" * 20))
        assert look.finish("ann", one.id).state == "done"
        found = load_outcome(opened, "overall", studies).to_json()
        assert (found["examples"], found["ratings"], found["revisions"]["lower"]) == (1, 1, 1)
        with pytest.raises(BadInput, match="has no items yet"):
            load_outcome(opened, "detection", studies)
        studies.close()


def test_annotators_mark_issues_and_table_2_counts_them(tmp_path: Path) -> None:
    with project(tmp_path) as opened:
        studies = Studies(opened.store)
        with pytest.raises(BadInput, match="7 dialogues; allowed: 1 to 6"):
            open_validation(opened, "analysis", studies, turns=7)
        look = open_validation(opened, "analysis", studies, per_turn=2)
        assert len(studies.items("analysis")) == 6 and look.taxonomy is not None and "Relevance" in look.taxonomy.names
        for person, kinds in (("ann", ("Coherence", "Relevance")), ("bob", ("Coherence",))):
            for place in range(4):
                one = look.take(person)
                assert one is not None
                id = f"{person}-{place}".ljust(16, "-")
                for kind in kinds if place < 2 else ():
                    look.answer(person, submitted(one.id, f"issue:{kind}", 1, f"{id}{kind}", turn=1))
                look.answer(person, submitted(one.id, "analysis:read", int(place != 3), id))
                look.finish(person, one.id)
        withdrawn = studies.answers("analysis", question="issue:Relevance")[0]
        own = {each.item.target.conversation: each for each in studies.assignments_of("analysis", "ann")}
        first = own[withdrawn.target.conversation]
        look.answer("ann", SubmittedAnswer.from_json({
            "assignment": first.id, "id": "w" * 20, "question": "issue:Relevance", "value": None, "turn": 1,
            "replaces": withdrawn.answer,
        }))  # fmt: skip
        found = load_outcome(opened, "analysis", studies).to_json()
        by_kind = {row["type"]: (row["replies"], row["share"]["value"]) for row in found["types"]}
        assert (found["planned"], found["annotators"], found["replies"]) == (6, 2, 6), "a dialogue not read is left out"
        assert by_kind["None"] == (2, pytest.approx(2 / 6)) and by_kind["Coherence"] == (4, pytest.approx(4 / 6))
        assert by_kind["Relevance"] == (1, pytest.approx(1 / 6)) and by_kind["Other"] == (0, 0.0)
        share = found["types"][1]["share"]
        assert share["low"] <= share["value"] <= share["high"]
        assert {label.question for label in opened.store.labels()} >= {"issue:Coherence", "analysis:read"}
        studies.close()


def submitted(assignment: str, question: str, value: int, id: str = "a" * 20, **more: Any) -> SubmittedAnswer:
    return SubmittedAnswer(assignment=assignment, id=id, question=question, value=value, **more)


HOSTILE = "<script>alert(1)</script>"
REPLY = f"Well, I am 7 feet tall. {HOSTILE}"


@contextmanager
def project(folder: Path) -> Iterator[Project]:
    """A project whose finder's issues were imported: of six dialogues every other has some."""
    recorded = {"by": "recorded", "model": "secret-model"}
    about = {"store": f"sqlite:///{folder}/accord.db", "sources": {"issues": recorded}}
    with Project(Config.model_validate(about)) as opened:
        names = [f"d{place}" for place in range(6)]
        turns = (Turn("user", f"Hi {HOSTILE}", name="Kim"), Turn("assistant", REPLY), Turn("user", "LATER-TURN"))
        opened.store.add_conversations(Conversation(name, turns) for name in names)
        found = issue("Commonsense", f"ISSUE-COMMENT {HOSTILE}", "i am 7 feet", REPLY)
        flawed, clean = (found, issue("Engagement")), ()
        IssueAnnotations(opened.store).add(
            IssueAnnotation(
                Target(name, 1), flawed if place % 2 else clean, 5 - place % 5, HIDDEN, MAKER, (), said(turns)
            )
            for place, name in enumerate(names)
        )
        yield opened


def said(turns: tuple[Turn, ...]) -> str:
    """Return the digest of the dialogue up to the reply."""
    return turn_digests(Conversation("any", turns))[1]


def test_overlapping_quotes_are_marked_once() -> None:
    assert quoted_parts("abcdef", [(1, 3), (2, 4), (4, 5), (9, 12), (-3, 0)]) == (
        QuotedPart("a", False),
        QuotedPart("bcde", True),
        QuotedPart("f", False),
    )
    assert quoted_parts("abc", []) == (QuotedPart("abc", False),) and quoted_parts("", [(0, 1)]) == ()


# --- agreement ----------------------------------------------------------------------------------------------------


def test_cohens_kappa_equals_its_formula() -> None:
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
        (uneven, "13 to 14 answers"), (np.eye(3, dtype=int), "fewer than two"), (np.array([[3, 0], [3, 0]]), "all answers are the same"),
        (np.zeros((0, 3), dtype=int), "no item has answers"),
    ]:  # fmt: skip
        assert fleiss_kappa(counts) is None and why in (no_fleiss(counts) or "")


def test_kappa_of_pairs_uses_common_items() -> None:
    nan = np.nan
    answers = np.array([[0, 0, nan], [2, 2, nan], [1, 2, 1], [2, nan, 2], [0, nan, 1]])
    expected = [cohen_kappa_score([0, 2, 1], [0, 2, 2]), cohen_kappa_score([1, 2, 0], [1, 2, 1])]
    last = cohen_kappa(np.array([2.0]), np.array([1.0]))  # one shared item: 0
    assert last == 0 and mean_kappa(answers) == pytest.approx(np.mean([*expected, last]))


def answers_to(question: str, rows: dict[str, dict[Target, int]]) -> dict[tuple[str, Target, str], int]:
    return {(who, turn, question): value for who, given in rows.items() for turn, value in given.items()}


def about(flow: str, rows: list[IssueAnnotation]) -> ValidatedTurns:
    return ValidatedTurns(flow, MAKER, tuple(each.target for each in rows))


def by_hand() -> tuple[ValidatedTurns, list[IssueAnnotation], dict[tuple[str, Target, str], int]]:
    """Three people; answers of every turn in their order."""
    table_ = {
        "n1": ((), (2, 2, 2)), "n2": ((), (0, 0, 2)), "n3": ((), (0, 0, 0)), "n4": ((), (1, 2, 0)),
        "c1": (("Coherence",), (2, 1, 0)), "c2": (("Coherence", "Coherence"), (0, 0, 1)),
        "r1": (("Repetition", "Coherence"), (0, 0, 0)), "e1": (("Engagement",), (2, 2, 2)),
    }  # fmt: skip
    rows = [assessed(name, 1, *kinds) for name, (kinds, _) in table_.items()]
    given = {
        who: {Target(name, 1): said[place] for name, (_, said) in table_.items()}
        for place, who in enumerate(["ann", "bob", "cid"])
    }
    return about("detection", rows), rows, answers_to("validation:detection", given)


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


def test_issues_page_shows_validations(tmp_path: Path) -> None:
    plan, rows, labels = by_hand()
    detection = detection_outcome(labels, plan, rows, TAXONOMY, draws=20)
    ratings = overall_outcome({}, about("overall", rows), rows)
    found = summarize_issues(rows, [], TAXONOMY)
    for shown in ([], [detection], [ratings], [detection, ratings]):
        html = write_issues_page(found, rows, [], TAXONOMY, tmp_path / "issues.html", shown).read_text(encoding="utf-8")
        assert ("turns validated by 3 annotators" in html) == (detection in shown)
        assert ("turns rated without and then with their issues" in html) == (ratings in shown)


def test_tie_has_no_majority() -> None:
    plan, rows, _ = by_hand()
    turn = Target("c1", 1)
    labels = answers_to("validation:detection", {"ann": {turn: 0}, "bob": {turn: 2}})
    found = detection_outcome(labels, plan, rows, TAXONOMY).to_json()
    assert found["majority"] == {"value": 0.0, "low": None, "high": None} and found["all_agree"]["value"] == 1.0
    assert found["examples"] == 1 and found["planned"] == 8
    nothing = detection_outcome({}, plan, rows, TAXONOMY).to_json()
    assert (
        nothing["examples"] == 0
        and nothing["valid"]["value"] is None
        and nothing["fleiss_kappa"]["undefined"] == "no item has answers"
    )
    json.dumps(nothing, allow_nan=False)


def test_ratings_before_and_after() -> None:
    names = [f"d{place}" for place in range(30)]
    draw = np.random.default_rng(3)
    truth = draw.integers(1, 6, 30)
    rows = [
        assessed(name, 1, *(["Coherence"] if score < 4 else []), score=int(score))
        for name, score in zip(names, truth, strict=True)
    ]
    plan = about("overall", rows)
    initial = np.clip(truth[:, None] + draw.integers(-1, 3, (30, 5)), 1, 5)
    revised = np.where((truth < 4)[:, None], truth[:, None], initial)
    labels = {
        key: value
        for person in range(5)
        for question, ratings in (("initial", initial), ("revised", revised))
        for key, value in answers_to(
            f"validation:{question}",
            {f"p{person}": {Target(n, 1): int(v) for n, v in zip(names, ratings[:, person], strict=True)}},
        ).items()
    }
    cut = {key: value for key, value in labels.items() if key != ("p0", Target("d0", 1), "validation:revised")}
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
    json.dumps([found, overall_outcome({}, plan, rows).to_json()], allow_nan=False)


def test_agreement_of_one_person_is_undefined() -> None:
    alone = np.array([[1.0], [2.0], [3.0]])
    assert agreement_with_all(alone) is None and agreement_with_others(alone) is None
    assert agreement_with_model(alone, np.array([1.0, 2.0, 2.0])) == pytest.approx(0.8660254)
    assert agreement_with_model(alone, np.ones(3)) is None


def test_intervals_resample_dialogues() -> None:
    targets = [Target("a", 1), Target("a", 2), Target("b", 1)]
    sample_items = DialogueResampling.of(targets, draws=50)
    assert all(Counter(rows.tolist())[0] == Counter(rows.tolist())[1] for rows in sample_items.draws)
    assert DialogueResampling.of([]).estimate(lambda rows: 1.0) == Estimate()
    given: dict[tuple[str, Target, str], Any] = {
        ("p", targets[0], "q"): 1,
        ("p", targets[1], "q"): 2,
        ("p", targets[1], "r"): 3,
    }
    q, r = answer_tables(given, ["q", "r"], targets)
    assert q.targets == r.targets == (targets[1],) and q.answers.tolist() == [[2.0]] and r.answers.tolist() == [[3.0]]
