"""Scoring a file of conversations in batches, into a file and the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from accord.decisions import LEFT, Certificate, certify
from accord.edges import BadInput, BadRow
from accord.evidence import EvidenceTable
from accord.formats import (
    MemoryTable,
    Record,
    RoleCounts,
    ScoreWriter,
    Source,
    check_roles,
    locate,
    read,
    read_labels,
    source_of,
    with_roles,
)
from accord.learning import UNLIKE, Evaluator
from accord.models import run
from accord.scoring.again import BoardTexts
from accord.scoring.pipeline import (
    NOT_COUNTED,
    Perspective,
    ScoreOptions,
    Scorer,
    Scores,
    ScoringProject,
    adaptive_rubric,
    ask_adaptively,
    nothing_to_score,
)
from accord.scoring.results import ScoreCounts, ScoreRun
from accord.scoring.score_rows import RowOrigin
from accord.statistics import groups_of
from accord.store import Mart, Store, batches, runs_in, scores_of_run
from accord.validation import Shift, drift_summary, shifts
from accord.values import (
    BAD_ROW,
    POPULATION,
    WITHOUT_SYNTHETIC,
    Conversation,
    Labels,
    Question,
    Sample,
    ScoreRow,
    Synthetic,
    Target,
    Unscored,
    score_frame,
)

BATCH_SIZE = 500
"""Samples that are scored together."""
SCORING_COMMANDS = ("score", "run", "score parts")
DRIFT_ROWS = 2000
"""Samples whose evidence is compared with the training data."""
_MOST_BAD_ROWS = 20
AGAIN = "the board"
"""Source of a run that scores the conversations of the board again."""


@dataclass
class _Input:
    """Conversations of a source with the counts of skipped rows.

    Attributes:
        source: A file, or a table in memory.
        synthetic: Selection of synthetic conversations.
        roles: Roles in the source to ours.
        format: Format of the conversations, or `auto`.
        columns: Our column names to the source's.
        skips: True to skip bad rows instead of stopping at the first.
        bad: Errors of all skipped rows if `keeps_bad`, else of the first ones.
        left_out: Ids of conversations that `synthetic` excludes.
    """

    source: Source
    synthetic: Synthetic
    roles: Mapping[str, str]
    format: str = "auto"
    columns: Mapping[str, str] | None = None
    skips: bool = False
    keeps_bad: bool = False
    skipped: int = 0
    bad: list[BadInput] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    role_counts: RoleCounts = field(default_factory=RoleCounts)

    def records(self, on_bad_row: Callable[[BadInput], None] | None = None) -> Iterator[Record]:
        """Yield the records that `synthetic` includes, with their roles mapped; nothing is counted."""
        for record in read(self.source, self.format, self.columns, on_bad_row):
            if self._is_counted(record.conversation):
                yield replace(record, conversation=with_roles(record.conversation, self.roles))

    def conversations(self) -> Iterator[Conversation]:
        """Yield the conversations to score; a second one with the same id is a bad row, since ids identify scores.

        Raises:
            BadInput: A row cannot be read, or an id occurs twice, unless bad rows are skipped.
        """
        ids: set[str] = set()
        for record in read(self.source, self.format, self.columns, self._skip if self.skips else None):
            unmapped = record.conversation
            if not self._is_counted(unmapped):
                self.left_out.append(unmapped.id)
                continue
            conversation = with_roles(unmapped, self.roles)
            self.role_counts.count_roles(conversation, unmapped if self.roles else None)
            if conversation.id not in ids:
                ids.add(conversation.id)
                yield conversation
            elif self.skips:
                self._skip(BadInput(f"{self.source}: another conversation with the id {conversation.id!r}"))
            else:
                raise BadInput(f"{self.source}: two conversations have the id {conversation.id!r}; give each its own")

    def _is_counted(self, conversation: Conversation) -> bool:
        return self.synthetic == "with" or conversation.is_synthetic == (self.synthetic == "only")

    def _skip(self, error: BadInput) -> None:
        self.skipped += 1
        if self.keeps_bad or len(self.bad) < _MOST_BAD_ROWS:
            self.bad.append(error)

    def counts(self) -> dict[str, Any]:
        """Return the numbers of skipped rows and excluded conversations, as fields of `ScoreRun`."""
        bad_rows = tuple(map(str, self.bad[:_MOST_BAD_ROWS]))
        return {"skipped": self.skipped, "bad_rows": bad_rows, "left_out": len(self.left_out)}

    def rows_without_score(self, evaluator: Evaluator) -> Iterator[ScoreRow]:
        """Yield the rows of a result for excluded conversations and for bad rows."""
        signature = evaluator.signature()
        for name in self.left_out:
            yield Unscored(Target(name), POPULATION, NOT_COUNTED, signature).to_json()
        for error in self.bad:
            row, reason = (error.line, error.reason) if isinstance(error, BadRow) else (None, str(error))
            name = MemoryTable.name if row is None else f"{MemoryTable.name}-{row}"
            yield Unscored(Target(name), POPULATION, f"{BAD_ROW}: {reason}", signature).to_json()


@dataclass
class _ConversationCounts:
    """Numbers of scored conversations: all, those used in training, and those unlike the training data."""

    all: int = 0
    in_training: int = 0
    unlike: int = 0
    _last: str | None = None
    _last_unlike: str | None = None

    def add(self, rows: Iterable[ScoreRow]) -> None:
        """Count the conversations of rows; the rows of one conversation follow each other, also over two calls."""
        for row in rows:
            if row["conversation"] != self._last:
                self._last = row["conversation"]
                self.all, self.in_training = self.all + 1, self.in_training + row["in_training"]
            if UNLIKE in (row.get("warning") or "") and row["conversation"] != self._last_unlike:
                self._last_unlike, self.unlike = row["conversation"], self.unlike + 1

    def drift_sentence(self, moved: Sequence[Shift]) -> str | None:
        """Return the sentence on drift. If nothing was compared and no conversation is unlike, return `None`."""
        return drift_summary(moved, self.unlike, self.all) if moved or self.unlike else None


def score_file(
    project: ScoringProject,
    evaluator: Evaluator,
    source: Any,
    out: str | Path | None = None,
    perspective: Perspective = Perspective(),
    options: ScoreOptions = ScoreOptions(),
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    roles: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_scored: Callable[[int], None] = lambda done: None,
    on_total: Callable[[int], None] | None = None,
) -> ScoreRun:
    """Score conversations at the level of the evaluator, and record the run in the store.

    Args:
        project: The project.
        evaluator: A fitted evaluator.
        source: A file, or a table in memory (see `accord.formats.MemoryTable`).
        out: The file of scores; without it the result holds the scores.
        perspective: Annotator whose answers are predicted.
        options: Options of scoring.
        format: Format of the conversations, or `auto`.
        columns: Our column names to the source's, for columns with other names.
        roles: Roles in the source to `user`, `assistant`, `system` or `tool`, as at import.
        skip_bad_rows: Skip bad rows instead of stopping at the first. A result in memory has an unscored row for each.
        on_scored: Called with the number of samples scored so far.
        on_total: Called with the number of samples, which are counted first.

    Raises:
        BadInput: A source cannot be read or a file cannot be written, or an adaptive rubric is combined with a panel.
        UnknownName: The evaluator has not learned an annotator of this name.
    """
    options.check()
    given = _Input(
        locate(source_of(source)), project.config.synthetic, check_roles(roles or {}), format, columns, skip_bad_rows,
        keeps_bad=out is None,
    )  # fmt: skip
    certificate = None
    if options.certify is not None:
        certificate = _certificate(project, evaluator, given.records(), options)
    if on_total is not None:
        scorer = Scorer(evaluator, perspective, options)
        records = given.records(lambda error: None)
        on_total(sum(len(scorer.samples(record.conversation)) or 1 for record in records))
    done = score(
        project, evaluator, given.conversations(), None if out is None else Path(out),
        f"{given.source.kind} in memory" if isinstance(given.source, MemoryTable) else str(source), perspective,
        options, on_scored, certificate=certificate, given=given,
    )  # fmt: skip
    done = replace(done, role_notes=given.role_counts.role_notes(given.roles))
    return done if out is not None else replace(done, scores=[*done.scores, *given.rows_without_score(evaluator)])


def score_again(
    project: ScoringProject,
    evaluator: Evaluator,
    out: str | Path | None = None,
    options: ScoreOptions = ScoreOptions(),
    on_scored: Callable[[int], None] = lambda done: None,
    on_total: Callable[[int], None] | None = None,
) -> tuple[ScoreRun, str]:
    """Score the conversations that the board shows by another evaluator, into the same table of scores.

    Texts come from the store, else from the files that were scored. Scores of the other evaluator stay, and each
    conversation keeps its day. Returns the run, and a sentence on conversations whose text is gone (may be empty).

    Raises:
        BadInput: The board has no scores by another evaluator.
    """
    name = RowOrigin.of(evaluator.name, evaluator.digest(), evaluator.question.id).evaluator
    texts = BoardTexts.of(project.mart, evaluator.question.id, name)
    if not texts.turns:
        there = "all scores of the board are by it already" if texts.evaluator else "the board has no scores by another"
        raise BadInput(f"nothing to score again with {evaluator.name}: {there}; score new ones: accord score FILE")
    if on_total is not None:
        on_total(sum(map(len, texts.turns.values())))
    found = texts.conversations(project.store, Path(project.config.folder))
    done = score(
        project, evaluator, found, None if out is None else Path(out), AGAIN, options=replace(options, turns="all"),
        on_scored=on_scored, again=texts,
    )  # fmt: skip
    return done, texts.left_text(done.conversations)


def score(
    project: ScoringProject,
    evaluator: Evaluator,
    conversations: Iterable[Conversation],
    out: Path | None,
    source: str = "store",
    perspective: Perspective = Perspective(),
    options: ScoreOptions = ScoreOptions(),
    on_scored: Callable[[int], None] = lambda done: None,
    command: str = "score",
    certificate: Certificate | None = None,
    given: _Input | None = None,
    again: BoardTexts | None = None,
) -> ScoreRun:
    """Score a stream of conversations in constant memory.

    Each conversation gets a row; if it has nothing to score, the row holds the reason. With `again`, only the texts
    that the board shows are scored, and keep their day on it.
    """
    scorer = Scorer(evaluator, perspective, options, certificate)
    drift = _DriftWatch(scorer.evaluator, project.config.group_by, options.training)
    score_batch = _batch_scorer(project, scorer, drift, options)
    digest = evaluator.digest()
    settings = {
        **project.config.shown(), "evaluator": evaluator.name, "digest": digest, "source": source,
        **asked_in(evaluator.question, {}),
    }  # fmt: skip
    # A conversation without a turn to score is a sample of the whole, which an evaluator of turns does not score.
    samples = (s for each in conversations for s in scorer.samples(each) or [Sample(each)])
    if again is not None:
        samples = (sample for sample in samples if again.has(sample))
    counts, seen, rows = ScoreCounts(), _ConversationCounts(), list[ScoreRow]()
    with project.store.run(command, settings) as record:
        origin = RowOrigin.of(evaluator.name, digest, evaluator.question.id, run=record.id)
        with project.mart.writer() as mart, nullcontext() if out is None else ScoreWriter(out) as file:
            done = 0
            for batch in batches(samples, BATCH_SIZE):
                scores = _each_scored(scorer, batch, score_batch)
                if scorer.selection is not None:
                    _keep_left(project.store, batch, scores)
                new = [score.to_json() for score in scores]
                written = origin.batch(batch, new)
                mart.write(written if again is None else again.dated(written))
                rows.extend(new) if file is None else file.write(new)
                counts, done = counts.plus(ScoreCounts.of(score_frame(new))), done + len(batch)
                seen.add(new)
                on_scored(done)
        project.mart.tidy()
        moved = drift.shifts()
        result = ScoreRun(
            counts, evaluator.level or "conversation", None if out is None else str(out), record.id,
            seen.all, seen.in_training,
            drift=[shift.to_json() for shift in moved],
            drift_said=seen.drift_sentence(moved),
            selection=None if scorer.selection is None else scorer.selection.to_json(),
            certificate=None if certificate is None else certificate.to_json(),
            plausibility=evaluator.plausibility_text, scores=rows, **({} if given is None else given.counts()),
        )  # fmt: skip
        record.results.update(result.to_json())
    return result


def _each_scored(
    scorer: Scorer, samples: Sequence[Sample], score_batch: Callable[[Sequence[Sample]], Scores]
) -> Scores:
    """Score a batch, with a reason for each conversation that has no turn to score."""
    if scorer.evaluator.level not in ("turn", "step"):
        return score_batch(samples)
    turns = [sample for sample in samples if sample.turn is not None]
    scores = score_batch(turns) if turns else []
    scores += [
        scorer.unscored(sample.target, nothing_to_score(scorer.evaluator.level))
        for sample in samples
        if sample.turn is None
    ]
    order = {sample.target: place for place, sample in enumerate(samples)}
    return sorted(scores, key=lambda score: order[score.target])


def _certificate(
    project: ScoringProject, evaluator: Evaluator, records: Iterable[Record], options: ScoreOptions
) -> Certificate:
    """Test the evaluator's bands on fresh labels of some of the records."""
    assert options.certify is not None
    fresh = Labels(read_labels(options.certify, project.rubric)).on(evaluator.question.id)
    known = set(project.rated(evaluator.question.id).targets)
    if old := [str(target) for target in fresh.targets if target in known]:
        raise BadInput(
            f"{options.certify}: {old[0]} has labels in the store already; --certify takes labels that are used for "
            "nothing else"
        )
    wanted = {target.conversation for target in fresh.targets}
    labeled = {each.conversation.id: each.conversation for each in records if each.conversation.id in wanted}
    samples = [Sample(labeled[t.conversation], t.turn) for t in fresh.targets if t.conversation in labeled]
    evidence = project.measure(evaluator.sources, samples, project.models)
    return certify(evaluator.in_new_domain(), evidence, fresh, options.adapt)


def _keep_left(store: Store, samples: Sequence[Sample], scores: Scores) -> None:
    """Store the conversations that were left for people, so that `label next` can name them."""
    left = {score.target for score in scores if isinstance(score, Unscored) and score.reason == LEFT}
    wanted = {s.conversation.id: s.conversation for s in samples if s.target in left}
    store.add_conversations(wanted.values(), on_changed=lambda name: None)


def _batch_scorer(
    project: ScoringProject, scorer: Scorer, drift: _DriftWatch, options: ScoreOptions
) -> Callable[[Sequence[Sample]], Scores]:
    """Return the function that scores a batch of samples."""
    if options.ask is None:

        def score_batch(samples: Sequence[Sample]) -> Scores:
            evidence, scores = run(scorer.flow(samples), project.models)
            drift.see(samples, evidence)
            return scorer.finish(samples, scores)

        return score_batch
    if scorer.perspective.panel:
        raise BadInput("--ask needs one annotator or none; leave out --panel")
    evaluator, rubric, most = scorer.evaluator, adaptive_rubric(scorer.evaluator), options.ask
    predict = partial(rubric.predict, annotator=scorer.perspective.annotator)

    def score_adaptively(samples: Sequence[Sample]) -> Scores:
        # Drift needs answers to the full rubric, because adaptively chosen questions are not a random sample.
        evidence = ask_adaptively(project, evaluator, samples, rubric, most, options.until)
        return scorer.finish(samples, run(scorer.score(samples, evidence, predict), project.models))

    return score_adaptively


class _DriftWatch:
    """Evidence of the first scored samples, compared with the training data.

    Samples of training conversations are excluded by default.
    """

    def __init__(self, evaluator: Evaluator, group_by: Iterable[str], training: bool = False) -> None:
        self.head, self.group_by = evaluator.head, group_by
        self._known = None if training else evaluator.training_set
        self._ends: dict[str, list[Sample]] = {}
        self._then: EvidenceTable | None = None
        self._now: EvidenceTable | None = None

    def see(self, samples: Sequence[Sample], evidence: EvidenceTable) -> None:
        """Add evidence, up to `DRIFT_ROWS` rows."""
        if self._now is not None and len(self._now) >= DRIFT_ROWS:
            return
        new = [place for place, sample in enumerate(samples) if not self._is_known(sample.conversation)]
        compared = self.head.seen(evidence.take(new)) if new else None
        if compared is not None:
            for sample in map(samples.__getitem__, new):
                ends = self._ends.setdefault(sample.conversation.id, [])
                ends[1:] = [sample]
            self._then = compared[0]
            self._now = compared[1] if self._now is None else self._now.concat(compared[1])

    def _is_known(self, conversation: Conversation) -> bool:
        place = None if self._known is None else self._known.place(conversation)
        return self._known is not None and place is not None and bool(self._known.used[place])

    def shifts(self) -> list[Shift]:
        """Return the shift of each feature; empty without data to compare."""
        if self._then is None or self._now is None:
            return []
        # The first and the last sample of a conversation are enough to group it; all samples hold many long texts.
        ends = [sample for each in self._ends.values() for sample in each]
        group_of = {target.conversation: group for target, group in groups_of(ends, self.group_by).of.items()}
        return shifts(self._then, self._now, lambda target: group_of.get(target.conversation, target.conversation))


def asked_in(question: Question, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run, with its question and the question's wording and scale."""
    return {"question": question.id, "wording": question.wording, **settings}


def counted(run: Mapping[str, Any]) -> str:
    """Return a run's selection of synthetic conversations: `without`, `with`, `only`."""
    return str(run["settings"].get("synthetic", WITHOUT_SYNTHETIC))


def latest(store: Store, *commands: str, synthetic: Synthetic = WITHOUT_SYNTHETIC) -> dict[str, Any] | None:
    """Return the latest finished run of some commands with this selection of conversations, or `None`."""
    done = [run for run in store.runs(*commands) if run["status"] == "done" and counted(run) == synthetic]
    return dict(done[-1]) if done else None


def latest_scored(store: Store, mart: Mart, synthetic: Synthetic = WITHOUT_SYNTHETIC) -> str | None:
    """Return the id of the latest finished run with scores in the mart, or `None`.

    Raises:
        StoreError: The mart cannot be read.
    """
    counts = runs_in(mart)
    done = [run for run in store.runs(*SCORING_COMMANDS) if run["status"] == "done" and counted(run) == synthetic]
    return next((run["id"] for run in reversed(done) if run["id"] in counts), None)


def latest_scores(store: Store, mart: Mart, synthetic: Synthetic = WITHOUT_SYNTHETIC) -> list[ScoreRow]:
    """Return the scores of the latest finished run; empty without one.

    Raises:
        StoreError: The mart cannot be read.
    """
    run = latest_scored(store, mart, synthetic)
    return [] if run is None else list(scores_of_run(mart, run))


def latest_drift(store: Store, synthetic: Synthetic = WITHOUT_SYNTHETIC) -> list[dict[str, Any]]:
    """Return the shifts of the latest scored evidence from the training data; empty if unknown."""
    found = latest(store, "score", "run", synthetic=synthetic)
    return [] if found is None else list((found["results"] or {}).get("drift") or [])
