"""Scores of other languages and of fakes with the same numbers of words.

spaceless-overall|uses   Spearman of CIU with "Overall" and "Uses Knowledge" on Topical-USR with its blanks taken
                         out; also with its letters as those of Thai, which is written so.
unrelated-share          by language: CIU of a reply with another fact, as a share of that with its own, over fifty
                         pairs written by hand (tests/data/language_pairs.tsv).
shuffled|foreign|random-gap  what fakes (words shuffled, a reply of another context, random words) score below the
                         replies themselves: a mixture of the lexical bank with its check, learned on one half of
                         Topical-USR's contexts and tried on the other, both ways; `ungated-` without the check,
                         `gated-` Spearman with people, by question. Needs `accord models pull smollm2-135m`;
                         what the model read is kept in the folder for temporary files.
turn-score-round-trip    Topical-USR imported as it is, a mixture fitted on it, and `score` on the same file: Spearman
                         of the scores of the rated replies with people's mean, which were learned from.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory, gettempdir

import numpy as np
from harness import Row

from accord import Project
from accord.evidence import turn_metrics
from accord.evidence.bank.session import MetricSession
from accord.evidence.metric_source import measure
from accord.formats import read
from accord.project import Config
from accord.statistics import STATISTICS as BY_NAME
from accord.statistics import Clusters, Paired, bootstrap
from accord.store import Store
from accord.values import Conversation, Question, Rubric, Sample, Scale, Target, content_hash
from accord_papers.ciu.plausibility import AGREEMENT, REAL, check_of_data

ROOT = Path(__file__).parent.parent
"""Replies of each half of which fakes are made."""


def spaceless(data: Path, draws: int) -> list[Row]:
    """CIU where no blank tells words apart."""
    records = [each for each in read(data / "topical_usr") if each.labels and each.conversation.documents]
    clusters = Clusters([content_hash([t.content for t in each.conversation.turns[:-1]]) for each in records])
    thai = str.maketrans({chr(97 + place): chr(0xE01 + place) for place in range(26)})
    scripts: dict[str, Callable[[str], str]] = {
        "": lambda text: text.replace(" ", ""),
        " (Thai letters)": lambda text: text.lower().replace(" ", "").translate(thai),
        " (blanks kept)": lambda text: text,
    }
    rows: list[Row] = []
    for named, of in scripts.items():
        samples = [Sample(_rewritten(each.conversation, of), each.labels[0].target.turn) for each in records]
        found = measure(samples, ["ciu"]).values[:, 0]
        for what, question in (("overall", "Overall"), ("uses", "Uses Knowledge")):
            people = [[float(x.value or 0) for x in each.labels if x.question == question] for each in records]
            both = Paired(np.array(list(map(fmean, people))), np.arange(len(found)), np.zeros((len(found), 0)), found)
            interval = bootstrap(clusters, BY_NAME["spearman"], [both])
            value = BY_NAME["spearman"](both)
            rows.append(
                {"what": f"spaceless-{what}{named}", "value": value, "low": interval.low, "high": interval.high}
            )
    return rows


def _rewritten(conversation: Conversation, of: Callable[[str], str]) -> Conversation:
    turns = tuple(replace(turn, content=of(turn.content)) for turn in conversation.turns)
    documents = tuple(replace(document, text=of(document.text)) for document in conversation.documents)
    return replace(conversation, turns=turns, documents=documents)


def unrelated_share(data: Path, draws: int) -> list[Row]:
    """Every reply with every other fact, in each language; intervals over pairs."""
    lines = (ROOT / "tests" / "data" / "language_pairs.tsv").read_text(encoding="utf-8").splitlines()[1:]
    pairs = [line.split("\t") for line in lines]
    rows = []
    for language in dict.fromkeys(code for code, *_ in pairs):
        facts, replies = zip(*((fact, reply) for code, fact, reply in pairs if code == language), strict=True)
        found = np.array([[_ciu(fact, reply) for fact in facts] for reply in replies])
        related = np.diag(found)
        others = (found.sum(axis=1) - related) / (len(facts) - 1)
        again = np.random.default_rng(0).integers(len(facts), size=(1000, len(facts)))
        low, high = np.quantile(others[again].mean(axis=1) / related[again].mean(axis=1), [0.025, 0.975])
        value = float(others.mean() / related.mean())
        rows.append({"what": f"unrelated-share {language}", "value": value, "low": float(low), "high": float(high)})
    return rows


def _ciu(fact: str, reply: str) -> float:
    return MetricSession({"ciu": turn_metrics.get("ciu")}, [fact]).reply(reply)["ciu"] or 0.0


def plausibility(data: Path, draws: int) -> list[Row]:
    """Measure the effect of the plausibility check on fakes and on replies out of context."""
    store = Store(f"sqlite:///{Path(gettempdir()) / 'accord-true-numbers.db'}")
    rows: list[Row] = []
    for found in check_of_data(data / "topical_usr", store):
        for which in ("gated", "ungated"):
            of = "with_check" if which == "gated" else "without_check"
            figures = {"value": found[of], "low": found[f"{of}_low"], "high": found[f"{of}_high"]}
            if found["measure"] == AGREEMENT:
                rows.append({"what": f"{which}-{found['question']}", **figures})
            elif found["question"] == "Overall" and found["replies"] != REAL:
                name = f"{found['replies']}-gap"
                rows.append({"what": name if which == "gated" else f"ungated-{name}", **figures})
    return rows


def round_trip(data: Path, draws: int) -> list[Row]:
    """Import, fit, score the same file."""
    overall = Question(id="Overall", text="How good is the reply?", scale=Scale(options=(1, 2, 3, 4, 5)))
    rubric = Rubric(name="overall", questions=(overall,), main=overall.id)
    with (
        TemporaryDirectory() as folder,
        Project(Config(store=f"sqlite:///{folder}/a.db", metrics=["bank"]), rubric) as project,
    ):
        project.import_([data / "topical_usr"])
        project.fit("mixture", Path(folder, "mixture"))
        project.score(data / "topical_usr", f"{folder}/scores.jsonl", f"{folder}/mixture")
        lines = Path(folder, "scores.jsonl").read_text(encoding="utf-8").splitlines()
        scored = {(each["conversation"], each["turn"]): each["value"] for each in map(json.loads, lines)}
        said: dict[Target, list[float]] = {}
        for label in project.store.labels().on("Overall"):
            said.setdefault(label.target, []).append(float(label.value or 0))
        train, _ = project.training(project.evaluator("mixture"))
        groups = np.array([train.labels.group_of(target) for target in said], dtype=object)
    truth = np.array([fmean(each) for each in said.values()])
    value = np.array([scored[target.conversation, target.turn] for target in said], dtype=float)
    options, place = np.unique(truth, return_inverse=True)
    paired = Paired(options, place, np.zeros((len(truth), len(options))), value)
    interval = bootstrap(Clusters(groups), BY_NAME["spearman"], [paired])
    return [{"what": "turn-score-round-trip", "value": BY_NAME["spearman"](paired), "low": interval.low,
             "high": interval.high, "replies": len(truth)}]  # fmt: skip


RUN: dict[str, Callable[[Path, int], list[Row]]] = {
    "spaceless": spaceless,
    "unrelated-share": unrelated_share,
    "plausibility": plausibility,
    "turn-score-round-trip": round_trip,
}
NEEDS: dict[str, str] = {
    "spaceless": "topical_usr",
    "plausibility": "topical_usr",
    "turn-score-round-trip": "topical_usr",
}
