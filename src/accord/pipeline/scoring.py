"""Scores with the issues behind them: in which turn, which words show it, and how likely a person is to mark it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from accord.config import Config
from accord.evidence import EvidenceTable
from accord.formats import Record, ScoreWriter, locate, read
from accord.learning import RULES, Calibration, Evaluator, InContext, Issues, Marked, load_evaluator, predict_panel
from accord.methods import Counts, judged_turns, load_recipe
from accord.pipeline.adaptive import ask_adaptively, asking
from accord.pipeline.collecting import collect
from accord.pipeline.importing import Imported
from accord.pipeline.in_context_asking import in_context_evidence
from accord.pipeline.issues import found_in, issues_config, turns_of
from accord.pipeline.models import Models
from accord.store import Store, batches
from accord.validation import said, shifts
from accord.values import (
    BadInput,
    Conversation,
    IssueAnnotation,
    Rubric,
    Sample,
    Score,
    Target,
    UnknownName,
    Unscored,
    decision,
)

PART = "assessed in part"

Gather = Callable[[Sequence[Sample]], EvidenceTable]
Predict = Callable[[EvidenceTable], list[Score | Unscored]]
MarksByTurn = Mapping[Target, Sequence[Marked]]


class Explained:
    """Gathers and predicts as it is told to, and says of each score what was found wrong with the turns."""

    def __init__(
        self, store: Store, config: Config, evaluator: Evaluator, gather: Gather, known: Gather, predict: Predict
    ) -> None:
        """`known` is the evidence that is there already, which asks nobody: of turns, for people's marks of issues."""
        self._store, self._config, self._gather, self._known = store, config, gather, known
        self._predict = predict
        self._evaluator = evaluator if isinstance(evaluator, Issues) and evaluator.describe()["marks"] else None
        self._samples: Sequence[Sample] = ()

    def gather(self, samples: Sequence[Sample]) -> EvidenceTable:
        """The evidence of some subjects, which the next scores are about."""
        self._samples = samples
        return self._gather(samples)

    def predict(self, evidence: EvidenceTable) -> list[Score | Unscored]:
        """Their scores."""
        found = found_in(self._store, self._config, self._samples)
        marked = self._marked()
        missing = self._missing(found)
        return [
            _cautioned(
                replace(score, issues=listed(score.target, found.get(score.target, []), marked)),
                missing.get(score.target),
            )
            for score in self._predict(evidence)
        ]

    def _missing(self, found: Mapping[Target, Sequence[IssueAnnotation]]) -> dict[Target, str]:
        """Of whole conversations, what to say of turns that should have been assessed and were not."""
        issues = issues_config(self._config)
        if issues.by == "judge":
            return {}
        cautions = {}
        for sample in self._samples:
            wanted = set(judged_turns(sample.conversation, issues.everyone).turns)
            lost = wanted - {each.target.turn for each in found.get(sample.target, ())}
            if sample.turn is None and lost and len(lost) < len(wanted):
                cautions[sample.target] = f"{PART}: {len(lost)} of {len(wanted)} turns have no assessment"
        return cautions

    def _marked(self) -> MarksByTurn:
        """By turn the kinds that people would mark there."""
        if self._evaluator is None:
            return {}
        turns = turns_of(self._samples, issues_config(self._config))
        evidence = self._known(turns)
        return dict(zip(evidence.targets, self._evaluator.find(evidence), strict=True))


def _cautioned(score: Score | Unscored, caution: str | None) -> Score | Unscored:
    if caution is None or not isinstance(score, Score):
        return score
    return replace(score, warning=caution if score.warning is None else f"{caution}; {score.warning}")


def listed(target: Target, found: Sequence[IssueAnnotation], marked: MarksByTurn) -> tuple[dict[str, Any], ...]:
    """Issues as JSON, turn by turn: what a model wrote, then kinds that people would mark although it did not."""
    rows = []
    written = {(each.target.turn, issue.type) for each in found for issue in each.issues}
    for each in found:
        chances = {one.type: one.probability for one in marked.get(each.target, ())}
        for issue in each.issues:
            known = {"probability": chances[issue.type]} if issue.type in chances else {}
            rows.append({"turn": each.target.turn, "score": each.score, **issue.to_json(), **known})
    for where, kinds in marked.items():
        if where == target or (target.turn is None and where.conversation == target.conversation):
            rows += [
                {"turn": where.turn, "type": one.type, "probability": one.probability}
                for one in kinds
                if one.is_called and (where.turn, one.type) not in written
            ]
    return tuple(sorted(rows, key=lambda row: row["turn"] or 0))


SCORED_AT_ONCE = 500
WATCHED = 2000
"""Of so many conversations the evidence is compared with what was learned from."""


@dataclass(frozen=True)
class ScoreOptions:
    """How scores are made.

    Attributes:
        new_domain: The conversations come from another place: habits are trusted less.
        ask: The most questions that an adaptive rubric asks of a conversation; without it all are asked.
        until: Of the adaptive rubric: ask no further once the score varies less than this, in units of the scale.
        loss: Whose least expectation the value is.
    """

    new_domain: bool = False
    ask: int | None = None
    until: float = 0.0
    loss: str = "squared"

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UnknownName: No loss is called so.
        """
        decision(self.loss)


@dataclass(frozen=True)
class Perspective:
    """For whom scores speak: one annotator, a panel by its rule, or (neither) a person nobody has met."""

    annotator: str | None = None
    panel: Sequence[str] = ()
    rule: str = "mean"

    @classmethod
    def named(cls, annotator: str | None, panel: Sequence[str], rule: str | None) -> Perspective:
        """The speaker that a user's options name.

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


def score_all(
    conversations: Iterable[Conversation],
    gather: Gather,
    predict: Predict,
    on_scored: Callable[[int], None] | None = None,
) -> Iterator[Score | Unscored]:
    """Scores of conversations as they are read, some hundreds at a time; memory does not grow with their number.

    Args:
        conversations: To score.
        gather: The evidence of some of them.
        predict: What follows from it.
        on_scored: Called with how many are done.
    """
    done = 0
    for batch in batches(conversations, SCORED_AT_ONCE):
        yield from predict(gather([Sample(conversation) for conversation in batch]))
        done += len(batch)
        if on_scored is not None:
            on_scored(done)


def _ways(
    store: Store,
    config: Config,
    rubric: Rubric,
    models: Models,
    evaluator: Evaluator,
    folder: str | Path,
    speaker: Perspective,
    how: ScoreOptions,
) -> tuple[Gather, Predict]:
    """How evidence is gathered, and what is predicted from it, for whom.

    Raises:
        BadInput: An adaptive rubric is asked to speak for a panel, or cannot be made.
        UnknownName: Nobody of that name was learned from.
    """
    for name in (*speaker.panel, *([speaker.annotator] if speaker.annotator is not None else [])):
        evaluator.speaker(name)  # before anything is paid for
    everything = partial(collect, store, config, rubric, models=models)
    if isinstance(evaluator, InContext):
        everything = partial(in_context_evidence, store, models, load_recipe(folder), asked=Counts())
    if how.ask is not None:
        if speaker.panel:
            raise BadInput("an adaptive rubric asks for one speaker; name none or one with --annotator")
        rubric_ = asking(evaluator, models)
        some = partial(ask_adaptively, store, config, rubric, models, asking=rubric_, most=how.ask, until=how.until)
        return some, partial(rubric_.predict, annotator=speaker.annotator)
    if speaker.panel:
        return everything, partial(predict_panel, evaluator, annotators=speaker.panel, rule=speaker.rule)
    return everything, partial(evaluator.predict, annotator=speaker.annotator)


def score_file(
    store: Store,
    config: Config,
    rubric: Rubric,
    models: Models,
    folder: str | Path,
    source: str | Path,
    out: str | Path,
    speaker: Perspective,
    how: ScoreOptions = ScoreOptions(),
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_scored: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Score a file of conversations with a saved evaluator into another file; the store notes the run.

    Returns:
        Counts, the mean, the reasons of what stayed unscored, and the bad rows that were skipped.
    """
    locate(source)
    how.check()
    evaluator = load_evaluator(folder)
    evaluator.check_rubric(rubric)
    if how.new_domain:
        evaluator = evaluator.in_new_domain()
    imported = Imported()
    on_bad_row = imported.skip if skip_bad_rows else None
    conversations = _unique(source, read(source, format, columns, on_bad_row), on_bad_row)
    settings = {"evaluator": str(folder), "source": str(source), **config.shown()}
    with store.run("score", settings) as run:
        watch = _Watch(evaluator)
        gather, predict = _ways(store, config, rubric, models, evaluator, folder, speaker, how)
        # Answers that were chosen to be asked are no sample of all: only a full rubric shows a drift.
        seen = gather if how.ask is not None else lambda samples: watch.see(gather(samples))
        if config.issues is not None:
            known = partial(collect, store, config, rubric, models=models, ask=False)
            explained = Explained(store, config, evaluator, seen, known, predict)
            seen, predict = explained.gather, explained.predict
        scores = score_all(conversations, seen, predict, on_scored)
        decoded = (score.decoded(how.loss) if isinstance(score, Score) else score for score in scores)
        run.results.update(written(store, run.id, scores if how.loss == "squared" else decoded, Path(out)))
        run.results.update(watch.found())
        run.results.update(out=str(out), run=run.id, skipped=imported.skipped, bad_rows=imported.bad_rows)
    return run.results


class _Watch:
    """The evidence of the first conversations that are scored, to be compared with what was learned from."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator if isinstance(evaluator, Calibration) else None
        self.seen: EvidenceTable | None = None

    def see(self, evidence: EvidenceTable) -> EvidenceTable:
        """Note some more evidence, up to `WATCHED` rows, and hand it on."""
        if self.evaluator is not None and (self.seen is None or len(self.seen) < WATCHED):
            now = self.evaluator.features(evidence)
            self.seen = now if self.seen is None else self.seen.concat(now)
        return evidence

    def found(self) -> dict[str, Any]:
        """How far each feature moved, and a sentence; nothing where nothing can be compared."""
        if self.evaluator is None or self.seen is None:
            return {}
        moved = shifts(self.evaluator.trained_on_.texts(), self.seen)
        return {"drift": [shift.to_json() for shift in moved], "drift_said": said(moved)} if moved else {}


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


def written(store: Store, run: str, scores: Iterable[Score | Unscored], out: Path) -> dict[str, Any]:
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
    found = {"scored": int(count), "mean": total / count if count else None, "unscored": dict(unscored)}
    return {**found, "warnings": dict(warnings)}


def latest_scores(store: Store) -> list[dict[str, Any]]:
    """The scores of the last finished `score` or `run`; none where nothing was scored yet."""
    run = _latest(store)
    return [] if run is None else list(store.scores(run["id"]))


def latest_drift(store: Store) -> list[dict[str, Any]]:
    """How far the evidence of what was scored last had moved from what was learned from; none where unknown."""
    run = _latest(store)
    return [] if run is None else list((run["results"] or {}).get("drift", []))


def _latest(store: Store) -> dict[str, Any] | None:
    done = [run for run in store.runs() if run["status"] == "done" and run["command"] in {"score", "run"}]
    return dict(done[-1]) if done else None
