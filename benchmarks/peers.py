"""The same work through several tools: three tables with a planted truth, each through every tool that can read it.

    python benchmarks/peers.py [--only accord,truescore,...] [--environments FOLDER] [--quick] --json OUT

labels   600 answers, a judge's verdict and confidence for each, and a person's label for a random half
raters   600 answers, a judge's verdict for each, and the labels of three people for a random third
pairs    300 questions answered by two versions, judged in both orders, and a person's preference for one order of half
         of the questions

Each tool is installed by pip into a temporary virtual environment. A row of a tool and a table has its figures with
95% intervals, the processor seconds of its commands (median of three runs), and the commands and lines of code that
it takes. The row of a tool without a table has the size of its environment without pip and setuptools. The rows of
`truth` are computed from the probabilities that the tables are drawn from. Tools that ask a judge get one that
repeats the answers of the table; nothing asks a model.

same             share of equal answers of the judge and a person
kappa            Cohen's κ of the judge and a person; `kappa_majority`: of the judge and the majority of people;
                 `kappa_v1_first`: in the rows that show v1 first
alpha            Krippendorff's α of the judge and a person
people_kappa     agreement of people among themselves; `people_alpha`: Krippendorff's α of them
judge_mean       share of pass (pairs: win rate of v2) by the judge alone; `mean`: corrected by the labels
mean_majority    the same of the majority's label
automate         share that the judge may decide alone, with an error of at most 5%
position         share of questions where the judge prefers the same position in both orders

`--quick` runs Accord in the present environment alone, once. `--environments` keeps the environments, and uses those
that are there.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from harness import ROOT, Row, chosen, earlier_rows, finish, options, own_files, rows_of_part, timed

from accord.edges import BadInput

SEED, ROWS, RUNS = 2026, 600, 3
GOOD = 0.6
"""Share of good answers."""
CLEAR = (0.97, 1.0), (0.55, 0.95)
"""Ranges of the judge's confidence, each of half of the answers."""
LENIENT = 0.4
"""Errors with a good answer, relative to the complement of the confidence; those with others make up for it."""
TPR, TNR = 0.95, 0.7
"""Rates of the judge of the table `raters`."""
RATERS = {"ann": 0.04, "ben": 0.08, "cho": 0.15}
"""Error rates of people."""
WINS, FIRST = 0.62, 0.2
"""Share of questions that v2 wins, and share of rows in which the judge prefers the first answer."""
COLUMNS = [
    "table",
    "tool",
    "same",
    "kappa",
    "kappa_majority",
    "kappa_v1_first",
    "alpha",
    "people_kappa",
    "people_alpha",
]
COLUMNS += ["ac1", "tpr", "tnr", "judge_mean", "mean", "mean_majority", "automate", "ece", "strength", "position"]
COLUMNS += ["cpu_seconds", "commands", "lines", "mb", "skipped"]


# --- tables -----------------------------------------------------------------------------------------------------------


def write_tables(folder: Path) -> None:
    """Write `labels.csv`, `raters.csv` and `pairs.csv`."""
    rng = np.random.default_rng(SEED)
    good = rng.random(ROWS) < GOOD
    confidence = np.where(rng.random(ROWS) < 0.5, rng.uniform(*CLEAR[0], ROWS), rng.uniform(*CLEAR[1], ROWS)).round(3)
    wrong = rng.random(ROWS) < (1 - confidence) * np.where(good, LENIENT, _other_errors())
    labeled = set(rng.permutation(ROWS)[: ROWS // 2])
    rows: list[Row] = [
        {"id": f"q{row}", "judge": _word(good[row] ^ wrong[row]), "confidence": confidence[row],
         "human": _word(good[row]) if row in labeled else ""}
        for row in range(ROWS)
    ]  # fmt: skip
    _write(folder / "labels.csv", rows)
    good = rng.random(ROWS) < GOOD
    judge = np.where(good, rng.random(ROWS) < TPR, rng.random(ROWS) > TNR)
    people = good[:, None] ^ (rng.random((ROWS, len(RATERS))) < list(RATERS.values()))
    labeled = set(rng.permutation(ROWS)[: ROWS // 3])
    rows = [
        {"id": f"q{row}", "judge": _word(judge[row])}
        | {name: _word(people[row, k]) if row in labeled else "" for k, name in enumerate(RATERS)}
        for row in range(ROWS)
    ]
    _write(folder / "raters.csv", rows)
    questions = ROWS // 2
    labeled = set(rng.permutation(questions)[: questions // 2])
    rows = []
    for question in range(questions):
        best = "v2" if rng.random() < WINS else "v1"
        rated_order = rng.integers(2) if question in labeled else None
        for order, (first, second) in enumerate((("v1", "v2"), ("v2", "v1"))):
            judged = first if rng.random() < FIRST else best
            rows.append(
                {"question_id": f"q{question}", "model_a": first, "model_b": second,
                 "judge_winner": "A" if judged == first else "B",
                 "human_winner": ("A" if best == first else "B") if order == rated_order else ""}
            )  # fmt: skip
    _write(folder / "pairs.csv", rows)


def _word(is_good: bool) -> str:
    return "pass" if is_good else "fail"


def _other_errors() -> float:
    """Return the factor of errors with answers that are not good, for which the confidence is right on average."""
    return (1 - GOOD * LENIENT) / (1 - GOOD)


def _write(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


# --- truth ------------------------------------------------------------------------------------------------------------


def truth_rows() -> list[Row]:
    """Return the figures of the populations that the tables are drawn from."""
    doubt = 1 - float(np.mean(CLEAR))
    good, bad = 1 - doubt * LENIENT, 1 - doubt * _other_errors()
    labels = {"tpr": good, "tnr": bad, "judge_mean": GOOD * good + (1 - GOOD) * (1 - bad), "mean": GOOD}
    labels |= _agreement(GOOD * good, GOOD * (1 - good), (1 - GOOD) * (1 - bad), (1 - GOOD) * bad)
    labels |= {"automate": _largest_share(0.05), "ece": 0.0}
    pairs = {
        "judge_mean": FIRST / 2 + (1 - FIRST) * WINS,
        "mean": WINS,
        "strength": float(np.log(WINS / (1 - WINS))) / 2,
    }
    v1_first = _agreement(1 - WINS, 0, FIRST * WINS, (1 - FIRST) * WINS)["kappa"]
    pairs |= {"position": FIRST, "kappa_v1_first": v1_first} | _agreement(0.5, 0, FIRST / 2, (1 - FIRST) / 2)
    return [{"table": "labels", "tool": "truth", **labels}, {"table": "raters", "tool": "truth", **_raters_truth()},
            {"table": "pairs", "tool": "truth", **pairs}]  # fmt: skip


def _agreement(both: float, people_alone: float, judge_alone: float, neither: float) -> dict[str, float]:
    """Return agreement from the probabilities that both, one or neither of a person and the judge say yes."""
    same, person, judge = both + neither, both + people_alone, both + judge_alone
    chance = person * judge + (1 - person) * (1 - judge)
    middle = (person + judge) / 2
    spread = 2 * middle * (1 - middle)
    return {"same": same, "kappa": (same - chance) / (1 - chance), "ac1": (same - spread) / (1 - spread),
            "alpha": 1 - (1 - same) / spread}  # fmt: skip


def _largest_share(limit: float) -> float:
    """Return the largest share of answers, by confidence, with an error of at most the limit."""
    (low, high), (lowest, highest) = CLEAR
    grid = np.linspace(0, 1, 100_001)[1:]
    confidence = np.concatenate([high - (high - low) * grid, highest - (highest - lowest) * grid])
    error = np.cumsum(1 - confidence) / np.arange(1, len(confidence) + 1)
    return float(np.max(np.nonzero(error <= limit)[0]) + 1) / len(confidence)


def _raters_truth() -> dict[str, float]:
    """Return the figures of `raters`, over all combinations of quality, judge and people."""
    size = len(RATERS)
    pooled, majority, people = np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2))
    for good, judge, *given in product((0, 1), repeat=2 + size):
        agrees = TPR if good else TNR
        chance = (GOOD if good else 1 - GOOD) * (agrees if judge == good else 1 - agrees)
        for error, label in zip(RATERS.values(), given, strict=True):
            chance *= 1 - error if label == good else error
        majority[int(sum(given) > size / 2), judge] += chance
        for place, label in enumerate(given):
            pooled[label, judge] += chance / size
            for other in given[:place] + given[place + 1 :]:
                people[label, other] += chance / size / (size - 1)
    among = _agreement(people[1, 1], people[1, 0], people[0, 1], people[0, 0])
    with_majority = _agreement(majority[1, 1], majority[1, 0], majority[0, 1], majority[0, 0])
    return _agreement(pooled[1, 1], pooled[1, 0], pooled[0, 1], pooled[0, 0]) | {
        "kappa_majority": with_majority["kappa"], "people_kappa": among["kappa"], "people_alpha": among["kappa"],
        "tpr": pooled[1, 1] / pooled[1].sum(), "tnr": pooled[0, 0] / pooled[0].sum(),
        "judge_mean": pooled[:, 1].sum(), "mean": pooled[1].sum(), "mean_majority": majority[1].sum(),
    }  # fmt: skip


# --- tools ------------------------------------------------------------------------------------------------------------


class Work(NamedTuple):
    """A table through a tool: a script, which prints figures as JSON or prepares files, and commands.

    `read` returns the figures from the output and the folder. `refused` is a shorter way that the tool refuses, whose
    message is stored.
    """

    script: str = ""
    commands: Sequence[str] = ()
    read: Callable[[str, Path], Mapping[str, Any]] = lambda output, folder: json.loads(output.splitlines()[-1])
    refused: str = ""


def read_accord(output: str, folder: Path) -> dict[str, Any]:
    """Return the figures of `accord check --json`."""
    found = json.loads(output)
    names = {"Cohen's κ": "kappa", "Gwet's AC1": "ac1", "same answer": "same", "same preference": "same", "TPR": "tpr",
             "TNR": "tnr"}  # fmt: skip
    figures = {names[row["statistic"]]: row["judge"] for row in found["agreement"] if row["statistic"] in names}
    figures["people_kappa"] = found["agreement"][0]["people"]
    figures["judge_mean"], figures["mean"] = found["means"]["rows"][0]["mean"], found["means"]["corrected"]
    if found.get("pairs"):
        version = next(row for row in found["systems"] if row["system"] == "v2")
        figures |= {"judge_mean": version["judge_mean"], "mean": [version["mean"], version["low"], version["high"]]}
        figures["strength"] = next(row["strength"] for row in found["pairs"]["strengths"] if row["version"] == "v2")
        figures["position"] = found["pairs"]["same_position"]
    if found["automation"]:
        figures["automate"] = found["automation"]["share"]
    return figures


def read_truescore(output: str, folder: Path) -> dict[str, Any]:
    """Return the figures of the report of `truescore audit`."""
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    names = {"accuracy": "same", "cohen_kappa": "kappa", "gwet_ac1": "ac1", "sensitivity": "tpr", "specificity": "tnr"}
    figures = {name: found["agreement"][theirs] for theirs, name in names.items()}
    return figures | {"judge_mean": found["naive"], "mean": found["corrected"]}


def read_judgekeeper(output: str, folder: Path) -> dict[str, Any]:
    """Return the figures of the report of judgekeeper."""
    found = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    head = found["headline"]
    rates = {
        name: [head[f"{name}_mean"], head[f"{name}_ci"]["lo"], head[f"{name}_ci"]["hi"]] for name in ("tpr", "tnr")
    }
    figures = {"same": head["accuracy_mean"], "kappa": head["kappa_mean"], **rates}
    if found.get("position_bias"):
        return {"kappa_v1_first": figures["kappa"], "position": found["position_bias"]["inconsistency_rate"]}
    return figures


def read_majority(output: str, folder: Path) -> dict[str, Any]:
    """Return the figure of judgekeeper that has the majority's label as its label."""
    return {"kappa_majority": read_judgekeeper(output, folder)["kappa"]}


TRUESCORE_RATERS = """
import csv
import json

import numpy as np
from truescore import judge_agreement, judge_only_estimate, krippendorff_alpha, ppi_estimate

rows = list(csv.DictReader(open("raters.csv")))
value = {"pass": 1.0, "fail": 0.0, "": np.nan}
people = np.array([[value[row[name]] for row in rows] for name in ("ann", "ben", "cho")])
judge = np.tile([value[row["judge"]] for row in rows], (3, 1))
known, items = ~np.isnan(people), np.tile(np.arange(len(rows)), 3)
found = judge_agreement(judge[known], people[known])
mean = ppi_estimate(judge.ravel(), people[known], np.flatnonzero(known), clusters=items)
alone = judge_only_estimate(judge[0])
shown = {"same": found.accuracy, "kappa": found.cohen_kappa, "ac1": found.gwet_ac1, "tpr": found.sensitivity,
         "tnr": found.specificity, "mean": mean, "judge_mean": alone}
figures = {name: [each.point, each.low, each.high] for name, each in shown.items()}
print(json.dumps(figures | {"people_alpha": krippendorff_alpha(people)}))
"""
TRUESCORE_PAIRS = """
import csv
import json

import numpy as np
from truescore import judge_agreement, position_bias, ppi_estimate

rows = list(csv.DictReader(open("pairs.csv")))
rated = [row for row in rows if row["human_winner"]]
found = judge_agreement(*[[row[who] == "A" for row in rated] for who in ("judge_winner", "human_winner")])
judge = [(pair[0]["judge_winner"] == "B") / 2 + (pair[1]["judge_winner"] == "A") / 2
         for pair in zip(rows[::2], rows[1::2])]
people = [row["model_" + row["human_winner"].lower()] == "v2" for row in rated]
places = [place for place in range(len(judge)) if any(row["human_winner"] for row in rows[2 * place:2 * place + 2])]
mean = ppi_estimate(judge, people, places)
position = position_bias(*[[row["judge_winner"] == "A" for row in rows[order::2]] for order in (0, 1)])
shown = {"same": found.accuracy, "kappa": found.cohen_kappa, "ac1": found.gwet_ac1, "mean": mean}
figures = {name: [each.point, each.low, each.high] for name, each in shown.items()}
print(json.dumps(figures | {"judge_mean": float(np.mean(judge)), "position": 1 - position.consistency}))
"""
MAJORITY = """
import csv

rows = list(csv.DictReader(open("raters.csv")))
with open("majority.csv", "w") as file:
    print("id,judge,label", file=file)
    for row in rows:
        labels = [row[name] for name in ("ann", "ben", "cho")]
        print(row["id"], row["judge"], max(set(labels), key=labels.count), sep=",", file=file)
"""
JUDGEKEEPER_PAIRS = """
import csv
import json

rows = list(csv.DictReader(open("pairs.csv")))
recorded = {}
with open("anchors.jsonl", "w") as file:
    for first, second in zip(rows[::2], rows[1::2]):
        recorded[first["question_id"]] = [first["judge_winner"], second["judge_winner"]]
        swap = {"A": "B", "B": "A"}
        label = first["human_winner"] or swap.get(second["human_winner"])
        if label:
            item = {"id": first["question_id"], "input": first["question_id"], "output_a": "v1", "output_b": "v2"}
            print(json.dumps(item | {"human_label": label}), file=file)
json.dump(recorded, open("recorded.json", "w"))
open("recorded.py", "w").write('''
import json
answers = json.load(open("recorded.json"))
def judge(item):
    return answers[item["id"]][item["output_a"] == "v2"]
''')
"""
JUDGE_AUDIT = """
import csv
import json

from judge_audit import Judge, Judgment
from judge_audit.runner import load_dataset, run_audit

rows = list(csv.DictReader(open("TABLE.csv")))
decisions = [(row, row[name]) for row in rows for name in PEOPLE if row[name]]
with open("labels.jsonl", "w") as file:
    for row, label in decisions:
        question = {"name": "verdict", "type": "choice", "options": OPTIONS}
        line = {"state": row["ITEM"], "questions": [question], "labels": {"verdict": label}}
        print(json.dumps(line), file=file)
answers = iter(decisions)


class Recorded(Judge):
    name = "recorded"

    def decide(self, state, questions):
        row = next(answers)[0]
        return [Judgment("verdict", row["JUDGE"], CONFIDENCE)]


found = run_audit(Recorded(), load_dataset("labels.jsonl")[0], labels_path="labels.jsonl").to_dict()
figures = {"same": [found["accuracy"], *found["accuracy_ci"]]}
if found["ece"] is not None:
    [limit] = [each for each in found["certificate"]["questions"][0]["targets"] if each["target_risk"] == 0.05]
    figures |= {"ece": [found["ece"], *found["ece_ci"]], "automate": limit["coverage"]}
print(json.dumps(figures))
"""
DEEPEVAL = """
import csv
import json

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import ExactMatchMetric
from deepeval.test_case import LLMTestCase

rows = list(csv.DictReader(open("TABLE.csv")))
cases = [LLMTestCase(input=row["id"], actual_output=row["judge"], expected_output=row[name])
         for row in rows for name in PEOPLE if row[name]]
result = evaluate(cases, [ExactMatchMetric()], async_config=AsyncConfig(run_async=False),
                  cache_config=CacheConfig(write_cache=False),
                  display_config=DisplayConfig(print_results=False, show_indicator=False))
print(json.dumps({"same": sum(each.success for each in result.test_results) / len(cases)}))
"""
DEEPEVAL_PAIRS = """
import csv
import json
import re

from deepeval import compare
from deepeval.evaluate import AsyncConfig, DisplayConfig
from deepeval.metrics import ArenaGEval
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import ArenaTestCase, Contestant, LLMTestCase, SingleTurnParams

rows = {f"row {place}.": row for place, row in enumerate(csv.DictReader(open("pairs.csv")))}


class Recorded(DeepEvalBaseLLM):
    def load_model(self):
        return self

    def get_model_name(self):
        return "recorded"

    def generate(self, prompt, schema=None):
        if "winner" not in schema.model_fields:
            return schema(rewritten_reason="recorded")
        row = rows[re.search(r"row \\d+\\.", prompt)[0]]
        best = row["model_" + row["judge_winner"].lower()]
        return schema(winner=re.search(r'"(\\w+)": "\\{[^}]*?answer of ' + best, prompt)[1], reason="recorded")

    async def a_generate(self, prompt, schema=None):
        return self.generate(prompt, schema)


def contestant(version, name):
    return Contestant(name=version, test_case=LLMTestCase(input=name, actual_output=f"answer of {version}"))


cases = [ArenaTestCase([contestant(row[side], name) for side in ("model_a", "model_b")]) for name, row in rows.items()]
metric = ArenaGEval("better", [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT], model=Recorded(),
                    evaluation_steps=["Choose the better answer."])
wins = compare(cases, metric, async_config=AsyncConfig(run_async=False),
               display_config=DisplayConfig(show_indicator=False))
print(json.dumps({"judge_mean": wins["v2"] / len(cases)}))
"""
EVALAUDIT_LABELS = """
import csv
import json

from evalaudit import cohens_kappa, judge_validation, score_ci

rows = list(csv.DictReader(open("labels.csv")))
human, judge = zip(*[(row["human"], row["judge"]) for row in rows if row["human"]])
found, alone = judge_validation(human, judge, seed=0), score_ci([int(row["judge"] == "pass") for row in rows])
print(found.summary())
print(json.dumps({"same": found.accuracy, "kappa": cohens_kappa(human, judge).kappa,
                  "alpha": [found.agreement, found.ci_low, found.ci_high],
                  "judge_mean": [alone.estimate, alone.ci_low, alone.ci_high]}))
"""
EVALAUDIT_RATERS = """
import json

import pandas as pd
from evalaudit import rater_agreement

table = pd.read_csv("raters.csv")
long = table.melt(["id", "judge"], ["ann", "ben", "cho"], "rater_id", "rating").rename(columns={"id": "item_id"})
found = rater_agreement(long, seed=0)
print(found.summary())
print(json.dumps({"people_alpha": [found.alpha, found.ci_low, found.ci_high]}))
"""
EVALAUDIT_PAIRS = """
import json

import pandas as pd
from evalaudit import bradley_terry, position_bias

table = pd.read_csv("pairs.csv").rename(columns={"question_id": "item_id"})
table["winner"] = table["model_a"].where(table["judge_winner"] == "A", table["model_b"])
found = bradley_terry(table, seed=0)
options = table.rename(columns={"item_id": "pair_id", "model_a": "option_a", "model_b": "option_b"})
position = position_bias(options)
print(found.summary(), position.summary())
print(json.dumps({"judge_mean": float(found.win_matrix.loc["v2", "v1"]), "position":
                  [1 - position.consistency_rate, 1 - position.ci_high, 1 - position.ci_low]}))
"""
CJE_LABELS = """
import csv
import json

from cje import analyze_dataset

label = {"pass": 1.0, "fail": 0.0, "": None}
rows = [{"prompt_id": row["id"], "judge_score": label[row["judge"]], "oracle_label": label[row["human"]]}
        for row in csv.DictReader(open("labels.csv"))]
found = analyze_dataset(fresh_draws_data={"all": rows})
print(found.summary())
low, high = found.confidence_interval()
print(json.dumps({"mean": [float(found.estimates[0]), float(low[0]), float(high[0])]}))
"""


def _filled(script: str, **words: str) -> str:
    for name, word in words.items():
        script = script.replace(name, word)
    return script


PEOPLE = '("ann", "ben", "cho")'
VERDICTS = '["pass", "fail"]'
TOOLS: Mapping[str, tuple[str, Mapping[str, Work]]] = {
    "accord": (str(ROOT), {
        "labels": Work("", ["accord check labels.csv --error .05 --json"], read_accord),
        "raters": Work("", ["accord check raters.csv --json"], read_accord),
        "pairs": Work("", ["accord check pairs.csv --json"], read_accord),
    }),
    "truescore": ("truescore==0.7.4", {
        "labels": Work("", [
            "truescore audit labels.csv --judge judge --gold human --json report.json",
        ], read_truescore),
        "raters": Work(TRUESCORE_RATERS),
        "pairs": Work(TRUESCORE_PAIRS,
                      refused="truescore audit pairs.csv --judge judge_winner --gold human_winner"),
    }),
    "judgekeeper": ("judgekeeper==0.1.3", {
        "labels": Work("", ["judgekeeper check labels.csv --judge judge --human human --out out"], read_judgekeeper),
        "raters": Work(MAJORITY, [
            "judgekeeper check majority.csv --judge judge --human label --out out",
        ], read_majority),
        "pairs": Work(JUDGEKEEPER_PAIRS, [
            "judgekeeper freeze anchors.jsonl",
            "judgekeeper judge anchors.jsonl --callable recorded:judge --label-map A=A --out runs",
            "judgekeeper validate anchors.jsonl runs --out out",
        ], read_judgekeeper, "judgekeeper check pairs.csv --judge judge_winner --human human_winner --id question_id"),
    }),
    "judge-audit": ("kunko-judge-audit==0.5.1", {
        "labels": Work(_filled(JUDGE_AUDIT, TABLE="labels", PEOPLE='("human",)', OPTIONS=VERDICTS, ITEM="id",
                               JUDGE="judge", CONFIDENCE='float(row["confidence"])')),
        "raters": Work(_filled(JUDGE_AUDIT, TABLE="raters", PEOPLE=PEOPLE, OPTIONS=VERDICTS, ITEM="id", JUDGE="judge",
                               CONFIDENCE="None")),
        "pairs": Work(_filled(JUDGE_AUDIT, TABLE="pairs", PEOPLE='("human_winner",)', OPTIONS='["A", "B"]',
                              ITEM="question_id", JUDGE="judge_winner", CONFIDENCE="None")),
    }),
    "deepeval": ("deepeval==4.3.1", {
        "labels": Work(_filled(DEEPEVAL, TABLE="labels", PEOPLE='("human",)')),
        "raters": Work(_filled(DEEPEVAL, TABLE="raters", PEOPLE=PEOPLE)),
        "pairs": Work(DEEPEVAL_PAIRS),
    }),
    "evalaudit": ("evalaudit==0.6.0", {
        "labels": Work(EVALAUDIT_LABELS),
        "raters": Work(EVALAUDIT_RATERS),
        "pairs": Work(EVALAUDIT_PAIRS),
    }),
    "cje": ("cje-eval==0.9.3", {"labels": Work(CJE_LABELS)}),
}  # fmt: skip
"""Requirement of each tool, and its work on each table."""
ENVIRONMENT = {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "DEEPEVAL_NO_INSPECT_PROMPT": "1"}


def tool_rows(tool: str, folder: Path, is_quick: bool, environments: Path | None = None) -> list[Row]:
    """Return a row for each table, and one for the size of a tool's environment.

    Raises:
        BadInput: pip cannot install the tool, or it fails on a table.
    """
    requirement, tables = TOOLS[tool]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        place = (environments or Path(name)).resolve() / f"environment-{tool}"
        bin_ = Path(sys.executable).parent if is_quick else place / "bin"
        if not is_quick and not place.exists():
            timed([sys.executable, "-m", "venv", place], name)
            timed([bin_ / "python", "-m", "pip", "install", "--quiet", requirement], name, PYTHONPATH="")
        for table, work in tables.items():
            figures: dict[str, Any] = {}
            seconds: list[float] = []
            for run in range(1 if is_quick else RUNS):
                work_folder = Path(name) / f"{table}-{run}"
                shutil.copytree(folder, work_folder)
                print(f"{tool}: {table}", file=sys.stderr)
                output, used = _worked(work, bin_, work_folder, is_quick)
                figures = dict(work.read(output, work_folder))
                seconds.append(used)
            row: Row = {"table": table, "tool": tool, **_flat(figures), "cpu_seconds": median(seconds)}
            row["commands"] = len(work.commands) + bool(work.script)
            row["lines"] = sum(bool(line.strip()) for line in work.script.splitlines())
            if work.refused:
                row |= {"refused": work.refused, "printed": _refusal(work.refused, bin_, folder)}
            rows.append(row)
        if not is_quick:  # after the runs, so with the bytecode of all modules in use
            rows.append({"table": None, "tool": tool, "mb": sum(size for _, size in own_files(place))})
    return rows


def _worked(work: Work, bin_: Path, folder: Path, is_quick: bool) -> tuple[str, float]:
    """Run the script and the commands of a table; return the last output and the processor seconds."""
    environment = ENVIRONMENT if is_quick else {**ENVIRONMENT, "PYTHONPATH": ""}
    output, used = "", 0.0
    steps: list[Sequence[str | Path]] = []
    if work.script:
        (folder / "work.py").write_text(work.script, encoding="utf-8")
        steps.append([bin_ / "python", "work.py"])
    for program, *arguments in (command.split() for command in work.commands):
        steps.append([*([bin_ / "python", "-m", program] if is_quick else [bin_ / program]), *arguments])
    for step in steps:
        done = timed(step, folder, accepted=(0, 2) if step[0] == bin_ / "truescore" else (0,), **environment)
        output, used = done.output, used + done.cpu_seconds
    return output, used


def _refusal(command: str, bin_: Path, folder: Path) -> str | None:
    """Return what a command that a tool refuses prints, or None if it does not refuse."""
    program, *arguments = command.split()
    try:
        timed([bin_ / program, *arguments], folder, PYTHONPATH="")
    except BadInput as error:
        return str(error).partition(" failed: ")[2]
    return None


def _flat(figures: Mapping[str, Any]) -> Row:
    """Return figures as columns, with `_low` and `_high` where a tool has an interval."""
    row: Row = {}
    for name, found in figures.items():
        if isinstance(found, Mapping):
            found = [found.get("value", found.get("point")), found["low"], found["high"]]
        values = found if isinstance(found, Sequence) else [found]
        if values[0] is not None:
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=False))
    return row


def main() -> None:
    parser = options("peers", "The same tables through several tools.", list(TOOLS))
    parser.add_argument("--environments", type=Path, metavar="FOLDER", help="folder that keeps the environments")
    given = parser.parse_args()
    tools = chosen(parser, given.only or ("accord" if given.quick else None), list(TOOLS))
    kept = earlier_rows(given.json, lambda row: row["tool"] not in {*tools, "truth"}) if given.only else []
    rows = truth_rows()
    with tempfile.TemporaryDirectory() as name:
        write_tables(Path(name))
        for tool in tools:
            found = rows_of_part(tool, partial(tool_rows, tool, Path(name), given.quick, given.environments))
            rows += [{"table": None, "tool": tool, **row} for row in found]
    rows += kept
    finish("peers", rows, [each for each in COLUMNS if any(row.get(each) is not None for row in rows)], given.json)


if __name__ == "__main__":
    main()
