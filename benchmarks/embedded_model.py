"""Speed of the embedded model, and agreement of its evidence with people.

    python benchmarks/embedded_model.py --data ../shared/data [--only PARTS] [--quick] --json OUT

Parts: judge-speed, agreement, asked-directly.

Speed: nine questions about one 640-token conversation against one question, and against nine without a common
beginning, as in a runtime without shared prefixes; likelihood evidence of a 600-token conversation with six responses,
as six candidates for the last reply and as six replies within it. Medians over conversations of different texts; the
first response after a cold start is measured in its own process.

Agreement: Spearman with the mean human Overall on Topical-USR, intervals by bootstrap over contexts. `label-free` uses
no label; `calibrated` is learned on four fifths of the contexts and predicts the rest. A last row asks the model for a
rating directly.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from itertools import groupby
from statistics import fmean, median

import numpy as np
from harness import Row, chosen, data_folder, finish, options, rows_of_part
from numpy.typing import NDArray

from accord.embedded.chat import (
    EmbeddedChat,
    EmbeddedLikelihood,
)
from accord.embedded.language_model import (
    LanguageModel,
    open_language_model,
)
from accord.evidence import EvidenceTable
from accord.evidence.bank.reply_metrics import EMBEDDING
from accord.evidence.bank.session import LEXICAL
from accord.evidence.likelihood import measure_likelihoods
from accord.evidence.metric_source import measure
from accord.formats import read
from accord.learning import Calibration
from accord.models import (
    IN_PROCESS_LOGPROBS,
    Answer,
    Unanswered,
    wait,
)
from accord.models.judges.chat_judges import LogprobsJudge
from accord.statistics import STATISTICS, Clusters, Paired, bootstrap, grouped_folds
from accord.store import Store
from accord.values import Conversation, Document, Labels, Question, Sample, Scale, Score, Target, Turn, load_rubric
from accord_papers.variants.label_free import LabelFree

MODEL = "smollm2-135m"
QUICK_RESPONSES = 36
FORMAT_TOKENS, TURN_TOKENS = 23, 5
"""Tokens that the chat format adds to a conversation, and to each turn."""
WORDS = (
    "router light office window meeting garden ticket train winter coffee answer update cable screen morning problem "
    "letter season market river bridge doctor school paper kitchen street number battery signal member castle forest"
)

COLD = """
import time
start = time.perf_counter()
from accord.embedded.language_model import open_language_model
from accord_papers.variants.label_free import LabelFree
model = open_language_model("smollm2-135m")
opened = time.perf_counter() - start
context = [("user", "why is it so slow today " * 95)]
model.log_likelihoods([(model.chat([*context, ("assistant", "It is updating, give it an hour.")]), (1,))])
print(opened, time.perf_counter() - start)
"""


def text_of(model: LanguageModel, tokens: int, rng: np.random.Generator) -> str:
    """Return words with a number of tokens."""
    words = " ".join(rng.choice(WORDS.split(), tokens).tolist())
    return model.text_of(model.tokens_of(words)[:tokens])


def made(model: LanguageModel, rng: np.random.Generator, tokens: int, replies: int, documents: int) -> Conversation:
    """Return a conversation with given numbers of tokens in its turns, chat format included, and in a document."""
    each = (tokens - FORMAT_TOKENS) // (2 * replies) - TURN_TOKENS
    turns = [Turn(role, text_of(model, each, rng)) for _ in range(replies) for role in ("user", "assistant")]
    found = (Document(text_of(model, documents, rng)),) if documents else ()
    return Conversation(str(rng.integers(1 << 40)), tuple(turns), found)


def questions_speed(model: LanguageModel, rounds: int) -> Iterable[Row]:
    """Time one question, nine about one conversation, and nine about different conversations."""
    rng = np.random.default_rng(0)
    questions = load_rubric("llm-rubric").questions
    judge = LogprobsJudge(EmbeddedChat(model), "", IN_PROCESS_LOGPROBS)

    def asked(together: int, forget: bool = False) -> float:
        sample = Sample(made(model, rng, 640, 4, 0))
        start = time.perf_counter()
        for first in range(0, together, 1 if forget else together):
            if forget:
                model.next_tokens([model.tokens_of("forget")])
            wait(judge.answer(sample, questions[first : first + 1] if forget else questions[:together]))
        return time.perf_counter() - start

    asked(1)
    kinds = {"one-question": (1, False), "nine-questions": (9, False), "nine-questions-apart": (9, True)}
    if rounds == 1:
        del kinds["nine-questions-apart"]  # half a minute of its own
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, how in kinds.items():
            seconds[name].append(asked(*how))
    for name, found in seconds.items():
        ratio = median(a / b for a, b in zip(found, seconds["one-question"], strict=True))
        yield {"what": name, "n": rounds, "seconds": median(found), "ratio": ratio}


def likelihood_speed(model: LanguageModel, rounds: int) -> Iterable[Row]:
    """Time a 600-token conversation with six responses, with and without a document."""
    rng = np.random.default_rng(0)
    likelihood = EmbeddedLikelihood(model)

    def candidates(documents: int) -> list[Sample]:
        context = made(model, rng, 600 - documents, 4, documents)
        before = context.turns[:-1]
        replies = [Turn("assistant", text_of(model, 25, rng)) for _ in range(6)]
        each = (Conversation(f"{context.id}-{i}", (*before, r), context.documents) for i, r in enumerate(replies))
        return [Sample(conversation, len(before)) for conversation in each]

    def within(documents: int) -> list[Sample]:
        return [Sample(made(model, rng, 600 - documents, 6, documents))]

    for name, make in (("six-responses", candidates), ("six-replies-within", within)):
        for documents in (0, 150) if rounds > 1 else (0,):
            seconds = []
            for _ in range(rounds):
                samples, store = make(documents), Store("sqlite://")
                start = time.perf_counter()
                measure_likelihoods(likelihood, samples, store)
                seconds.append(time.perf_counter() - start)
                store.close()
            yield {"what": name + ("-and-document" if documents else ""), "n": rounds, "seconds": median(seconds)}


def speed(rounds: int) -> Iterable[Row]:
    """Yield the rows of speed and memory."""
    model = open_language_model(MODEL)
    yield from questions_speed(model, rounds)
    yield from likelihood_speed(model, rounds)
    found = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True).stdout
    opened, first = map(float, found.split())
    yield {"what": "cold-start", "n": 1, "seconds": opened}
    yield {"what": "first-response-of-600-tokens-cold", "n": 1, "seconds": first}
    yield {"what": "memory", "n": 1, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


# --- agreement --------------------------------------------------------------------------------------------------------


def topical(folder: str, limit: int | None) -> tuple[list[Sample], Labels, Question]:
    """Return Topical-USR's responses, three ratings of Overall for each, and the question."""
    samples, labels = [], []
    for record in read(folder):
        overall = [label for label in record.labels if label.question == "Overall"]
        if overall:
            samples.append(Sample(record.conversation, overall[0].target.turn))
            labels += overall
    samples = samples[:limit]
    kept = {sample.target for sample in samples}
    question = Question(id="Overall", text="How good is the response overall?", scale=Scale(options=(1, 2, 3, 4, 5)))
    return samples, Labels([label for label in labels if label.target in kept]), question


def context_of(target: Target) -> str:
    """Return the context of six responses: the id without the number of the response."""
    return target.conversation.rsplit("-", 1)[0]


def calibrated(evidence: EvidenceTable, labels: Labels, question: Question, seed: int) -> NDArray[np.float64]:
    """Return each response's score by an evaluator that was fitted on other contexts."""
    contexts = [context_of(target) for target in evidence.targets]
    score = np.zeros(len(evidence))
    for split in grouped_folds(contexts, 5, seed):
        rows = [row for row, context in enumerate(contexts) if context in split.test]
        inside = Labels([label for label in labels if context_of(label.target) in split.train])
        learned = Calibration(question).fit(evidence, inside)
        for row, made in zip(rows, learned.predict(evidence.take(rows)), strict=True):
            assert isinstance(made, Score)
            score[row] = made.value
    return score


def people(samples: list[Sample], labels: Labels) -> NDArray[np.float64]:
    """Return (n,) the mean of three ratings of each response."""
    said: dict[Target, list[float]] = {}
    for label in labels:
        assert label.value is not None
        said.setdefault(label.target, []).append(float(label.value))
    return np.array([fmean(said[sample.target]) for sample in samples])


def correlated(what: str, values: NDArray[np.float64], samples: list[Sample], mean: NDArray[np.float64]) -> Row:
    """Return a row with Spearman's correlation and its bootstrap interval over contexts."""
    paired = Paired(mean, np.arange(len(mean)), np.zeros((len(mean), 0)), values)
    clusters = Clusters([context_of(sample.target) for sample in samples])
    found = bootstrap(clusters, STATISTICS["spearman"], [paired])
    about = {"what": what, "dataset": "topical_usr", "n": len(mean), "spearman_overall": STATISTICS["spearman"](paired)}
    return {**about, "spearman_overall_low": found.low, "spearman_overall_high": found.high}


def agreement(folder: str, seeds: int, limit: int | None) -> Iterable[Row]:
    """Yield rows of likelihood evidence without labels, and of all cheap evidence with labels of other contexts."""
    samples, labels, question = topical(folder, limit)
    mean = people(samples, labels)
    store = Store("sqlite://")
    start = time.perf_counter()
    likelihoods = measure_likelihoods(EmbeddedLikelihood(open_language_model(MODEL)), samples, store)
    seconds = time.perf_counter() - start
    cheap = measure(samples, [*LEXICAL, *EMBEDDING])

    def row(what: str, values: NDArray[np.float64]) -> Row:
        return correlated(what, values, samples, mean)

    scores = [s for s in LabelFree(question).fit(likelihoods, Labels([])).predict(likelihoods) if isinstance(s, Score)]
    yield {**row("label-free", np.array([s.value for s in scores])), "seconds": seconds}
    for name in ("pmi-per-token", "pmi-turns", "log-p-given-all-per-token"):
        place = [column.name for column in likelihoods.columns].index(name)
        yield row(name, likelihoods.values[:, place])
    for name, table in (("calibrated", likelihoods.join(cheap)), ("calibrated-without-likelihoods", cheap)):
        runs = [calibrated(table, labels, question, seed) for seed in range(seeds)]
        each = [row(name, run)["spearman_overall"] for run in runs]
        yield row(name, runs[0]) | {"spearman_overall": fmean(each), "spearman_sd": float(np.std(each))}
    store.close()


def asked_directly(folder: str, limit: int | None) -> Iterable[Row]:
    """Return the model's own ratings, for six responses of a context at a time."""
    samples, labels, question = topical(folder, limit)
    judge = LogprobsJudge(EmbeddedChat(open_language_model(MODEL)), "", IN_PROCESS_LOGPROBS)

    async def rated(some: list[Sample]) -> list[float]:
        found = await asyncio.gather(*(judge.answer(sample, [question]) for sample in some))
        return [expected(answer) for [answer] in found]

    by_context = [list(group) for _, group in groupby(samples, key=lambda sample: context_of(sample.target))]
    values = [value for some in by_context for value in wait(rated(some))]
    yield correlated("asked-directly", np.array(values), samples, people(samples, labels))


def expected(answer: Answer | Unanswered) -> float:
    """Return the mean of an answer's distribution."""
    assert isinstance(answer, Answer)
    mass = {float(option): p for option, p in answer.probabilities.items()}
    return sum(option * p for option, p in mass.items()) / sum(mass.values())


def main() -> None:
    parts = ("judge-speed", "agreement", "asked-directly")
    parser = options("embedded_model", "Speed of the embedded model, and agreement of its evidence with people.", parts)
    given = parser.parse_args()
    run = chosen(parser, given.only, parts)
    limit = given.limit or (QUICK_RESPONSES if given.quick else None)
    folder = str(data_folder(parser, given.data) / "topical_usr") if set(run) & set(parts[1:]) else ""
    rows: list[Row] = []
    if "judge-speed" in run:
        rows += rows_of_part("judge-speed", partial(speed, 1 if given.quick else 5))
    if "agreement" in run:
        rows += rows_of_part("agreement", partial(agreement, folder, 3 if given.quick else 15, limit))
    if "asked-directly" in run and not given.quick:
        rows += rows_of_part("asked-directly", partial(asked_directly, folder, limit))
    columns = ["what", "n", "seconds", "ratio", "peak_mb", "spearman_overall", "spearman_sd"]
    finish("embedded_model", rows, columns, given.json)


if __name__ == "__main__":
    main()
