"""`accord demo`: the whole way on the sample that ships with Accord. No key, no network once the models are there."""

from __future__ import annotations

from pathlib import Path

from accord.cli.app import command
from accord.cli.commands.run import Out, main_job
from accord.cli.options import AsJson
from accord.cli.show import note


@command("demo")
def demo(out: Out = Path("accord-demo"), as_json: AsJson = False) -> None:
    """Try everything on forty written conversations: evidence, learning, validation, scores, a report."""
    from accord.models import ModelSettings, is_ready
    from accord.project import Config
    from accord.report import RunOptions
    from accord.sample import sources

    config = Config(store=f"sqlite:///{out / 'accord.db'}")
    if is_ready():
        likelihood = ModelSettings(model="embedded:smollm2-135m")
        update = {"metrics": ["lexical", "embedding"], "models": {"likelihood": likelihood}}
        config = config.model_copy(update=update)
    else:
        note("lexical evidence alone: the small models are not here. `accord models pull` fetches them once (177 MB).")
    main_job(config, sources(), out, "auto", {}, False, as_json, RunOptions(infers=False, evaluator=config.evaluator))
