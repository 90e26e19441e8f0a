"""SODA-EVAL: labels of turns compared with a recorded judge, parsing of replies, and its speed.

    python benchmarks/issues.py [--data DIR] [--only PART] [--quick] --json OUT

Parts: `abc_eval` calibrates ChatGPT's recorded decisions on nine behaviors with the labels of two annotators on 1,634
bot turns, on halvings of whole dialogues; `later_turns` counts the requests of both ways to annotate a dialogue, and
measures what a user's next turn tells about the labels of a reply; `reading` parses 10,000 replies of all kinds and
counts invented issues; `throughput` compares parsing and repair of verdicts with `json.loads`; `dialogues` predicts
ratings of planted dialogues by the lowest, the mean and the learned score. Intervals: the middle 95% of the halvings
or seeds.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, chosen, data_folder, finish, options
from issue_finder import dialogues, ratings, verdict, written
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from accord.embedded import is_pulled
from accord.evidence import Column, EvidenceTable, SourceContext, ask_rubric, judge_samples, make_source
from accord.formats import read
from accord.learning import kinds_of
from accord.methods import (
    WORST,
    ReplyVerdict,
    assessed,
    issue_table,
    judged_turns,
    postprocess,
    probable,
    read_verdict,
    settled,
)
from accord.models import (
    Failure,
    Models,
    ModelSettings,
    Prompt,
    RecordedJudge,
    ScriptedModel,
    estimated_usage,
    plan,
    run,
)
from accord.project import Project, config_from
from accord.statistics import Split, fold_of
from accord.store import Store
from accord.validation import ABOVE_CHANCE, ALWAYS, MACRO, Called, compare, cross_validate_labels
from accord.values import (
    ISSUE,
    Conversation,
    IssueAnnotation,
    IssueType,
    Label,
    Labels,
    Question,
    Sample,
    Scale,
    Target,
    Taxonomy,
    load_taxonomy,
)

PARTS = ("abc_eval", "later_turns", "reading", "throughput", "dialogues")
COLUMNS = (
    "part", "system", "issue", "macro_f1", "called", "precision", "recall", "f1", "alpha", "calibration_error", "rmse",
    "pearson", "auc", "auc_gain", "f1_gain", "what", "count", "replies", "requests", "planned", "input_tokens",
    "output_tokens", "turns_per_second", "ratio",
)  # fmt: skip
JUDGE, CLASSIFIERS = "gpt-3.5-turbo (ChatGPT, 2023)", "specialized classifier"
HALVINGS, QUICK = 20, 1
REPLIES = 10_000
FIGURES = ("called", "precision", "recall", "f1", "alpha", "calibration_error")
EMBEDDER = "minilm-l6"


def main() -> None:
    parser = options("issues", str(__doc__), PARTS)
    given = parser.parse_args()
    rows: list[Row] = []
    for part in chosen(parser, given.only, PARTS):
        times = given.limit or (QUICK if given.quick else HALVINGS)
        if part == "abc_eval":
            rows += abc_eval_rows(data_folder(parser, given.data) / "abc_eval", times)
        elif part == "later_turns":
            rows += later_turns_rows(data_folder(parser, given.data) / "abc_eval", times)
        elif part == "reading":
            rows += reading_rows(REPLIES)
        elif part == "throughput":
            rows += throughput_rows(2_000 if given.quick else 20_000)
        else:
            rows += dialogue_rows(times)
    finish("issues", rows, COLUMNS, given.json)


# --- ABC-Eval -----------------------------------------------------------------------------------------------------


def abc_eval_rows(folder: Path, halvings: int) -> list[Row]:
    """Marks on the half of the dialogues that was not learned from: raw, by each kind's own finding, by everything."""
    behaviours = _behaviours(folder)
    with tempfile.TemporaryDirectory() as place:
        named = Path(place) / "behaviours.yaml"
        named.write_text(
            behaviours.model_dump_json(include={"name": True, "issues": {"__all__": {"name", "definition"}}})
        )
        config = config_from({
            "store": "sqlite:///:memory:", "metrics": ["bank", "lexical"],
            "models": {"judge": _recorded(folder, JUDGE)},
            "sources": {"issues": {"by": "judge", "taxonomy": str(named), "columns": "all"}},
        })  # fmt: skip
        with Project(config) as project:
            project.import_([folder], format="abc-eval")
            labels = project.store.labels()
            samples = project.samples(labels.targets)
            found, cheap = (project.measure([project.source(name)], samples) for name in ("issues", "metrics"))
            meaning = project.measure([project.source("meaning")], samples) if is_pulled(EMBEDDER) else None
            others = Models({"judge": ModelSettings(**_recorded(folder, CLASSIFIERS))}, project.store)
            classifiers = run(ask_rubric(behaviours.rubric, samples), others)
    known = {sample.conversation.id for sample in samples}
    both = found.join(cheap)
    systems = {"accord, without the embedder": both.join(classifiers)}
    if meaning is None:
        print(f"without the embedder alone: {EMBEDDER} is not on this machine; see accord models pull")
    else:
        systems = {
            "accord": both.join(classifiers).join(meaning),
            **systems,
            "accord, without the classifiers": both.join(meaning),
        }
    first = next(iter(systems))
    splits = [_half(known, seed) for seed in range(halvings)]
    results: dict[str, list[dict[str, Called]]] = {}
    for seed, split in enumerate(splits):
        for system, evidence in systems.items():
            calibrated, raw = cross_validate_labels(evidence, labels, [split], seed)
            results.setdefault(system, []).append(calibrated)
            if system == first:
                results.setdefault("recorded-judge", []).append(raw)
                results.setdefault(ALWAYS, []).append({kind: each.everywhere() for kind, each in calibrated.items()})
        results.setdefault("accord, each kind's own decision", []).append(_own(found, labels, split, seed))
    told = _told(results[first])
    return [row for system, each in sorted(results.items(), key=_order) for row in _rows(system, each, told)]


def _behaviours(folder: Path) -> Taxonomy:
    names = [question["name"] for question in json.loads((folder / "questions.json").read_text())["questions"]]
    return Taxonomy(name="abc-eval", issues=tuple(IssueType(name=name, definition=name) for name in names))


def _told(halvings: Sequence[Mapping[str, Called]]) -> set[str]:
    """The kinds whose α with people is above 0 in the middle 95 % of the halvings."""
    found = {kind: [each[kind].figures(draws=2).alpha or 0.0 for each in halvings] for kind in halvings[0]}
    return {kind for kind, alphas in found.items() if np.quantile(alphas, 0.025) > 0}


def _recorded(folder: Path, model: str) -> dict[str, Any]:
    return {"mode": "recorded", "paths": [str(folder)], "model": model}


def _own(found: EvidenceTable, labels: Labels, split: Split, seed: int) -> dict[str, Called]:
    """Each kind by the judge's decision on that kind alone."""
    called: dict[str, Called] = {}
    for kind in kinds_of(found):
        columns = [c for c in found.columns if c.name in {ISSUE + kind, f"{ISSUE}{kind}{WORST}"}]
        called |= cross_validate_labels(found.align(columns), labels, [split], seed)[0]
    return called


def _half(names: Iterable[str], seed: int) -> Split:
    fold = fold_of(names, 2, seed)
    return Split(*(frozenset(name for name, at in fold.items() if at == side) for side in (0, 1)))


def _order(system: tuple[str, Any]) -> tuple[bool, str]:
    return system[0] != "recorded-judge", system[0]


def _rows(system: str, halvings: Sequence[Mapping[str, Called]], told: Collection[str]) -> list[Row]:
    """Rows of the mean F1 over all kinds and over some, then one a kind; each with the middle 95 % of the halvings."""
    each = [{kind: vars(called.figures(draws=2)) for kind, called in one.items()} for one in halvings]
    kinds = list(each[0])
    rows: list[Row] = []
    for name, some in ((MACRO, kinds), (ABOVE_CHANCE, [kind for kind in kinds if kind in told])):
        macro = [float(np.mean([one[kind]["f1"] or 0.0 for kind in some])) for one in each if some]
        rows.append({"part": "abc_eval", "system": system, "issue": name, **_spread("macro_f1", macro)})
    for kind in kinds:
        row: Row = {"part": "abc_eval", "system": system, "issue": kind}
        for name in FIGURES:
            row |= _spread(name, [one[kind][name] for one in each if one[kind][name] is not None])
        rows.append(row)
    return rows


def _spread(name: str, values: Sequence[float]) -> Row:
    if not values:
        return {name: None}
    low, high = np.quantile(values, [0.025, 0.975])
    return {name: float(np.mean(values)), f"{name}_low": float(low), f"{name}_high": float(high)}


# --- turns after the reply ----------------------------------------------------------------------------------------

BEFORE_REPLY, WHOLE = "turns before the reply", "whole dialogue"
NEXT, OTHER = "next turn", "turn of another dialogue"
DIRECTIONS = 24
"""Columns of latent semantic analysis of a turn."""


def later_turns_rows(folder: Path, halvings: int) -> list[Row]:
    """Requests of both ways, and the gain in AUC and F1 from a user's next turn over all that comes before it."""
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
    behaviours = _behaviours(folder)
    judge = RecordedJudge.read([folder], JUDGE)
    store = Store("sqlite:///:memory:")
    samples = [Sample(chat_of[target.conversation], target.turn) for target in targets]
    answers = probable(judge_samples(judge, behaviours.rubric, samples, store), behaviours)
    found = issue_table(samples, answers, behaviours, "recorded", scored=False)
    own, previous, following = (_topics(chat_of, targets, shift) for shift in (0, -1, 1))
    before = found.join(_columns("reply", targets, own)).join(_columns("previous", targets, previous))
    other = np.random.default_rng(0).permutation(len(targets))
    systems = {
        BEFORE_REPLY: before,
        NEXT: before.join(_columns("next", targets, following)),
        OTHER: before.join(_columns("next", targets, following[other])),
    }
    splits = [_half(chat_of, seed) for seed in range(halvings)]
    scores = {
        name: np.array(
            [_auc_f1(cross_validate_labels(table, labels, [split], seed)[0]) for seed, split in enumerate(splits)]
        )
        for name, table in systems.items()
    }
    rows: list[Row] = []
    for name, values in scores.items():
        row: Row = {"part": "later_turns", "system": name, "what": "macro over kinds", "count": len(targets)}
        row |= _spread("auc", values[:, 0].tolist()) | _spread("macro_f1", values[:, 1].tolist())
        if name != BEFORE_REPLY:
            gain = values - scores[BEFORE_REPLY]
            row |= _spread("auc_gain", gain[:, 0].tolist()) | _spread("f1_gain", gain[:, 1].tolist())
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
    for each in called.values():
        marked, ranks = np.array(each.marked), rankdata(each.chance)
        positive, negative = marked.sum(), (~marked).sum()
        aucs.append((ranks[marked].sum() - positive * (positive + 1) / 2) / (positive * negative))
        f1s.append(each.figures(draws=2).f1 or 0.0)
    return float(np.mean(aucs)), float(np.mean(f1s))


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
            if result.system in {"issues", "mean-turn", "lowest-turn", "annotator-mean"}:
                found.setdefault(result.system, []).append((rmse or 0.0, r or 0.0))
    return [
        {
            "part": "dialogues", "system": "accord" if name == "issues" else name,
            **_spread("rmse", [rmse for rmse, _ in each]), **_spread("pearson", [r for _, r in each]),
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
