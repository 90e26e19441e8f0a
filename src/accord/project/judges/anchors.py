"""Anchors: a fixed sample of rated conversations that the present judge judges again, at most once a day.

The evaluator scores each anchor by its usual pipeline, with an empty store of answers in memory: every question is
asked again, and the answers that evaluators learned from are neither read nor replaced. The new score is stored with
its day, next to the score from the stored answers. Processes claim an anchor before they ask, so that none is judged
twice a day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from accord.edges import AccordError, BadInput, BudgetReached, ModelError
from accord.evidence import EvidenceTable, Readable
from accord.models import JUDGE, NOT_YET, Caps, Flow, Plan, plan_range, run
from accord.scoring import RowOrigin, Scorer
from accord.store import MONEY_UNITS, Claims, Store, batches, name_hash
from accord.store import anchors as stored
from accord.values import Sample, Score, Target, Unscored

if TYPE_CHECKING:
    from accord.learning import Evaluator
    from accord.project.results import Spent
    from accord.project.workspace import Workspace

ANCHORS = "anchors"
"""Command of the runs that judge anchors."""
AT_ONCE = 16
"""Anchors that are claimed, judged and stored together; a killed process loses the answers about at most as many."""
CLAIM_SECONDS = 1800.0
"""Duration of a claim: a killed process leaves its anchors to others after this time."""


@dataclass(frozen=True, repr=False)
class AnchorRun(Readable):
    """Result of judging anchors.

    Attributes:
        evaluator: Evaluator that scored them, with the digest of its learned state.
        day: ISO date (UTC).
        anchors: Number of anchors.
        judged: Anchors judged by this run.
        already: Anchors that were judged earlier on this day.
        elsewhere: Anchors that another process is judging.
        failed: Anchors without all answers, by reason; their answers are not stored.
        spent: Requests, tokens, money.
        stopped: Error that ended the run early, if any.
    """

    evaluator: str
    day: str
    anchors: int
    judged: int = 0
    already: int = 0
    elsewhere: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    spent: Spent = field(default_factory=dict)
    stopped: str | None = None

    def summary(self) -> dict[str, Any]:
        """Return the counts."""
        counts = {"anchors": self.anchors, "judged": self.judged, "already": self.already}
        return {**counts, "failed": sum(self.failed.values()), "stopped": self.stopped}

    def to_json(self) -> dict[str, Any]:
        """Return all fields."""
        return dict(vars(self))


def evaluator_id(evaluator: Evaluator) -> str:
    """Return the name of an evaluator with the digest of its learned state, as in scores of the board."""
    return RowOrigin.of(evaluator.name, evaluator.digest(), evaluator.question.id).evaluator


def judge_anchors(
    project: Workspace,
    count: int | None = None,
    on_step: Callable[[], None] = lambda: None,
    on_stop: Callable[[AnchorRun], None] = lambda run: None,
    now: datetime | None = None,
) -> AnchorRun:
    """Judge the anchors of the evaluator in use that were not judged today, within the budget.

    Args:
        project: The project.
        count: Number of anchors; default: `monitoring.anchors.count`.
        on_step: Called after each anchor.
        on_stop: Called with the counts so far before BudgetReached or ModelError is raised.
        now: Current time.

    Raises:
        BadInput: No evaluator is fitted, it asks no model, or no rated conversation has stored answers.
        BudgetReached: The budget is spent; anchors judged so far are stored.
        ModelError: No request can succeed.
    """
    day, scorer = _day(now), _scorer(project)
    name = evaluator_id(scorer.evaluator)
    chosen = _choose(project, scorer, name, count or project.config.monitoring.anchors.count)
    settings = {"evaluator": name, "day": day, "anchors": len(chosen)}
    with (
        _capped(project, day),
        project.store.run(ANCHORS, settings) as record,
        closing(Store("sqlite:///:memory:")) as answers,
    ):
        round_ = _Round(project, scorer, name, day, chosen, answers)
        try:
            round_.judge(on_step)
        except (BudgetReached, ModelError) as error:
            stopped = round_.result(str(error))
            record.results.update(stopped.to_json())
            on_stop(stopped)
            raise
        finally:
            record.results["spent"] = round_.spent
        result = round_.result()
        record.results.update(result.to_json())
    return result


def plan_anchors(project: Workspace, count: int | None = None, now: datetime | None = None) -> Plan:
    """Plan the requests and the cost of `judge_anchors` without a request."""
    scorer = _scorer(project)
    name, day = evaluator_id(scorer.evaluator), _day(now)
    chosen = _choose(project, scorer, name, count or project.config.monitoring.anchors.count)
    done = {each.target for each in stored.Anchors(project.store).of(name) if each.day == day}
    samples = project.samples(target for target in chosen if target not in done)
    with closing(Store("sqlite:///:memory:")) as answers:
        models = project.open_models(asks=True, store=answers)
        result = plan_range(lambda: scorer.evaluator.evidence(samples), models)
    result.samples = len(samples)
    return result


class _Round:
    """Anchors of one evaluator on one day, judged with answers in a store of their own.

    `known` has for each anchor the score from the answers that the evaluator learned from, and the columns that need
    answers.
    """

    def __init__(
        self, project: Workspace, scorer: Scorer, name: str, day: str, known: Mapping[Target, _Known], answers: Store
    ) -> None:
        self._project, self._scorer, self._name, self._day, self._known = project, scorer, name, day, known
        self._models = project.open_models(asks=True, store=answers)
        self._table, self._claims = stored.Anchors(project.store), Claims(project.store, lease=CLAIM_SECONDS)
        self.judged = self.already = self.elsewhere = 0
        self.failed = Counter[str]()
        self._before = project.budget.to_json()

    @property
    def spent(self) -> dict[str, float | None]:
        """Requests, tokens and money of this round."""
        return _spent_since(self._before, self._project.budget.to_json())

    def result(self, stopped: str | None = None) -> AnchorRun:
        """Return the counts so far."""
        return AnchorRun(
            self._name, self._day, len(self._known), self.judged, self.already, self.elsewhere, dict(self.failed),
            self.spent, stopped,
        )  # fmt: skip

    def judge(self, on_step: Callable[[], None]) -> None:
        """Judge all anchors that were not judged today, in batches that are claimed and stored together."""
        for batch in batches(self._known, AT_ONCE):
            keys = {stored.anchor_key(self._name, target, self._day): target for target in batch}
            mine = self._claims.exchange((), keys).mine
            try:
                done = {each.target for each in self._table.of(self._name) if each.day == self._day}
                claimed = [target for key, target in keys.items() if key in mine and target not in done]
                self.already += len(done.intersection(batch))
                self.elsewhere += sum(key not in mine and target not in done for key, target in keys.items())
                self._judge(self._project.samples(claimed), on_step)
            finally:
                self._claims.exchange(mine, ())

    def _judge(self, samples: Sequence[Sample], on_step: Callable[[], None]) -> None:
        """Judge some anchors and store those with all answers, also if the budget ends in the middle."""
        if not samples:
            return
        try:
            self._keep(*run(_flow(self._scorer, samples), self._models), on_step)
        except (BudgetReached, ModelError):
            self._keep(*run(_flow(self._scorer, samples), self._models.replayed()), on_step, counts_failed=False)
            raise

    def _keep(
        self,
        evidence: EvidenceTable,
        scores: Sequence[Score | Unscored],
        on_step: Callable[[], None],
        counts_failed: bool = True,
    ) -> None:
        rows = []
        for score in scores:
            known, answers = self._known[score.target], _answers(self._scorer.evaluator, evidence, score.target)
            missing = sorted(known.columns - answers.keys())
            if isinstance(score, Unscored) or missing:
                if counts_failed:
                    self.failed[_reason(evidence, score, missing)] += 1
                continue
            version = evidence.versions.get(score.target, "")
            rows.append(stored.Anchor(self._name, score.target, self._day, known.then, score.value, answers, version))
            on_step()
        self.judged += self._table.add(rows)


# --- the sample -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Known:
    """Score of an anchor from the answers that the evaluator learned from, and the columns with these answers."""

    then: float
    columns: frozenset[str]


def _choose(project: Workspace, scorer: Scorer, name: str, count: int) -> dict[Target, _Known]:
    """Return `count` anchors: those that were judged before, then further rated targets in a fixed random order.

    Each conversation gives one target. Targets without all answers that the evaluator learned from are left out.
    """
    before: dict[Target, _Known] = {}
    for each in stored.Anchors(project.store).of(name):
        before.setdefault(each.target, _Known(each.then, frozenset(each.answers)))
    seed, by_conversation = project.config.seed, dict[str, Target]()
    for target in sorted(_rated(project, scorer.evaluator), key=lambda target: name_hash(f"anchor {seed} {target}")):
        by_conversation.setdefault(target.conversation, target)
    rated = {target.conversation for target in by_conversation.values()}
    chosen = {target: known for target, known in before.items() if target.conversation in rated}
    used = {target.conversation for target in chosen}
    fresh = [target for name, target in by_conversation.items() if name not in used]
    for batch in batches(fresh, max(count, AT_ONCE)):
        if len(chosen) >= count:
            break
        chosen |= _measured(project, scorer, batch)
    if not chosen:
        raise BadInput(
            "no rated conversation has the answers that the evaluator learned from, so there are no anchors. "
            "Run: accord judge"
        )
    return dict(list(chosen.items())[:count])


def _rated(project: Workspace, evaluator: Evaluator) -> Iterator[Target]:
    """Yield the rated targets of an evaluator's question and level."""
    is_whole = evaluator.level != "turn"
    for target in project.rated(evaluator.question.id).targets:
        if (target.turn is None) == is_whole:
            yield target


def _measured(project: Workspace, scorer: Scorer, targets: Sequence[Target]) -> dict[Target, _Known]:
    """Return the targets whose answers are all stored, in order, with their scores."""
    evidence, scores = run(_flow(scorer, project.samples(targets)), project.stored_models)
    unjudged = {target for (target, _), reason in evidence.absences.items() if reason == NOT_YET}
    found = {}
    for score in scores:
        columns = frozenset(_answers(scorer.evaluator, evidence, score.target))
        if isinstance(score, Score) and columns and score.target not in unjudged:
            found[score.target] = _Known(score.value, columns)
    return {target: found[target] for target in targets if target in found}


def _flow(scorer: Scorer, samples: Sequence[Sample]) -> Flow[tuple[EvidenceTable, list[Score | Unscored]]]:
    """Score samples without the plausibility check, which asks no judge."""
    return scorer.flow(samples, is_checked=lambda sample: False)


def _answers(evaluator: Evaluator, evidence: EvidenceTable, target: Target) -> dict[str, float]:
    """Return the evidence of a target that models gave, by column."""
    asking = {source.name for source in evaluator.sources if source.roles}
    [row] = evidence.rows_of([target])
    return {
        column.name: float(evidence.values[row, place])
        for place, column in enumerate(evidence.columns)
        if column.source in asking and evidence.present[row, place]
    }


def _reason(evidence: EvidenceTable, score: Score | Unscored, missing: Sequence[str]) -> str:
    """Return the reason why an anchor has not all answers."""
    questions = {column.name: column.question or column.name for column in evidence.columns}
    for name in missing:
        reason = evidence.absences.get((score.target, questions.get(name, name)))
        if reason is not None:
            return reason
    return score.reason if isinstance(score, Unscored) else "no answer"


# --- checks -----------------------------------------------------------------------------------------------------------


def _scorer(project: Workspace) -> Scorer:
    """Return the scorer of the evaluator in use.

    Raises:
        BadInput: None is fitted, or it asks no model that can be asked again.
    """
    evaluator = project.load()
    roles = {role for source in evaluator.sources for role in source.roles}
    if not roles:
        raise BadInput(
            f"the evaluator {evaluator.name!r} asks no model, so no judge can move its scores, and anchors tell "
            "nothing. Fit one with a judge: accord fit default"
        )
    judge = project.model_settings.get(JUDGE)
    if roles == {JUDGE} and JUDGE not in project.given and judge is not None and judge.mode == "recorded":
        raise BadInput(
            "the judge is a recording, which cannot be asked again. Name the model that was recorded in accord.yaml: "
            "models: {judge: {mode: logprobs, model: NAME}}"
        )
    return Scorer(evaluator)


@contextmanager
def _capped(project: Workspace, day: str) -> Iterator[None]:
    """Cap the budget inside the block by the rest of the caps on anchors for a day."""
    own, budget = project.config.monitoring.anchors.budget, project.budget
    spent: Counter[str] = Counter()
    for each in project.store.runs():
        if each["command"] == ANCHORS and each["settings"].get("day") == day:
            spent.update(_amounts((each["results"] or {}).get("spent") or {}))
    general, begun = budget.caps, Counter(_amounts(budget.to_json()))
    if budget.account is not None:  # its caps are on the total of all runs
        taken = budget.account.taken()
        begun = Counter({**taken._asdict(), "money": taken.money / MONEY_UNITS})
    caps: dict[str, Any] = {unit: getattr(general, unit) for unit in ("requests", "tokens", "money")}
    for unit, most in caps.items():
        if (cap := getattr(own, unit)) is not None:
            left = begun[unit] + max(cap - spent[unit], 0)
            caps[unit] = left if most is None else min(left, most)
    budget.caps = Caps(**caps)
    try:
        yield
    finally:
        budget.caps = general


def _amounts(spent: Spent) -> dict[str, Any]:
    """Return requests, tokens and money of a budget's JSON."""
    tokens = (spent.get("input_tokens") or 0) + (spent.get("output_tokens") or 0)
    return {"requests": spent.get("requests") or 0, "tokens": tokens, "money": spent.get("money") or 0}


def _spent_since(before: Spent, after: Spent) -> dict[str, float | None]:
    """Return the amounts that were spent between two states of a budget."""
    return {name: None if value is None else value - (before.get(name) or 0) for name, value in after.items()}


def _day(now: datetime | None) -> str:
    return (now or datetime.now(UTC)).date().isoformat()


def is_due(project: Workspace, now: datetime | None = None) -> bool:
    """Return True if the evaluator in use has anchors that the setting `monitoring.anchors.every` asks for now.

    An unfitted evaluator, or one that asks no model, has none.
    """
    every = project.config.monitoring.anchors.every
    try:
        name = evaluator_id(_scorer(project).evaluator)
    except AccordError:
        return False
    days = [each.day for each in stored.Anchors(project.store).of(name)]
    if every is None or not days:
        return every is not None
    time = now or datetime.now(UTC)
    return (time.date() - datetime.fromisoformat(max(days)).date()) >= every
