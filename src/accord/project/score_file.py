"""Scoring a file of conversations with a fitted evaluator, some hundreds at a time, into a file and the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from accord.edges import BadInput, BadRow
from accord.evidence import EvidenceTable
from accord.formats import BAD_ROW, MemoryTable, Record, ScoreWriter, Source, locate, read, read_labels, source_of
from accord.learning import Evaluator
from accord.models import run
from accord.project.adaptive_scoring import ask_adaptively, asking
from accord.project.band_certificate import Certificate, certify
from accord.project.import_worker import Seen, check_roles, with_roles
from accord.project.importing import Imported
from accord.project.mart_writer import Scoring
from accord.project.results import ScoreRun
from accord.project.scoring_pipeline import NO_REPLY, Perspective, ScoreOptions, Scorer, Scores
from accord.project.selective_scoring import LEFT, NOT_COUNTED
from accord.statistics import groups_of
from accord.store import Store, batches
from accord.validation import Shift, said, shifts
from accord.values import POPULATION, WITHOUT, Conversation, Labels, Sample, Score, Synthetic, Target, Unscored

if TYPE_CHECKING:
    from accord.project.project import Project

SCORED_AT_ONCE = 500
WATCHED = 2000
"""Of so many samples the evidence is compared with what was learned from."""


def score_file(
    project: Project,
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
    """Score conversations at the level that the evaluator learned; the store notes the run.

    Args:
        project: The project.
        evaluator: A fitted evaluator.
        source: A file, or a table in memory (see `accord.formats.MemoryTable`).
        out: The file of scores; without it the result holds the scores.
        perspective: The annotators to predict.
        options: What else is done with scores.
        format: The conversations' format, or `auto`.
        columns: Our column names to the source's, for columns with other names.
        roles: Roles as the source has them to `user`, `assistant`, `system` or `tool`, as at import.
        skip_bad_rows: Skip bad rows instead of stopping at the first. A result in memory has an unscored row for each.
        on_scored: Called with the number of samples scored so far.
        on_total: Called with the number of samples, which are counted first.

    Raises:
        BadInput: A source cannot be read or a file cannot be written, or an adaptive rubric is asked to speak for a
            panel.
        UnknownName: The evaluator knows no annotator of this name.
    """
    source = locate(source_of(source))
    options.check()
    roles = check_roles(roles or {})
    passed = partial(_passed, project.config.synthetic, roles)
    certificate = None
    if options.certify is not None:
        certificate = _certificate(project, evaluator, passed(read(source, format, columns)), options)
    if on_total is not None:
        records = passed(read(source, format, columns, lambda error: None))
        scorer = Scorer(evaluator, perspective, options)
        on_total(sum(len(scorer.samples(each.conversation)) or 1 for each in records))
    imported = Imported()
    bad: list[BadInput] = []

    def skip(error: BadInput) -> None:
        imported.skip(error)
        if out is None:
            bad.append(error)

    on_bad_row = skip if skip_bad_rows else None
    left_out: list[str] = []
    counted_ones = passed(read(source, format, columns, on_bad_row), left_out.append, imported.seen)
    conversations = _unique(source, counted_ones, on_bad_row)
    done = score(project, evaluator, conversations, None if out is None else Path(out), str(source), perspective,
                 options, on_scored, imported, certificate=certificate, left_out=left_out)  # fmt: skip
    done = replace(done, role_notes=imported.seen.role_notes(roles))
    return done if out is not None else replace(done, rows=[*done.rows, *_without_score(evaluator, left_out, bad)])


def _without_score(evaluator: Evaluator, left_out: Iterable[str], bad: Iterable[BadInput]) -> Iterator[dict[str, Any]]:
    """Make the rows of a result for conversations that were left out and for rows that could not be read."""
    signature = evaluator.signature()
    for name in left_out:
        yield Unscored(Target(name), POPULATION, NOT_COUNTED, signature).to_json()
    for error in bad:
        row, reason = (error.line, error.reason) if isinstance(error, BadRow) else (None, str(error))
        name = MemoryTable.name if row is None else f"{MemoryTable.name}-{row}"
        yield Unscored(Target(name), POPULATION, f"{BAD_ROW}: {reason}", signature).to_json()


def _passed(
    synthetic: Synthetic,
    roles: Mapping[str, str],
    records: Iterable[Record],
    on_left_out: Callable[[str], None] = lambda name: None,
    seen: Seen | None = None,
) -> Iterator[Record]:
    """Yield the records that count, with their roles mapped; report the ids of the others, and count roles."""
    for record in records:
        if synthetic == "with" or record.conversation.is_synthetic == (synthetic == "only"):
            conversation = with_roles(record.conversation, roles)
            if seen is not None:
                seen.note(conversation, record.conversation if roles else None)
            yield replace(record, conversation=conversation) if roles else record
        else:
            on_left_out(record.conversation.id)


def score(
    project: Project,
    evaluator: Evaluator,
    conversations: Iterable[Conversation],
    out: Path | None,
    source: str = "store",
    perspective: Perspective = Perspective(),
    options: ScoreOptions = ScoreOptions(),
    on_scored: Callable[[int], None] = lambda done: None,
    imported: Imported | None = None,
    command: str = "score",
    certificate: Certificate | None = None,
    left_out: Sequence[str] = (),
) -> ScoreRun:
    """Score conversations as they come; memory does not grow with their number.

    Each conversation has a row: one without anything to score says so.
    """
    scorer = Scorer(evaluator, perspective, options)
    watch = _Watch(scorer.evaluator, project.config.group_by, options.training)
    score_batch = _scoring(project, scorer, watch, perspective, options)
    about = Scoring.by(evaluator.name, digest := evaluator.digest(), evaluator.question.id)
    settings = {
        "evaluator": evaluator.name, "question": evaluator.question.id, "digest": digest, "source": source,
    } | {name: value for name, value in project.config.shown().items() if name != "evaluator"}  # fmt: skip
    skipped = imported or Imported()
    with project.store.run(command, settings) as kept:
        # A conversation without a turn to score is a sample of the whole, which an evaluator of turns does not score.
        samples = (s for each in conversations for s in scorer.samples(each) or [Sample(each)])

        def scores() -> Iterator[Score | Unscored]:
            done = 0
            for batch in batches(samples, SCORED_AT_ONCE):
                found = _each_scored(scorer, batch, score_batch, perspective)
                if scorer.selection is not None:
                    _keep_left(project.store, batch, found)
                if certificate is not None:
                    found = [certificate.banded(one) for one in found]
                found = [scorer.decoded(one) for one in found]
                table.write(about.rows(batch, found))
                yield from found
                done += len(batch)
                on_scored(done)

        with project.mart.writer() as table:
            counts = written(project.store, kept.id, scores(), out)
        project.mart.tidy()
        moved = watch.found()
        done = ScoreRun(
            **counts, level=evaluator.level or "conversation", out=None if out is None else str(out), run=kept.id,
            skipped=skipped.skipped, bad_rows=tuple(skipped.bad_rows), drift=[shift.to_json() for shift in moved],
            drift_said=said(moved) if moved else None,
            selection=None if scorer.selection is None else scorer.selection.to_json(),
            certificate=None if certificate is None else certificate.to_json(), left_out=len(left_out),
        )  # fmt: skip
        kept.results.update(done.to_json())
    return done


def _each_scored(
    scorer: Scorer, samples: Sequence[Sample], score_batch: Callable[[Sequence[Sample]], Scores], about: Perspective
) -> Scores:
    """Scores of a batch, and a reason for each conversation without a turn that an evaluator of turns could score."""
    if scorer.evaluator.level != "turn":
        return score_batch(samples)
    without = [sample for sample in samples if sample.turn is None]
    found = (
        score_batch([sample for sample in samples if sample.turn is not None]) if len(without) < len(samples) else []
    )
    made, speaker = scorer.evaluator.signature(), about.annotator or (about.rule if about.panel else POPULATION)
    found += [Unscored(sample.target, speaker, NO_REPLY, made) for sample in without]
    order = {sample.target: place for place, sample in enumerate(samples)}
    return sorted(found, key=lambda score: order[score.target])


def _certificate(
    project: Project, evaluator: Evaluator, records: Iterable[Record], options: ScoreOptions
) -> Certificate:
    """What the fresh labels of some of the records say of the evaluator's bands.

    Raises:
        BadInput: The file cannot be read, or labels are no fresh ones.
        GateFailed: The bands are not certified.
    """
    assert options.certify is not None
    fresh = Labels(read_labels(options.certify, project.rubric)).on(evaluator.question.id)
    known = set(project.rated(evaluator.question.id).targets)
    if old := [str(target) for target in fresh.targets if target in known]:
        raise BadInput(
            f"{options.certify}: {old[0]} has labels in the store already; fresh ones are used for nothing else"
        )
    wanted = {target.conversation for target in fresh.targets}
    found = {each.conversation.id: each.conversation for each in records if each.conversation.id in wanted}
    samples = [Sample(found[t.conversation], t.turn) for t in fresh.targets if t.conversation in found]
    evidence = project.measure(evaluator.sources, samples, project.models)
    return certify(evaluator.in_new_domain(), evidence, fresh, options.adapt)


def _keep_left(store: Store, samples: Sequence[Sample], scores: Scores) -> None:
    """Keep the conversations that were left for a person, so that `label next` can name them; known ones stay."""
    left = {score.target for score in scores if isinstance(score, Unscored) and score.reason == LEFT}
    wanted = {s.conversation.id: s.conversation for s in samples if s.target in left}
    store.add_conversations(wanted.values(), on_changed=lambda name: None)


def _scoring(
    project: Project, scorer: Scorer, watch: _Watch, perspective: Perspective, options: ScoreOptions
) -> Callable[[Sequence[Sample]], Scores]:
    """How a batch of samples is scored, the evidence of the first ones being watched.

    Raises:
        BadInput: An adaptive rubric is asked to speak for a panel, or cannot be made.
    """
    if options.ask is None:

        def watched(samples: Sequence[Sample]) -> EvidenceTable:
            return watch.see(samples, run(scorer.evidence(samples), project.models))

        return lambda samples: scorer.scores(samples, project.models, watched)
    if perspective.panel:
        raise BadInput("an adaptive rubric asks for one perspective; name none or one with --annotator")
    evaluator, rubric, most = scorer.evaluator, asking(scorer.evaluator), options.ask

    def adaptively(samples: Sequence[Sample]) -> EvidenceTable:
        # Answers that were chosen to be asked are no sample of all: only a full rubric shows a drift.
        return ask_adaptively(project, evaluator, samples, rubric, most, options.until)

    predict = partial(rubric.predict, annotator=perspective.annotator)
    return lambda samples: scorer.scores(samples, project.models, adaptively, predict)


class _Watch:
    """Evidence of the first samples that are scored, to compare with the training data.

    Samples of conversations that the evaluator learned from are left out, unless they are asked for.
    """

    def __init__(self, evaluator: Evaluator, group_by: Iterable[str], training: bool = False) -> None:
        self.head, self.group_by = evaluator.head, group_by
        self._known = None if training else evaluator.training_set
        self.ends: dict[str, list[Sample]] = {}
        self.then: EvidenceTable | None = None
        self.now: EvidenceTable | None = None

    def see(self, samples: Sequence[Sample], evidence: EvidenceTable) -> EvidenceTable:
        """Note some more evidence, up to `WATCHED` rows, and hand it on."""
        if self.now is None or len(self.now) < WATCHED:
            new = [place for place, sample in enumerate(samples) if not self._is_known(sample.conversation)]
            found = self.head.seen(evidence.take(new)) if new else None
            if found is not None:
                for sample in map(samples.__getitem__, new):
                    ends = self.ends.setdefault(sample.conversation.id, [])
                    ends[1:] = [sample]
                self.then = found[0]
                self.now = found[1] if self.now is None else self.now.concat(found[1])
        return evidence

    def _is_known(self, conversation: Conversation) -> bool:
        place = None if self._known is None else self._known.place(conversation)
        return self._known is not None and place is not None and bool(self._known.used[place])

    def found(self) -> list[Shift]:
        """How far each feature moved; none where nothing can be compared."""
        if self.then is None or self.now is None:
            return []
        # The first and the last sample of a conversation say what it shares; all between are many long texts.
        ends = [sample for each in self.ends.values() for sample in each]
        joined = {target.conversation: group for target, group in groups_of(ends, self.group_by).of.items()}
        return shifts(self.then, self.now, lambda target: joined.get(target.conversation, target.conversation))


def _unique(
    source: Source, records: Iterable[Record], on_bad_row: Callable[[BadInput], None] | None
) -> Iterator[Conversation]:
    """The records' conversations; one whose id was there before is a bad row, since a score names its id alone."""
    seen: set[str] = set()
    for record in records:
        name = record.conversation.id
        if name not in seen:
            seen.add(name)
            yield record.conversation
        elif on_bad_row is None:
            raise BadInput(f"{source}: two conversations have the id {name!r}; give each its own")
        else:
            on_bad_row(BadInput(f"{source}: another conversation with the id {name!r}"))


class Scored(TypedDict):
    """Counts of the scores of a run, their mean, and reasons and kinds of warnings, counted; rows without a file.

    `rated` counts the rows whose target people had rated; `in_training` the conversations that were learned from.
    """

    scored: int
    mean: float | None
    rated: int
    conversations: int
    in_training: int
    unscored: dict[str, int]
    warnings: dict[str, int]
    rows: list[dict[str, Any]]


def written(store: Store, run: str, scores: Iterable[Score | Unscored], out: Path | None) -> Scored:
    """Write scores to the store and to a file as they come, and count them; without a file, return them."""
    total, count, rated = 0.0, 0, 0
    unscored: Counter[str] = Counter()
    warnings: Counter[str] = Counter()
    kept: list[dict[str, Any]] = []
    conversations, in_training, last = 0, 0, ""
    with nullcontext() if out is None else ScoreWriter(out) as writer:
        for batch in batches(scores, SCORED_AT_ONCE):
            rows = [score.to_json() for score in batch]
            kept.extend(rows) if writer is None else writer.write(rows)
            store.add_scores(run, rows, start=count + sum(unscored.values()))
            values = [row["value"] for row in rows if row["value"] is not None]
            total, count = total + sum(values), count + len(values)
            rated += sum(row["rated"] for row in rows)
            for row in rows:  # those of one conversation follow each other
                if row["conversation"] != last or not conversations:
                    conversations, in_training = conversations + 1, in_training + row["in_training"]
                    last = row["conversation"]
            unscored.update(row["unscored"] for row in rows if row["value"] is None)
            warnings.update(row["warning"].split(":")[0] for row in rows if row["warning"])
    return {
        "scored": count, "mean": total / count if count else None, "rated": rated,
        "conversations": conversations, "in_training": in_training,
        "unscored": dict(unscored), "warnings": dict(warnings), "rows": kept,
    }  # fmt: skip


def counted(run: Mapping[str, Any]) -> str:
    """Whether conversations that nobody held were counted in a run: `without`, `with`, `only`."""
    return str(run["settings"].get("synthetic", WITHOUT))


def latest(store: Store, *commands: str, synthetic: Synthetic = WITHOUT) -> dict[str, Any] | None:
    """The last finished run of some commands on such conversations; `None` where there is none."""
    done = [run for run in store.runs(*commands) if run["status"] == "done"]
    mine = [run for run in done if counted(run) == synthetic]
    return dict(mine[-1]) if mine else None


def latest_scores(store: Store, synthetic: Synthetic = WITHOUT) -> list[dict[str, Any]]:
    """The scores of the last finished `score` or `run`; none where nothing was scored yet."""
    found = latest(store, "score", "run", synthetic=synthetic)
    return [] if found is None else list(store.scores(found["id"]))


def latest_drift(store: Store, synthetic: Synthetic = WITHOUT) -> list[dict[str, Any]]:
    """How far the evidence of what was scored last had moved from what was learned from; none where unknown."""
    found = latest(store, "score", "run", synthetic=synthetic)
    return [] if found is None else list((found["results"] or {}).get("drift") or [])
