"""Sessions of a study: sampling of items, assignments, views for annotators, and validation of answers.

Annotators see an `ItemView`. It holds turns and documents only: no ids, no system, no metadata, no answers of others
and no predictions, so that ratings are blind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from accord.edges import BadInput, UnknownName
from accord.models import run
from accord.project import Workspace, annotated_pairs, has_generated_text, issues_of
from accord.store import Assignment, Candidate, Conflict, Item, Prediction, Studies, UserAccount
from accord.studies.conversation_view import ConversationView, conversation_view, visible_to
from accord.studies.item_sampling import sample_items
from accord.studies.submitted_answer import BOTH_BAD, MAX_TEXT, SubmittedAnswer, both_bad_question, parse_value
from accord.values import (
    ISSUE,
    PARTS,
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
    Value,
    content_hash,
    load_rubric,
    load_taxonomy,
)  # fmt: skip

MAX_LISTED_OPTIONS = 10
"""Maximum number of options that a page lists; for longer scales the answer is typed."""
CACHED_CONVERSATIONS = 256
_MISSING = "this page does not exist, or is not yours, or its conversation was erased; go back to the list of studies"
ACCEPTED = "accepted_wording"
"""Setting with the hash of the rubric whose generated wording a lead has accepted."""
REPEAT_AFTER = 5
"""Minimum number of other items between an item and its repetition."""


@dataclass(frozen=True)
class ItemView:
    """An item as its annotator sees it, with the annotator's own answers.

    Attributes:
        sides: The conversation, or both conversations of a pair.
        kinds: Kinds of issues that can be marked; `None` if the study has no marks.
        issues: Issues found by a model, by turn; `None` if the stage does not show them.
        given: Latest answer to each question of the stage.
        before: Answers of earlier stages, which cannot be changed.
    """

    assignment: Assignment
    stage: Stage
    sides: tuple[ConversationView, ...]
    questions: tuple[Question, ...]
    kinds: Taxonomy | None
    issues: Mapping[int, tuple[Issue, ...]] | None
    given: Mapping[str, Annotation]
    marks: tuple[Annotation, ...]
    before: Mapping[str, Value | None]


class StudySession:
    """A study of a project; answers are kept in the store.

    Attributes:
        cached: Conversations of assignments.
        rank: Function that chooses the most informative candidate for an annotator, or `None`.
        on_assigned: Called with each new assignment, before its annotator can answer.
        on_answer: Called with each new answer.
    """

    def __init__(self, project: Workspace, name: str, studies: Studies) -> None:
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
        self._check_questions()
        self._check_roles()
        self.cached: dict[str, Conversation] = {}
        self._is_open = False
        self.rank: Callable[[Sequence[Candidate], str], Candidate] | None = None
        self.on_assigned: Callable[[Assignment], None] = lambda assignment: None
        self.on_answer: Callable[[Annotation], None] = lambda annotation: None
        self._save_settings(self._issue_finder())

    def _save_settings(self, maker: str) -> None:
        """Save the settings, the rubric's hash and the signature of the model that found the issues."""
        settings = {**self.settings.model_dump(mode="json"), "rubric_hash": self.rubric.hash, "maker": maker}
        accepted = (self.studies.study(self.name) or {}).get(ACCEPTED, "")
        self.studies.set_study(self.name, {**settings, ACCEPTED: accepted})

    def _issue_finder(self) -> str:
        return str((self.studies.study(self.name) or {}).get("maker", ""))

    def _check_questions(self) -> None:
        for stage in self.settings.stages:
            for question in stage.questions:
                asked = self.rubric[question]
                if not asked.suits(self.settings.level):
                    kind = "one call of a tool" if asked.is_about_steps else "one conversation"
                    kind = "two conversations" if asked.compares else kind
                    raise BadInput(
                        f"study {self.name!r}: question {question!r} is about {kind}, but the study rates a "
                        f"{self.settings.level}; choose other questions, or another level"
                    )
        for question, values in self.settings.stop_on.items():
            for value in values:
                if not self.rubric[question].scale.holds(value):
                    raise BadInput(
                        f"study {self.name!r}: stop_on: {value!r} is not an answer to {question!r}; allowed: "
                        f"{self.rubric[question].scale}"
                    )

    def _check_roles(self) -> None:
        """Check that the roles of `show` have people.

        Raises:
            BadInput: Nobody has a role.
        """
        for role in self.settings.show:
            if not self.project.config.people.get(role):
                raise BadInput(
                    f"study {self.name!r}: show names the role {role!r}, which nobody has. Add the people to "
                    f"accord.yaml: people: {{{role}: [NAME]}}"
                )

    def parts(self, person: str) -> tuple[str, ...] | None:
        """Return the parts of conversations that a person sees, or `None` for all; without a role, what all roles see.

        The role is the one of `people` in accord.yaml. Accounts of leads have no right to more on rating pages.
        """
        show, people = self.settings.show, self.project.config.people
        if not show:
            return None
        own = next((show[role] for role in show if person in people[role]), None)
        if own is None:
            own = tuple(part for part in PARTS if all(part in parts for parts in show.values()))
        return None if len(own) == len(PARTS) else own

    @property
    def title(self) -> str:
        """Title on pages."""
        return self.settings.title or self.name

    @property
    def start(self) -> str:
        """Address of the first page."""
        return f"/rate/{self.name}" if self.settings.chat is None else f"/talk/{self.name}"

    def is_for(self, person: UserAccount) -> bool:
        """Return True if a person takes part in the study."""
        return not self.settings.annotators or person.name in self.settings.annotators

    def generated_questions(self) -> list[Question]:
        """Return the questions with generated wording that a lead has to check before the study opens.

        There are none once the wording was edited or accepted, or if annotators have begun.
        """
        names = {name for stage in self.settings.stages for name in stage.questions}
        has_all = any(not stage.questions for stage in self.settings.stages)
        found = [] if self._is_open else [
            each for each in self.rubric.questions if (has_all or each.id in names) and has_generated_text(each)
        ]  # fmt: skip
        self._is_open = not found or (
            (self.studies.study(self.name) or {}).get(ACCEPTED) == self.rubric.hash
            or bool(self.studies.all_assignments(self.name))
        )
        return [] if self._is_open else found

    def accept_wording(self) -> None:
        """Open the study with the generated wording of this version of the rubric."""
        self.studies.set_study(self.name, {**(self.studies.study(self.name) or {}), ACCEPTED: self.rubric.hash})

    # --- items ---------------------------------------------------------------------------------------

    def begin(self, round: int = 1) -> int:
        """Sample the items of a round if that was not done before, and return their number.

        Raises:
            BadInput: No conversation matches `items`.
        """
        if self.settings.chat is None and not self.studies.items(self.name, round):
            assessments = [each for _, each in annotated_pairs(self.project)] if self.settings.items.assessed else []
            items = list(sample_items(self.name, self.settings, self.project.store, round, assessments))
            if not items:
                raise BadInput(
                    f"study {self.name!r}: no conversation in the store matches `items`; import some, or change `items`"
                )
            self.studies.add_items(items)
            self._save_settings(assessments[0].signature if assessments else "")
        return len(self.studies.items(self.name, round))

    # --- assignments ------------------------------------------------------------------------------------------

    def take(self, person: str) -> Assignment | None:
        """Assign the next item to a person, from the latest round that has one; `None` if nothing is left."""
        self._add_repeats(person, 1)
        per_item, choose = self.settings.annotators_per_item, self._chooser(person)
        for round in range(max(self.studies.rounds(self.name), 1), 0, -1):
            if self._has_enough(person, round):
                continue
            assignment = self.studies.take(self.name, round, person, per_item, self.lease_end(), choose)
            if assignment is not None:
                self.on_assigned(assignment)
                return assignment
        return None

    def _has_enough(self, person: str, round: int) -> bool:
        """Return True if a person has reached the maximum number of items of a round and has no open items."""
        if self.settings.items_per_annotator is None:
            return False
        assignments = [each for each in self.studies.assignments_of(self.name, person) if each.item.round == round]
        return len(assignments) >= self.settings.items_per_annotator and all(a.state != "open" for a in assignments)

    def _chooser(self, person: str) -> Callable[[Sequence[Candidate]], Candidate]:
        def choose(candidates: Sequence[Candidate]) -> Candidate:
            reserved = [candidate for candidate in candidates if candidate.item.person == person]
            if reserved:
                return reserved[0]
            if self.settings.order == "given":
                return candidates[0]
            if self.settings.order == "informative" and self.rank is not None:
                return self.rank(candidates, person)
            # Random per person, but items that others have begun come first, so that they are completed early.
            return min(candidates, key=lambda each: (-each.taken, content_hash([person, each.item.key])))

        return choose

    def _add_repeats(self, person: str, round: int) -> None:
        """Add a share of the completed items a second time; a hash of their keys selects them."""
        if not self.settings.repeat_share:
            return
        done = [each.item for each in self.studies.assignments_of(self.name, person) if each.state == "done"]
        plain = [item for item in done if item.round == round and item.kind != "repeat"]
        for item in plain[REPEAT_AFTER:]:
            draw = int(content_hash([self.settings.seed, person, item.key])[5:13], 16) / 16**8
            if draw < self.settings.repeat_share:
                repeat = Item(self.name, round, item.place, "repeat", item.target, item.against, person)
                self.studies.add_items([repeat])

    def lease_end(self) -> str:
        """Return the time at which a lease that begins now ends."""
        return (datetime.now(UTC) + timedelta(minutes=self.settings.lease_minutes)).isoformat(timespec="milliseconds")

    # --- views ------------------------------------------------------------------------------------------

    def assignment(self, id: str, person: str) -> Assignment:
        """Return an assignment of a person.

        Raises:
            BadInput: The assignment does not exist or belongs to another person; the error does not tell which.
        """
        assignment = self.studies.assignment(id)
        self._check_owner(assignment, person)
        assert assignment is not None
        return assignment

    def _check_owner(self, assignment: Assignment | None, person: str) -> None:
        if assignment is None or assignment.person != person or assignment.item.study != self.name:
            raise BadInput(_MISSING)

    def view(self, assignment: Assignment) -> ItemView:
        """Return the view of an assignment's item."""
        item, stage = assignment.item, self.settings.stages[assignment.stage]
        targets = [item.target] if item.against is None else [item.target, item.against]
        with_documents = "documents" in stage.show
        names = {target.conversation for target in targets}
        conversations = {each.id: each for each in self.project.store.conversations(names)}
        if len(conversations) < len(names):
            raise BadInput(_MISSING)
        annotations = self.studies.answers_in(assignment)
        marks = tuple(each for each in annotations if each.question.startswith(ISSUE))
        answers = [each for each in annotations if not each.question.startswith(ISSUE)]
        sides = tuple(conversation_view(conversations[t.conversation], t.turn, with_documents) for t in targets)
        issues = self._shown_issues(stage, conversations[item.target.conversation], item.target.turn)
        if (parts := self.parts(assignment.person)) is not None:
            sides = tuple(visible_to(side, parts) for side in sides)
            places = {turn.place for turn in sides[0].turns}
            issues = None if issues is None or "issues" not in parts else {
                place: found for place, found in issues.items() if place in places
            }  # fmt: skip
        return ItemView(
            assignment,
            stage,
            sides,
            self.questions(stage, conversations[item.target.conversation], item.target.turn),
            self.taxonomy,
            issues,
            {each.question: each for each in answers if each.stage == stage.id},
            marks,
            {each.question: each.value for each in answers if each.stage != stage.id},
        )

    def _shown_issues(
        self, stage: Stage, conversation: Conversation, turn: int | None
    ) -> Mapping[int, tuple[Issue, ...]] | None:
        """Return the issues found by the project's model, without its name and score."""
        if "issues" not in stage.show:
            return None
        detected = run(issues_of(self.project).detect([conversation]), self.project.stored_models)
        maker = self._issue_finder()
        if maker and detected.signature != maker:
            raise BadInput(
                f"study {self.name!r} was sampled from issues of another model ({maker}); configure that model again, "
                "or start another study"
            )
        issues = {each.target.turn or 0: each.issues for each in detected.annotations.get(conversation.id, ())}
        return {place: found for place, found in issues.items() if turn in (None, place)}

    def progress(self, person: str) -> tuple[int, int]:
        """Return the number of items that a person has completed or skipped, and the person's total."""
        assignments = self.studies.assignments_of(self.name, person)
        rounds, per_item = range(1, max(self.studies.rounds(self.name), 1) + 1), self.settings.annotators_per_item
        total = len(assignments) + sum(self.studies.left(self.name, round, person, per_item) for round in rounds)
        completed = sum(assignment.state != "open" for assignment in assignments)
        return completed, min(total, self.settings.items_per_annotator or total)

    def questions(self, stage: Stage, conversation: Conversation, turn: int | None = None) -> tuple[Question, ...]:
        """Return the questions of a stage that apply to a conversation or its turn, in the rubric's order."""
        names = stage.questions or tuple(each.id for each in self.rubric.questions if each.suits(self.settings.level))
        questions = (self.rubric[name] for name in names)
        return tuple(each for each in questions if each.compares or each.applies_to(conversation, turn))

    def stopped_by(self, view: ItemView) -> str | None:
        """Return the screening question whose answer ends the questionnaire; later questions are not asked."""
        for question in view.questions:
            given = view.given.get(question.id)
            if given is not None and given.value in self.settings.stop_on.get(question.id, ()):
                return question.id
        return None

    def missing(self, view: ItemView) -> list[str]:
        """Return the questions that must be answered before the stage can be finished."""
        last = self.stopped_by(view)
        names = [question.id for question in view.questions]
        if last is not None:
            names = names[: names.index(last) + 1]
        return [name for name in names if name not in view.given]

    def revealed(self, assignment: Assignment) -> tuple[Prediction, ...]:
        """Return the predictions for a completed item; empty if the study does not show them."""
        if not self.settings.show_prediction or assignment.state != "done":
            return ()
        answered = {each.question for each in self.studies.answers_in(assignment)}
        predictions = self.studies.predictions(self.name, assignment.person)
        return tuple(each for each in predictions if each.item == assignment.item.key and each.question in answered)

    # --- answers ---------------------------------------------------------------------------------------

    def answer(self, person: str, answer: SubmittedAnswer) -> tuple[Annotation, bool]:
        """Save an answer; sending the same answer again changes nothing.

        Returns:
            The saved annotation, and True if it was saved before.

        Raises:
            LeaseExpired: The item was completed by others in the meantime.
            Conflict: The stage is finished, or the id was used for another answer.
            BadInput: The answer is not valid for this person's item.
        """
        [result] = self.answer_each(person, [answer])
        if isinstance(result, BadInput):
            raise result
        return result

    def answer_each(
        self, person: str, answers: Sequence[SubmittedAnswer], stops: bool = False
    ) -> list[tuple[Annotation, bool] | BadInput]:
        """Save answers in order and in one transaction; return what `answer` returns or raises for each.

        With `stops`, nothing is saved after the first rejected answer.
        """
        failed: list[BadInput | None] = []
        new: list[tuple[str, Callable[[Assignment], Annotation]]] = []
        for answer in answers:
            try:  # conversations are read before the write lock is taken
                conversation = self._conversation(answer.assignment, person)
            except BadInput as error:
                failed.append(error)
                if stops:
                    break
                continue
            failed.append(None)
            new.append((answer.assignment, partial(self._checked_annotation, person, answer, conversation)))
        kept = iter(self.studies.keep_each(new, person, self.settings.annotators_per_item, self.lease_end(), stops))
        results = [next(kept) if error is None else error for error in failed]
        for result in results:
            if not isinstance(result, BadInput) and not result[1]:
                self.on_answer(result[0])
        return results

    def _checked_annotation(
        self, person: str, answer: SubmittedAnswer, conversation: Conversation, assignment: Assignment
    ) -> Annotation:
        self._check_owner(assignment, person)
        return self._annotation(person, assignment, answer, conversation)

    def _conversation(self, id: str, person: str) -> Conversation:
        """Return the conversation of an assignment, from the cache if possible."""
        if (found := self.cached.get(id)) is None:
            name = self.assignment(id, person).item.target.conversation
            while len(self.cached) >= CACHED_CONVERSATIONS:
                self.cached.pop(next(iter(self.cached), ""), None)
            if (found := next(self.project.store.conversations([name]), None)) is None:
                raise BadInput(_MISSING)
            self.cached[id] = found
        return found

    def _annotation(
        self, person: str, assignment: Assignment, answer: SubmittedAnswer, conversation: Conversation
    ) -> Annotation:
        item, stage = assignment.item, self.settings.stages[assignment.stage]
        if answer.stage not in ("", stage.id):
            raise Conflict(f"stage {answer.stage!r} is finished and cannot be changed; the current one is {stage.id!r}")
        common: dict[str, Any] = {
            "comment": answer.comment, "answer": answer.id, "study": item.where, "stage": stage.id,
            "seconds": answer.seconds, "shown": ",".join(sorted(self._shown(stage, person))),
        }  # fmt: skip
        if answer.question.startswith(ISSUE):
            return self._mark(person, item, answer, common, conversation)
        question = self._question(stage, item, answer.question, conversation)
        value = parse_value(question, answer.value)
        if answer.comment and not self.settings.comments:
            raise BadInput("this study does not accept comments; leave the comment out")
        return Annotation(
            item.target, answer.question, person, "person", value, wording=question.wording, against=item.against,
            rubric=self.rubric.hash, **common,
        )  # fmt: skip

    def _shown(self, stage: Stage, person: str) -> set[str]:
        """Return the names of what a person saw: what the stage shows, and the parts of a restricted role."""
        parts = self.parts(person)
        beside = {"documents", "issues"}
        return set(stage.show) if parts is None else (set(stage.show) & set(parts)) | (set(parts) - beside)

    def _question(self, stage: Stage, item: Item, name: str, conversation: Conversation) -> Question:
        questions = self.questions(stage, conversation, item.target.turn)
        plain = name.removesuffix(f":{BOTH_BAD}") if item.against is not None else name
        question = next((each for each in questions if each.id == plain), None)
        if question is None:
            allowed = ", ".join(each.id for each in questions)
            raise BadInput(f"question {name[:60]!r} is not part of this stage; allowed: {allowed}")
        return question if plain == name else both_bad_question(question)

    def _mark(
        self,
        person: str,
        item: Item,
        answer: SubmittedAnswer,
        common: Mapping[str, Any],
        conversation: Conversation,
    ) -> Annotation:
        if self.taxonomy is None:
            raise BadInput("this study has no marks of issues; answer its questions")
        kind = answer.question.removeprefix(ISSUE)
        if kind not in self.taxonomy.names:
            raise UnknownName("issue", kind, self.taxonomy.names)
        turn = answer.turn if item.target.turn is None else item.target.turn
        if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < len(conversation.turns):
            raise BadInput(f"turn of a mark: got {str(turn)[:20]!r}, allowed: 0 to {len(conversation.turns) - 1}")
        if (parts := self.parts(person)) is not None:
            seen = visible_to(conversation_view(conversation, item.target.turn, False), parts)
            if turn not in {each.place for each in seen.turns}:
                raise BadInput(f"turn of a mark: {turn} is not shown to you")
        quote, span = answer.quoted(conversation.turns[turn].content)
        value = answer.value
        if value not in (1, None) or isinstance(value, bool) or (value is None and not answer.replaces):
            raise BadInput("a mark has the value 1, or null to remove the mark that it replaces")
        return Annotation(
            Target(conversation.id, turn), answer.question, person, "person", value, quote=quote, span=span,
            replaces=answer.replaces, rubric=self.taxonomy.hash, **common,
        )  # fmt: skip

    def finish(self, person: str, id: str) -> Assignment:
        """Finish a stage: continue with the next one, or complete the item.

        Raises:
            Conflict: A question is not answered.
            BadInput: The assignment is not this person's.
        """
        assignment = self.assignment(id, person)
        view = self.view(assignment)
        missing = self.missing(view)
        if missing:
            raise Conflict(f"not answered yet: {', '.join(missing)}")
        last = len(self.settings.stages) - 1
        if assignment.stage < last and self.stopped_by(view) is None:
            return self.studies.move(id, person, "open", assignment.stage + 1, self.lease_end())
        return self.studies.move(id, person, "done", assignment.stage, assignment.until)

    def skip(self, person: str, id: str, reason: str) -> Assignment:
        """Skip an item.

        Raises:
            BadInput: The reason is empty, or the assignment is not this person's.
        """
        if not reason.strip():
            raise BadInput("a skipped item needs a reason; write a few words")
        assignment = self.assignment(id, person)
        return self.studies.move(id, person, "skipped", assignment.stage, assignment.until, reason.strip()[:MAX_TEXT])

    def reopen(self, person: str, id: str) -> Assignment:
        """Reopen a skipped or completed item; answers of earlier stages cannot be changed.

        Raises:
            BadInput: The assignment is not this person's.
        """
        assignment = self.assignment(id, person)
        return self.studies.move(id, person, "open", assignment.stage, self.lease_end())
