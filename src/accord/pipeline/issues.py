"""Issues of a project: who finds them, in which turns, and what was found, as evidence.

Every assessment is kept in the store as soon as its dialogue is done: the same command again asks for the rest alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord.config import Config, IssuesConfig
from accord.evidence import EvidenceTable, judge_samples, measure_meaning
from accord.formats import REPEAT
from accord.methods import (
    SHIPPED_SHOTS,
    Asking,
    IssuePromptBuilder,
    Selection,
    annotate,
    assessed,
    issue_table,
    judged_turns,
    probable,
    prompts_of,
    statistics,
)
from accord.models import (
    HF,
    OUT_OF_BUDGET,
    Answer,
    Budget,
    ChatModel,
    Judge,
    Judged,
    Unanswered,
    as_finished,
    drive,
    in_process,
    judging_signature,
    own_context,
    wait,
)
from accord.models.embedded.hf import MADE
from accord.pipeline.planning import Plan
from accord.store import IssueAnnotations, Store, batches
from accord.values import (
    BadInput,
    BudgetReached,
    Conversation,
    IssueAnnotation,
    Sample,
    Target,
    Taxonomy,
    Unannotated,
    load_taxonomy,
)

DIALOGUES_AT_ONCE = 100
NO_FINDER = "the project does not say who finds issues; add to accord.yaml: issues: {model: NAME}"


def issues_config(config: Config) -> IssuesConfig:
    """Who finds issues in a project.

    Raises:
        BadInput: It does not say, or names no model.
    """
    if config.issues is None:
        raise BadInput(NO_FINDER)
    if config.issues.by != "judge" and not config.issues.model:
        raise BadInput(f"issues: by {config.issues.by} needs a model: issues: {{by: {config.issues.by}, model: NAME}}")
    return config.issues


def asking_of(issues: IssuesConfig) -> Asking:
    """How the configured model is asked; one that Accord taught is asked as it was taught.

    Raises:
        BadInput: The taxonomy cannot be read, or is another one than the model was taught.
    """
    taxonomy, model = load_taxonomy(issues.taxonomy), issues.model or ""
    here = in_process(model)
    context = issues.context or own_context(model)
    taught = taught_with(model.removeprefix(HF)) if model.startswith(HF) else None
    if taught is not None:
        guidance = IssuePromptBuilder(taxonomy, by_schema=False, style=taught["style"])
        if guidance.hash != taught["hash"]:
            raise BadInput(
                f"{model} was taught the taxonomy {taught['taxonomy']['name']!r} as it was then; the project's "
                f"{taxonomy.name!r} says otherwise. Name the same one, or teach the model again"
            )
        return Asking(guidance, together=False, context=context)
    shown = {entry["type"] for shot in SHIPPED_SHOTS for entry in shot.verdict["issues"]}
    shots = SHIPPED_SHOTS if issues.examples and shown <= set(taxonomy.names) else ()
    return Asking(IssuePromptBuilder(taxonomy, not here, shots), issues.together and not here, context)


def taught_with(folder: str) -> dict[str, Any] | None:
    """How a model that Accord taught was asked while it learned; `None` for any other folder."""
    made = Path(folder) / MADE
    return json.loads(made.read_text(encoding="utf-8"))["guidance"] if made.is_file() else None


def maker_of(store: Store, issues: IssuesConfig) -> str:
    """Under which name a project's assessments are kept.

    Raises:
        BadInput: Nothing was imported from the recorded model, or several kinds of it were.
    """
    if issues.by == "chat":
        return asking_of(issues).made_by(str(issues.model))
    named = (name for name in IssueAnnotations(store).makers() if f"|model:{issues.model}|" in name)
    makers = [name for name in named if REPEAT not in name]
    if len(makers) != 1:
        known = ", ".join(IssueAnnotations(store).makers()) or "none"
        raise BadInput(f"{len(makers)} sets of assessments by {issues.model!r} are in the store; there are: {known}")
    return makers[0]


# --- asking -------------------------------------------------------------------------------------------------------


@dataclass
class Counts:
    """What looking for issues came to, counted as it goes."""

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
    reasons: dict[Target, str] = field(default_factory=dict, repr=False)

    def selected(self, selection: Selection, known: int) -> None:
        """Count the turns of a dialogue, and those that were assessed before."""
        self.dialogues += 1
        self.turns += len(selection.turns)
        self.known += known
        self.skipped += selection.skipped
        self.odd += selection.odd

    def found(self, each: IssueAnnotation | Unannotated) -> None:
        """Count what came of one turn."""
        if isinstance(each, Unannotated):
            reason = each.detail if each.reason == "no verdict" else each.reason
            self.unassessed[reason] += 1
            self.reasons[each.target] = f"not assessed: {reason}"
            return
        self.assessed += 1
        self.issues += len(each.issues)
        self.made_up_quotes += sum(issue.is_made_up for issue in each.issues)
        self.losses.update(each.losses)

    def to_json(self) -> dict[str, Any]:
        """The counts."""
        counts = {name: value for name, value in vars(self).items() if name != "reasons"}
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in counts.items()}


Work = tuple[Conversation, Sequence[int]]


def work_of(store: Store, config: Config, wanted: Iterable[Conversation], counts: Counts) -> Iterator[Work]:
    """Each conversation that is wanted with the turns that nobody has assessed yet, counted on the way."""
    issues = issues_config(config)
    made_by = maker_of(store, issues)
    for conversation in wanted:
        selection = judged_turns(conversation, issues.everyone)
        known = {each.target.turn for each in IssueAnnotations(store).of([conversation], made_by)}
        missing = [turn for turn in selection.turns if turn not in known]
        counts.selected(selection, len(selection.turns) - len(missing))
        if missing:
            yield conversation, missing


def find_issues(
    store: Store,
    config: Config,
    model: ChatModel,
    wanted: Iterable[Conversation],
    on_step: Callable[[], None] = lambda: None,
) -> Counts:
    """Have a chat model assess the turns of some conversations that it has not assessed yet.

    Raises:
        BudgetReached: The next call would pass the budget; what was assessed is kept.
        ModelError: No call can succeed.
    """
    counts, issues = Counts(), issues_config(config)
    asking, over = asking_of(issues), list[str]()
    kept = IssueAnnotations(store)

    async def one(work: Work) -> list[IssueAnnotation | Unannotated]:
        return await drive(annotate(*work, asking, str(issues.model)), model)

    def until_over() -> Iterator[Work]:
        for work in work_of(store, config, wanted, counts):
            if over:
                return
            yield work

    async def run() -> None:
        async with aclosing(as_finished(one, until_over(), issues.at_once)) as finished:
            async for _, found in finished:
                kept.add(each for each in found if isinstance(each, IssueAnnotation))
                for each in found:
                    counts.found(each)
                    if isinstance(each, Unannotated) and each.reason == OUT_OF_BUDGET:
                        over.append(each.detail)
                on_step()

    wait(run())
    if over:
        raise BudgetReached(over[0])
    return counts


def plan_finding(store: Store, config: Config, wanted: Iterable[Conversation], budget: Budget) -> Plan:
    """What `find_issues` would cost at least: second requests for what cannot be read come on top."""
    plan, counts, issues = Plan(), Counts(), issues_config(config)
    asking = asking_of(issues)
    for conversation, turns in work_of(store, config, wanted, counts):
        plan.add(str(issues.model), prompts_of(conversation, turns, asking))
    plan.samples, plan.questions, plan.answered = counts.dialogues, counts.turns, counts.known
    plan.price(budget)
    return plan


def judge_issues(
    store: Store,
    config: Config,
    judge: Judge,
    wanted: Iterable[Conversation],
    terms: tuple[int, int | None],
    on_judged: Callable[[Judged], None] = lambda _: None,
) -> Counts:
    """Ask a judge about every kind of issue in the turns of some conversations; see `judge_subjects`."""
    counts, issues = Counts(), issues_config(config)
    rubric = load_taxonomy(issues.taxonomy).rubric

    def count(judged: Judged) -> None:
        answered = [answer for answer in judged.answers if isinstance(answer, Answer)]
        counts.known += bool(answered) and not judged.asked
        counts.assessed += bool(answered) and judged.asked > 0
        counts.issues += sum(answer.probabilities.get("1", 0.0) > 0.5 for answer in answered)
        counts.unassessed.update(a.reason for a in judged.answers if isinstance(a, Unanswered))
        on_judged(judged)

    for batch in batches(wanted, DIALOGUES_AT_ONCE):
        for conversation in batch:
            counts.selected(judged_turns(conversation, issues.everyone), 0)
        judge_samples(judge, rubric, turns_of(map(Sample, batch), issues), store, count, *terms)
    return counts


def turns_of(samples: Iterable[Sample], issues: IssuesConfig) -> list[Sample]:
    """The turns of which a judge is asked: those of the subjects' conversations, up to the last that is a subject."""
    upto: dict[str, tuple[Conversation, int]] = {}
    for sample in samples:
        last = len(sample.conversation.turns) - 1 if sample.turn is None else sample.turn
        before = upto.get(sample.conversation.id)
        upto[sample.conversation.id] = (sample.conversation, max(last, before[1] if before else -1))
    return [
        Sample(conversation, turn)
        for conversation, last in upto.values()
        for turn in judged_turns(conversation, issues.everyone).turns
        if turn <= last
    ]


def issue_evidence(
    store: Store,
    config: Config,
    samples: Sequence[Sample],
    judge: Judge | None,
    finder: ChatModel | None,
    terms: tuple[int, int | None],
) -> EvidenceTable:
    """What was found in some subjects, as columns.

    Where the project's judge finds issues, `judge` is asked; a `finder` assesses the turns that it has not assessed
    yet, and without one these are missing.
    """
    issues = issues_config(config)
    taxonomy = load_taxonomy(issues.taxonomy)
    if issues.by == "judge":
        assert judge is not None
        turns = turns_of(samples, issues)
        answers = judge_samples(judge, taxonomy.rubric, turns, store, None, *terms)
        made_by = str(judging_signature(judge, taxonomy.rubric).with_part("taxonomy", taxonomy.hash))
        table = issue_table(samples, probable(answers, taxonomy), taxonomy, made_by, scored=False)
    else:
        made_by = maker_of(store, issues)
        wanted = {sample.conversation.id: sample.conversation for sample in samples}
        reasons = {} if finder is None else find_issues(store, config, finder, wanted.values()).reasons
        found = assessed(IssueAnnotations(store).of(wanted.values(), made_by))
        table = issue_table(samples, found, taxonomy, made_by, reasons)
    if issues.meaning is None or config.evaluator.method != "issues":
        return table
    from accord.models import open_embedder

    return table.join(measure_meaning(samples, open_embedder(issues.meaning)))


def found_in(store: Store, config: Config, samples: Iterable[Sample]) -> dict[Target, list[IssueAnnotation]]:
    """The assessments behind each subject: its own turn's, or those of all turns of a conversation."""
    issues = issues_config(config)
    if issues.by == "judge":
        return {}
    wanted = list(samples)
    said = {sample.conversation.id: sample.conversation for sample in wanted}
    by_name: dict[str, list[IssueAnnotation]] = {}
    for each in IssueAnnotations(store).of(said.values(), maker_of(store, issues)):
        by_name.setdefault(each.target.conversation, []).append(each)
    return {
        sample.target: [
            each for each in by_name.get(sample.conversation.id, ()) if sample.turn in {None, each.target.turn}
        ]
        for sample in wanted
    }


@dataclass(frozen=True)
class Statistics:
    """What a project's assessments come to, and what they were made from."""

    numbers: dict[str, Any]
    assessments: list[IssueAnnotation]
    conversations: list[Conversation]
    taxonomy: Taxonomy


def issue_statistics(store: Store, config: Config) -> Statistics:
    """The statistics of all assessments by whoever finds issues in a project.

    Raises:
        BadInput: It does not say who, a judge does (which writes no assessments), or nothing was assessed yet.
    """
    issues = issues_config(config)
    if issues.by == "judge":
        raise BadInput("a judge gives probabilities of issues and writes no assessments; these are for issues: by chat")
    made_by, taxonomy = maker_of(store, issues), load_taxonomy(issues.taxonomy)
    names = IssueAnnotations(store).conversations(made_by)
    conversations = list(store.conversations(names))
    assessments = list(IssueAnnotations(store).of(conversations, made_by))
    if not assessments:
        raise BadInput("no turn was assessed yet; run: accord judge --issues")
    return Statistics(statistics(assessments, conversations, taxonomy), assessments, conversations, taxonomy)
