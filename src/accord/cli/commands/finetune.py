"""`accord finetune issues`: train a small model on the issues that a large one found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command_group, guarded
from accord.cli.options import AsJson, ConfigFile, Setting, Synthetic, open_counted
from accord.cli.outputs import CHECKED_BY_COMMAND
from accord.cli.terminal import Progress, figure_text, show, stage, table

finetune = command_group("finetune", "Teach small models of your own.")


@finetune.command("issues")
@guarded
def issues(
    base: Annotated[str, typer.Option("--base", help="A folder with a Hugging Face causal language model.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Default: evaluators/issues-small."), CHECKED_BY_COMMAND
    ] = None,
    prompt: Annotated[
        str, typer.Option("--prompt", help="full: as any model is asked; compact: the taxonomy is learned, not told.")
    ] = "compact",
    rank: Annotated[int, typer.Option("--rank", min=0, help="Of LoRA; 0 trains all weights.")] = 16,
    epochs: Annotated[
        int, typer.Option("--epochs", min=1, help="The one with the lowest validation loss is kept.")
    ] = 3,
    learning_rate: Annotated[float, typer.Option("--learning-rate", help="Of AdamW.")] = 2e-4,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Examples a step.")] = 16,
    micro_batch: Annotated[int, typer.Option("--micro-batch", min=1, help="Dialogues per forward pass.")] = 2,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=32, help="The longest example.")] = 2048,
    shots: Annotated[
        list[int] | None,
        typer.Option("--shots", min=0, max=5, help="Also test the base model with N examples; repeatable."),
    ] = None,
    test: Annotated[int | None, typer.Option("--test", min=1, help="Evaluate at most N turns.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was stopped.")] = False,
    synthetic: Synthetic = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Teach a small model to find issues and to rate, from the project's annotations; 70/20/10 by dialogue."""
    from accord.finetune import TrainingSettings
    from accord.project import finetune

    with open_counted(config_file, synthetic, settings) as project:
        size = next(n for n in range(min(micro_batch, batch), 0, -1) if batch % n == 0)
        training = TrainingSettings(
            rank=rank, alpha=2.0 * max(rank, 1), learning_rate=learning_rate, epochs=epochs, batch=size,
            accumulate=batch // size, max_tokens=max_tokens, seed=project.config.seed,
        )  # fmt: skip
        folder = out or project.folder("issues-small")
        with Progress("steps") as progress, project.store.run("finetune", project.config.shown()) as run:
            taught = finetune(
                project, base, folder, training, prompt, shots or (), resume, test, stage,
                lambda step, _: progress.at(step),
            )  # fmt: skip
            run.results.update(taught.to_json())
        show(run.results, as_json, _text)


def _text(found: Mapping[str, Any]) -> str:
    losses = ", ".join(f"{loss:.3f}" for loss in found["validation"])
    rows = [
        [
            f"{row['system']}: {row['statistic']}",
            row["of"],
            figure_text(row["value"], row["low"], row["high"], 3),
            str(row["turns"]),
        ]
        for row in found["rows"]
    ]
    return "\n\n".join(
        [
            f"validation loss after each epoch: {losses}",
            table(["on dialogues that were not learned from", "of", "value", "turns"], rows),
            f"model in {found['model']}; use it in accord.yaml: models: {{finder: {{model: hf:{found['model']}}}}}",
        ]
    )
