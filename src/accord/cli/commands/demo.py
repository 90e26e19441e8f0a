"""`accord demo`: the whole way on the sample that ships with Accord. No key, no network, no model unless asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.commands.run import Out, main_job
from accord.cli.options import AsJson


@command("demo")
def demo(
    out: Out = Path("accord-demo"),
    with_models: Annotated[
        bool,
        typer.Option(
            "--with-models",
            help="Measure also with the two small models that `accord models pull` fetches: many minutes of CPU.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Try everything on 150 written conversations: evidence, learning, validation, scores, a report."""
    from accord.edges import BadInput
    from accord.embedded import is_ready
    from accord.learning import EvaluatorSettings
    from accord.models import ModelSettings
    from accord.project import Config
    from accord.report import RunOptions
    from accord.sample import ABOUT, sources

    # `auto` comes to the same here, and takes most of its time to try a network.
    mixed = {"calibration": EvaluatorSettings(head="mixed")}
    config = Config(store=f"sqlite:///{out / 'accord.db'}", evaluators=mixed)
    if with_models:
        if not is_ready():
            raise BadInput("the small models are not here; fetch them once (177 MB): accord models pull")
        likelihood = ModelSettings(model="embedded:smollm2-135m")
        update = {"metrics": ["lexical", "embedding"], "models": {"likelihood": likelihood}}
        config = config.model_copy(update=update)
    options = RunOptions(infers=False, evaluator=config.evaluator, about=ABOUT)
    main_job(config, sources(), out, "auto", {}, False, as_json, options)
