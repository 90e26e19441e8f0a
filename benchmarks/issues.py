"""SODA-EVAL: labels of turns compared with a recorded judge, parsing of replies, and its speed.

    python benchmarks/issues.py [--data DIR] [--only PART] [--quick] --json OUT

Parts: `abc_eval` calibrates ChatGPT's recorded decisions on nine behaviors with the labels of two annotators on 1,634
bot turns, on halvings of whole dialogues; `reading` parses 10,000 replies of all kinds and counts invented issues;
`throughput` compares parsing and repair of verdicts with `json.loads`; `dialogues` predicts ratings of planted
dialogues by the lowest, the mean and the learned score. Intervals: the middle 95% of the halvings or seeds.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from harness import Row, chosen, data_folder, finish, options
from issue_finder import dialogues, ratings, verdict, written

from accord.methods import (
    postprocess,
    read_verdict,
    settled,
)
from accord.methods.issues.evidence import (
    assessed,
    issue_table,
)
from accord.methods.issues.issue_prompts import ReplyVerdict
from accord.models import (
    Failure,
)
from accord.validation import compare
from accord.values import (
    Conversation,
    IssueAnnotation,
    Label,
    Labels,
    Question,
    Sample,
    Scale,
    Target,
    Taxonomy,
    load_taxonomy,
)
from accord_papers.soda_eval.abc_eval import abc_eval_rows
from accord_papers.study import spread_of

PARTS = ("abc_eval", "reading", "throughput", "dialogues")
COLUMNS = (
    "part", "system", "issue", "macro_f1", "called", "precision", "recall", "f1", "alpha", "calibration_error", "rmse",
    "pearson", "what", "count", "turns_per_second", "ratio",
)  # fmt: skip
HALVINGS, QUICK = 20, 1
REPLIES = 10_000


def main() -> None:
    parser = options("issues", str(__doc__), PARTS)
    given = parser.parse_args()
    rows: list[Row] = []
    for part in chosen(parser, given.only, PARTS):
        times = given.limit or (QUICK if given.quick else HALVINGS)
        if part == "abc_eval":
            rows += abc_eval_rows(data_folder(parser, given.data) / "abc_eval", times)
        elif part == "reading":
            rows += reading_rows(REPLIES)
        elif part == "throughput":
            rows += throughput_rows(2_000 if given.quick else 20_000)
        else:
            rows += dialogue_rows(times)
    finish("issues", rows, COLUMNS, given.json)


# --- reading ------------------------------------------------------------------------------------------------------


def reading_rows(count: int) -> list[Row]:
    """Outcomes of parsing replies of each kind; a crash ends the run, invented issues are counted."""
    outcomes: Counter[tuple[str, str]] = Counter()
    invented = other_score = 0
    for reply in written(count):
        found = read_verdict(reply.text)
        if isinstance(found, Failure):
            outcomes[reply.kind, f"not read: {found.detail}"] += 1
            continue
        invented += not {stated.type for stated in found.issues} <= reply.types
        other_score += found.score != reply.score
        outcomes[reply.kind, f"read, lost: {found.losses[0]}" if found.losses else "read"] += 1
    assert sum(outcomes.values()) == count
    total = [
        {"part": "reading", "system": "accord", "what": "issues that the model did not state", "count": invented},
        {"part": "reading", "system": "accord", "what": "scores that the model did not state", "count": other_score},
        {"part": "reading", "system": "accord", "what": "replies", "count": count},
    ]
    kinds = [
        {"part": "reading", "system": "accord", "issue": kind, "what": outcome, "count": times}
        for (kind, outcome), times in sorted(outcomes.items())
    ]
    return [*total, *kinds]


# --- throughput ---------------------------------------------------------------------------------------------------


def throughput_rows(turns: int) -> list[Row]:
    """Reading and mending a turn's verdict, and `json.loads` of the same text alone, as medians of five."""
    taxonomy = load_taxonomy("soda-eval")
    valid = [each.text for each in written(turns) if each.kind == "valid"]
    reply = "Let me repeat let me repeat. You fool, whatever."
    replies = (valid * (turns // len(valid) + 1))[:turns]

    def ours() -> None:
        for place, text in enumerate(replies):
            found = read_verdict(text)
            assert isinstance(found, ReplyVerdict)
            settled(postprocess(Target("dialogue", place), found, reply, taxonomy, "benchmark"), taxonomy)

    def plain() -> None:
        for text in replies:
            json.loads(text)

    seconds = {name: _median(work) for name, work in (("accord", ours), ("json.loads alone", plain))}
    return [
        {
            "part": "throughput", "system": name, "what": "turns", "count": len(replies),
            "turns_per_second": len(replies) / took, "ratio": took / seconds["json.loads alone"],
        }
        for name, took in seconds.items()
    ]  # fmt: skip


def _median(work: Any) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# --- from turns to dialogues --------------------------------------------------------------------------------------


def dialogue_rows(seeds: int) -> list[Row]:
    """Ratings of 60 planted dialogues by two people, near the mean of the lowest and the average turn; 5 folds."""
    taxonomy = load_taxonomy("soda-eval")
    question = Question(id="overall", text="How good is it?", scale=Scale(options=(1, 2, 3, 4, 5)))
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        made = dialogues(60, seed=seed)
        rated = ratings(made, seed=seed)
        labels = Labels(Label(Target(row["conversation"]), "overall", row["annotator"], row["value"]) for row in rated)
        assessments = [each for conversation in made for each in _assessments(conversation, taxonomy)]
        evidence = issue_table([Sample(c) for c in made], assessed(assessments), taxonomy, "planted")
        for result in compare(evidence, labels, question, ("issues",), seed=seed, draws=2).results:
            rmse, r = result.values["rmse"], result.values["pearson"]
            if result.evaluator in {"issues", "mean-turn", "lowest-turn", "annotator-mean"}:
                found.setdefault(result.evaluator, []).append((rmse or 0.0, r or 0.0))
    return [
        {
            "part": "dialogues", "system": "accord" if name == "issues" else name,
            **spread_of("rmse", [rmse for rmse, _ in each]), **spread_of("pearson", [r for _, r in each]),
        }
        for name, each in found.items()
    ]  # fmt: skip


def _assessments(conversation: Conversation, taxonomy: Taxonomy) -> Iterator[IssueAnnotation]:
    """The truth about each reply of a planted dialogue."""
    for place, turn in enumerate(conversation.turns):
        if turn.role == "assistant":
            found = read_verdict(json.dumps(verdict(turn.content)))
            assert isinstance(found, ReplyVerdict)
            yield settled(
                postprocess(Target(conversation.id, place), found, turn.content, taxonomy, "planted"), taxonomy
            )


if __name__ == "__main__":
    main()
