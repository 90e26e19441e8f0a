"""What cheap metrics are worth one by one and together (CIU and MoE-CIU; Choi et al.), on any data set of our schema.

    python benchmarks/ciu.py --data ../shared/data [--only standalone,unify,transfer] [--to DIR] [--quick] --json OUT

standalone  each metric beside the paper's figure: Spearman, Pearson and Kendall with the mean of the annotators, 95 %
            intervals by bootstrap over contexts, and the difference of CIU's Spearman from each other metric's.
unify       metrics combined, tested on unseen responses, over 15 seeds: 50 responses at random as in the paper, or
            whole contexts. `ridge` is ridge regression on the same ranks.
transfer    learned on Topical-USR, applied unseen to the set in DIR: as it is, and with ranks told among DIR's own
            texts.

Subsets: `with-document` are the responses that have one (312 in Topical-USR), `all` takes metrics of documents as 0
where there is none, `machine` are the responses with a document that no person wrote. Banks: `lexical` needs no model,
`embedding` adds cosines and BERTScore of the small embedder (`accord models pull`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from harness import Row, chosen, data_folder, finish, options
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.linear_model import RidgeCV

from accord.agreement import STATISTICS, Paired, RankStatistic, pearson
from accord.conversation import content_hash
from accord.errors import AccordError
from accord.evaluators import Mixture
from accord.evaluators.calibration.core import matrix
from accord.evaluators.mixture.bins import Bins
from accord.evidence import BANK, BERTSCORE, EMBEDDING, REFERENCE, EvidenceTable, measure
from accord.labels import Labels
from accord.llm import Subject
from accord.readers import read
from accord.resampling import Clusters, bootstrap
from accord.rubric import Question
from accord.scale import Kind, Scale
from accord.score import Score

PARTS = ("standalone", "unify", "transfer")
QUESTIONS = {"spearman_overall": "Overall", "spearman_uses_knowledge": "Uses Knowledge"}
LEXICAL = (*BANK, *REFERENCE, "ciu-paper", "ciu-unsupported")
PAPER = {
    "bleu": (0.298, 0.631), "meteor": (0.352, 0.716), "rouge-l": (0.339, 0.688), "ciu-paper": (0.415, 0.742),
    "mixture": (0.514, 0.799),
}  # fmt: skip
"""Tables 1 and 2 on Topical-Chat: Overall, Uses Knowledge; `mixture` beside MoE-CIU."""
SEEDS = 15
TESTED, FEWEST = 50, 10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rated:
    """Responses with what people said of them.

    Attributes:
        name: Of the data set.
        evidence: (n, M) every metric.
        labels: All ratings.
        people: (n,) the mean rating, by question; a question that nobody answered is left out.
        context: (n,) what responses to the same turn share.
    """

    name: str
    evidence: EvidenceTable
    labels: Labels
    people: Mapping[str, Floats]
    context: NDArray[np.object_]

    def take(self, rows: NDArray[np.intp]) -> Rated:
        """The responses with these indices."""
        people = {name: mean[rows] for name, mean in self.people.items()}
        return Rated(self.name, self.evidence.take(rows), self.labels, people, self.context[rows])


def load(folder: Path, names: Sequence[str]) -> dict[str, Rated]:
    """A data set's rated responses by subset."""
    records = [record for record in read(folder) if record.labels and record.conversation.turns]
    subjects = [Subject(record.conversation, record.labels[0].target.turn) for record in records]
    said = [{question: _mean(record.labels, question) for question in QUESTIONS.values()} for record in records]
    asked = [
        name
        for name in QUESTIONS.values()
        if all(name in each for each in said) and None not in [s[name] for s in said]
    ]
    people = {name: np.array([each[name] for each in said], dtype=float) for name in asked}
    labels = Labels(label for record in records for label in record.labels if label.question in asked)
    before = [subject.conversation.up_to(subject.turn)[:-1] for subject in subjects]
    context = np.array([content_hash([turn.to_json() for turn in turns]) for turns in before], dtype=object)
    whole = Rated(folder.name, measure(subjects, names), labels, people, context)
    documents = np.array([bool(record.conversation.documents) for record in records])
    human = np.array([bool(record.conversation.metadata.get("human_written")) for record in records])
    subsets = {"with-document": documents, "all": np.ones(len(records), dtype=bool), "machine": documents & ~human}
    return {name: whole.take(np.flatnonzero(rows)) for name, rows in subsets.items() if rows.any()}


def _mean(labels: Sequence, question: str) -> float | None:  # type: ignore[type-arg]
    values = [float(label.value) for label in labels if label.question == question and label.value is not None]
    return fmean(values) if values else None


def question_of(data: Rated, name: str) -> Question:
    """The question with the answers that were given as its scale."""
    said = (label.value for label in data.labels if label.question == name)
    values = sorted({value for value in said if isinstance(value, int | float)})
    short = Scale(options=tuple(values)) if len(values) <= 10 else None
    scale = short or Scale(kind=Kind.REAL, low=values[0], high=values[-1])
    return Question(id=name, text=name, scale=scale)


def banks() -> dict[str, Sequence[str]]:
    """The banks that can be measured here."""
    try:
        measure([], EMBEDDING)
        from accord.embedded.minilm import open_sentence_embedder

        open_sentence_embedder("minilm-l6")
    except AccordError as error:
        print(f"without embeddings: {error}")
        return {"lexical": LEXICAL}
    return {"lexical": LEXICAL, "embedding": (*LEXICAL, *EMBEDDING, *BERTSCORE)}


# --- one by one ----------------------------------------------------------------------------------------------------


def paired(truth: Floats, value: Floats, other: Floats | None = None) -> Paired:
    """Values beside what people said; another metric's values ride along as a column."""
    along = np.zeros((len(truth), 0)) if other is None else other[:, None]
    return Paired(truth, np.arange(len(truth)), along, value)


def _lead(both: Paired) -> float | None:
    spearman = STATISTICS["spearman"]
    one, other = spearman(both), spearman(paired(both.truth, both.probabilities[:, 0]))
    return None if one is None or other is None else one - other


def standalone(subsets: Mapping[str, Rated], draws: int) -> list[Row]:
    """Each metric by itself."""
    rows: list[Row] = []
    for subset, data in subsets.items():
        for name in [column.name for column in data.evidence.columns]:
            known = values_of(data, name, subset)[1]
            if known.sum() < FEWEST:
                continue
            about: Row = {"part": "standalone", "dataset": data.name, "subset": subset, "system": name}
            about["n"] = int(known.sum())
            for column in QUESTIONS:
                about |= figures(data, name, subset, column, draws)
            rows.append(about | printed(name))
    return rows


def figures(data: Rated, name: str, subset: str, column: str, draws: int) -> Row:
    """A metric beside what people answered to one question, and how far CIU is ahead of it."""
    if QUESTIONS[column] not in data.people:
        return {}
    people, (value, known) = data.people[QUESTIONS[column]], values_of(data, name, subset)
    truth, clusters = people[known], Clusters(data.context[known])
    row = with_interval(column, "spearman", truth, value[known], clusters, draws)
    row[column.replace("spearman", "pearson")] = pearson(truth, value[known])
    row[column.replace("spearman", "kendall")] = STATISTICS["kendall"](paired(truth, value[known]))
    ciu, there = values_of(data, "ciu", subset)
    both = known & there
    if name != "ciu" and both.sum() >= FEWEST:
        pair = paired(people[both], ciu[both], value[both])
        found = bootstrap(Clusters(data.context[both]), RankStatistic(_lead), [pair], draws)
        lead = column.replace("spearman", "ciu_ahead")
        row |= {lead: _lead(pair), f"{lead}_low": found.low, f"{lead}_high": found.high}
    return row


def values_of(data: Rated, name: str, subset: str) -> tuple[Floats, NDArray[np.bool_]]:
    """(n,) a metric's values, and which are there; in the subset `all`, what is absent is 0, as the paper has it."""
    place = [column.name for column in data.evidence.columns].index(name)
    present = data.evidence.present[:, place]
    return data.evidence.values[:, place], np.ones_like(present) if subset == "all" else present


def with_interval(column: str, statistic: str, truth: Floats, value: Floats, clusters: Clusters, draws: int) -> Row:
    """A statistic under a column's name, with its interval."""
    one = paired(truth, value)
    found = bootstrap(clusters, STATISTICS[statistic], [one], draws)
    return {column: STATISTICS[statistic](one), f"{column}_low": found.low, f"{column}_high": found.high}


def printed(system: str) -> Row:
    """The paper's figures."""
    overall, knowledge = PAPER.get(system, (None, None))
    return {"paper_overall": overall, "paper_uses_knowledge": knowledge}


# --- together ------------------------------------------------------------------------------------------------------

Combine = Callable[[Rated, Rated, str], Floats]


def mixture(train: Rated, test: Rated, question: str) -> Floats:
    """Our evaluator, everything chosen inside the training side."""
    known = {target for target in train.evidence.targets}
    labels = Labels(label for label in train.labels if label.target in known)
    scores = Mixture(question_of(train, question)).fit(train.evidence, labels).predict(test.evidence)
    return np.array([score.value if isinstance(score, Score) else np.nan for score in scores])


def ridge(train: Rated, test: Rated, question: str) -> Floats:
    """Ridge regression on ranks, missing ones in the middle."""
    bins = Bins.fit(matrix(train.evidence))
    X, new = (np.nan_to_num(bins.ranks(matrix(each.evidence)), nan=0.5) for each in (train, test))
    model = RidgeCV(np.logspace(-1, 3, 13)).fit(X, train.people[question])
    return np.asarray(model.predict(new))


def unify(data: Rated, bank: str, names: Sequence[str], seeds: int) -> list[Row]:
    """Combiners over seeds, tested on what they did not see."""
    place = {column.name: index for index, column in enumerate(data.evidence.columns)}
    kept = [place[name] for name in names]
    table = data.evidence
    columns = tuple(table.columns[index] for index in kept)
    part = EvidenceTable(table.targets, columns, table.values[:, kept], table.present[:, kept])
    own = Rated(data.name, part, data.labels, data.people, data.context)
    ways: dict[str, Combine] = {"mixture": mixture, "ridge": ridge}
    rows: list[Row] = []
    for split in ("grouped", "random"):
        for system, combine in ways.items():
            about: Row = {
                "part": "unify",
                "dataset": data.name,
                "subset": "with-document",
                "system": system,
                "bank": bank,
            }
            about |= {"split": split, "n": len(part), "seeds": seeds}
            for column, question in QUESTIONS.items():
                if question in data.people:
                    found = [tested(own, combine, question, split, seed) for seed in range(seeds)]
                    about |= {column: fmean(found), f"{column}_sd": float(np.std(found))}
            rows.append(about | printed(system))
    return rows


def tested(data: Rated, combine: Combine, question: str, split: str, seed: int) -> float:
    """Spearman on the responses that a seed holds out."""
    rng = np.random.default_rng(seed)
    if split == "random":
        out = np.isin(np.arange(len(data.context)), rng.permutation(len(data.context))[:TESTED])
    else:
        contexts = np.unique(data.context)
        share = round(TESTED * len(contexts) / len(data.context))
        out = np.isin(data.context, rng.permutation(contexts)[:share])
    train, test = data.take(np.flatnonzero(~out)), data.take(np.flatnonzero(out))
    return float(spearmanr(combine(train, test, question), test.people[question])[0])


def transfer(train: Rated, test: Rated, bank: str, draws: int) -> list[Row]:
    """Learned on one set, applied unseen to another."""
    rows: list[Row] = []
    for system in ("mixture", "mixture, ranks among its own"):
        about: Row = {
            "part": "transfer",
            "dataset": test.name,
            "subset": "with-document",
            "system": system,
            "bank": bank,
        }
        about["n"] = len(test.evidence)
        for column, question in QUESTIONS.items():
            if question in train.people and question in test.people:
                learned = Mixture(question_of(train, question)).fit(train.evidence, train.labels)
                evaluator = learned if system == "mixture" else learned.among(test.evidence)
                scores = evaluator.predict(test.evidence)
                value = np.array([score.value if isinstance(score, Score) else np.nan for score in scores])
                clusters = Clusters(test.context)
                about |= with_interval(column, "spearman", test.people[question], value, clusters, draws)
                about["warned"] = fmean(isinstance(s, Score) and s.warning is not None for s in scores)
        rows.append(about)
    return rows


def main() -> None:
    parser = options("ciu", "Cheap metrics one by one and together.", PARTS)
    parser.add_argument("--to", type=Path, help="transfer: the folder of the other data set")
    given = parser.parse_args()
    wanted = chosen(parser, given.only, PARTS)
    folder = data_folder(parser, given.data)
    found = banks()
    names = found.get("embedding", LEXICAL)
    subsets = load(folder / "topical_usr", names)
    draws, seeds = (200, 3) if given.quick else (1000, given.limit or SEEDS)
    rows: list[Row] = []
    if "standalone" in wanted:
        rows += standalone(subsets, draws)
    data = subsets["with-document"]
    if "unify" in wanted:
        for bank, members in found.items():
            rows += unify(data, bank, members, seeds)
    if "transfer" in wanted and given.to is not None:
        other = load(given.to, names)
        rows += transfer(data, other.get("with-document", other["all"]), list(found)[-1], draws)
    columns = [
        "part",
        "dataset",
        "subset",
        "system",
        "bank",
        "split",
        "n",
        *QUESTIONS,
        "paper_overall",
        "paper_uses_knowledge",
    ]
    finish("ciu", rows, [*columns, "ciu_ahead_overall", "warned"], given.json)


if __name__ == "__main__":
    main()
