"""The source `issues` (SODA-EVAL): what is wrong with each turn, as columns, with the issues and their quotes as notes.

Issues are found by a chat model that writes annotations (`by: chat`, the role `finder`), by the project's judge, a
probability per kind (`by: judge`), or were found before and imported (`by: recorded`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from accord.edges import BadInput, BudgetReached, read_json_file, validate
from accord.evidence import EvidenceTable, Gathered, Note, Settings, Source, SourceContext, ask_rubric, sources
from accord.formats import REPEAT
from accord.methods.issues.annotate import Asking, annotate
from accord.methods.issues.evidence import LOWEST_SCORE, SCORE, WORST, assessed, issue_table, kind_question, probable
from accord.methods.issues.issue_prompts import SHIPPED_SHOTS, IssuePromptBuilder
from accord.methods.issues.selection import judged_turns
from accord.models import (
    FINDER,
    HF,
    JUDGE,
    MADE,
    NOT_ASKED,
    OUT_OF_BUDGET,
    STORE,
    Flow,
    ModelInfo,
    ModelQuery,
    Prompt,
    Reply,
    Request,
    StoreRead,
    StoreWrite,
    in_process,
    judging_signature,
    to_role,
    together,
)
from accord.store import IssueAnnotations, Store
from accord.values import (
    ISSUE,
    Conversation,
    IssueAnnotation,
    Label,
    Labels,
    Question,
    Sample,
    Target,
    Taxonomy,
    Unannotated,
    load_taxonomy,
)

DIALOGUES_AT_ONCE = 100
"""Dialogues whose annotations are kept together: what an interruption may lose of the reading, not of the replies."""
PART = "assessed in part"


class IssueSettings(Settings):
    """Who finds issues in turns, and by which taxonomy."""

    by: Literal["chat", "judge", "recorded"] = Field(
        default="chat",
        description="A chat model that writes annotations (models: finder), the project's judge (a probability per "
        "kind), or annotations that were imported.",
    )
    model: str | None = Field(default=None, description="Of recorded: whose annotations.")
    taxonomy: str = Field(default="soda-eval", description="A shipped taxonomy's name, or a YAML file.")
    labels: str | None = Field(
        default=None,
        description="The taxonomy of people's labels, where it is another one that names its counterparts.",
    )
    together: bool = Field(
        default=True, description="Of chat: ask about a whole dialogue in one request where it fits."
    )
    examples: bool = Field(
        default=True, description="Of chat: show two examples, where their kinds are in the taxonomy."
    )
    everyone: bool = Field(default=False, description="Assess the turns of all speakers, not the assistant's alone.")
    columns: Literal["findings", "all"] = Field(
        default="findings",
        description="`findings`: amounts and severity per kind, and overall scores; `all`: also sums over kinds, and "
        "what earlier turns had.",
    )


@dataclass
class IssueCounts:
    """What looking for issues came to."""

    dialogues: int = 0
    turns: int = 0
    known: int = 0
    assessed: int = 0
    issues: int = 0
    made_up_quotes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    unassessed: Counter[str] = field(default_factory=Counter)

    def found(self, each: IssueAnnotation | Unannotated) -> None:
        """Count what came of one turn."""
        if isinstance(each, Unannotated):
            self.unassessed[_why(each)] += 1
            return
        self.assessed += 1
        self.issues += len(each.issues)
        self.made_up_quotes += sum(issue.is_made_up for issue in each.issues)
        self.losses.update(each.losses)

    def plus(self, other: IssueCounts) -> None:
        """Count what another count has."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def lines(self) -> list[str]:
        """What a run came to."""
        told = [
            f"{self.dialogues} dialogues with {self.turns} turns to annotate, {self.known} of them annotated before: "
            f"{self.assessed} annotated now, {self.issues} issues found"
        ]
        if self.made_up_quotes:
            told.append(f"  {self.made_up_quotes} issues quote words that their turn does not have, and say so")
        told += [f"  {count} turns passed over: {reason}" for reason, count in self.skipped.items()]
        return told + [f"  {count} parts of replies dropped: {reason}" for reason, count in self.losses.items()]

    def notices(self) -> list[str]:
        """Dialogues that were not looked into."""
        return [f"{count} dialogues: {reason}" for reason, count in self.odd.items()]

    def to_json(self) -> dict[str, Any]:
        """The counts."""
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Detected:
    """What was found in some conversations.

    Attributes:
        signature: How the annotations are made.
        annotations: By conversation, in the order of turns.
        reasons: Why a turn has none.
        counts: What it came to.
    """

    signature: str
    annotations: Mapping[str, Sequence[IssueAnnotation]]
    reasons: Mapping[Target, str]
    counts: IssueCounts


@sources.register("issues")
class Issues(Source):
    """What is wrong with each turn: amounts and severity per kind of issue, overall scores, the issues as notes."""

    settings_type = IssueSettings
    settings: IssueSettings

    def __init__(self, settings: Settings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.taxonomy: Taxonomy = load_taxonomy(self.settings.taxonomy, context.folder)
        if self.settings.by == "recorded" and not self.settings.model:
            raise BadInput("issues that were recorded are somebody's: sources: {issues: {by: recorded, model: NAME}}")

    @property
    def roles(self) -> tuple[str, ...]:
        """The finder, or the judge."""
        return {"chat": (FINDER,), "judge": (JUDGE,)}.get(self.settings.by, ())

    def own_questions(self) -> Mapping[str, tuple[Question, str, Mapping[str, Any]]]:
        """Each kind of issue as a binary question, learned from all columns."""
        settings = {**self.settings.model_dump(exclude_unset=True), "columns": "all"}
        return {name: (kind_question(name), "issue-labels", settings) for name in self.taxonomy.names}

    def read_labels(self, labels: Labels) -> Labels:
        """Labels of another taxonomy's kinds as labels of this one's; `issue:KIND` as `KIND`."""
        named = {ISSUE + name: name for name in self.taxonomy.names}
        plain = Labels(
            (replace(each, question=named.get(each.question, each.question)) for each in labels), labels.groups
        )
        other = self.settings.labels
        return plain if other is None else translated(plain, load_taxonomy(other, self.context.folder), self.taxonomy)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """What was found in each sample; turns that nobody has assessed yet are assessed."""
        if self.settings.by == "judge":
            return self._chosen((yield from self._judged(samples)))
        found = yield from self.detect(_conversations(samples))
        annotations = [each for mine in found.annotations.values() for each in mine]
        table = issue_table(samples, assessed(annotations), self.taxonomy, found.signature, found.reasons)
        return self._chosen(replace(table, notes=self._notes(samples, found.annotations)))

    def gather(self, samples: Sequence[Sample]) -> Flow[Gathered]:
        """Have the turns of the samples' dialogues assessed, where a finder writes annotations."""
        if self.settings.by == "judge":  # what it came to are answers, one per turn and kind
            answers = yield from self._answers(samples)
            known = {target.conversation for target in probable(answers, self.taxonomy)}
            return replace(Gathered.of(answers), known=sum(sample.conversation.id in known for sample in samples))
        found = yield from self.detect(_conversations(samples))
        return Gathered(len(found.annotations), 0, Counter(found.counts.unassessed), found.counts)

    def detect(self, conversations: Sequence[Conversation]) -> Flow[Detected]:
        """The annotations of some conversations; a finder is asked about turns that have none.

        Raises:
            BudgetReached: The budget is spent; what was found is kept.
        """
        counts = IssueCounts()
        asking, name = None, ""
        if self.settings.by == "chat":
            [who] = yield [Request(FINDER, ModelQuery())]
            asking, name = asking_of(self.settings, self.taxonomy, who, self.context.folder), who.name
        signature = (yield from self._recorded()) if asking is None else asking.signature(name)
        kept: dict[str, list[IssueAnnotation]] = {}
        reasons: dict[Target, str] = {}
        for start in range(0, len(conversations), DIALOGUES_AT_ONCE):
            part = conversations[start : start + DIALOGUES_AT_ONCE]
            [known] = yield [Request(STORE, StoreRead(partial(_stored, part, signature)))]
            for each in known:
                kept.setdefault(each.target.conversation, []).append(each)
            missing = [(c, turns) for c in part if (turns := self._missing(c, kept.get(c.id, ()), counts))]
            if asking is None or not missing:
                continue
            flows = [
                to_role(FINDER, annotate(c, turns, asking, name), "dialogues assessed", stand_in=_stand_in, most=_worst)
                for c, turns in missing
            ]
            found = [each for mine in (yield from together(flows)) for each in mine]
            new = [each for each in found if isinstance(each, IssueAnnotation)]
            yield [Request(STORE, StoreWrite(partial(_keep, new)))]
            for each in found:
                counts.found(each)
                if isinstance(each, IssueAnnotation):
                    kept.setdefault(each.target.conversation, []).append(each)
                elif each.reason != NOT_ASKED:
                    reasons[each.target] = f"not assessed: {_why(each)}"
            over = next((e for e in found if isinstance(e, Unannotated) and e.reason == OUT_OF_BUDGET), None)
            if over is not None:
                raise BudgetReached(over.detail)
        ordered = {name: sorted(mine, key=lambda each: each.target.turn or 0) for name, mine in kept.items()}
        return Detected(signature, ordered, reasons, counts)

    def _missing(self, conversation: Conversation, known: Iterable[IssueAnnotation], counts: IssueCounts) -> list[int]:
        """The turns that are to be assessed and were not, counted on the way."""
        selection, there = judged_turns(conversation, self.settings.everyone), {each.target.turn for each in known}
        missing = [turn for turn in selection.turns if turn not in there]
        counts.dialogues += 1
        counts.turns += len(selection.turns)
        counts.known += len(selection.turns) - len(missing)
        counts.skipped += selection.skipped
        counts.odd += selection.odd
        return missing

    def _recorded(self) -> Flow[str]:
        """The signature of the annotations that were imported.

        Raises:
            BadInput: Nothing was imported from that model, or several kinds of it were.
        """
        [makers] = yield [Request(STORE, StoreRead(lambda store: IssueAnnotations(store).makers()))]
        named = [name for name in makers if f"|model:{self.settings.model}|" in name and REPEAT not in name]
        if len(named) != 1:
            known = ", ".join(makers) or "none"
            raise BadInput(
                f"{len(named)} sets of annotations by {self.settings.model!r} are in the store; there are: {known}"
            )
        return str(named[0])

    def _judged(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """A probability of each kind, by the project's judge."""
        [who] = yield [Request(JUDGE, ModelQuery())]
        answers = yield from self._answers(samples)
        signature = str(judging_signature(who, self.taxonomy.rubric).with_part("taxonomy", self.taxonomy.hash))
        return issue_table(samples, probable(answers, self.taxonomy), self.taxonomy, signature, scored=False)

    def _answers(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """The judge's answers to the taxonomy, a row per turn."""
        turns = turns_of(samples, self.settings.everyone)
        return (yield from ask_rubric(self.taxonomy.rubric, turns, purpose="turns judged"))

    def _chosen(self, table: EvidenceTable) -> EvidenceTable:
        """The columns that the settings ask for; those of one kind say so, so that it is told what the kind added."""
        kinds = {ISSUE + name: name for name in self.taxonomy.names}
        parts = {**kinds, **{f"{column}{WORST}": name for column, name in kinds.items()}}
        places = [
            place
            for place, column in enumerate(table.columns)
            if self.settings.columns == "all" or column.name in parts or column.name in {SCORE, LOWEST_SCORE}
        ]
        columns = tuple(replace(table.columns[place], part_of=parts.get(table.columns[place].name)) for place in places)
        return replace(table, columns=columns, values=table.values[:, places], present=table.present[:, places])

    def _notes(self, samples: Sequence[Sample], found: Mapping[str, Sequence[IssueAnnotation]]) -> dict[Target, Note]:
        """The issues behind each sample, and a warning where turns of it have no annotation."""
        notes = {}
        for sample in samples:
            mine = [e for e in found.get(sample.conversation.id, ()) if sample.turn in {None, e.target.turn}]
            wanted = set(judged_turns(sample.conversation, self.settings.everyone).turns)
            lost = wanted - {each.target.turn for each in mine} if sample.turn is None else set()
            caution = f"{PART}: {len(lost)} of {len(wanted)} turns have no annotation" if mine and lost else None
            shown = {"issues": issue_rows(mine)} if any(each.issues for each in mine) else {}
            if shown or caution:
                notes[sample.target] = Note(shown, caution)
        return notes


def issues_source(settings: Mapping[str, Any], context: SourceContext) -> Issues:
    """The source of issues, for what asks it for more than evidence.

    Raises:
        BadInput: A setting does not exist, or has a value that cannot be.
    """
    made = Issues(validate(IssueSettings, dict(settings), "sources: issues"), context)
    made.name = "issues"
    return made


def translated(labels: Labels, source: Taxonomy, to_: Taxonomy) -> Labels:
    """The labels, with those of one taxonomy's kinds as labels of another's (SODA-EVAL, appendix A).

    Where several kinds correspond to one, a person labels it who labels any of them.

    Raises:
        UnknownName: The one taxonomy does not say what corresponds to the other's kinds.
    """
    names = {name: other for kind, other in source.counterparts(to_.name).items() for name in (kind, ISSUE + kind)}
    kept: list[Label] = []
    found: dict[tuple[Target, str, str], Label] = {}
    for label in labels:
        if label.question not in names:
            kept.append(label)
        elif label.value is not None:
            key = (label.target, label.annotator, names[label.question])
            if key not in found or label.value == 1:
                found[key] = replace(label, question=names[label.question], wording=None)
    return Labels([*kept, *found.values()], labels.groups)


def asking_of(settings: IssueSettings, taxonomy: Taxonomy, who: ModelInfo, folder: Path = Path()) -> Asking:
    """Return how a chat model is asked; a model that Accord fine-tuned is asked as in its training.

    A model `hf:FOLDER` is looked up relative to `folder`.

    Raises:
        BadInput: A fine-tuned model learned another taxonomy.
    """
    here = in_process(who.name)
    tuned = tuned_with(folder / who.name.removeprefix(HF)) if who.name.startswith(HF) else None
    if tuned is not None:
        builder = IssuePromptBuilder(taxonomy, by_schema=False, style=tuned["style"])
        if builder.hash != tuned["hash"]:
            raise BadInput(
                f"{who.name} learned the taxonomy {tuned['taxonomy']['name']!r} as it was then; the project's "
                f"{taxonomy.name!r} says otherwise. Name the same one, or fine-tune the model again"
            )
        return Asking(builder, together=False, context=who.context)
    shown = {entry["type"] for shot in SHIPPED_SHOTS for entry in shot.verdict["issues"]}
    shots = SHIPPED_SHOTS if settings.examples and shown <= set(taxonomy.names) else ()
    return Asking(IssuePromptBuilder(taxonomy, not here, shots), settings.together and not here, who.context)


def tuned_with(folder: str | Path) -> dict[str, Any] | None:
    """How a model that Accord fine-tuned was asked while it learned; `None` for any other folder."""
    made = Path(folder) / MADE
    return read_json_file(made)["guidance"] if made.is_file() else None


def issue_rows(found: Iterable[IssueAnnotation]) -> list[dict[str, Any]]:
    """Issues as JSON rows, turn by turn."""
    return [
        {"turn": each.target.turn, "score": each.score, **issue.to_json()} for each in found for issue in each.issues
    ]


def turns_of(samples: Iterable[Sample], everyone: bool = False) -> list[Sample]:
    """The turns that a judge is asked about: those of the samples' conversations, up to the last that is a sample."""
    upto: dict[str, tuple[Conversation, int]] = {}
    for sample in samples:
        last = len(sample.conversation.turns) - 1 if sample.turn is None else sample.turn
        before = upto.get(sample.conversation.id)
        upto[sample.conversation.id] = (sample.conversation, max(last, before[1] if before else -1))
    return [
        Sample(conversation, turn)
        for conversation, last in upto.values()
        for turn in judged_turns(conversation, everyone).turns
        if turn <= last
    ]


def _stored(conversations: Sequence[Conversation], signature: str, store: Store) -> list[IssueAnnotation]:
    return list(IssueAnnotations(store).of(conversations, signature))


def _keep(annotations: Sequence[IssueAnnotation], store: Store) -> None:
    IssueAnnotations(store).add(annotations)


def _conversations(samples: Iterable[Sample]) -> list[Conversation]:
    return list({sample.conversation.id: sample.conversation for sample in samples}.values())


def _why(each: Unannotated) -> str:
    return each.detail if each.reason == "no verdict" else each.reason


def _worst(prompt: Prompt) -> Reply:
    """Return the reply with the most follow-up requests.

    For a dialogue it is unreadable, so that each turn is asked about alone. For a turn it has a loss, so that it is
    asked for again, and an issue of an unknown kind, whose kind is asked for. For a list of kinds it is no list.
    """
    issue = {"type": "an unknown kind", "comment": "", "quote": ""}
    return Reply(json.dumps({"issues": [issue, None], "comment": "", "score": 3}))


def _stand_in(prompt: Prompt) -> Reply:
    """A verdict of the expected form and length, for every turn that is asked about."""
    verdict = {"issues": [], "comment": "It answers what was asked.", "score": 4}
    turns = (prompt.schema or {}).get("properties", {}).get("turns")
    if turns is None:
        return Reply(json.dumps(verdict))
    places = turns["items"]["properties"]["turn"]["enum"]
    return Reply(json.dumps({"turns": [{"turn": place, **verdict} for place in places]}))
