"""`accord demo`: the whole way on the sample that ships with Accord. No key, no network."""

from __future__ import annotations

from pathlib import Path

from accord.cli.app import command
from accord.cli.commands.run import Out, main_job
from accord.cli.options import AsJson


@command("demo")
def demo(out: Out = Path("accord-demo"), as_json: AsJson = False) -> None:
    """Try everything on forty written conversations: evidence, learning, validation, scores, a report."""
    from accord.config import Config
    from accord.sample import sources

    config = Config(store=f"sqlite:///{out / 'accord.db'}")
    main_job(config, sources(), out, "auto", {}, False, as_json)
