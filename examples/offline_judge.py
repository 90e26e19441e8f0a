"""A judge without an endpoint: requests in a file, any engine's batch run, its replies as a recording.

    python examples/offline_judge.py requests requests.jsonl --model NAME [--shard 3/16] [--all]
    vllm run-batch -i requests.jsonl -o replies.jsonl --model NAME
    python examples/offline_judge.py record replies.jsonl judgments.jsonl --model NAME

and in accord.yaml:

    models: {judge: {mode: recorded, paths: [judgments.jsonl]}}

Requests are lines of OpenAI's batch files, which vLLM, SGLang and providers read and answer in the same form. A shard
holds every n-th conversation; the recordings of all shards are named in `paths`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import accord
from accord import Project
from accord.models import (
    Answer,
    Prompt,
    batch_files,
    questions_for,
    read_first_token,
)
from accord.models.prompts import prompt_for
from accord.models.requests.batching import read_batch
from accord.values import Sample

TOP = 20
"""Alternatives requested at the first position."""


class _Judge:
    name, mode = "offline", "logprobs"


def _item(sample: Sample) -> str:
    """Return the item id of a sample in a recording: the last turn of a conversation has the conversation's id."""
    is_last = sample.turn is None or sample.turn == len(sample.conversation.turns) - 1
    return sample.conversation.id if is_last else str(sample.target)


def write_requests(
    project: Project, path: Path, model: str, shard: tuple[int, int] = (1, 1), every: bool = False
) -> int:
    """Write a request per applicable question and sample (rated ones, or `every` one); return their number.

    The name of a request holds the item id and the question of the recording.
    """
    number, of = shard

    def prompts() -> Iterator[tuple[str, Prompt]]:
        samples = (sample for batch in project.sample_batches(every) for sample in batch)
        for place, sample in enumerate(samples):
            if place % of != number - 1:
                continue
            for question in questions_for(_Judge(), project.rubric):
                if question.applies_to(sample.conversation):
                    about = json.dumps([_item(sample), question.id])
                    yield about, prompt_for(sample, question, project.rubric.instructions, TOP)

    found = dict(prompts())
    with path.open("wb") as stream:
        for _, lines in batch_files(found, model):
            stream.write(lines)
    return len(found)


def write_recording(project: Project, replies: Path, path: Path, model: str) -> Counter[str]:
    """Write the replies as rows of a recording; return counts of rows, and of unusable replies by reason."""
    counts: Counter[str] = Counter()
    with replies.open("rb") as lines, path.open("w", encoding="utf-8") as stream:
        for line in lines:
            for about, reply in read_batch(line, model):
                if isinstance(reply, str):
                    counts[reply] += 1
                    continue
                item, name = json.loads(about)
                answer = read_first_token(project.rubric[name], reply)
                if not isinstance(answer, Answer):
                    counts[answer.reason] += 1
                    continue
                row = {"item_id": item, "question": name, "judge_model": model}
                stream.write(json.dumps({**row, "distribution": dict(answer.probabilities)}) + "\n")
                counts["recorded"] += 1
    return counts


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["requests", "record"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    number, of = map(int, given.shard.split("/"))
    with accord.open("accord.yaml") as project:
        if given.step == "requests":
            count = write_requests(project, given.files[0], given.model, (number, of), given.all)
            print(f"{count} requests in {given.files[0]}", file=sys.stderr)
        else:
            print(dict(write_recording(project, *given.files, given.model)), file=sys.stderr)


if __name__ == "__main__" and sys.argv[1:2] in (["requests"], ["record"]):
    main()
elif __name__ == "__main__":
    print(__doc__)
