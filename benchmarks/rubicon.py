"""RUBICON: planted pools whose truth is known, recorded judges, and the whole way with a model in this process.

    python benchmarks/rubicon.py [--data DIR] [--only planted|recorded|embedded] [--quick] --json OUT

`planted` draws conversations whose truth is known, has a scripted judge answer a pool of informative, repeated, always
true, noisy and over-fitted assertions, and asks which of them a selection finds (precision and recall of the
selection); `recorded` selects among the recorded answers of two data sets, on splits of whole dialogues; `embedded`
writes, judges, selects and tries a rubric on 200 USS dialogues with the small model in this process. `accord paper
rubicon` runs the first two parts too, and the paper's tables for a project. Intervals are 95 %: over seeds if there are
several, else over conversations.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from harness import Row, chosen, data_folder, finish, options

from accord import Project
from accord.edges import BadInput
from accord.embedded.catalogue import is_pulled
from accord.evidence import Source, Training
from accord.formats import read
from accord.methods.learned_rubric.assertion_selector import ClassifiedSamples
from accord.methods.learned_rubric.findings import RubricFindings
from accord.methods.learned_rubric.selection_policies import RUBICON
from accord.methods.learned_rubric.source import LearnedRubric
from accord.models import Models, run
from accord.project import config_from
from accord.values import Conversation, Label, Labels, Question, Rubric, Sample, Scale
from accord_papers.rubicon.outcomes import result_row
from accord_papers.rubicon.project_tables import policy_results, stability
from accord_papers.rubicon.recordings import recorded_rows
from accord_papers.rubicon.simulation import TEST, planted_rows

PARTS = ("planted", "recorded", "embedded")
COLUMNS = (
    "part", "dataset", "system", "conversations", "precision", "recall", "f1", "accuracy", "delta_netsat", "yield_rate",
    "yield_deployed", "precision_deployed", "seconds",
)  # fmt: skip
MODEL = "embedded:smollm2-135m"
SMALL = 50
TEST_QUICK = 100
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
            found = planted_rows(min(given.limit or 20, 1 if given.quick else 20), test)
            rows += [{**row, **_of_selection(row), "part": part} for row in found]
        elif part == "recorded":
            found = recorded_rows(data_folder(parser, given.data), min(given.limit or 20, 2 if given.quick else 20))
            rows += [{**row, "part": part} for row in found]
        elif not is_pulled(MODEL.partition(":")[2]):
            print(f"note: {part} is left out: {MODEL} is not on this machine; see accord models pull")
        else:
            rows += _embedded_rows(data_folder(parser, given.data), given.store, 8 if given.quick else 200)
    finish("rubicon", rows, COLUMNS, given.json)


def _of_selection(row: Row) -> Row:
    """Return precision and recall of the selection, in place of those of the labels."""
    names, ends = {"precision": "informative", "recall": "found"}, ("", "_low", "_high")
    return {f"{name}{end}": row.get(f"{found}{end}") for name, found in names.items() for end in ends}


def _system(name: str) -> str:
    return "accord" if name == RUBICON else name


def _embedded_rows(data: Path, kept: Path | None, count: int) -> list[Row]:
    """The whole way with the model in this process: it writes, it judges; half of the dialogues are held out."""
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.yaml"
        task.write_text(TASK, encoding="utf-8")
        sizes = {"reasons": 1, "pool_size": 2} if count < SMALL else {"reasons": 2, "pool_size": 12}
        about = {"task": str(task), "deduplicate": "embedding", "budgets": [[5, 5]], **sizes}
        config = config_from({
            "store": f"sqlite:///{kept or Path(folder) / 'uss.db'}", "sources": {"learned-rubric": about},
            "models": {"judge": {"model": MODEL, "mode": "logprobs"}, "writer": {"model": MODEL, "context": 4096}},
        })  # fmt: skip
        question = Question(id="satisfaction", text="How satisfied is the user?", scale=Scale(options=(1, 2, 3, 4, 5)))
        rubric = Rubric(name="uss", main="satisfaction", questions=(question,))
        conversations, labels = _dialogues(data / "uss", count)
        train = Training(tuple(map(Sample, conversations)), Labels(labels), question)
        with Project(config, rubric) as project:
            return _learned(project.source("learned-rubric"), train, project.models)


def _learned(source: Source, train: Training, models: Models) -> list[Row]:
    started, steps = time.perf_counter(), Counter[str]()

    def step(purpose: str) -> None:
        if not steps[purpose]:
            print(f"{purpose} after {time.perf_counter() - started:.0f} s", flush=True)
        steps[purpose] += 1

    split = source.hold_out(train)
    assert split is not None
    try:
        first = run(source.learn(train.only(split.train)), models, step).source
    except BadInput as error:  # a model of this size may write nothing that is an assertion
        if not steps:
            raise
        print(f"note: {error}")
        return [{"part": "embedded", "dataset": "uss", "system": "accord", "seconds": time.perf_counter() - started}]
    test = train.only(split.test)
    learned = run(first.examine(test), models, step)
    seconds, found = time.perf_counter() - started, RubricFindings.from_json(learned.describe())
    print("answered:", dict(steps))
    print("pool:", found.pool)
    for each in found.assertions:
        print(f"  {each.id}  {each.text}")
    for caution in found.cautions:
        print(f"note: {caution}")
    about = {"part": "embedded", "dataset": "uss", "conversations": found.tested, "seconds": seconds}
    assert isinstance(learned, LearnedRubric) and learned.fit_ is not None
    for row in stability(learned.fit_):
        print(f"  {row['share']:.0%} of resamples select: {row['assertion']}")
    decided = ClassifiedSamples.of(test, learned.settings, fewest=1)
    results = policy_results(learned.fit_, learned.settings, decided, models)
    shown = [*(result_row(each, test, decided) for each in results), *map(dict, found.rows[1:2])]
    return [{**row, **about, "system": _system(row["system"])} for row in shown]


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
