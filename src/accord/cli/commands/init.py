"""`accord init`: a project file and a rubric to edit, here; the rubric a shipped one, or made from labels."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, Columns, LabelColumns, Main, column_map
from accord.cli.outputs import CHECKED_BY_COMMAND
from accord.cli.show import show

if TYPE_CHECKING:
    from accord.project import Survey

HEAD = """\
# Made from labels by `accord init --from`. Edit the wording: it is what a judge is asked. A scale that is too narrow
# for labels to come (1 to 4 seen, 1 to 5 asked) is widened here.
"""

PROJECT = """\
# Accord's project file. `accord schema` prints its JSON Schema; unknown keys are refused.
store: sqlite:///accord.db      # or postgresql://user@host/name, or ${ACCORD_STORE}
rubric: rubric.yaml             # edit it: your questions, your scales, one main question
metrics: [lexical]              # cheap evidence; `accord plugins` lists what there is; [lexical, embedding] for both
models: {}                      # who has which role; an entry is opened when it is first asked, with its key then
#  judge:                       # answers the rubric; mode says how its distribution is obtained
#    mode: logprobs
#    model: gpt-4o-mini         # at OPENAI_BASE_URL with OPENAI_API_KEY
#  likelihood:                  # how likely a small model in this process finds each reply: accord models pull
#    model: embedded:smollm2-135m
#  finder:                      # says what is wrong with each turn: accord judge --source issues
#    model: gpt-4o-mini
#  scorer:                      # is shown rated examples: accord fit in-context
#    model: gpt-4o-mini
#  writer:                      # writes a rubric: accord fit learned-rubric
#    model: gpt-4o-mini
# sources:                      # settings of sources of evidence, by name
#   issues: {taxonomy: soda-eval}        # or a YAML file of your own
#   learned-rubric: {task: task.yaml}    # about: what conversations are about; expected: [what of the assistant]
# evaluators:                   # your own, beside the presets: sources and a head
#   both: {sources: [rubric, metrics, issues], head: mixed}
# studies:                      # what people rate on the pages of `accord serve`: docs/workbench.md
#   helpful:
#     stages: [{questions: [Q1, Q0]}]    # of the rubric, asked one below the other
#     items: {draw: 60}                  # so many conversations, drawn once
#     per_item: 2                        # two people each
evaluator: calibration          # what `accord fit` learns; score, report and serve use the one fitted last
folds: 5
seed: 0
"""


@command("init")
def init(
    conversations: Annotated[
        list[Path] | None, typer.Argument(help="With --from: files of conversations that the labels are about.")
    ] = None,
    labels_from: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Write a rubric that fits the labels of this file or folder; repeat."),
    ] = None,
    main: Main = None,
    labels: LabelColumns = None,
    columns: Columns = None,
    rubric: Annotated[str, typer.Option("--rubric", help="The shipped rubric to start from.")] = "llm-rubric",
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", help="Also write the prompts of `fit learned-rubric` there, to edit."),
        CHECKED_BY_COMMAND,
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write accord.yaml and rubric.yaml into this folder; files that exist are left alone.

    With --from the rubric asks what the labels answer, on the scales of their values. Where rubric.yaml exists already,
    it is written beside it, and accord.yaml names the new one.
    """
    from accord.project import rubric_for, survey
    from accord.report import positions_said
    from accord.values import BadInput, dump_rubric, load_rubric

    if not labels_from:
        if conversations or main or labels or columns:
            raise BadInput("files, --main, --labels and --columns go with --from: accord init --from labels.csv")
        result = _written({"accord.yaml": PROJECT, "rubric.yaml": dump_rubric(load_rubric(rubric))}, prompts)
        show({**result, "next": "accord import chats.jsonl labels.csv"}, as_json, _text)
        return
    paths = [*labels_from, *(conversations or ())]
    found = survey(paths, "auto", column_map(columns), labels or ())
    made = rubric_for(found.questions.values(), _main_of(found, main), "from-labels")
    text = HEAD + dump_rubric(made.rubric)
    name = _free_name(text)
    result = _written({"accord.yaml": PROJECT.replace("rubric: rubric.yaml ", f"rubric: {name} "), name: text}, prompts)
    if "accord.yaml" in result["kept"] and _names_it(name):
        result["kept"].remove("accord.yaml")
        result["changed"] = [f"accord.yaml: rubric: {name}"]
    said = [*made.said]
    if found.positions:
        said.append(positions_said(found.positions))
    if found.could_be:
        said.append(f"these could be ratings too: {', '.join(found.could_be)} (--labels NAME)")
    asked = [
        {"question": each.id, "scale": str(each.scale), "kind": each.scale.kind.value,
         "labels": found.questions[each.id].total}
        for each in made.rubric.questions
    ]  # fmt: skip
    more = {"main": made.rubric.main, "questions": asked, "said": said, "next": _next(found, paths)}
    show({**result, **more}, as_json, _text)


def _main_of(found: Survey, main: str | None) -> str | None:
    """The main question: the named one; on a terminal it is asked for where there are several."""
    names = list(found.questions)
    if main is not None or len(names) < 2 or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return main
    from accord.project import rubric_for

    guess = rubric_for(found.questions.values()).rubric.main
    chosen: str = typer.prompt(f"Main question, to be learned ({', '.join(names)})", default=guess, err=True)
    return chosen


def _free_name(text: str) -> str:
    """`rubric.yaml`, or a name beside it that is free where that exists and says something else."""
    names = ["rubric.yaml", "rubric-from-labels.yaml", *(f"rubric-from-labels-{count}.yaml" for count in range(2, 100))]
    return next(name for name in names if not Path(name).exists() or Path(name).read_text(encoding="utf-8") == text)


def _names_it(rubric: str) -> bool:
    """Have accord.yaml name another rubric, that line alone changed; whether it had to be."""
    path = Path("accord.yaml")
    before = path.read_text(encoding="utf-8")
    after, count = re.subn(r"(?m)^rubric:[ \t]*[^\s#]+", f"rubric: {rubric}", before)
    if not count:
        after = f"{before.rstrip()}\nrubric: {rubric}\n"
    path.write_text(after, encoding="utf-8")
    return after != before


def _next(found: Survey, paths: Sequence[Path]) -> str:
    """The command that imports what the rubric was made from."""
    files = [str(path) for path in paths] if found.conversations else ["chats.jsonl", *map(str, paths)]
    columns = [f"--labels {shlex.quote(name)}" for name in found.beside]
    return " ".join(["accord import", *map(shlex.quote, files), *columns])


class Files(TypedDict):
    """Names of files that were written, of those that were kept as they are, and lines that were changed in one."""

    written: list[str]
    kept: list[str]
    changed: NotRequired[list[str]]


def _written(files: dict[str, str], prompts: Path | None) -> Files:
    """Write the files that are not there yet; which were written, and which kept."""
    if prompts is not None:
        from accord.methods import PROMPTS, shipped

        prompts.mkdir(parents=True, exist_ok=True)
        files |= {str(prompts / f"{name}.md"): shipped(name) for name in PROMPTS}
    written = [name for name, text in files.items() if _write_new(Path(name), text)]
    return {"written": written, "kept": sorted(set(files) - set(written))}


def _write_new(path: Path, text: str) -> bool:
    if path.exists():
        return False
    path.write_text(text, encoding="utf-8")
    return True


def _text(result: Mapping[str, Any]) -> str:
    lines = [f"wrote {name}" for name in result["written"]] + [f"kept {name} as it is" for name in result["kept"]]
    lines += [f"changed {line}" for line in result.get("changed", ())]
    for row in result.get("questions", ()):
        mark = " (main)" if row["question"] == result["main"] else ""
        lines.append(f"  {row['question']}{mark}: {row['kind']}, {row['scale']}; {row['labels']} labels")
    lines += [f"note: {sentence}" for sentence in result.get("said", ())]
    return "\n".join([*lines, f"Next: {result['next']}"])
