"""Overhead of judging: requests per second of Accord, of a bare loop with the official SDK, and of a raw HTTP client.

    python benchmarks/judging_overhead.py [--quick] [--limit CONVERSATIONS] --json OUT

All three send the same prompts to a loopback server, 64 at a time, each in a process of its own, one after the other.
Then a second run reads stored answers (written by a scripted model), for a tenth of the conversations and for all of
them, which shows the growth of time and peak memory. Last, two runs are planned: with all answers stored, and with
none.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from harness import QUESTIONS, RUBRIC, Row, finish, model_server, options, run_python

CONCURRENCY = 64
ROUNDS = 3
KEPT_AT = "http://127.0.0.1/v1"
"""Endpoint of the stored answers."""

COMMON = (
    "import httpx2  # imported before the time is measured"
    + RUBRIC
    + """
import asyncio
from accord import Store
from accord.models.prompts import prompt_for
url, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
def done(asked, start):
    print(json.dumps([asked, time.perf_counter() - start, peak_mb()]))
"""
)

RUN = """
async def run():
    asked = 0
    async for judged in judge_all(judge, rubric, samples(count), store, concurrency=16):
        asked += len(judged.answers)
    return asked
start = time.perf_counter()
done(wait(run()), start)
"""

ACCORD = (
    COMMON
    + """
from accord.models import ClientOptions, wait
from accord.models.ask_judge import judge_all
from accord.models.factory import open_judge
judge = open_judge("logprobs", "m", url, rubric.instructions, ClientOptions(concurrency=64), 1)
store = Store(path)
"""
    + RUN
)

KEPT = (
    COMMON
    + """
from accord.models import Reply, ScriptedModel, wait
from accord.models.ask_judge import judge_all
from accord.models.judges.chat_judges import LogprobsJudge
reply = Reply("3", "m", {str(k): 0.25 for k in range(1, 5)})
model = ScriptedModel(lambda prompt: reply, "m")
model.endpoint = url + "/"  # as a client has it; part of the key of an answer, by which the plan finds it
judge = LogprobsJudge(model, rubric.instructions)
store = Store(path)
"""
    + RUN
)

PLAN = (
    COMMON
    + """
from accord.models import Models, ModelSettings, Questions, Request
from accord.models.requests.drivers import plan
models = Models({"judge": ModelSettings(mode="logprobs", model="m", base_url=url)}, Store(path))
def flow(part):
    yield [Request("judge", Questions(sample, rubric)) for sample in part]
everything, requests = list(samples(count)), 0
start = time.perf_counter()
for at in range(0, count, 500):  # as `accord judge --plan` measures them
    requests += plan(flow(everything[at : at + 500]), models).requests
done(requests, start)
"""
)

SDK = (
    COMMON
    + """
import openai.resources.chat.completions
from openai import AsyncOpenAI
async def run():
    client = AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
    prompts = ((s, q) for s in samples(count) for q in rubric.questions)
    asked = 0
    async def worker():
        nonlocal asked
        for sample, question in prompts:
            text = prompt_for(sample, question, rubric.instructions, 20).messages[0].content
            reply = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}],
                max_tokens=1, temperature=0, logprobs=True, top_logprobs=20)
            assert reply.choices[0].logprobs.content
            asked += 1
    await asyncio.gather(*(worker() for _ in range(64)))
    return asked
start = time.perf_counter()
done(asyncio.run(run()), start)
"""
)

HTTP = (
    COMMON
    + """
from urllib.parse import urlsplit
async def run():
    parts = urlsplit(url)
    prompts = ((s, q) for s in samples(count) for q in rubric.questions)
    asked = 0
    async def worker():
        nonlocal asked
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for sample, question in prompts:
            text = prompt_for(sample, question, rubric.instructions, 20).messages[0].content
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 1,
                "temperature": 0, "logprobs": True, "top_logprobs": 20}).encode()
            writer.write(b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
                         b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            lines = head.lower().split(b"\\r\\n")
            length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
            assert json.loads(await reader.readexactly(length))["choices"]
            asked += 1
        writer.close()
    await asyncio.gather(*(worker() for _ in range(64)))
    return asked
start = time.perf_counter()
done(asyncio.run(run()), start)
"""
)


def ran(code: str, url: str, store: Path, conversations: int) -> tuple[int, float, float]:
    """Return questions, seconds and peak megabytes of one client in its own process."""
    asked, seconds, peak = run_python(code, url, store, conversations, OPENAI_API_KEY="k")
    return asked, seconds, peak


def main() -> None:
    parser = options("judging_overhead", "Requests a second through Accord, the bare SDK, and raw HTTP.")
    given = parser.parse_args()
    live = given.limit or (60 if given.quick else 300)
    kept = (
        10 * given.limit if given.limit else 1_100 if given.quick else 11_112
    )  # nine questions each: 10,000 and 100,000 answers
    rounds = 1 if given.quick else ROUNDS
    rows: list[Row] = []
    with model_server() as url, tempfile.TemporaryDirectory() as folder:
        modes = {"accord": ACCORD, "sdk": SDK, "http": HTTP}
        speeds: dict[str, list[float]] = {name: [] for name in modes}
        for round_ in range(rounds):
            for name, code in modes.items():
                asked, seconds, _ = ran(code, url, Path(folder) / f"{name}{round_}.db", live)
                assert asked == live * QUESTIONS
                speeds[name].append(asked / seconds)
        pairs = zip(speeds["accord"], speeds["sdk"], strict=True)
        ratio = median(accord / sdk for accord, sdk in pairs)
        for name, found in speeds.items():
            row = {"what": name, "concurrency": CONCURRENCY, "per_second": median(found)}
            rows.append({**row, "ratio": ratio if name == "accord" else median(found) / median(speeds["sdk"])})
        small, large = Path(folder) / "small.db", Path(folder) / "large.db"
        for conversations, store in ((kept // 10, small), (kept, large))[1 if given.quick else 0 :]:
            ran(KEPT, KEPT_AT, store, conversations)
            answers, seconds, peak = ran(KEPT, KEPT_AT, store, conversations)
            rows.append({"what": "kept answers", "n": answers, "seconds": seconds, "peak_mb": peak})
        asked = kept * QUESTIONS
        for what, where, lacking in (("planned, all kept", KEPT_AT, 0), ("planned, all new", url, asked)):
            requests, seconds, peak = ran(PLAN, where, large, kept)
            assert requests == lacking
            rows.append({"what": what, "n": asked, "seconds": seconds, "peak_mb": peak})
    finish("judging_overhead", rows, ["what", "n", "per_second", "ratio", "seconds", "peak_mb"], given.json)


if __name__ == "__main__":
    main()
