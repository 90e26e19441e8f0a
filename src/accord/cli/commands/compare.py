"""`accord compare`: every method and baseline on the same labels and the same honest folds."""

from __future__ import annotations

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import comparison_text, show


@command("compare")
def compare(config_file: ConfigFile = None, as_json: AsJson = False) -> None:
    """One table: methods, baselines, and how well people agree with each other."""
    from accord.pipeline import compare_stored

    with open_project(config_file) as project:
        with project.store.run("compare", project.config.shown()) as run:
            found = compare_stored(project.store, project.config, project.rubric, project.models)
            run.results.update(found.to_json())
        show(run.results, as_json, comparison_text)
