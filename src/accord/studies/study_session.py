"""A study under way: what it is about, who gets what next, what a page shows of it, and what may be answered.

What a page is told is a `Sheet`, and it is made of a conversation's turns and documents alone: no id, no system, no
metadata, nobody's answers but one's own, no prediction. What is blind cannot leak.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from accord.edges import BadInput, UnknownName, sendable
from accord.models import run
from accord.project import Project, annotated_pairs, issues_of
from accord.store import Assignment, Candidate, Conflict, Item, Prediction, Studies, UserAccount
from accord.studies.answer_parsing import (
    ANSWER_ID,
    BOTH_BAD,
    FIELDS,
    LONGEST,
    both_bad,
    quoted,
    seconds_in,
    text_in,
    value_in,
)
from accord.studies.item_sampling import drawn
from accord.values import (
    ISSUE,
    Annotation,
    Conversation,
    InvalidStudy,
    Issue,
    Question,
    Rubric,
    Stage,
    StudySettings,
    Target,
    Taxonomy,
    Turn,
    Value,
    content_hash,
    load_rubric,
    load_taxonomy,
)

ROWS = 10
"""The most options that a page lists; an answer from more of them is typed."""
REMEMBERED = 256
"""Conversations that are kept at hand while people answer."""
REPEAT_AFTER = 5
"""How many other items come before one is asked a second time, at least."""


@dataclass(frozen=True)
class ShownTurn:
    """A turn as a page shows it: its place in the conversation, who speaks, what is said, whether it is rated."""

    place: int
    role: str
    text: str
    is_rated: bool
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Side:
    """A conversation as a page shows it: its turns up to the rated one, and its documents."""

    turns: tuple[ShownTurn, ...]
    documents: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sheet:
    """What somebody sees of an item, and what they said of it so far.

    Attributes:
        assignment: Whose, and where they are.
        stage: What is asked now.
        sides: The conversation; of a pair both.
        questions: What is asked, in order.
        kinds: The kinds of issues that may be marked.
        issues: What a model found, by turn, where the stage shows it; a turn that it has not looked into is not there.
        given: The last answer to each question of this stage.
        marks: The marks that stand.
        before: What was answered at earlier stages, and cannot be changed any more.
    """

    assignment: Assignment
    stage: Stage
    sides: tuple[Side, ...]
    questions: tuple[Question, ...]
    kinds: Taxonomy | None
    issues: Mapping[int, tuple[Issue, ...]] | None
    given: Mapping[str, Annotation]
    marks: tuple[Annotation, ...]
    before: Mapping[str, Value | None]


class OpenStudy:
    """One study of a project, with its answers in the store."""

    def __init__(self, project: Project, name: str, studies: Studies) -> None:
        """Open a study of the project, and save its settings in the store.

        Raises:
            UnknownName: accord.yaml has no such study, or the rubric has no such question.
            BadInput: The study's settings are invalid, or its rubric, its taxonomy or its screening contradict them.
        """
        if name not in project.config.studies:
            raise UnknownName("study", name, project.config.studies)
        settings = project.config.studies[name]
        if isinstance(settings, InvalidStudy):
            raise BadInput(settings.error)
        self.project, self.name, self.studies = project, name, studies
        folder = project.config.folder
        self.settings: StudySettings = settings
        self.rubric: Rubric = load_rubric(settings.rubric, folder) if settings.rubric else project.rubric
        self.taxonomy: Taxonomy | None = (
            load_taxonomy(settings.issue_taxonomy, folder) if settings.issue_taxonomy else None
        )
        self._check()
        self._about: dict[str, Conversation] = {}
        self.rank: Callable[[Sequence[Candidate], str], Candidate] | None = None  # set by whoever knows what helps most
        self.on_assigned: Callable[[Assignment], None] = lambda assignment: None  # before anything can be answered
        self.on_answer: Callable[[Annotation], None] = lambda said: None
        self._keep(str((studies.study(name) or {}).get("maker", "")))

    def _keep(self, maker: str) -> None:
        """Keep what is asked, and who found the issues that it is about."""
        about = {**self.settings.model_dump(mode="json"), "rubric_hash": self.rubric.hash, "maker": maker}
        self.studies.set_study(self.name, about)

    def _check(self) -> None:
        is_pair = self.settings.level == "pair"
        for stage in self.settings.stages:
            for question in stage.questions:
                if self.rubric[question].compares != is_pair:
                    kind = "two conversations" if self.rubric[question].compares else "one conversation"
                    raise BadInput(
                        f"study {self.name!r}: question {question!r} is about {kind}, the study rates a "
                        f"{self.settings.level}; name other questions, or another level"
                    )
        for question, values in self.settings.stop_on.items():
            for value in values:
                if not self.rubric[question].scale.holds(value):
                    raise BadInput(
                        f"study {self.name!r}: stop_on: {value!r} is no answer to {question!r}; allowed: "
                        f"{self.rubric[question].scale}"
                    )

    @property
    def title(self) -> str:
        """What it is called on pages."""
        return self.settings.title or self.name

    @property
    def start(self) -> str:
        """The page where one begins."""
        return f"/rate/{self.name}" if self.settings.chat is None else f"/talk/{self.name}"

    def is_for(self, person: UserAccount) -> bool:
        """Whether somebody takes part."""
        return not self.settings.annotators or person.name in self.settings.annotators

    # --- what it is about ---------------------------------------------------------------------------------------

    def begin(self, round: int = 1) -> int:
        """Draw the items of a round, unless they are drawn; returns how many items it has.

        Raises:
            BadInput: Nothing fits what `items` says.
        """
        if self.settings.chat is None and not self.studies.items(self.name, round):
            assessments = [each for _, each in annotated_pairs(self.project)] if self.settings.items.assessed else []
            found = list(drawn(self.name, self.settings, self.project.store, round, assessments))
            if not found:
                raise BadInput(
                    f"study {self.name!r}: no conversation in the store fits `items`; import some, or ask for others"
                )
            self.studies.add_items(found)
            self._keep(assessments[0].signature if assessments else "")
        return len(self.studies.items(self.name, round))

    # --- who gets what ------------------------------------------------------------------------------------------

    def take(self, person: str) -> Assignment | None:
        """What somebody rates next, of the latest round that has something for them; `None` where nothing is left."""
        self._repeat(person, 1)
        per_item, choose = self.settings.annotators_per_item, self._chooser(person)
        for round in range(max(self.studies.rounds(self.name), 1), 0, -1):
            if self._has_enough(person, round):
                continue
            found = self.studies.take(self.name, round, person, per_item, self._until(), choose)
            if found is not None:
                self.on_assigned(found)
                return found
        return None

    def _has_enough(self, person: str, round: int) -> bool:
        """Whether somebody has as many items of a round as one person may have, and is at none of them."""
        if self.settings.items_per_annotator is None:
            return False
        mine = [each for each in self.studies.mine(self.name, person) if each.item.round == round]
        return len(mine) >= self.settings.items_per_annotator and all(each.state != "open" for each in mine)

    def _chooser(self, person: str) -> Callable[[Sequence[Candidate]], Candidate]:
        def choose(found: Sequence[Candidate]) -> Candidate:
            own = [each for each in found if each.item.person == person]
            if own:
                return own[0]
            if self.settings.order == "given":
                return found[0]
            if self.settings.order == "informative" and self.rank is not None:
                return self.rank(found, person)
            # At random for each person; what somebody has begun first, so that items get their full number early.
            return min(found, key=lambda each: (-each.taken, content_hash([person, each.item.key])))

        return choose

    def _repeat(self, person: str, round: int) -> None:
        """Ask for some items a second time: which, follows from their keys."""
        if not self.settings.repeat_share:
            return
        done = [each.item for each in self.studies.mine(self.name, person) if each.state == "done"]
        plain = [item for item in done if item.round == round and item.kind != "repeat"]
        for item in plain[REPEAT_AFTER:]:
            share = int(content_hash([self.settings.seed, person, item.key])[5:13], 16) / 16**8
            if share < self.settings.repeat_share:
                again = Item(self.name, round, item.place, "repeat", item.target, item.against, person)
                self.studies.add_items([again])

    def _until(self) -> str:
        until = datetime.now(UTC) + timedelta(minutes=self.settings.lease_minutes)
        return until.isoformat(timespec="milliseconds")

    # --- what is shown ------------------------------------------------------------------------------------------

    def assignment(self, id: str, person: str) -> Assignment:
        """Somebody's own assignment.

        Raises:
            BadInput: There is none of this id, or it is somebody else's: nobody is told which.
        """
        found = self.studies.assignment(id)
        self._check_own(found, person)
        assert found is not None
        return found

    def _check_own(self, found: Assignment | None, person: str) -> None:
        if found is None or found.person != person or found.item.study != self.name:
            raise BadInput("this page is not yours, or is gone; go back to the list of studies")

    def sheet(self, assignment: Assignment) -> Sheet:
        """What a page shows."""
        item, stage = assignment.item, self.settings.stages[assignment.stage]
        sides = [item.target] if item.against is None else [item.target, item.against]
        with_documents = "documents" in stage.show
        conversations = {each.id: each for each in self.project.store.conversations({side[0] for side in sides})}
        said = self.studies.said_in(assignment)
        marks = tuple(each for each in said if each.question.startswith(ISSUE))
        answers = [each for each in said if not each.question.startswith(ISSUE)]
        return Sheet(
            assignment,
            stage,
            tuple(side_of(conversations[side.conversation], side.turn, with_documents) for side in sides),
            self.asked(stage, conversations[item.target.conversation]),
            self.taxonomy,
            self._found(stage, conversations[item.target.conversation], item.target.turn),
            {each.question: each for each in answers if each.stage == stage.id},
            marks,
            {each.question: each.value for each in answers if each.stage != stage.id},
        )

    def _found(
        self, stage: Stage, conversation: Conversation, turn: int | None
    ) -> Mapping[int, tuple[Issue, ...]] | None:
        """The issues that the project's finder has found; neither its name nor its score leaves this function."""
        if "issues" not in stage.show:
            return None
        detected = run(issues_of(self.project).detect([conversation]), self.project.stored_models)
        maker = str((self.studies.study(self.name) or {}).get("maker", ""))
        if maker and detected.signature != maker:
            raise BadInput(
                f"the study {self.name!r} was drawn of issues that another finder found; name that one again, or begin "
                "another study"
            )
        found = {each.target.turn or 0: each.issues for each in detected.annotations.get(conversation.id, ())}
        return {place: issues for place, issues in found.items() if turn in (None, place)}

    def progress(self, person: str) -> tuple[int, int]:
        """How many items somebody has finished or passed over, and how many there are for them in all."""
        mine = self.studies.mine(self.name, person)
        rounds, per_item = range(1, max(self.studies.rounds(self.name), 1) + 1), self.settings.annotators_per_item
        total = len(mine) + sum(self.studies.left(self.name, round, person, per_item) for round in rounds)
        return sum(each.state != "open" for each in mine), min(total, self.settings.items_per_annotator or total)

    def asked(self, stage: Stage, conversation: Conversation) -> tuple[Question, ...]:
        """The questions of a stage that apply to a conversation, in the rubric's order."""
        is_pair = self.settings.level == "pair"
        named = stage.questions or tuple(each.id for each in self.rubric.questions if each.compares == is_pair)
        found = (self.rubric[name] for name in named)
        return tuple(each for each in found if each.compares or each.applies_to(conversation))

    def ended_by(self, sheet: Sheet) -> str | None:
        """The screening question whose answer ends the questionnaire; what stands after it is not asked."""
        for question in sheet.questions:
            given = sheet.given.get(question.id)
            if given is not None and given.value in self.settings.stop_on.get(question.id, ()):
                return question.id
        return None

    def wanted(self, sheet: Sheet) -> list[str]:
        """The questions that are still to be answered before the stage is finished."""
        end = self.ended_by(sheet)
        ids = [question.id for question in sheet.questions]
        if end is not None:
            ids = ids[: ids.index(end) + 1]
        return [name for name in ids if name not in sheet.given]

    def revealed(self, assignment: Assignment) -> tuple[Prediction, ...]:
        """What an evaluator expected of this person, of the questions that are answered; where the study shows it."""
        if not self.settings.show_prediction or assignment.state != "done":
            return ()
        said = {each.question for each in self.studies.said_in(assignment)}
        found = self.studies.predictions(self.name, assignment.person)
        return tuple(each for each in found if each.item == assignment.item.key and each.question in said)

    # --- what is answered ---------------------------------------------------------------------------------------

    def answer(self, person: str, row: Mapping[str, Any]) -> tuple[Annotation, bool]:
        """Keep an answer as a page sends it; the same again changes nothing.

        Args:
            person: Whose page it is.
            row: `assignment`, `id` (made by the page), `question`, `value` (`null` where it does not apply), and where
                there are any `comment`, `seconds`, of a mark `turn`, `span` or `quote`, and `replaces`.

        Returns:
            What is kept, and whether it was kept before.

        Raises:
            LeaseExpired: Others have completed the item in the meantime.
            Conflict: Its stage is behind, or the id was used for another answer.
            BadInput: It is no answer to what this person is asked.
        """
        strangers = sorted(set(row) - FIELDS)
        if strangers:
            raise BadInput(f"the answer has {strangers[0]!r}; allowed: {', '.join(sorted(FIELDS))}")
        id = text_in(row, "assignment", 64)
        conversation = self._conversation(id, person)  # before anything is written: nobody waits for a reader

        def said(assignment: Assignment) -> Annotation:
            self._check_own(assignment, person)
            return self._annotation(person, assignment, row, conversation)

        kept, again = self.studies.keep(id, person, said, self.settings.annotators_per_item, self._until())
        if not again:
            self.on_answer(kept)
        return kept, again

    def _conversation(self, id: str, person: str) -> Conversation:
        """What an assignment is about, which does not change."""
        if id not in self._about:
            item = self.assignment(id, person).item
            while len(self._about) >= REMEMBERED:
                self._about.pop(next(iter(self._about)), None)
            self._about[id] = next(self.project.store.conversations([item.target.conversation]))
        return self._about[id]

    def _annotation(
        self, person: str, assignment: Assignment, row: Mapping[str, Any], conversation: Conversation
    ) -> Annotation:
        item, stage = assignment.item, self.settings.stages[assignment.stage]
        given = text_in(row, "stage", 40) or stage.id
        if given != stage.id:
            raise Conflict(f"stage {given!r} is not the one you are at ({stage.id!r}); what was answered before stays")
        answer = text_in(row, "id", 64)
        if not ANSWER_ID.fullmatch(answer):
            raise BadInput("the answer's id has 16 to 64 letters, digits, '-' and '_'; load the page again")
        name = text_in(row, "question", 200)
        common: dict[str, Any] = {
            "comment": text_in(row, "comment"), "answer": answer, "study": item.where, "stage": stage.id,
            "seconds": seconds_in(row.get("seconds")), "shown": ",".join(sorted(stage.show)),
        }  # fmt: skip
        if name.startswith(ISSUE):
            return self._mark(person, item, name, row, common, conversation)
        question = self._question(stage, item, name, conversation)
        value = value_in(question, row.get("value"))
        if common["comment"] and not self.settings.comments:
            raise BadInput("this study takes no comments; leave the comment out")
        wording = question.key
        return Annotation(
            item.target, name, person, "person", value, wording=wording, against=item.against,
            rubric=self.rubric.hash, **common,
        )  # fmt: skip

    def _question(self, stage: Stage, item: Item, name: str, conversation: Conversation) -> Question:
        asked = self.asked(stage, conversation)
        plain = name.removesuffix(f":{BOTH_BAD}") if item.against is not None else name
        found = next((question for question in asked if question.id == plain), None)
        if found is None:
            raise BadInput(f"question {name[:60]!r} is not asked here; asked are {', '.join(q.id for q in asked)}")
        return found if plain == name else both_bad(found)

    def _mark(
        self,
        person: str,
        item: Item,
        name: str,
        row: Mapping[str, Any],
        common: Mapping[str, Any],
        conversation: Conversation,
    ) -> Annotation:
        if self.taxonomy is None:
            raise BadInput("this study marks no issues; answer its questions")
        kind = name.removeprefix(ISSUE)
        if kind not in self.taxonomy.names:
            raise UnknownName("issue", kind, self.taxonomy.names)
        turn = row.get("turn") if item.target.turn is None else item.target.turn
        if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < len(conversation.turns):
            raise BadInput(f"a mark is of a turn, 0 to {len(conversation.turns) - 1}; got {str(turn)[:20]!r}")
        quote, span = quoted(conversation.turns[turn].content, row.get("span"), text_in(row, "quote"))
        value, replaces = row.get("value"), text_in(row, "replaces", 64)
        if value not in (1, None) or isinstance(value, bool) or (value is None and not replaces):
            raise BadInput("a mark has the value 1, or null where it takes back the one it replaces")
        return Annotation(
            Target(conversation.id, turn), name, person, "person", value, quote=quote, span=span, replaces=replaces,
            rubric=self.taxonomy.hash, **common,
        )  # fmt: skip

    def finish(self, person: str, id: str) -> Assignment:
        """End a stage: the next one begins, or the item is done.

        Raises:
            Conflict: A question is not answered yet.
            BadInput: The assignment is not this person's.
        """
        assignment = self.assignment(id, person)
        sheet = self.sheet(assignment)
        missing = self.wanted(sheet)
        if missing:
            raise Conflict(f"not answered yet: {', '.join(missing)}")
        last = len(self.settings.stages) - 1
        if assignment.stage < last and self.ended_by(sheet) is None:
            return self.studies.move(id, person, "open", assignment.stage + 1, self._until())
        return self.studies.move(id, person, "done", assignment.stage, assignment.until)

    def skip(self, person: str, id: str, reason: str) -> Assignment:
        """Pass an item over, for a reason.

        Raises:
            BadInput: There is no reason, or the assignment is not this person's.
        """
        if not reason.strip():
            raise BadInput("say in a few words why you pass this one over")
        assignment = self.assignment(id, person)
        return self.studies.move(id, person, "skipped", assignment.stage, assignment.until, reason.strip()[:LONGEST])

    def reopen(self, person: str, id: str) -> Assignment:
        """Come back to an item that was skipped or done; earlier stages stay as they are.

        Raises:
            BadInput: The assignment is not this person's.
        """
        assignment = self.assignment(id, person)
        return self.studies.move(id, person, "open", assignment.stage, self._until())


# --- showing -----------------------------------------------------------------------------------------------------


def side_of(conversation: Conversation, turn: int | None, with_documents: bool) -> Side:
    """Return a conversation up to a turn as the pages show it."""
    turns = tuple(
        ShownTurn(place, each.role, sendable(each.content), place == turn, tuple(map(sendable, tool_calls_of(each))))
        for place, each in enumerate(conversation.up_to(turn))
    )
    documents = ((sendable(each.title or ""), sendable(each.text)) for each in conversation.documents)
    return Side(turns, tuple(documents) if with_documents else ())


def tool_calls_of(turn: Turn) -> list[str]:
    """Tool calls as text, one each."""
    called = turn.extra.get("tool_calls")
    calls = called if isinstance(called, list | tuple) else [] if called is None else [called]
    return [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False, default=str) for each in calls]
