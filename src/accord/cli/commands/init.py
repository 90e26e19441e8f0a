"""`accord init`: a project file and a rubric to edit, here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.options import AsJson
from accord.cli.show import show

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
evaluator: calibration          # what fit, score and report use; `accord compare` says which one to name here
folds: 5
seed: 0
"""


@command("init")
def init(
    rubric: Annotated[str, typer.Option("--rubric", help="The shipped rubric to start from.")] = "llm-rubric",
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", help="Also write the prompts of `fit learned-rubric` there, to edit."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write accord.yaml and rubric.yaml into this folder; files that exist are left alone."""
    from accord.values import dump_rubric, load_rubric

    files = {"accord.yaml": PROJECT, "rubric.yaml": dump_rubric(load_rubric(rubric))}
    if prompts is not None:
        from accord.methods import PROMPTS, shipped

        prompts.mkdir(parents=True, exist_ok=True)
        files |= {str(prompts / f"{name}.md"): shipped(name) for name in PROMPTS}
    written = [name for name, text in files.items() if _write_new(Path(name), text)]
    kept = sorted(set(files) - set(written))
    show({"written": written, "kept": kept}, as_json, _text)


def _write_new(path: Path, text: str) -> bool:
    if path.exists():
        return False
    path.write_text(text, encoding="utf-8")
    return True


def _text(result: Mapping[str, Any]) -> str:
    lines = [f"wrote {name}" for name in result["written"]] + [f"kept {name} as it is" for name in result["kept"]]
    return "\n".join([*lines, "Next: accord import chats.jsonl labels.csv"])
