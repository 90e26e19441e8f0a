"""Cost of a live message: microseconds per reply for each metric and the default bank, on growing histories.

    python benchmarks/live_scoring.py [--only metrics,scorer,bertscore,service] [--quick] --json OUT

Messages of 20 words and a document of 120 words are drawn with natural word frequencies. A reply is parsed, measured
and added to the history; `none` measures no metric. METEOR, BLEU and
BERTScore of the small embedder, if it was pulled, stand beside them in the same run. `scorer` is a whole scored reply
of a fitted mixture, with its interval and its reasons; `live-over-bank` has a question
and a document, and its ratio is to the bank. Medians of rounds, one core. `ratio` is how many times longer it
takes to measure the same reply by going through the whole conversation, in the same run.

`service` is `accord serve` in a process of its own, asked over loopback by 1, 16 and 128 clients, a reply a request
with its document (and 100 a request), and its memory after as many conversations. The clients run beside it.

`hostile` is one client that sends a reply every 50 ms, `alone` and beside the worst requests that are taken
(`hostile.py`), two connections a kind: each kind by itself (not with `--quick`), and `beside-hostile` all together,
with the client's `p99_seconds` and the service's `peak_mb`.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"  # one core, before NumPy is imported

import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median

import hostile
import load
import numpy as np
from harness import TOKEN, Row, Server, chosen, finish, options, process_memory

from accord.edges import AccordError
from accord.evidence import (
    SourceContext,
    Training,
    make_source,
    turn_metrics,
)
from accord.evidence.bank.reply_features import TurnMetric
from accord.evidence.bank.reply_metrics import (
    BANK,
    BERTSCORE,
)
from accord.evidence.bank.session import MetricSession
from accord.learning import Evaluator, make_head
from accord.live import LiveScorer
from accord.models import memory_models, run
from accord.values import Conversation, Document, Label, Labels, Question, Rubric, Sample, Scale, Turn

PARTS = ("metrics", "scorer", "bertscore", "service", "hostile")
HISTORIES = (10, 100, 1000)
CLIENTS = (1, 16, 128)
WORDS, DOCUMENT = 20, 120
REPLIES = 200
COMMON = ["the", "of", "and", "to", "a", "in", "is", "it", "you", "that"]


def texts(rng: np.random.Generator, count: int, words: int) -> list[str]:
    """Draw texts of words with natural frequencies."""
    rank = rng.zipf(1.3, size=(count, words)) % 8000
    return [" ".join(COMMON[r] if r < len(COMMON) else f"word{r}" for r in row) for row in rank]


def of_reply(metrics: dict[str, TurnMetric], history: int, rounds: int, count: int = 1) -> float:
    """Median processor microseconds of measuring a reply after a history of messages."""
    rng = np.random.default_rng(0)
    documents, said, replies = texts(rng, count, DOCUMENT), texts(rng, history, WORDS), texts(rng, REPLIES, WORDS)
    found = []
    for _ in range(rounds + 1):
        session = MetricSession(metrics, documents)
        for place, text in enumerate(said):
            (session.hear if place % 2 == 0 else session.say)(text)
        start = time.process_time()
        for text in replies:
            session.reply(text)
        found.append((time.process_time() - start) / REPLIES * 1e6)
    return median(found[1:])


def of_whole(metrics: dict[str, TurnMetric], history: int, rounds: int) -> float:
    """Median microseconds of measuring a reply by reading the whole conversation (baseline)."""
    rng = np.random.default_rng(0)
    documents, said = texts(rng, 1, DOCUMENT), texts(rng, history + 1, WORDS)
    turns = tuple(Turn("user" if place % 2 == 0 else "assistant", text) for place, text in enumerate(said))
    last = history if turns[history].role == "assistant" else history - 1
    conversation = Conversation("c", turns, (Document(documents[0]),)).at(last)
    spent = [timed(lambda: MetricSession(metrics).measure(Sample(conversation))) * 1e6 for _ in range(2 * rounds)]
    return median(spent)


def metrics_rows(rounds: int) -> list[Row]:
    """Rows of each metric, of the bank and of no metric."""
    bank = {name: turn_metrics.get(name) for name in BANK}
    rows: list[Row] = []
    for history in HISTORIES:
        systems: dict[str, dict[str, TurnMetric]] = {"none": {}, "ciu": {"ciu": bank["ciu"]}, "lexical-bank": bank}
        if history == HISTORIES[0]:
            singly = [*BANK, "meteor", *(("bleu", "chrf") if find_spec("sacrebleu") else ())]
            systems |= {name: {name: turn_metrics.get(name)} for name in singly}
        for name, metrics in systems.items():
            spent = of_reply(metrics, history, rounds)
            rows.append({"what": name, "history": history, "microseconds": spent, "per_second": 1e6 / spent})
            if name == "ciu":
                whole = of_whole(metrics, history, rounds)
                rows[-1]["ratio"] = whole / spent
                rows.append({"what": "ciu, the conversation anew", "history": history, "microseconds": whole})
    spent = of_reply(bank, HISTORIES[0], rounds, count=3)
    about = {"what": "lexical-bank, three documents", "history": HISTORIES[0]}
    return [*rows, {**about, "microseconds": spent, "per_second": 1e6 / spent}]


def fitted() -> Evaluator:
    """Fit a mixture on random ratings of random replies."""
    rng = np.random.default_rng(1)
    documents = tuple(map(Document, texts(rng, 3, DOCUMENT)))
    chats = [Conversation(str(i), (Turn("user", q), Turn("assistant", a)), documents)
             for i, (q, a) in enumerate(zip(texts(rng, 100, WORDS), texts(rng, 100, WORDS), strict=True))]  # fmt: skip
    question = Question(id="q", text="?", scale=Scale(options=(1, 2, 3, 4)))
    samples = [Sample(chat, 1) for chat in chats]
    labels = Labels(Label(s.target, "q", "ann", int(rng.integers(1, 5))) for s in samples)
    context = SourceContext(Rubric(name="drawn", questions=(question,), main="q"))
    bank = make_source("metrics", {"names": ["bank"]}, context)
    evaluator = Evaluator(question, (bank,), make_head("curves", question, {}), "mixture", "curves")
    return run(evaluator.fit(Training(tuple(samples), labels, question)), memory_models())


def scorer_rows(rounds: int) -> list[Row]:
    """Rows of a fitted mixture without and with a document, with its memory after many conversations."""
    scorer = LiveScorer(fitted(), conversations=1000)
    rng = np.random.default_rng(1)
    replies, [document] = texts(rng, REPLIES, WORDS), texts(rng, 1, DOCUMENT)
    bare, with_document = (of_scored(scorer, replies, given, rounds) for given in ((), (document,)))
    bank = of_reply({name: turn_metrics.get(name) for name in BANK}, HISTORIES[0], rounds)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    count = 100_000 if rounds > 3 else 5_000
    for place in range(count):
        scorer.message(f"many-{place}", "user", replies[place % REPLIES])
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    memory: Row = {"conversations": count, "remembered": len(scorer), "peak_mb": after, "grown_mb": after - before}
    return [
        {"what": "scored reply (mixture)", "history": 0, "microseconds": bare, "per_second": 1e6 / bare, **memory},
        {"what": "live-over-bank", "history": 0, "microseconds": with_document, "ratio": with_document / bank},
    ]


def of_scored(scorer: LiveScorer, replies: Sequence[str], documents: Sequence[str], rounds: int) -> float:
    """Median processor microseconds of a scored reply, after a question if there are documents."""
    spent = []
    for round_ in range(rounds + 1):
        name = f"{len(documents)}-{round_}"
        if documents:
            scorer.message(name, "user", replies[0], documents)
        start = time.process_time()
        for text in replies:
            scorer.message(name, "assistant", text)
        spent.append((time.process_time() - start) / REPLIES * 1e6)
    return median(spent[1:])


def bertscore_rows() -> list[Row]:
    """The same replies through BERTScore of the small embedder."""
    metrics = {"bertscore-f1": turn_metrics.get(BERTSCORE[-1])}
    rng = np.random.default_rng(2)
    session = MetricSession(metrics, texts(rng, 3, DOCUMENT))
    try:
        session.reply("to begin with")
    except AccordError as error:
        print(f"without BERTScore: {error}")
        return []
    replies = texts(rng, 20, WORDS)
    spent = median(timed(lambda text=text: session.reply(text)) for text in replies) * 1e6  # type: ignore[misc]
    return [{"what": "bertscore-f1", "history": 0, "microseconds": spent, "per_second": 1e6 / spent}]


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    """Run `accord serve` with a fitted mixture."""
    with tempfile.TemporaryDirectory() as name:
        fitted().save(Path(name) / "evaluators" / "mixture")
        (Path(name) / "accord.yaml").write_text("evaluator: mixture\n", encoding="utf-8")
        with Server(Path(name), *arguments) as server:
            yield server


def service_rows(count: int, conversations: int) -> list[Row]:
    """Throughput and latencies by clients, and the memory of the process."""
    rng = np.random.default_rng(3)
    replies, [document] = texts(rng, REPLIES, WORDS), texts(rng, 1, DOCUMENT)

    def said(name: str, place: int) -> dict[str, object]:
        text, id_ = replies[place % REPLIES], str(place)
        return {"conversation": name, "role": "assistant", "content": text, "documents": [document], "id": id_}

    def singly(name: str) -> Iterator[bytes]:
        return (json.dumps(said(f"{name}-{place % 500}", place)).encode() for place in range(count))

    def together(total: int) -> Iterator[bytes]:
        for start in range(0, total, 100):
            batch = [said(f"many-{place}", place) for place in range(start, min(start + 100, total))]
            yield json.dumps({"messages": batch}).encode()

    rows: list[Row] = []
    with serving("--conversations", "1000") as server:
        load.post(server.port, islice(singly("warm"), 500), 4)
        for clients in CLIENTS:
            found = load.post(server.port, singly(f"c{clients}"), clients)
            rows.append({"what": "service", "clients": clients, **_figures(found, 1)})
        before = process_memory(server.process.pid, "VmRSS")
        found = load.post(server.port, together(conversations), 4)
        about: Row = {"what": "service, 100 a request", "clients": 4, **_figures(found, 100)}
        rows.append({**about, "conversations": conversations, "peak_mb": process_memory(server.process.pid, "VmRSS")})
        rows[-1]["grown_mb"] = None if before is None else rows[-1]["peak_mb"] - before
    return rows


def hostile_rows(requests: int, singly: bool) -> list[Row]:
    """Waits of an honest client alone, with each kind of hostile traffic, and with all kinds."""
    rng = np.random.default_rng(4)
    replies, [document] = texts(rng, REPLIES, WORDS), texts(rng, 1, DOCUMENT)
    own = [
        json.dumps({"conversation": f"own-{place % 20}", "role": "assistant", "content": replies[place % REPLIES],
                    "documents": [document]}).encode()
        for place in range(requests)
    ]  # fmt: skip
    rows: list[Row] = []
    for kinds in ((), *((kind,) for kind in hostile.ALL if singly), hostile.ALL):
        what = "alone" if not kinds else "beside-hostile" if len(kinds) > 1 else f"beside-hostile: {kinds[0]}"
        with serving("--conversations", "10000") as server:
            hostile.waits(server.port, own[:20], TOKEN, 0)
            with hostile.sending(server.port, kinds, TOKEN) as answered:
                found = hostile.waits(server.port, own, TOKEN, every=0.05)
                p50, p99 = np.quantile(found.seconds, (0.5, 0.99)).tolist()
            rows.append({
                "what": what, "p50_seconds": p50, "p99_seconds": p99, "most_seconds": max(found.seconds),
                "refused": found.refused, "hostile_requests": answered.value,
                "peak_mb": process_memory(server.process.pid),
            })  # fmt: skip
    return rows


def _figures(found: load.Load, messages: int) -> Row:
    per_second = len(found.latencies) * messages / found.seconds
    return {
        "per_second": per_second, "microseconds": 1e6 / per_second, "p50_ms": found.milliseconds(0.5),
        "p99_ms": found.milliseconds(0.99), "refused": found.refused,
    }  # fmt: skip


def timed(work: Callable[[], object]) -> float:
    """Seconds of `work`."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("live_scoring", "What a live message costs.", PARTS)
    given = parser.parse_args(arguments)
    wanted = chosen(parser, given.only, PARTS)
    rounds = 3 if given.quick else given.limit or 9
    rows: list[Row] = []
    if "metrics" in wanted:
        rows += metrics_rows(rounds)
    if "scorer" in wanted:
        rows += scorer_rows(rounds)
    if "bertscore" in wanted:
        rows += bertscore_rows()
    if "service" in wanted:
        rows += service_rows(*((2000, 10_000) if given.quick else (10_000, 100_000)))
    if "hostile" in wanted:
        rows += hostile_rows(100 if given.quick else 400, singly=not given.quick)
    columns = ["what", "history", "clients", "microseconds", "per_second", "ratio", "p50_ms", "p99_ms", "refused"]
    columns += ["remembered", "conversations", "peak_mb", "grown_mb", "p99_seconds", "most_seconds", "hostile_requests"]
    finish("live_scoring", rows, columns, given.json)


if __name__ == "__main__":
    main()
