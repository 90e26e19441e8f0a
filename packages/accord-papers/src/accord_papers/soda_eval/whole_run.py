"""One whole run on recorded data: annotation by a recorded finder, correction, and the three studies with people.

The dialogues are ABC-Eval's. The finder is ChatGPT, whose recorded decisions on nine behaviors become issues of
SODA-EVAL's kinds. The people are ABC-Eval's two annotators; a script turns their marks into the answers of the studies:

correction  an issue whose kind neither annotator marked on the turn is removed.
detection   2 if the annotator marked all kinds of issues that are shown, 1 if some, 0 if none; where none is shown, 2
            if the annotator marked none and otherwise 0.
overall     first 5 minus the number of kinds that the annotator marked, at least 1; then also minus the shown kinds
            that the other annotator marked. The data have no second rating, so that the second stage is this rule.
analysis    the marks of the first annotator.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from accord import Project
from accord.formats import read
from accord.project import config_from, issues_of
from accord.project.judges.issue_corrections import correct_issue
from accord.store import IssueAnnotations, Studies
from accord.studies import ANALYSIS, SubmittedAnswer, open_validation
from accord.studies.human_studies import DETECTION, INITIAL, OVERALL, REVISED
from accord.studies.shipped_studies import READ
from accord.values import ISSUE, Conversation, Issue, IssueAnnotation, Target, turn_digests

DIALOGUES = 60
FINDER = "gpt-3.5-turbo (ChatGPT, 2023)"
NAME = "gpt-3.5-turbo"
SIGNATURE = f"issues|model:{NAME}|taxonomy:soda-eval"
KINDS: Mapping[str, str] = {
    "self contradiction": "Coherence", "partner contradiction": "Coherence", "irrelevant": "Coherence",
    "ignore": "Coherence", "commonsense contradiction": "Commonsense", "incorrect fact": "Commonsense",
    "redundant": "Repetition", "lack of empathy": "Engagement",
}  # fmt: skip
"""Kinds of SODA-EVAL by behavior; `empathetic` is not an issue."""
READ_KINDS: Mapping[str, str] = {**KINDS, "irrelevant": "Relevance", "ignore": "Relevance", "lack of empathy": "Other"}
"""Kinds of the analysis of SODA (table 2) by behavior."""
DETECTED = "validation:detection"
Marks = Mapping[tuple[str, Target], frozenset[str]]
"""Behaviors that an annotator marked on a turn."""


@contextmanager
def recorded_run(folder: Path, dialogues: int = DIALOGUES) -> Iterator[Project]:
    """Yield a project in memory after the whole run.

    Args:
        folder: Folder of ABC-Eval.
        dialogues: Number of dialogues, the first ones of the data set.
    """
    about = {"store": "sqlite:///:memory:", "sources": {"issues": {"by": "recorded", "model": NAME}}}
    with Project(config_from(about)) as project, closing(Studies(project.store)) as studies:
        records = [record for record, _ in zip(read(folder, format="abc-eval"), range(dialogues), strict=False)]
        marks: dict[tuple[str, Target], set[str]] = defaultdict(set)
        people: dict[str, None] = {}
        for label in (label for record in records for label in record.labels):
            people[label.annotator] = None
            if label.value == 1 and label.question in KINDS:
                marks[label.annotator, label.target].add(label.question)
        project.store.add_conversations(record.conversation for record in records)
        found = _annotated([record.conversation for record in records], folder)
        IssueAnnotations(project.store).add(found)
        said: Marks = {key: frozenset(behaviors) for key, behaviors in marks.items()}
        _correct(project, found, said, list(people))
        _answer(project, studies, found, said, sorted(people))
        yield project


def _annotated(conversations: Sequence[Conversation], folder: Path) -> list[IssueAnnotation]:
    """Return the finder's annotation of every turn; its score is 5 minus the number of kinds, at least 1."""
    called: dict[str, set[str]] = defaultdict(set)
    with gzip.open(folder / "judgments.jsonl.gz", "rt", encoding="utf-8") as stream:
        for line in map(json.loads, stream):
            if line["judge_model"] == FINDER and line["value"] == 1 and line["question"] in KINDS:
                called[line["item_id"]].add(line["question"])
    found = []
    for conversation in conversations:
        digests = turn_digests(conversation)
        for turn, item in sorted(conversation.metadata["items"].items(), key=lambda pair: int(pair[0])):
            behaviors: dict[str, list[str]] = defaultdict(list)
            for behavior in sorted(called[item]):
                behaviors[KINDS[behavior]].append(behavior)
            issues = tuple(Issue(kind, ", ".join(each), "", None) for kind, each in behaviors.items())
            place, score = int(turn), max(1, 5 - len(issues))
            target = Target(conversation.id, place)
            found.append(IssueAnnotation(target, issues, score, "recorded", SIGNATURE, (), digests[place]))
    return found


def _kinds(marks: Marks, name: str, target: Target, kinds: Mapping[str, str] = KINDS) -> set[str]:
    return {kinds[behavior] for behavior in marks.get((name, target), ())}


def _correct(project: Project, found: Sequence[IssueAnnotation], marks: Marks, people: Sequence[str]) -> None:
    taxonomy = issues_of(project).taxonomy
    for each in found:
        marked = set().union(*(_kinds(marks, name, each.target) for name in people))
        for part, issue in enumerate(each.issues, 1):
            if issue.type not in marked:
                answer = f"removed-{each.target}-{part}"
                correct_issue(project.store, each, part, people[0], answer, taxonomy, None)


def _answer(
    project: Project, studies: Studies, found: Sequence[IssueAnnotation], marks: Marks, people: Sequence[str]
) -> None:
    """Answer the three studies by the rules of this module."""
    shown = {each.target: {issue.type for issue in each.issues} for each in found}
    replies: dict[str, list[Target]] = defaultdict(list)
    for each in found:
        replies[each.target.conversation].append(each.target)
    numbers = count()
    for flow, readers in ((DETECTION, people), (OVERALL, people), (ANALYSIS, people[:1])):
        session = open_validation(project, flow, studies, turns=len(replies), per_turn=len(readers))
        for name in readers:
            others = [other for other in people if other != name]
            while (taken := session.take(name)) is not None:
                target = taken.item.target
                submitted = partial(SubmittedAnswer, assignment=taken.id)
                own = _kinds(marks, name, target)
                if flow == DETECTION:
                    stages = [(DETECTED, _validity(shown[target], own))]
                elif flow == OVERALL:
                    confirmed = shown[target] & set().union(*(_kinds(marks, other, target) for other in others))
                    stages = [(INITIAL, max(1, 5 - len(own))), (REVISED, max(1, 5 - len(own | confirmed)))]
                else:
                    for reply in replies[target.conversation]:
                        for kind in sorted(_kinds(marks, name, reply, READ_KINDS)):
                            answer = submitted(
                                id=f"recorded-answer-{next(numbers):08d}",
                                question=ISSUE + kind,
                                value=1,
                                turn=reply.turn,
                            )
                            session.answer(name, answer)
                    stages = [(READ, 1)]
                for question, value in stages:
                    session.answer(
                        name, submitted(id=f"recorded-answer-{next(numbers):08d}", question=question, value=value)
                    )
                    session.finish(name, taken.id)


def _validity(shown: set[str], marked: set[str]) -> int:
    """Return an annotator's answer of `detection`."""
    if not shown:
        return 0 if marked else 2
    right = len(shown & marked)
    return 2 if right == len(shown) else min(right, 1)
