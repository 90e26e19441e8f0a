"""Processor time and peak memory of daily work, compared with an earlier commit.

    python benchmarks/cost.py [--baseline COMMIT] [--only import,score] [--quick] [--stop RATIO] --json OUT

Every case runs for the baseline and for the working tree in turn, each time in a process of its own, so that other work
on the machine meets both. The table holds the lowest processor time and peak memory of the repetitions. A case is
repeated while the time allows, at most `REPETITIONS` times. `ratio` is the working tree's time by the baseline's; a row
above `LIMIT` is marked. With `--stop`, cases with more time than this ratio are measured once more, and the exit status
is 1 if a case is above it both times.

start-up     `accord --help`
import       20,000 conversations of ten turns with a rating each, into a new store
compare      `accord compare` on the sample
compare-2000 the same on 2,000 planted ratings of 500 conversations
score        5,000 conversations by a mixture on the default bank
live         a reply scored in memory: milliseconds for 200
board        the board's page with 5,000 scores, from the server's processor time
transcript   the page of a conversation of 500 turns with answers of a judge, in the same way
judging      500 conversations of one question each through a loopback server
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from compare_speed import planted_files
from harness import Row, checkout, chosen, default_baseline, finish, model_server, options, run_python
from import_speed import written

from accord.edges import BadInput

ROOT = Path(__file__).parents[1]
REPETITIONS, SECONDS, LIMIT = 3, 150.0, 1.15
"""Repetitions of a case at most, seconds after which none begins, and the ratio above which a row is marked."""

COMMON = """
import glob, os, re, subprocess
from pathlib import Path
def used():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
def accord(folder, *arguments):
    done = subprocess.run([sys.executable, "-m", "accord", *map(str, arguments)], cwd=folder, capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode()[-600:])
    return done.stdout
def peak():  # of the processes that were started, or of this one
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1024 if sys.platform != "darwin" else 2**20)
    return max(children, peak_mb())
def done(begun, count=1):
    print(json.dumps([(used() - begun) / count, peak()]))
folder, given = Path(sys.argv[1]), json.loads(sys.argv[2])
def settings(**more):
    (folder / "accord.yaml").write_text(json.dumps({"store": "sqlite:///accord.db", **more}))
"""
FITTED = """
from random import Random
from accord.evidence import SourceContext, Training, make_source
from accord.learning import Evaluator, make_head
from accord.models import memory_models, run
from accord.values import Conversation, Label, Labels, Question, Rubric, Sample, Scale, Turn
draw, words = Random(0), "the order has been sent and you will find it at the door tomorrow unless it rains".split()
def chat(name, turns=4):
    said = (Turn("assistant" if place % 2 else "user", " ".join(draw.choices(words, k=20))) for place in range(turns))
    return Conversation(name, tuple(said))
question = Question(id="q", text="?", scale=Scale(options=(1, 2, 3, 4)))
def evaluator(turn, names):
    samples = [Sample(chat(f"c{place}"), turn) for place in range(100)]
    labels = Labels(Label(sample.target, "q", "ann", draw.randint(1, 4)) for sample in samples)
    context = SourceContext(Rubric(name="drawn", questions=(question,), main="q"))
    bank = make_source("metrics", {"names": names}, context)
    made = Evaluator(question, (bank,), make_head("curves", question, {}), "mixture", "curves")
    return run(made.fit(Training(tuple(samples), labels, question)), memory_models())
def write_new(count):
    rows = [{"id": f"n{place}", "messages": [each.to_json() for each in chat("n").turns], "system": f"bot-{place % 3}"}
            for place in range(count)]
    (folder / "new.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
"""
SERVED = """
import http.client, socket, time
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
log = (folder / "serve.log").open("wb")
server = subprocess.Popen([sys.executable, "-m", "accord", "serve", "--port", str(port)], cwd=folder, stdout=log,
    stderr=log, env={**os.environ, "ACCORD_TOKEN": "a-token-that-nobody-guesses"})
def server_seconds():
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
def page(path, cookie=""):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", path, headers={"Cookie": cookie})
    answer = connection.getresponse()
    return answer.status, answer.headers.get("Set-Cookie") or "", answer.read().decode()
def sign_in():
    listens = 0
    while listens < 50:  # early versions let a sole user in without a link
        if links := re.findall(r"/in/\\S+", (folder / "serve.log").read_text()):
            return page(links[-1])[1]
        if server.poll() is not None:
            sys.exit((folder / "serve.log").read_text()[-600:])
        time.sleep(0.1)
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            listens += 1
        except OSError:
            pass
    return page("/")[1]
def time_page(path, loads):
    try:
        cookie = sign_in().partition(";")[0]
        status, _, text = page(path.format(loads + 1), cookie)  # the first load also imports
        if status != 200:
            sys.exit(f"{path}: status {status}: {text[-300:]}")
        begun = server_seconds()
        for load in range(loads):
            page(path.format(load + 1), cookie)
        spent = (server_seconds() - begun) / loads
        lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
        memory = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    finally:
        server.kill()
        server.wait()
    print(json.dumps([spent, memory]))
"""

START_UP = COMMON + """
begun = used()
for _ in range(given["times"]):
    accord(folder, "--help")
done(begun, given["times"])
"""  # fmt: skip
IMPORT = COMMON + """
settings()
begun = used()
accord(folder, "import", given["chats"], "--workers", 1)
done(begun)
"""  # fmt: skip
COMPARE = COMMON + """
settings(metrics=[given["metrics"]], **given["settings"])
accord(folder, "import", *given["files"])
begun = used()
accord(folder, "compare")
done(begun)
"""  # fmt: skip
SCORE = COMMON + FITTED + """
settings()
evaluator(None, ["bank"]).save(folder / "mixture")
write_new(given["count"])
begun = used()
accord(folder, "score", "new.jsonl", "--out", "scores.jsonl", "--evaluator", "mixture")
done(begun)
"""  # fmt: skip
LIVE = COMMON + FITTED + """
from accord.live import LiveScorer
scorer, texts = LiveScorer(evaluator(1, ["bank"])), [" ".join(draw.choices(words, k=20)) for _ in range(200)]
spent = []
for turn in range(given["rounds"] + 1):
    begun = used()
    for text in texts:
        scorer.message(f"live-{turn}", "assistant", text)
    spent.append(used() - begun)
print(json.dumps([1000 * min(spent[1:]), peak_mb()]))
"""  # fmt: skip
BOARD = COMMON + FITTED + """
settings(studies={"look": {"title": "Look"}})
evaluator(None, ["words"]).save(folder / "mixture")
write_new(given["count"])
accord(folder, "score", "new.jsonl", "--out", "scores.jsonl", "--evaluator", "mixture")
""" + SERVED + """
time_page("/board?since=2020-01-{:02}", given["loads"])  # the server keeps the figures of an address
"""  # fmt: skip
TRANSCRIPT = COMMON + """
from contextlib import closing
from random import Random
from accord import Conversation, Store, Turn
draw, words = Random(0), "order parcel router return delivery address refund label shop day".split()
names = [f"Q{place}" for place in range(9)]
options = {1: "bad", 2: "poor", 3: "fair", 4: "good"}
questions = [{"id": name, "text": f"How good is it ({name})?", "options": options} for name in names]
(folder / "rubric.yaml").write_text(json.dumps({"name": "nine", "main": "Q0", "questions": questions}))
settings(rubric="rubric.yaml", studies={"look": {"title": "Look"}})
texts = [" ".join(draw.choices(words, k=60)) for _ in range(given["turns"])]
said = (Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(texts))
with closing(Store(f"sqlite:///{folder}/accord.db")) as store:
    store.add_conversations([Conversation("long", tuple(said))])
    store.add_answers(
        {"key": f"{place}-{name}", "conversation": "long", "turn": place, "question": name, "judge": "judge",
         "mode": "logprobs", "outside": 0.0, "version": "", "made_from": json.dumps({"question": name}),
         "probabilities": json.dumps({"1": 0.1, "2": 0.2, "3": 0.3, "4": 0.4})}
        for place in range(1, given["turns"], 2) for name in names)
""" + SERVED + """
time_page("/conversation/long", given["loads"])
"""  # fmt: skip
JUDGING = COMMON + """
options = {1: "bad", 2: "poor", 3: "fair", 4: "good"}
rubric = {"name": "one", "main": "Q", "questions": [{"id": "Q", "text": "How good is it?", "options": options}]}
(folder / "rubric.yaml").write_text(json.dumps(rubric))
judge = {"mode": "logprobs", "model": "m", "base_url": given["url"]}
settings(rubric="rubric.yaml", models={"judge": judge})
rows = [{"id": f"c{place}", "messages": [{"role": "user", "content": f"{place}: why is it dark? " * 8},
         {"role": "assistant", "content": f"{place}: hold the button. " * 12}]} for place in range(given["count"])]
(folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
accord(folder, "import", "chats.jsonl")
os.environ["OPENAI_API_KEY"] = "k"
begun = used()
accord(folder, "judge", "--all")
done(begun)
"""  # fmt: skip
Case = Callable[[Path, bool], tuple[str, Mapping[str, Any]]]
"""Returns the script of a case and what it is given, for a folder of common files and a quick run."""


def _import(files: Path, quick: bool) -> tuple[str, Mapping[str, Any]]:
    count, path = 1_000 if quick else 20_000, files / "items.jsonl"
    if not path.exists():
        written(path, count)
    return IMPORT, {"chats": str(path)}


def _compare_sample(_: Path, __: bool) -> tuple[str, Mapping[str, Any]]:
    folder = ROOT / "src" / "accord" / "sample"
    files = [str(folder / name) for name in ("conversations.jsonl", "ratings.csv")]
    return COMPARE, {"metrics": "lexical", "settings": {}, "files": files}


def _compare_planted(files: Path, quick: bool) -> tuple[str, Mapping[str, Any]]:
    folder = files / "planted"
    if not folder.exists():
        folder.mkdir()
        planted_files(folder, 200 if quick else 2_000)
    question = {"id": "Overall", "text": "How good is the reply?", "options": {n: f"{n} of 5" for n in range(1, 6)}}
    rubric = folder / "rubric.yaml"
    rubric.write_text(json.dumps({"name": "overall", "main": "Overall", "questions": [question]}), encoding="utf-8")
    named = [str(folder / name) for name in ("chats.jsonl", "labels.csv")]
    return COMPARE, {"metrics": "lexical", "settings": {"rubric": str(rubric)}, "files": named}


CASES: dict[str, Case] = {
    "start-up": lambda _, quick: (START_UP, {"times": 1 if quick else 3}),
    "import": _import,
    "compare": _compare_sample,
    "compare-2000": _compare_planted,
    "score": lambda _, quick: (SCORE, {"count": 200 if quick else 5_000}),
    "live": lambda _, quick: (LIVE, {"rounds": 1 if quick else 5}),
    "board": lambda _, quick: (BOARD, {"count": 200 if quick else 5_000, "loads": 1 if quick else 5}),
    "transcript": lambda _, quick: (TRANSCRIPT, {"turns": 20 if quick else 500, "loads": 1 if quick else 10}),
    "judging": lambda _, quick: (JUDGING, {"count": 20 if quick else 500}),
}


def import_path(base: Path, folder: Path) -> str:
    """Return the import path of a checkout, with the packages whose entry points this environment names.

    The working tree's packages do not fit an earlier version, so those that the checkout lacks are empty modules.
    """
    own = [base / "src", *sorted(base.glob("packages/*/src"))]
    for entry in (entry for installed in distributions() for entry in installed.entry_points):
        if entry.group.startswith("accord."):
            parts = entry.module.split(".")
            if not any((path / parts[0]).is_dir() for path in own):
                module = folder.joinpath(*parts).with_suffix(".py")
                module.parent.mkdir(parents=True, exist_ok=True)
                module.touch()
                for depth in range(1, len(parts)):
                    folder.joinpath(*parts[:depth], "__init__.py").touch()
    return os.pathsep.join(map(str, [*own, folder]))


def measured(case: str, path: str, files: Path, quick: bool, url: str) -> tuple[float, float] | str:
    """Return processor seconds and peak megabytes of a case with a version, or the reason why it has none."""
    script, given = CASES[case](files, quick)
    with tempfile.TemporaryDirectory() as folder:
        try:
            seconds, peak = run_python(script, folder, json.dumps({**given, "url": url}), PYTHONPATH=path)
        except RuntimeError as error:
            return " ".join(str(error).split())[-300:] or "failed without a message"
    return seconds, peak


def row_of(case: str, now: list[tuple[float, float] | str], before: list[tuple[float, float] | str]) -> Row:
    """Return the row of a case: the lowest time and memory of each version, their ratios, and a mark."""
    row: Row = {"what": case, "runs": len(now)}
    for version, runs in (("", now), ("base_", before)):
        failed = next((run for run in runs if isinstance(run, str)), None)
        if failed is not None:
            return {**row, "note": f"{'baseline' if version else 'working tree'}: {failed}"}
        pairs = [run for run in runs if not isinstance(run, str)]
        row |= {f"{version}cpu_seconds": min(pair[0] for pair in pairs)}
        row |= {f"{version}peak_mb": min(pair[1] for pair in pairs)}
    row["ratio"] = row["cpu_seconds"] / max(row["base_cpu_seconds"], 1e-9)
    row["memory_ratio"] = row["peak_mb"] / row["base_peak_mb"]
    over = [name for name, key in (("time", "ratio"), ("memory", "memory_ratio")) if row[key] > LIMIT]
    return {**row, "note": f"more {' and '.join(over)}" if over else ""}


def compared(cases: list[str], base: Path, quick: bool, repetitions: int) -> list[Row]:
    """Measure the cases for the baseline and the working tree in turn."""
    runs: dict[str, tuple[list[Any], list[Any]]] = {case: ([], []) for case in cases}
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as files, tempfile.TemporaryDirectory() as absent, model_server() as url:
        paths = [import_path(ROOT, Path(absent)), import_path(base, Path(absent))]
        for repetition in range(repetitions):
            for case in cases:
                if repetition and time.monotonic() - start > SECONDS:
                    break
                order = (0, 1) if repetition % 2 else (1, 0)
                for which in order:
                    runs[case][which].append(measured(case, paths[which], Path(files), quick, url))
                print(f"{case}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    return [row_of(case, *runs[case]) for case in cases]


def main() -> None:
    """Run the benchmark."""
    parser = options("cost", (__doc__ or "").splitlines()[0], list(CASES))
    parser.add_argument("--baseline", metavar="COMMIT", help="commit to compare with; default: the last tag")
    parser.add_argument("--stop", type=float, metavar="RATIO", help="ratio of time that stops a release")
    given = parser.parse_args()
    cases = chosen(parser, given.only, list(CASES))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's processes have compiled modules
    try:
        commit = given.baseline or default_baseline()
        with checkout(commit) as base:
            repetitions = 1 if given.quick else given.limit or REPETITIONS
            rows = compared(cases, base, given.quick, repetitions)
            slow = [str(row["what"]) for row in rows if given.stop and row.get("ratio", 0.0) > given.stop]
            again = compared(slow, base, given.quick, repetitions) if slow else []
    except BadInput as error:
        parser.error(str(error))
    print(f"working tree compared with {commit}\n")
    columns = ["what", "cpu_seconds", "base_cpu_seconds", "ratio", "peak_mb", "base_peak_mb", "memory_ratio", "runs"]
    columns.append("note")
    finish("cost", rows, columns, given.json)
    if stopping := [str(row["what"]) for row in again if row.get("ratio", 0.0) > given.stop]:
        sys.exit(f"more than {given.stop:g} times the processor time of {commit}, twice: {', '.join(stopping)}")


if __name__ == "__main__":
    main()
