"""RUBICON: planted pools whose truth is known, recorded judges, and the whole way with a model in this process.

    python benchmarks/rubicon.py [--data DIR] [--only planted|recorded|embedded] [--quick] --json OUT

`planted` draws conversations whose truth is known, has a scripted judge answer a pool of informative, repeated, always
true, noisy and over-fitted assertions, and asks which of them a selection finds; `recorded` selects among the recorded
answers of two data sets, on splits of whole dialogues; `embedded` writes, judges, selects and tries a rubric on 200 USS
dialogues with the small model in this process. Intervals are 95 %: over seeds where there are several, else over
conversations.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
from harness import Row, chosen, data_folder, finish, options
from rubicon_planted import TEST, TEST_QUICK, planted_rows
from rubicon_recorded import recorded_rows

from accord.config import Config, EvaluatorConfig, JudgeConfig, WriterConfig
from accord.formats import read
from accord.pipeline import ASKED, RubricModels, cautions, learn_rubric, make_budget
from accord.store import Store
from accord.values import BadInput, Conversation, Label, Question, Rubric, Scale

PARTS = ("planted", "recorded", "embedded")
COLUMNS = (
    "part", "dataset", "system", "conversations", "precision", "recall", "f1", "accuracy", "delta_netsat", "yield_rate",
    "yield_deployed", "precision_deployed", "seconds",
)  # fmt: skip
MODEL = "embedded:smollm2-135m"
SMALL = 50
TASK = """\
about: Task dialogues in which a user finds and books restaurants, hotels, trains, films, doctors and the like.
expected:
  - Understands what the user is looking for, and asks for what is missing.
  - Offers what fits, with the details that were asked for.
  - Completes the booking, and says so.
"""


def main() -> None:
    parser = options("rubicon", str(__doc__), PARTS)
    parser.add_argument("--store", type=Path, help="of `embedded`: keep replies and answers here, and go on from there")
    given = parser.parse_args()
    rows: list[Row] = []
    for part in chosen(parser, given.only, PARTS):
        if part == "embedded" and given.quick and not given.only:
            print("note: the model in this process takes longer than --quick may; --only embedded runs it")
        elif part == "planted":
            test = TEST_QUICK if given.quick else TEST
            rows += planted_rows(min(given.limit or 20, 1 if given.quick else 20), test)
        elif part == "recorded":
            rows += recorded_rows(data_folder(parser, given.data), min(given.limit or 20, 2 if given.quick else 20))
        else:
            rows += _embedded_rows(data_folder(parser, given.data), given.store, 8 if given.quick else 200)
    finish("rubicon", rows, COLUMNS, given.json)


def _embedded_rows(data: Path, kept: Path | None, count: int) -> list[Row]:
    """The whole way with the model in this process: it writes, it judges; half of the dialogues are held out."""
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.yaml"
        task.write_text(TASK)
        small = count < SMALL
        config = Config(
            judge=JudgeConfig(mode="logprobs", model=MODEL),
            writer=WriterConfig(
                model=MODEL,
                task=str(task),
                reasons=1 if small else 2,
                pool=2 if small else 12,
                deduplicate="embedding",
                context=4096,
            ),
            evaluator=EvaluatorConfig(method="learned-rubric", settings={"budgets": [[5, 5]]}),
        )
        question = Question(id="satisfaction", text="How satisfied is the user?", scale=Scale(options=(1, 2, 3, 4, 5)))
        rubric = Rubric(name="uss", main="satisfaction", questions=(question,))
        with closing(Store(f"sqlite:///{kept or Path(folder) / 'uss.db'}")) as store:
            conversations, labels = _dialogues(data / "uss", count)
            store.add_conversations(conversations)
            store.add_labels(labels)
            return _learned(store, config, rubric)


def _learned(store: Store, config: Config, rubric: Rubric) -> list[Row]:
    budget, started = make_budget(config), time.perf_counter()
    stages: list[tuple[str, float]] = []

    def on_stage(name: str, total: int | None) -> Callable[[], None]:
        stages.append((name, time.perf_counter()))
        print(f"{name} ({total}) after {stages[-1][1] - started:.0f} s", flush=True)
        return lambda: None

    with closing(RubricModels(config, store, budget)) as models:
        try:
            study = learn_rubric(store, config, rubric, models.writer, models.judge_for, on_stage=on_stage)
        except BadInput as error:  # a model of this size may write nothing that is an assertion
            print(f"note: {error}")
            return [
                {"part": "embedded", "dataset": "uss", "system": "accord", "seconds": time.perf_counter() - started}
            ]
    seconds = time.perf_counter() - started
    ends = [at for _, at in stages[1:]] + [time.perf_counter()]
    for (name, began), ended in zip(stages, ends, strict=True):
        print(f"{name}: {ended - began:.0f} s")
    print("pool:", study.pool.to_json())
    for each in study.rubric.assertions:
        print(f"  {each.id}  chosen on {study.chosen[each.id]:.0%} of resamples  {each.text}")
    for caution in cautions(study):
        print(f"note: {caution}")
    about = {"part": "embedded", "dataset": "uss", "conversations": len(study.sides.test), "seconds": seconds}
    named = {"rubicon": "accord"}
    shown = [row for row in study.rows if row["table"] == 3 or row["system"] == ASKED]
    return [{**row, **about, "system": named.get(row["system"], row["system"])} for row in shown]


def _dialogues(folder: Path, count: int) -> tuple[list[Conversation], list[Label]]:
    """As many good as bad dialogues, drawn by a seed, with their ratings."""
    kinds: dict[bool, list[tuple[Conversation, list[Label]]]] = {True: [], False: []}
    for conversation, labels in _rated(folder):
        mean = float(np.mean([label.value for label in labels]))
        if mean != 3:
            kinds[mean > 3].append((conversation, labels))
    rng = np.random.default_rng(0)
    if count < SMALL:  # of a few, the shortest: the model in this process reads slowly
        kinds = {good: sorted(kind, key=lambda one: len(one[0].turns))[:count] for good, kind in kinds.items()}
    drawn = [kind[place] for kind in kinds.values() for place in rng.permutation(len(kind))[: count // 2]]
    return [conversation for conversation, _ in drawn], [label for _, labels in drawn for label in labels]


def _rated(folder: Path) -> Iterator[tuple[Conversation, list[Label]]]:
    for record in read(folder):
        labels = [label for label in record.labels if label.question == "satisfaction" and label.target.turn is None]
        if labels:
            yield record.conversation, labels


if __name__ == "__main__":
    main()
