"""The evaluator: sources of evidence and one head that learns from them how people answer a question. Never subclassed.

Saved, it is complete: `load_evaluator(folder)` scores new conversations without the project, asking the models that
its sources name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from accord.evidence import (
    Arrays,
    EvidenceTable,
    Source,
    SourceContext,
    State,
    Training,
    in_pairs,
    joined,
    make_source,
    measure_all,
)
from accord.learning.folder import (
    DAMAGED,
    FOLDER_FORMAT,
    Card,
    Level,
    SourceCard,
    read_arrays,
    saved_as,
    under,
    write_folder,
)
from accord.learning.head import Head, make_head
from accord.learning.held_out import Choice
from accord.models import Flow, ModelSettings
from accord.values import (
    CARD_BYTES,
    BadInput,
    Labels,
    NotFitted,
    Question,
    Rubric,
    Sample,
    Score,
    Signature,
    Target,
    Unscored,
    content_hash,
    read_text,
)
from accord.version import __version__

_NESTED = 2
"""How deep evaluators of other questions stand inside each other: theirs have none."""


@dataclass(frozen=True)
class Evaluator:
    """Sources and a head, before or after learning.

    Attributes:
        question: What is predicted.
        sources: What is known of a sample; after learning only what the head learned from.
        head: Learns from evidence how people answer.
        name: What the project calls it.
        head_name: Under which the head is registered.
        level: What it learned from, and scores: single turns or whole conversations; `None` before it learned.
        models: Whom its sources ask, by role.
        also: Evaluators of other questions (of kinds of issues), whose answers go into the notes of a score.
        choose: Settings of the head that are chosen inside the training side: values by name, the simplest first.
        seed: Of the folds of that choice.
    """

    question: Question
    sources: tuple[Source, ...]
    head: Head
    name: str = ""
    head_name: str = "auto"
    level: Level | None = None
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    also: tuple[Evaluator, ...] = ()
    choose: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seed: int = 0

    @property
    def is_fitted(self) -> bool:
        """Whether it has learned."""
        return self.head.is_fitted

    @property
    def annotators(self) -> list[str]:
        """The people whom it has learned to imitate."""
        return self.head.annotators

    @property
    def roles(self) -> tuple[str, ...]:
        """Whom scoring may ask."""
        every = (self, *self.also)
        return tuple(dict.fromkeys(role for each in every for source in each.sources for role in source.roles))

    @property
    def is_live(self) -> bool:
        """Whether it can score a reply as it is said: every source can."""
        return bool(self.sources) and all(source.is_live for source in self.sources)

    def signature(self) -> Signature:
        """How its scores are made."""
        return self.head.signature().with_part("sources", "+".join(source.name for source in self.sources))

    # --- learning -----------------------------------------------------------------------------------------------

    def fit(self, train: Training, known: EvidenceTable | None = None) -> Flow[Evaluator]:
        """Learn the sources, then the head on evidence of samples that its source had not seen.

        `known` is the evidence of the sources that do not learn, where it is there already.

        Raises:
            BadInput: There is too little to learn from, or both turns and conversations are rated.
        """
        table = known or EvidenceTable.from_rows([], {target: {} for target in train.targets})
        learned = []
        for source in self.sources:
            if known is not None and not learns(source):
                learned.append(source)
                continue
            found = yield from source.learn(train)
            found.source.name = source.name
            learned.append(found.source)
            table = joined(table, found.evidence, source.name)
        return self.fitted_on(table, train.labels, learned)

    def fitted_on(self, evidence: EvidenceTable, labels: Labels, learned: Sequence[Source] | None = None) -> Evaluator:
        """The evaluator after its head has learned from evidence that is there already.

        Sources of which nothing was learned from, since nobody answered, are let go of: scoring does not pay for them.

        Raises:
            BadInput: As `fit`, or nothing is known of any sample.
        """
        shown = evidence if not self.head.needs_labels else _known(evidence)
        if evidence.columns and not shown.columns:
            why = Counter(evidence.absences.values()).most_common(1)
            said = "".join(f": {reason}" for reason, _ in why)
            raise BadInput(
                f"none of the {len(evidence)} samples to learn from has evidence{said}; accord judge asks for it"
            )
        if self.question.compares and all(column.centre is None for column in shown.columns):
            shown, labels = in_pairs(shown, labels, self.question)
        return self.with_head(self._chosen(shown, labels), shown, labels, learned or ())

    def with_head(
        self, head: Head, evidence: EvidenceTable, labels: Labels, learned: Sequence[Source] = ()
    ) -> Evaluator:
        """The evaluator with a head that has learned from this evidence; sources that it learned nothing from go."""
        columns = _columns(head, evidence if not self.head.needs_labels else _known(evidence))
        own = ((source, tuple(c for c in columns if c.source == source.name)) for source in learned or self.sources)
        kept = [part for source, mine in own if (part := source.keep_only(mine))]
        return replace(self, head=head, sources=tuple(kept), level=level_of(labels.on(self.question.id).targets))

    def _chosen(self, evidence: EvidenceTable, labels: Labels) -> Head:
        """The head after learning, with the settings that predict inner folds best where some are to be chosen."""
        given = self.head.settings()
        tried = [{**given, **dict(zip(self.choose, one, strict=True))} for one in product(*self.choose.values())]
        made = [partial(make_head, self.head_name, settings=settings) for settings in tried]
        if len(made) == 1:
            return made[0](self.question).fit(evidence, labels)
        return Choice(self.question, made, self.seed).fit(evidence, labels)

    # --- predicting ---------------------------------------------------------------------------------------------

    def evidence(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """What its sources know of some samples."""
        return measure_all(self.sources, samples)

    def predict(
        self, samples: Sequence[Sample], annotators: str | None | Sequence[str | None] = None
    ) -> Flow[list[Score | Unscored]]:
        """One score per sample, for one annotator, for one each, or for a person nobody has met.

        Raises:
            NotFitted: Nothing was learned yet.
            UnknownName: An annotator gave no label that was learned from.
        """
        each = annotators if isinstance(annotators, Sequence) and not isinstance(annotators, str) else (
            [annotators] * len(samples)
        )  # fmt: skip
        speakers = [self.head.speaker(name) for name in each]
        scores = self.score((yield from self.evidence(samples)), speakers)
        return (yield from self.with_others(samples, scores))

    def score(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Scores from evidence that is there already, with the notes of its sources.

        Raises:
            NotFitted: Nothing was learned yet.
        """
        self.head.check_fitted()
        return with_notes(self.head.predict_each(evidence, annotators), evidence)

    def with_others(self, samples: Sequence[Sample], scores: list[Score | Unscored]) -> Flow[list[Score | Unscored]]:
        """The scores, with what the evaluators of other questions say of the samples' turns in their notes."""
        if not self.also:
            return scores
        turns = [turn for sample in samples for turn in _turns_of(sample)]
        said: dict[Target, list[dict[str, Any]]] = {}
        for other in self.also:
            for turn, score in zip(turns, (yield from other.predict(turns)), strict=True):
                if isinstance(score, Score):
                    row = {"turn": turn.turn, "question": other.question.id, "value": score.value, **score.notes}
                    for target in (turn.target, Target(turn.conversation.id)):
                        said.setdefault(target, []).append(row)
        return [
            replace(score, notes={**score.notes, "also": said[score.target]}) if score.target in said else score
            for score in scores
        ]

    def in_new_domain(self) -> Evaluator:
        """This evaluator for conversations from another place, where habits are trusted less."""
        return replace(self, head=self.head.in_new_domain())

    def describe(self) -> dict[str, Any]:
        """What was learned, as JSON: the head's part, and each source's."""
        parts = {source.name: dict(found) for source in self.sources if (found := source.describe())}
        others = {other.question.id: other.head.describe() for other in self.also}
        return {
            "name": self.name, "head": self.head_name, "level": self.level, "signature": str(self.signature()),
            **self.head.describe(), "sources": [source.name for source in self.sources], "learned": parts,
            "also": others,
        }  # fmt: skip

    def digest(self) -> str:
        """A short digest of all that was learned or set: another one wherever anything is another."""
        card, arrays = self.head.state()
        said: list[Any] = [
            self.question.model_dump(mode="json"),
            self.level,
            self.head_name,
            self.head.settings(),
            card,
            {name: _sha(array) for name, array in arrays.items()},
            [other.digest() for other in self.also],
        ]
        for source in self.sources:
            state = source.state()
            learned = {name: _sha(array) for name, array in state.arrays.items()}
            said.append([source.name, source.settings.model_dump(mode="json"), dict(state.card), learned])
        return content_hash(said, length=12)

    # --- as a folder --------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write `evaluator.json`, `arrays.safetensors` and the files that people may edit into the folder.

        Raises:
            NotFitted: Nothing was learned yet.
        """
        if not self.is_fitted:
            raise NotFitted(f"the evaluator {self.name!r} has learned nothing yet; fit it first")
        card, arrays = self.head.state()
        every = {f"head.{name}": array for name, array in arrays.items()}
        parts: list[SourceCard] = []
        files: dict[str, str] = {}
        for source in self.sources:
            state = source.state()
            settings = source.settings.model_dump(mode="json")
            parts.append({"name": source.name, "settings": settings, "learned": dict(state.card)})
            every |= {f"{source.name}.{name}": array for name, array in state.arrays.items()}
            files |= state.files
        about: Card = {
            "format": FOLDER_FORMAT,
            "accord_version": __version__,
            "name": self.name,
            "level": self.level,
            "question": self.question.model_dump(mode="json"),
            "head": {"name": self.head_name, "settings": self.head.settings(), "learned": card},
            "sources": parts,
            "seed": self.sources[0].context.seed if self.sources else 0,
            "models": {
                role: settings.model_dump(mode="json", exclude_defaults=True)
                for role, settings in self.models.items()
                if role in self.roles
            },
            "also": [other.question.id for other in self.also],
        }
        write_folder(Path(folder), about, every, files)
        for place, other in enumerate(self.also):
            other.save(Path(folder) / "also" / str(place))


def load_evaluator(folder: str | Path) -> Evaluator:
    """Read an evaluator that `save` wrote.

    Raises:
        BadInput: The folder holds none, is damaged, was edited where it may not be, or was written by another Accord
            whose folders this one does not read; or a number in it is none.
    """
    return _loaded(folder, 0)


def _loaded(folder: str | Path, depth: int) -> Evaluator:
    about, source = saved_as(folder), Path(folder)
    if depth > _NESTED:
        raise BadInput(f"{folder} stands inside itself; fit the evaluator again")
    try:
        arrays = read_arrays(source)
        if about["level"] not in (None, "turn", "conversation") or not isinstance(about["name"], str):
            raise ValueError("a level or a name that is none")
        question = Question.model_validate(about["question"])
        head = make_head(about["head"]["name"], question, about["head"]["settings"])
        _check_scores(head.restore(about["head"]["learned"], under("head", arrays)), about["level"])
        # A source that needs a rubric keeps its own; the evaluator's question stands in for the project's.
        context = SourceContext(Rubric.model_construct(questions=(question,), main=question.id), about["seed"])
        parts = tuple(_restored(row, arrays, source, context) for row in about["sources"])
        models = {role: ModelSettings.model_validate(row) for role, row in about["models"].items()}
        also = tuple(_loaded(source / "also" / str(place), depth + 1) for place in range(len(about["also"])))
    except FileNotFoundError as error:
        raise BadInput(f"{folder} holds no evaluator: {Path(str(error.filename)).name} is missing") from None
    except DAMAGED as error:
        raise BadInput(f"{folder} holds a damaged evaluator ({type(error).__name__}); fit it again") from None
    return Evaluator(question, parts, head, about["name"], about["head"]["name"], about["level"], models, also)


def _check_scores(head: Head, level: Level | None) -> None:
    """Let a head that was read score evidence that is there, and that is not, for everybody, and describe itself.

    What was learned in arrays of a wrong shape or type is found out here, and not amid somebody's conversations.

    Raises:
        Exception: One of `DAMAGED`: it cannot score, or a score is none.
    """
    speakers = [None, *head.annotators]
    targets = tuple(Target(f"trial {place}", 0 if level == "turn" else None) for place in range(2 * len(speakers)))
    columns = head.columns or ()
    present = np.zeros((len(targets), len(columns)), dtype=bool)
    present[: len(speakers)] = True
    try:
        with np.errstate(all="ignore"):
            scores = head.predict_each(EvidenceTable(targets, columns, 0.5 * present, present), speakers * 2)
            head.describe()
    except BadInput as error:
        if head.columns is None:
            return  # it learned no columns, and asks for those that it needs
        raise ValueError(str(error)) from None
    if len(scores) != len(targets):
        raise ValueError("not one score a sample")


def learns(source: Source) -> bool:
    """Whether a source learns from labels, so that it has to be learned again without each fold."""
    return type(source).learn is not Source.learn


def level_of(targets: Iterable[Target]) -> Level | None:
    """Whether targets are turns or whole conversations; `None` without any.

    Raises:
        BadInput: They are both: answers about turns and about conversations are not pooled.
    """
    levels = {"conversation" if target.turn is None else "turn" for target in targets}
    if len(levels) > 1:
        raise BadInput(
            "people rated both turns and whole conversations under one question; an evaluator learns one of the two: "
            "name it with level: turn or level: conversation in evaluators:"
        )
    return next(iter(levels), None)  # type: ignore[arg-type]


def with_notes(scores: Sequence[Score | Unscored], evidence: EvidenceTable) -> list[Score | Unscored]:
    """Scores with the notes of their evidence."""
    found: list[Score | Unscored] = []
    for score in scores:
        note = evidence.notes.get(score.target)
        if note is None:
            found.append(score)
            continue
        notes = {**score.notes, **note.shown}
        if isinstance(score, Score) and note.warning:
            warning = "; ".join(part for part in (note.warning, score.warning) if part)
            found.append(replace(score, notes=notes, warning=warning))
        else:
            found.append(replace(score, notes=notes))
    return found


def _restored(row: SourceCard, arrays: Arrays, folder: Path, context: SourceContext) -> Source:
    made = make_source(row["name"], row["settings"], context)
    files = {path.name: read_text(path, CARD_BYTES) for path in folder.iterdir() if path.suffix in {".yaml", ".jsonl"}}
    restored = made.restored(State(row["learned"], under(row["name"], arrays), files))
    restored.name = row["name"]
    return restored


def _known(evidence: EvidenceTable) -> EvidenceTable:
    """The columns that are known of at least one row."""
    return evidence.select(np.flatnonzero(evidence.present.any(axis=0)).tolist())


def _columns(head: Head, evidence: EvidenceTable) -> tuple[Any, ...]:
    return evidence.columns if head.columns is None else head.columns


def _turns_of(sample: Sample) -> list[Sample]:
    """The turn itself, or the replies of a conversation."""
    if sample.turn is not None:
        return [sample]
    replies = {id(turn) for turn in sample.conversation.replies}
    return [
        Sample(sample.conversation, place)
        for place, turn in enumerate(sample.conversation.turns)
        if id(turn) in replies
    ]


def _sha(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
