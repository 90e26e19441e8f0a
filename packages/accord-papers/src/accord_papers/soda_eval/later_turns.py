"""Annotation from the turns before a reply, compared with annotation of the whole dialogue: requests and labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from accord.evidence import (
    Column,
    EvidenceTable,
    SourceContext,
    make_source,
)
from accord.evidence.rubric_answers import judge_samples
from accord.formats import read
from accord.methods.issues.annotate import judged_turns
from accord.methods.issues.evidence import (
    issue_table,
    probable,
)
from accord.models import (
    Models,
    ModelSettings,
    Prompt,
    RecordedJudge,
    ScriptedModel,
    estimated_usage,
    run,
)
from accord.models.requests.drivers import plan
from accord.store import Store
from accord.validation import cross_validate_labels
from accord.validation.issue_metrics import CALIBRATED, Called
from accord.values import Conversation, Labels, Sample, Target, load_taxonomy
from accord_papers.soda_eval.abc_eval import JUDGE, behaviors_of, halve
from accord_papers.study import Row, spread_of

BEFORE_REPLY, WHOLE = "turns before the reply", "whole dialogue"
NEXT, OTHER = "next turn", "turn of another dialogue"
DIRECTIONS = 24
"""Columns of latent semantic analysis of a turn."""


def later_turns_rows(folder: Path, halvings: int) -> list[Row]:
    """Requests of both ways, and the gain in AUC and F1 from a user's next turn, over all earlier turns."""
    records = list(read(folder, format="abc-eval"))
    chats = [record.conversation for record in records]
    labels = Labels(label for record in records for label in record.labels)
    prefixes = [
        replace(chat, id=f"{chat.id}-{turn}", turns=chat.turns[: turn + 1])
        for chat in chats
        for turn in judged_turns(chat).turns
    ]
    costs = [
        _cost(name, whole, made)
        for name, made in (("dialogues", chats), ("replies with their prefix", prefixes))
        for whole in (False, True)
    ]
    return costs + _gains(folder, chats, labels, halvings)


def _cost(name: str, whole: bool, made: Sequence[Conversation]) -> Row:
    """Requests and tokens that a finder without follow-ups receives; the plan must say the same."""
    model = ScriptedModel(written_verdict)
    models = Models({"finder": ModelSettings(model="remote")}, Store("sqlite:///:memory:"), given={"finder": model})
    source = make_source("issues", {"whole_dialogue": whole}, SourceContext(load_taxonomy("soda-eval").rubric, 0))
    samples = [Sample(chat) for chat in made]
    planned = plan(source.measure(samples), models)
    counts = run(source.gather(samples), models).counts
    assert counts is not None and counts.to_json()["assessed"] == counts.to_json()["turns"]
    return {
        "part": "later_turns", "system": WHOLE if whole else BEFORE_REPLY, "what": name, "count": len(made),
        "replies": counts.to_json()["turns"], "requests": len(model.asked), "planned": planned.requests,
        "input_tokens": sum(estimated_usage(prompt).input_tokens for prompt in model.asked),
        "output_tokens": sum(len(written_verdict(prompt)) // 4 for prompt in model.asked),
    }  # fmt: skip


def written_verdict(prompt: Prompt) -> str:
    """Return a verdict without issues on each requested turn."""
    said = {"issues": [], "comment": "It answers what was asked and keeps the conversation going.", "score": 4}
    turns = (prompt.schema or {})["properties"].get("turns")
    if turns is None:
        return json.dumps(said)
    places = turns["items"]["properties"]["turn"]["enum"]
    return json.dumps({"turns": [{"turn": place, **said} for place in places]})


def _gains(folder: Path, chats: Sequence[Conversation], labels: Labels, halvings: int) -> list[Row]:
    """AUC and F1 with the turns before a reply, and the gains from its next turn, and from one of another dialogue."""
    chat_of = {chat.id: chat for chat in chats}
    targets = [target for target in labels.targets if (target.turn or 0) + 1 < len(chat_of[target.conversation].turns)]
    behaviors = behaviors_of(folder)
    judge = RecordedJudge.read([folder], JUDGE)
    store = Store("sqlite:///:memory:")
    samples = [Sample(chat_of[target.conversation], target.turn) for target in targets]
    answers = probable(judge_samples(judge, behaviors.rubric, samples, store), behaviors)
    found = issue_table(samples, answers, behaviors, "recorded", scored=False)
    own, previous, following = (_topics(chat_of, targets, shift) for shift in (0, -1, 1))
    before = found.join(_columns("reply", targets, own)).join(_columns("previous", targets, previous))
    other = np.random.default_rng(0).permutation(len(targets))
    systems = {
        BEFORE_REPLY: before,
        NEXT: before.join(_columns("next", targets, following)),
        OTHER: before.join(_columns("next", targets, following[other])),
    }
    splits = [halve(chat_of, seed) for seed in range(halvings)]
    scores = {
        name: np.array([_auc_f1(cross_validate_labels(table, labels, [split])[0]) for split in splits])
        for name, table in systems.items()
    }
    rows: list[Row] = []
    for name, values in scores.items():
        row: Row = {"part": "later_turns", "system": name, "what": "macro over kinds", "count": len(targets)}
        row |= spread_of("auc", values[:, 0].tolist()) | spread_of("macro_f1", values[:, 1].tolist())
        if name != BEFORE_REPLY:
            gain = values - scores[BEFORE_REPLY]
            row |= spread_of("auc_gain", gain[:, 0].tolist()) | spread_of("f1_gain", gain[:, 1].tolist())
        rows.append(row)
    return rows


def _topics(chat_of: Mapping[str, Conversation], targets: Sequence[Target], shift: int) -> NDArray[np.float64]:
    """Latent semantic analysis of the turn at a distance from each target: columns of variance 1."""
    texts = [chat_of[target.conversation].turns[max((target.turn or 0) + shift, 0)].content for target in targets]
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=3).fit_transform(texts)
    found = TruncatedSVD(DIRECTIONS, random_state=0).fit_transform(words)
    return np.asarray((found - found.mean(axis=0)) / found.std(axis=0))


def _columns(name: str, targets: Sequence[Target], values: NDArray[np.float64]) -> EvidenceTable:
    columns = tuple(Column(f"{name}:{place}", "benchmark") for place in range(values.shape[1]))
    return EvidenceTable(tuple(targets), columns, values, np.ones(values.shape, dtype=bool))


def _auc_f1(called: Mapping[str, Called]) -> tuple[float, float]:
    """Mean over kinds of the area under the ROC curve of the probabilities, and of the F1 of the calls."""
    aucs, f1s = [], []
    for kind, each in called.items():
        marked, ranks = each.marked, rankdata(each.chance)
        positive, negative = marked.sum(), (~marked).sum()
        aucs.append((ranks[marked].sum() - positive * (positive + 1) / 2) / (positive * negative))
        f1s.append(each.row(CALIBRATED, kind, draws=2).f1 or 0.0)
    return float(np.mean(aucs)), float(np.mean(f1s))
