"""What was found wrong with turns: as evidence to learn from, behind a score, and in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from accord.assessment import Assessment
from accord.config import Config
from accord.conversation import Conversation, Target
from accord.errors import BadInput
from accord.evidence import EvidenceTable, judge_subjects
from accord.evidence.issues import assessed, issue_table, probable
from accord.evidence.judging import judging_signature
from accord.evidence.meaning import measure_meaning
from accord.issues.statistics import statistics
from accord.llm.model import ChatModel, Judge, Subject
from accord.pipeline.finding import find_issues, issues_config, maker_of, turns_of
from accord.store import Assessed, Store
from accord.taxonomy import Taxonomy, load_taxonomy


def issue_evidence(
    store: Store,
    config: Config,
    subjects: Sequence[Subject],
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
        turns = turns_of(subjects, issues)
        answers = judge_subjects(judge, taxonomy.rubric, turns, store, None, *terms)
        made_by = str(judging_signature(judge, taxonomy.rubric).with_part("taxonomy", taxonomy.hash))
        table = issue_table(subjects, probable(answers, taxonomy), taxonomy, made_by, scored=False)
    else:
        made_by = maker_of(store, issues)
        wanted = {subject.conversation.id: subject.conversation for subject in subjects}
        reasons = {} if finder is None else find_issues(store, config, finder, wanted.values()).reasons
        found = assessed(Assessed(store).of(wanted.values(), made_by))
        table = issue_table(subjects, found, taxonomy, made_by, reasons)
    if issues.meaning is None or config.evaluator.method != "issues":
        return table
    from accord.evidence.embedders import open_embedder

    return table.beside(measure_meaning(subjects, open_embedder(issues.meaning)))


def found_in(store: Store, config: Config, subjects: Iterable[Subject]) -> dict[Target, list[Assessment]]:
    """The assessments behind each subject: its own turn's, or those of all turns of a conversation."""
    issues = issues_config(config)
    if issues.by == "judge":
        return {}
    wanted = list(subjects)
    said = {subject.conversation.id: subject.conversation for subject in wanted}
    by_name: dict[str, list[Assessment]] = {}
    for each in Assessed(store).of(said.values(), maker_of(store, issues)):
        by_name.setdefault(each.target.conversation, []).append(each)
    return {
        subject.target: [
            each for each in by_name.get(subject.conversation.id, ()) if subject.turn in {None, each.target.turn}
        ]
        for subject in wanted
    }


@dataclass(frozen=True)
class Statistics:
    """What a project's assessments come to, and what they were made from."""

    numbers: dict[str, Any]
    assessments: list[Assessment]
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
    names = Assessed(store).conversations(made_by)
    conversations = list(store.conversations(names))
    assessments = list(Assessed(store).of(conversations, made_by))
    if not assessments:
        raise BadInput("no turn was assessed yet; run: accord judge --issues")
    return Statistics(statistics(assessments, conversations, taxonomy), assessments, conversations, taxonomy)
