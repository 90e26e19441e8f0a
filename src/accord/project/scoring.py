"""Scoring a file of conversations with a fitted evaluator, some hundreds at a time, into a file and the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from accord.evidence import EvidenceTable
from accord.formats import Record, ScoreWriter, locate, read, read_labels
from accord.learning import RULES, Evaluator, Level, predict_panel, with_notes
from accord.models import run
from accord.project.adaptive import ask_adaptively, asking
from accord.project.certifying import Certificate, certify
from accord.project.importing import Imported
from accord.project.results import ScoreRun
from accord.project.selecting import LEFT, Selection
from accord.statistics import groups_of
from accord.store import Store, batches
from accord.validation import Shift, said, shifts
from accord.values import BadInput, Conversation, Labels, Sample, Score, UnknownName, Unscored, decision

if TYPE_CHECKING:
    from accord.project.project import Project

SCORED_AT_ONCE = 500
WATCHED = 2000
"""Of so many samples the evidence is compared with what was learned from."""
Turns = Literal["all", "last"]


@dataclass(frozen=True)
class ScoreOptions:
    """How scores are made.

    Attributes:
        new_domain: The conversations come from another place: habits are trusted less.
        ask: The most questions that an adaptive rubric asks of a conversation; without it all are asked.
        until: Of the adaptive rubric: ask no further once the score varies less than this, in units of the scale.
        loss: Whose least expectation the value is.
        turns: Of an evaluator of turns: every reply is scored, or the last one of each conversation.
        agree: Selective scores: what is called good or bad agrees with people at least so often; what is not sure
            enough has no value, and is left for a person (`accord.project.selecting`).
        good: With `agree`: the lowest answer that counts as good; by default the first above the scale's middle.
        certify: In a new domain: a file of fresh labels of some of the conversations, on which the bands are tried.
        adapt: With `certify`: bands that are not certified are measured anew on these labels, and not refused.
    """

    new_domain: bool = False
    ask: int | None = None
    until: float = 0.0
    loss: str = "squared"
    turns: Turns = "all"
    agree: float | None = None
    good: float | None = None
    certify: Path | None = None
    adapt: bool = False

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            BadInput: Selective scores where no held-out labels speak for them.
            UnknownName: No loss is called so, or no choice of turns.
        """
        if self.certify is not None and not self.new_domain:
            raise BadInput("--certify tries the bands in a new place; name --new-domain too")
        if self.adapt and self.certify is None:
            raise BadInput("--adapt measures bands anew on the labels of --certify; name a file of them")
        if self.good is not None and self.agree is None:
            raise BadInput("--good is the lowest answer that --agree takes for good; name --agree too, for example .9")
        if self.agree is not None and (self.new_domain or self.ask is not None):
            other = "--new-domain" if self.new_domain else "--ask"
            raise BadInput(
                "--agree rests on labels of conversations like those that were learned from, judged in full; leave "
                f"out {other}"
            )
        decision(self.loss)
        if self.turns not in ("all", "last"):
            raise UnknownName("choice of turns", self.turns, ("all", "last"))


@dataclass(frozen=True)
class Perspective:
    """Whose scores they are: one annotator's, a panel's by its rule, or (neither) a person's whom nobody has met."""

    annotator: str | None = None
    panel: Sequence[str] = ()
    rule: str = "mean"

    @classmethod
    def named(cls, annotator: str | None, panel: Sequence[str], rule: str | None) -> Perspective:
        """The perspective that a user's options name.

        Raises:
            BadInput: They name two, or a panel's rule without a panel.
            UnknownName: No panel speaks by such a rule.
        """
        if annotator is not None and panel:
            raise BadInput("scores speak for one annotator or for a panel; name one of the two")
        if rule is not None and rule not in RULES:
            raise UnknownName("panel rule", rule, RULES)
        if rule is not None and not panel:
            raise BadInput(f"rule {rule!r} is how a panel speaks; name its members with --panel")
        return cls(annotator, panel, rule or "mean")


Scores = list[Score | Unscored]


def samples_of(conversation: Conversation, level: Level | None, turns: Turns = "all") -> list[Sample]:
    """What an evaluator scores of a conversation: the whole, or its replies."""
    if level != "turn":
        return [Sample(conversation)]
    replies = {id(turn) for turn in conversation.replies}
    places = [place for place, turn in enumerate(conversation.turns) if id(turn) in replies]
    return [Sample(conversation, place) for place in (places[-1:] if turns == "last" else places)]


def score_file(
    project: Project,
    evaluator: Evaluator,
    source: str | Path,
    out: str | Path,
    perspective: Perspective = Perspective(),
    options: ScoreOptions = ScoreOptions(),
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_scored: Callable[[int], None] = lambda done: None,
    on_total: Callable[[int], None] | None = None,
) -> ScoreRun:
    """Score a file of conversations into another, at the level that the evaluator learned; the store notes the run.

    Where somebody wants to know how many samples there are (`on_total`), they are counted first.

    Raises:
        BadInput: A file cannot be read or written, or an adaptive rubric is asked to speak for a panel.
        UnknownName: Nobody of that name was learned from.
    """
    locate(source)
    options.check()
    certificate = None
    if options.certify is not None:
        certificate = _certificate(project, evaluator, read(source, format, columns), options)
    if on_total is not None:
        records = read(source, format, columns, lambda error: None)
        on_total(sum(len(samples_of(each.conversation, evaluator.level, options.turns)) for each in records))
    imported = Imported()
    on_bad_row = imported.skip if skip_bad_rows else None
    conversations = _unique(source, read(source, format, columns, on_bad_row), on_bad_row)
    return score(project, evaluator, conversations, Path(out), str(source), perspective, options, on_scored, imported,
                 certificate=certificate)  # fmt: skip


def score(
    project: Project,
    evaluator: Evaluator,
    conversations: Iterable[Conversation],
    out: Path,
    source: str = "store",
    perspective: Perspective = Perspective(),
    options: ScoreOptions = ScoreOptions(),
    on_scored: Callable[[int], None] = lambda done: None,
    imported: Imported | None = None,
    command: str = "score",
    samples: Iterable[Sample] | None = None,
    certificate: Certificate | None = None,
) -> ScoreRun:
    """Score conversations as they come, or given samples of them; memory does not grow with their number."""
    options.check()
    selection = _selection(evaluator, perspective, options)
    evaluator = evaluator.in_new_domain() if options.new_domain else evaluator
    score_batch, watch = _scoring(project, evaluator, perspective, options)
    settings = {"evaluator": evaluator.name, "source": source, **project.config.shown()}
    skipped = imported or Imported()
    with project.store.run(command, settings) as kept:
        if samples is None:
            samples = (s for each in conversations for s in samples_of(each, evaluator.level, options.turns))

        def scores() -> Iterator[Score | Unscored]:
            done = 0
            for batch in batches(samples, SCORED_AT_ONCE):
                found = score_batch(batch)
                if selection is not None:
                    found = [selection.call(one) for one in found]
                    _keep_left(project.store, batch, found)
                if certificate is not None:
                    found = [certificate.banded(one) for one in found]
                for one in found:
                    yield one.decoded(options.loss) if isinstance(one, Score) and options.loss != "squared" else one
                done += len(batch)
                on_scored(done)

        counts = written(project.store, kept.id, scores(), out)
        moved = watch.found()
        done = ScoreRun(
            **counts, level=evaluator.level or "conversation", out=str(out), run=kept.id, skipped=skipped.skipped,
            bad_rows=tuple(skipped.bad_rows), drift=[shift.to_json() for shift in moved],
            drift_said=said(moved) if moved else None, selection=None if selection is None else selection.to_json(),
            certificate=None if certificate is None else certificate.to_json(),
        )  # fmt: skip
        kept.results.update(done.to_json())
    return done


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
    known = set(project.store.labels().on(evaluator.question.id).targets)
    if old := [str(target) for target in fresh.targets if target in known]:
        raise BadInput(
            f"{options.certify}: {old[0]} has labels in the store already; fresh ones are used for nothing else"
        )
    wanted = {target.conversation for target in fresh.targets}
    found = {each.conversation.id: each.conversation for each in records if each.conversation.id in wanted}
    samples = [Sample(found[t.conversation], t.turn) for t in fresh.targets if t.conversation in found]
    evidence = project.measure(evaluator.sources, samples, project.models)
    return certify(evaluator.in_new_domain(), evidence, fresh, options.adapt)


def _selection(evaluator: Evaluator, perspective: Perspective, options: ScoreOptions) -> Selection | None:
    """Which scores are sure enough, where that is asked; found out before anything is paid for.

    Raises:
        BadInput: For a panel, or nothing is sure enough.
    """
    if options.agree is None:
        return None
    if perspective.panel:
        raise BadInput("--agree speaks for one annotator or for anybody; leave out --panel")
    return Selection.of(evaluator, options.agree, options.good, anybody=perspective.annotator is None)


def _keep_left(store: Store, samples: Sequence[Sample], scores: Scores) -> None:
    """Keep the conversations that were left for a person, so that `label next` can name them; known ones stay."""
    left = {score.target for score in scores if isinstance(score, Unscored) and score.reason == LEFT}
    wanted = {s.conversation.id: s.conversation for s in samples if s.target in left}
    store.add_conversations(wanted.values(), on_changed=lambda name: None)


def _scoring(
    project: Project, evaluator: Evaluator, perspective: Perspective, options: ScoreOptions
) -> tuple[Callable[[Sequence[Sample]], Scores], _Watch]:
    """How a batch of samples is scored, for whom; and what watches its evidence.

    Raises:
        BadInput: An adaptive rubric is asked to speak for a panel, or cannot be made.
        UnknownName: Nobody of that name was learned from.
    """
    for name in (*perspective.panel, *([perspective.annotator] if perspective.annotator is not None else [])):
        evaluator.head.speaker(name)  # before anything is paid for
    watch = _Watch(evaluator, project.config.group_by)
    predict: Callable[[EvidenceTable], Scores] = partial(evaluator.head.predict, annotator=perspective.annotator)
    gather = partial(project.measure, evaluator.sources, models=project.models)
    if options.ask is not None:
        if perspective.panel:
            raise BadInput("an adaptive rubric asks for one perspective; name none or one with --annotator")
        rubric = asking(evaluator)
        predict = partial(rubric.predict, annotator=perspective.annotator)

        def adaptively(samples: Sequence[Sample]) -> EvidenceTable:
            return ask_adaptively(project, evaluator, samples, rubric, options.ask or 0, options.until)

    elif perspective.panel:
        predict = partial(predict_panel, evaluator.head, annotators=perspective.panel, rule=perspective.rule)

    def score_batch(samples: Sequence[Sample]) -> Scores:
        # Answers that were chosen to be asked are no sample of all: only a full rubric shows a drift.
        evidence = adaptively(samples) if options.ask is not None else watch.see(samples, gather(samples))
        scores = with_notes(predict(evidence), evidence)
        return run(evaluator.with_others(samples, scores), project.models)

    return score_batch, watch


class _Watch:
    """The evidence of the first samples that are scored, to be compared with what was learned from."""

    def __init__(self, evaluator: Evaluator, group_by: Iterable[str]) -> None:
        self.head, self.group_by = evaluator.head, group_by
        self.ends: dict[str, list[Sample]] = {}
        self.then: EvidenceTable | None = None
        self.now: EvidenceTable | None = None

    def see(self, samples: Sequence[Sample], evidence: EvidenceTable) -> EvidenceTable:
        """Note some more evidence, up to `WATCHED` rows, and hand it on."""
        if self.now is None or len(self.now) < WATCHED:
            found = self.head.seen(evidence)
            if found is not None:
                for sample in samples:
                    ends = self.ends.setdefault(sample.conversation.id, [])
                    ends[1:] = [sample]
                self.then = found[0]
                self.now = found[1] if self.now is None else self.now.concat(found[1])
        return evidence

    def found(self) -> list[Shift]:
        """How far each feature moved; none where nothing can be compared."""
        if self.then is None or self.now is None:
            return []
        # The first and the last sample of a conversation say what it shares; all between are many long texts.
        ends = [sample for each in self.ends.values() for sample in each]
        joined = {target.conversation: group for target, group in groups_of(ends, self.group_by).of.items()}
        return shifts(self.then, self.now, lambda target: joined.get(target.conversation, target.conversation))


def _unique(
    source: str | Path, records: Iterable[Record], on_bad_row: Callable[[BadInput], None] | None
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
    """How many scores there are, their mean, why others are missing, and warnings by their kind, counted."""

    scored: int
    mean: float | None
    unscored: dict[str, int]
    warnings: dict[str, int]


def written(store: Store, run: str, scores: Iterable[Score | Unscored], out: Path) -> Scored:
    """Scores to the file and to the store as they come, counted on the way."""
    total = count = 0.0
    unscored: Counter[str] = Counter()
    warnings: Counter[str] = Counter()
    with ScoreWriter(out) as writer:
        for batch in batches(scores, SCORED_AT_ONCE):
            rows = [score.to_json() for score in batch]
            writer.write(rows)
            store.add_scores(run, rows, start=int(count) + sum(unscored.values()))
            values = [row["value"] for row in rows if row["value"] is not None]
            total, count = total + sum(values), count + len(values)
            unscored.update(row["unscored"] for row in rows if row["value"] is None)
            warnings.update(row["warning"].split(":")[0] for row in rows if row["warning"])
    mean = total / count if count else None
    return {"scored": int(count), "mean": mean, "unscored": dict(unscored), "warnings": dict(warnings)}


def latest(store: Store, *commands: str) -> dict[str, Any] | None:
    """The last finished run of some commands; `None` where there is none."""
    done = [run for run in store.runs() if run["status"] == "done" and run["command"] in commands]
    return dict(done[-1]) if done else None


def latest_scores(store: Store) -> list[dict[str, Any]]:
    """The scores of the last finished `score` or `run`; none where nothing was scored yet."""
    found = latest(store, "score", "run")
    return [] if found is None else list(store.scores(found["id"]))


def latest_drift(store: Store) -> list[dict[str, Any]]:
    """How far the evidence of what was scored last had moved from what was learned from; none where unknown."""
    found = latest(store, "score", "run")
    return [] if found is None else list((found["results"] or {}).get("drift") or [])
