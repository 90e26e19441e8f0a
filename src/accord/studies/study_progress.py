"""How a study stands: who has done what, how many answers each question and item has, and the sentence that says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from accord.statistics import beta_quantile
from accord.store import ADJUDICATED, Assignment, Item
from accord.studies.annotator_agreement import Answers, CountedEstimate, change_of, people_agree
from accord.studies.blind_predictions import Tested, better_than_usual, held_against
from accord.studies.study_session import OpenStudy
from accord.values import ISSUE, Annotation, Question, Value

TIMES = {1: "rated", 2: "rated twice", 3: "rated three times"}


@dataclass(frozen=True)
class Done:
    """One person's part.

    Attributes:
        person: Who.
        done, open, skipped: Items.
        answers: To questions.
        seconds: The middle time per item, where it is known.
        reasons: Why items were skipped.
        gold, checks: Share of known answers that were given, of answers to gold items and attention checks.
        repeats: Share of answers that were the same the second time.
    """

    person: str
    done: int
    open: int
    skipped: int
    answers: int
    seconds: float | None
    reasons: Sequence[str]
    gold: CountedEstimate
    checks: CountedEstimate
    repeats: CountedEstimate


@dataclass(frozen=True)
class Asked:
    """One question's answers.

    Attributes:
        question, text: Which.
        answers: How many; `none` of them say that it does not apply.
        people: Who gave them.
        full: Items that have as many answers as they want.
        agreement: Krippendorff's α of everybody.
    """

    question: str
    text: str
    answers: int
    none: int
    people: int
    full: int
    agreement: CountedEstimate


@dataclass(frozen=True)
class Round:
    """A norming round: the same items for everybody, and what it changed since the round before.

    Attributes:
        round: Its number, from 2.
        items, wanted, done: Items, how often all of them are to be rated, and how often they were.
        before, after, change: By question, α of the same people on the same items.
    """

    round: int
    items: int
    wanted: int
    done: int
    before: Mapping[str, CountedEstimate]
    after: Mapping[str, CountedEstimate]
    change: Mapping[str, CountedEstimate]


class Standing:
    """A study as a lead sees it; everything is read and worked out once, when it is first asked for."""

    def __init__(self, study: OpenStudy) -> None:
        self.study = study

    @cached_property
    def items(self) -> list[Item]:
        """What the study is about."""
        return self.study.studies.items(self.study.name)

    @cached_property
    def answers(self) -> list[Annotation]:
        """What everybody said, of all rounds."""
        return self.study.studies.answers(self.study.name)

    @cached_property
    def assignments(self) -> list[Assignment]:
        """Who has, or had, which item."""
        return self.study.studies.everything(self.study.name)

    def said_in(self, part: str = "") -> list[Annotation]:
        """The answers of the first round, or of `NAME/PART`."""
        where = f"{self.study.name}/{part}" if part else self.study.name
        return [each for each in self.answers if each.study == where]

    @cached_property
    def first(self) -> list[Annotation]:
        """The answers of the first round."""
        return self.said_in()

    @cached_property
    def questions(self) -> list[Question]:
        """What the study asks, in the rubric's order."""
        is_pair = self.study.settings.level == "pair"
        named = {name for stage in self.study.settings.stages for name in stage.questions}
        every = any(not stage.questions for stage in self.study.settings.stages)
        return [
            each for each in self.study.rubric.questions if each.compares == is_pair and (every or each.id in named)
        ]

    @property
    def main(self) -> Question:
        """The rubric's main question, or the first that is asked."""
        return next((each for each in self.questions if each.id == self.study.rubric.main), self.questions[0])

    @cached_property
    def tables(self) -> dict[str, Answers]:
        """Each question's answers of the first round."""
        return {each.id: Answers.of(each, self.first) for each in self.questions}

    @cached_property
    def tested(self) -> Tested | None:
        """Answers beside what was expected of them."""
        return held_against(self.study)

    @cached_property
    def wanted(self) -> int:
        """Items of the first round, without those that are asked a second time."""
        return sum(item.round == 1 and item.kind != "repeat" for item in self.items)

    @cached_property
    def people(self) -> list[str]:
        """Everybody who takes part or took part, by name."""
        return sorted({*taking_part(self.study), *(each.person for each in self.assignments)})

    # --- by question, by person ---------------------------------------------------------------------------------

    @cached_property
    def by_question(self) -> list[Asked]:
        """Each question, in the rubric's order."""
        none = Counter(each.question for each in self.first if each.value is None)
        return [self._asked(table, none[name]) for name, table in self.tables.items()]

    def _asked(self, table: Answers, none: int) -> Asked:
        full = (
            int((table.given.sum(axis=1) >= self.study.settings.annotators_per_item).sum()) if len(table.units) else 0
        )
        name, text, answers = table.question.id, table.question.text, int(table.given.sum()) + none
        return Asked(name, text, answers, none, len(table.people), full, people_agree(table))

    @property
    def _main_asked(self) -> Asked:
        """The main question alone: of what else was answered nothing is read."""
        if "answers" in self.__dict__:
            return next(each for each in self.by_question if each.question == self.main.id)
        found = self.study.studies.answers(self.study.name, question=self.main.id)
        said = [each for each in found if each.study == self.study.name]
        return self._asked(Answers.of(self.main, said), sum(each.value is None for each in said))

    @cached_property
    def by_person(self) -> list[Done]:
        """Each person, by name."""
        return [self._done(name) for name in self.people]

    def _done(self, name: str) -> Done:
        mine = [each for each in self.assignments if each.person == name]
        states = Counter(each.state for each in mine)
        said = [each for each in self.answers if each.by == name and not each.study.endswith(f"/{ADJUDICATED}")]
        seconds: dict[Any, float] = {}
        for each in said:
            if each.seconds is not None:
                seconds[each.target, each.study] = seconds.get((each.target, each.study), 0.0) + each.seconds
        settings = self.study.settings
        return Done(
            name, states["done"], states["open"], states["skipped"],
            sum(not each.question.startswith(ISSUE) for each in said), median(seconds.values()) if seconds else None,
            [each.reason for each in mine if each.state == "skipped" and each.reason],
            _known(settings.gold, said), _known(settings.attention_checks, said), self._repeated(name),
        )  # fmt: skip

    def _repeated(self, name: str) -> CountedEstimate:
        before = {(each.target, each.against, each.question): each.value for each in self.first if each.by == name}
        again = [each for each in self.said_in("1/again") if each.by == name and not each.question.startswith(ISSUE)]
        pairs = [(each.value, before.get((each.target, each.against, each.question), _NOT_SAID)) for each in again]
        told = [one == other for one, other in pairs if other is not _NOT_SAID]
        return share_of(sum(told), len(told))

    # --- norming rounds -----------------------------------------------------------------------------------------

    @cached_property
    def rounds(self) -> list[Round]:
        """Each norming round."""
        found = []
        for number in range(2, max((item.round for item in self.items), default=1) + 1):
            mine = [item for item in self.items if item.round == number]
            before, after = self.said_in(str(number - 1) if number > 2 else ""), self.said_in(str(number))
            made = {each.id: change_of(Answers.of(each, before), Answers.of(each, after)) for each in self.questions}
            done = sum(each.item.round == number and each.state == "done" for each in self.assignments)
            parts = [{name: figures[place] for name, figures in made.items()} for place in range(3)]
            found.append(Round(number, len({(i.target, i.against) for i in mine}), len(mine), done, *parts))
        return found

    # --- in words -----------------------------------------------------------------------------------------------

    @cached_property
    def synthetic(self) -> set[str]:
        """The conversations of the study that nobody held."""
        return self.study.project.store.synthetic_among(each.target.conversation for each in self.items)

    def sentence(self) -> str:
        """How things stand."""
        main = self._main_asked
        often = TIMES.get(
            self.study.settings.annotators_per_item, f"rated {self.study.settings.annotators_per_item} times"
        )
        if not main.answers and not self.first:
            return f"Nobody has answered yet; {self.wanted} items are to be {often}{self._synthetic_said()}."
        parts = [f"{main.full} of {self.wanted} {often}"]
        alpha = main.agreement
        if alpha.value is None:
            parts.append("nothing can be said yet of how people agree")
        else:
            parts.append(f"people agree at α = {alpha}")
        live = self.tested.figures() if self.tested else {}
        parts.append(better_than_usual(live["gain"]) if live else "no evaluator has expected an answer yet")
        return "; ".join(parts) + f"{self._synthetic_said()}."

    def _synthetic_said(self) -> str:
        count = len(self.synthetic)
        total = len({each.target.conversation for each in self.items})
        return f"; {count} of {total} conversations are synthetic: nobody held them" if count else ""


_NOT_SAID = object()


def taking_part(study: OpenStudy) -> list[str]:
    """Whom the study asks, by name: those it names, or all annotators."""
    everybody = study.studies.accounts.list_users()
    return sorted(study.settings.annotators) or [each.name for each in everybody if each.role == "annotator"]


def share_of(count: int, n: int) -> CountedEstimate:
    """A share with its exact interval (Clopper and Pearson, 1934)."""
    if not n:
        return CountedEstimate(None, None, None, 0)
    low = beta_quantile(0.025, count, n - count + 1) if count else 0.0
    high = beta_quantile(0.975, count + 1, n - count) if count < n else 1.0
    return CountedEstimate(count / n, low, high, n)


def _known(answers: Mapping[str, Mapping[str, Value]], said: Sequence[Annotation]) -> CountedEstimate:
    """The share of known answers that somebody gave."""
    told = [
        each.value == answers[str(each.target)][each.question]
        for each in said
        if each.question in answers.get(str(each.target), {})
    ]
    return share_of(sum(told), len(told))


def norming_items(study: OpenStudy, standing: Standing, count: int, again: bool) -> list[Item]:
    """The items of another norming round: for each person the same, those of the last one or the most rated ones."""
    last = max((item.round for item in standing.items), default=1)
    if again and last > 1:
        units = dict.fromkeys((i.target, i.against) for i in standing.items if i.round == last)
    else:
        taken = Counter((each.target, each.against) for each in standing.first if each.question == standing.main.id)
        plain = [(i.target, i.against) for i in standing.items if i.round == 1 and i.kind == "plain"]
        units = dict.fromkeys(sorted(plain, key=lambda unit: -taken[unit])[:count])
    return [
        Item(study.name, last + 1, place, "plain", target, against, person)
        for person in standing.people
        for place, (target, against) in enumerate(units)
    ]
