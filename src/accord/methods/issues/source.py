"""Source `issues` (SODA-EVAL): issues of each turn as columns, with quotes in the notes.

Issues come from a chat model that writes annotations (`by: chat`, role `finder`), from the project's judge as a
probability per kind (`by: judge`), or from imported annotations (`by: recorded`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Literal

from pydantic import Field

from accord.edges import BadInput, BudgetReached, read_json_file
from accord.evidence import (
    EvidenceTable,
    GatheredEvidence,
    Note,
    Source,
    SourceContext,
    SourceSettings,
    ask_rubric,
    sources,
)
from accord.formats import REPEAT
from accord.methods.issues.annotate import annotate, judged_turns
from accord.methods.issues.evidence import LOWEST_SCORE, SCORE, WORST, assessed, issue_table, kind_question, probable
from accord.methods.issues.issue_prompts import NO_VERDICT, SHIPPED_SHOTS, IssuePromptBuilder
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
    content_hash,
    load_taxonomy,
)

DIALOGUES_AT_ONCE = 100
"""Dialogues whose annotations are stored together; an interruption loses at most their parsed form, but no replies."""
PART = "assessed in part"


class IssueSettings(SourceSettings):
    """Settings of the source `issues`."""

    by: Literal["chat", "judge", "recorded"] = Field(
        default="chat",
        description="Origin of the issues: chat (models: finder annotates), judge (a probability per kind), or "
        "recorded (imported annotations).",
    )
    model: str | None = Field(default=None, description="recorded: model whose annotations are used.")
    taxonomy: str = Field(default="soda-eval", description="Name of a shipped taxonomy, or a YAML file.")
    labels: str | None = Field(
        default=None,
        description="Taxonomy of the annotators' labels, if different; it must name the corresponding kinds.",
    )
    whole_dialogue: bool = Field(
        default=False,
        description="chat: annotate all turns of a dialogue in one request if it fits. The model then also reads the "
        "turns after the reply; by default it reads only those before it.",
    )
    examples: bool = Field(default=True, description="chat: show two examples, if the taxonomy has their kinds.")
    all_speakers: bool = Field(
        default=False, description="Annotate the turns of all speakers, not only the assistant's."
    )
    columns: Literal["findings", "all"] = Field(
        default="findings",
        description="`findings`: amounts and severity per kind, and overall scores; `all`: also sums over kinds, and "
        "amounts in earlier turns.",
    )


@dataclass
class IssueCounts:
    """Counts of an annotation run."""

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

    def found(self, result: IssueAnnotation | Unannotated) -> None:
        """Count the result of one turn."""
        if isinstance(result, Unannotated):
            self.unassessed[_why(result)] += 1
            return
        self.assessed += 1
        self.issues += len(result.issues)
        self.made_up_quotes += sum(issue.is_made_up for issue in result.issues)
        self.losses.update(result.losses)

    def plus(self, other: IssueCounts) -> None:
        """Add another count."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def lines(self) -> list[str]:
        """Return the counts as lines for the terminal."""
        lines = [
            f"{self.dialogues} dialogues, {self.turns} turns to annotate, {self.known} of these annotated earlier: "
            f"{self.assessed} annotated now, {self.issues} issues found"
        ]
        if self.made_up_quotes:
            lines.append(f"  {self.made_up_quotes} issues quote words that do not occur in their turn (marked)")
        lines += [f"  {count} turns skipped: {reason}" for reason, count in self.skipped.items()]
        return lines + [f"  {count} parts of replies dropped: {reason}" for reason, count in self.losses.items()]

    def notices(self) -> list[str]:
        """Return notices about dialogues to review."""
        return [f"{count} dialogues: {reason}" for reason, count in self.odd.items()]

    def to_json(self) -> dict[str, Any]:
        """Return the counts."""
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}


@dataclass
class DetectedIssues:
    """Annotations by conversation, in the order of turns; reasons for turns without annotation; counts of the run."""

    signature: str
    annotations: dict[str, list[IssueAnnotation]] = field(default_factory=dict)
    reasons: dict[Target, str] = field(default_factory=dict)
    counts: IssueCounts = field(default_factory=IssueCounts)

    def add(self, annotations: Iterable[IssueAnnotation]) -> None:
        """Add annotations."""
        for annotation in annotations:
            self.annotations.setdefault(annotation.target.conversation, []).append(annotation)

    def add_results(self, results: Sequence[IssueAnnotation | Unannotated]) -> None:
        """Add the results of new requests, and count them."""
        self.add(result for result in results if isinstance(result, IssueAnnotation))
        for result in results:
            self.counts.found(result)
            if isinstance(result, Unannotated) and result.reason != NOT_ASKED:
                self.reasons[result.target] = f"not assessed: {_why(result)}"

    def sort(self) -> None:
        """Put the annotations of each conversation into the order of its turns."""
        for found in self.annotations.values():
            found.sort(key=lambda annotation: annotation.target.turn or 0)


@sources.register("issues")
class Issues(Source):
    """Issues of each turn: amounts and severity per kind, overall scores, and the issues as notes."""

    settings_type = IssueSettings
    settings: IssueSettings

    def __init__(self, settings: SourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.taxonomy: Taxonomy = load_taxonomy(self.settings.taxonomy, context.folder)
        if self.settings.by == "recorded" and not self.settings.model:
            raise BadInput("recorded issues need a model. Set sources: {issues: {by: recorded, model: NAME}}")

    @property
    def roles(self) -> tuple[str, ...]:
        """The finder, or the judge."""
        return {"chat": (FINDER,), "judge": (JUDGE,)}.get(self.settings.by, ())

    def own_questions(self) -> Mapping[str, tuple[Question, str, Mapping[str, Any]]]:
        """Return each kind of issue as a binary question, learned from all columns."""
        settings = {**self.settings.model_dump(exclude_unset=True), "columns": "all"}
        return {name: (kind_question(name), "issue-labels", settings) for name in self.taxonomy.names}

    def read_labels(self, labels: Labels) -> Labels:
        """Return labels with this taxonomy's kinds, and `issue:KIND` as `KIND`."""
        named = {ISSUE + name: name for name in self.taxonomy.names}
        by_kind = (replace(label, question=named.get(label.question, label.question)) for label in labels)
        own, other = Labels(by_kind, labels.groups), self.settings.labels
        return own if other is None else translated(own, load_taxonomy(other, self.context.folder), self.taxonomy)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return the issues of each sample; turns without annotation are annotated."""
        if self.settings.by == "judge":
            return self._chosen((yield from self._judged(samples)))
        detected = yield from self.detect(_conversations(samples))
        annotations = chain.from_iterable(detected.annotations.values())
        table = issue_table(samples, assessed(annotations), self.taxonomy, detected.signature, detected.reasons)
        return self._chosen(replace(table, notes=self._notes(samples, detected.annotations)))

    def gather(self, samples: Sequence[Sample]) -> Flow[GatheredEvidence]:
        """Annotate the turns of the samples' dialogues, if a finder writes annotations."""
        if self.settings.by == "judge":  # counts answers, one per turn and kind
            answers = yield from self._answers(samples)
            known = {target.conversation for target in probable(answers, self.taxonomy)}
            return replace(
                GatheredEvidence.of(answers), known=sum(sample.conversation.id in known for sample in samples)
            )
        detected = yield from self.detect(_conversations(samples))
        return GatheredEvidence(len(detected.annotations), 0, Counter(detected.counts.unassessed), detected.counts)

    def detect(self, conversations: Sequence[Conversation]) -> Flow[DetectedIssues]:
        """Return the annotations of some conversations; a finder is asked about turns without one."""
        guidance, name = None, ""
        if self.settings.by == "chat":
            [finder] = yield [Request(FINDER, ModelQuery())]
            guidance, name = self._guidance(finder), finder.name
        detected = DetectedIssues((yield from self._recorded()) if guidance is None else guidance.signature(name))
        for start in range(0, len(conversations), DIALOGUES_AT_ONCE):
            part = conversations[start : start + DIALOGUES_AT_ONCE]
            [known] = yield [Request(STORE, StoreRead(partial(_stored, part, detected.signature)))]
            detected.add(known)
            missing = [(conversation, self._missing(conversation, detected)) for conversation in part]
            if guidance is not None:
                detected.add_results((yield from _annotated(missing, guidance, name)))
        detected.sort()
        return detected

    def _missing(self, conversation: Conversation, detected: DetectedIssues) -> list[int]:
        """Return the turns to annotate that have no annotation, and count them."""
        selection, counts = judged_turns(conversation, self.settings.all_speakers), detected.counts
        known_turns = {annotation.target.turn for annotation in detected.annotations.get(conversation.id, ())}
        missing = [turn for turn in selection.turns if turn not in known_turns]
        counts.dialogues += 1
        counts.turns += len(selection.turns)
        counts.known += len(selection.turns) - len(missing)
        counts.skipped += selection.skipped
        counts.odd += selection.odd
        return missing

    def _guidance(self, finder: ModelInfo) -> IssuePromptBuilder:
        """Return the prompts for a chat model, or the training prompts of a model fine-tuned by Accord."""
        made = self.context.folder / finder.name.removeprefix(HF) / MADE
        if finder.name.startswith(HF) and made.is_file():
            training = read_json_file(made)["guidance"]
            builder = IssuePromptBuilder(self.taxonomy, False, (), training["style"], False, finder.context)
            if builder.hash != training["hash"]:
                raise BadInput(
                    f"{finder.name} learned another version of the taxonomy {training['taxonomy']['name']!r} than the "
                    f"project's {self.taxonomy.name!r}. Use the same one, or fine-tune the model again"
                )
            return builder
        is_remote, settings = not in_process(finder.name), self.settings
        example_kinds = {entry["type"] for shot in SHIPPED_SHOTS for entry in shot.verdict["issues"]}
        shots = SHIPPED_SHOTS if settings.examples and example_kinds <= set(self.taxonomy.names) else ()
        together = settings.whole_dialogue and is_remote
        return IssuePromptBuilder(self.taxonomy, is_remote, shots, together=together, context=finder.context)

    def _recorded(self) -> Flow[str]:
        """Return the signature of the imported annotations; `BadInput` unless the model has exactly one set."""
        [makers] = yield [Request(STORE, StoreRead(lambda store: IssueAnnotations(store).makers()))]
        named = [name for name in makers if f"|model:{self.settings.model}|" in name and REPEAT not in name]
        if len(named) != 1:
            known = ", ".join(makers) or "none"
            raise BadInput(
                f"{len(named)} sets of annotations by {self.settings.model!r} in the store, one is needed. "
                f"Available: {known}"
            )
        return str(named[0])

    def _judged(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return a probability of each kind, from the project's judge."""
        [judge] = yield [Request(JUDGE, ModelQuery())]
        answers = yield from self._answers(samples)
        signature = str(judging_signature(judge, self.taxonomy.rubric).with_part("taxonomy", self.taxonomy.hash))
        return issue_table(samples, probable(answers, self.taxonomy), self.taxonomy, signature, scored=False)

    def _answers(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return the judge's answers to the taxonomy, one row per turn."""
        turns = turns_of(samples, self.settings.all_speakers)
        return (yield from ask_rubric(self.taxonomy.rubric, turns, purpose="turns judged"))

    def _chosen(self, table: EvidenceTable) -> EvidenceTable:
        """Return the columns of the settings; columns of one kind are parts of that kind for attributions."""
        kinds = {ISSUE + name: name for name in self.taxonomy.names}
        parts = {**kinds, **{f"{column}{WORST}": name for column, name in kinds.items()}}
        chosen = table.select([
            place
            for place, column in enumerate(table.columns)
            if self.settings.columns == "all" or column.name in parts or column.name in {SCORE, LOWEST_SCORE}
        ])  # fmt: skip
        return replace(chosen, columns=tuple(replace(c, part_of=parts.get(c.name)) for c in chosen.columns))

    def _notes(self, samples: Sequence[Sample], found: Mapping[str, Sequence[IssueAnnotation]]) -> dict[Target, Note]:
        """Return the issues of each sample, and a warning if some of its turns have no annotation."""
        notes = {}
        for sample in samples:
            own = [each for each in found.get(sample.conversation.id, ()) if sample.turn in {None, each.target.turn}]
            turns = set(judged_turns(sample.conversation, self.settings.all_speakers).turns)
            missing = turns - {each.target.turn for each in own} if own and sample.turn is None else set()
            warning = f"{PART}: {len(missing)} of {len(turns)} turns have no annotation" if missing else None
            rows = [
                {"turn": each.target.turn, "score": each.score, **issue.to_json()}
                for each in own
                for issue in each.issues
            ]
            if rows or warning:
                notes[sample.target] = Note({"issues": rows} if rows else {}, warning)
        return notes


def translated(labels: Labels, source: Taxonomy, to_: Taxonomy) -> Labels:
    """Return the labels with kinds of one taxonomy as kinds of another (SODA-EVAL, appendix A).

    If several kinds correspond to one, a label of any kind counts. `UnknownName` without counterparts in the other one.
    """
    names = {name: other for kind, other in source.counterparts(to_.name).items() for name in (kind, ISSUE + kind)}
    unchanged: list[Label] = []
    translated_labels: dict[tuple[Target, str, str], Label] = {}
    for label in labels:
        if label.question not in names:
            unchanged.append(label)
        elif label.value is not None:
            key = (label.target, label.annotator, names[label.question])
            if key not in translated_labels or label.value == 1:
                translated_labels[key] = replace(label, question=names[label.question], wording=None)
    return Labels([*unchanged, *translated_labels.values()], labels.groups)


def turns_of(samples: Iterable[Sample], all_speakers: bool = False) -> list[Sample]:
    """Return the turns to ask a judge about: turns of the samples' conversations, up to the last sampled turn."""
    last_turns: dict[str, tuple[Conversation, int]] = {}
    for sample in samples:
        last = len(sample.conversation.turns) - 1 if sample.turn is None else sample.turn
        previous = last_turns.get(sample.conversation.id)
        last_turns[sample.conversation.id] = (sample.conversation, max(last, previous[1] if previous else -1))
    return [
        Sample(conversation, turn)
        for conversation, last in last_turns.values()
        for turn in judged_turns(conversation, all_speakers).turns
        if turn <= last
    ]


def _annotated(
    missing: Sequence[tuple[Conversation, Sequence[int]]], guidance: IssuePromptBuilder, name: str
) -> Flow[list[IssueAnnotation | Unannotated]]:
    """Have the finder annotate some turns of each conversation, and store them; `BudgetReached` without budget."""
    flows = [annotate(conversation, turns, guidance, name) for conversation, turns in missing if turns]
    if not flows:
        return []
    asked = [to_role(FINDER, flow, "dialogues assessed", stand_in=_stand_in, most=_worst) for flow in flows]
    results = list(chain.from_iterable((yield from together(asked))))
    new = [result for result in results if isinstance(result, IssueAnnotation)]
    yield [Request(STORE, StoreWrite(partial(_keep, new)))]
    for result in results:
        if isinstance(result, Unannotated) and result.reason == OUT_OF_BUDGET:
            raise BudgetReached(result.detail)
    return results


def _stored(conversations: Sequence[Conversation], signature: str, store: Store) -> list[IssueAnnotation]:
    return list(IssueAnnotations(store).of(conversations, signature))


def _keep(annotations: Sequence[IssueAnnotation], store: Store) -> None:
    IssueAnnotations(store).add(annotations)


def _conversations(samples: Iterable[Sample]) -> list[Conversation]:
    return list({sample.conversation.id: sample.conversation for sample in samples}.values())


def _why(result: Unannotated) -> str:
    return result.detail if result.reason == NO_VERDICT else result.reason


def _worst(prompt: Prompt) -> Reply:
    """Return the reply with the most follow-up requests; replies to different prompts lead to different ones.

    One about a dialogue is unreadable. One about a turn has a loss, which repeats the request, and an unknown kind.
    """
    asked = content_hash([message.content for message in prompt.messages], length=16)
    issue = {"type": "an unknown kind", "comment": asked, "quote": ""}
    return Reply(json.dumps({"issues": [issue, None], "comment": "", "score": 3}))


def _stand_in(prompt: Prompt) -> Reply:
    """Return a verdict of the expected form and length for each turn in the prompt."""
    verdict = {"issues": [], "comment": "It answers what was asked.", "score": 4}
    turns = (prompt.schema or {}).get("properties", {}).get("turns")
    if turns is None:
        return Reply(json.dumps(verdict))
    places = turns["items"]["properties"]["turn"]["enum"]
    return Reply(json.dumps({"turns": [{"turn": place, **verdict} for place in places]}))
