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
        run = project.store.start_run("compare", project.config.model_dump(mode="json"))
        result = compare_stored(project.store, project.config, project.rubric, project.judge).to_json()
        project.store.finish_run(run, "done", result)
        show(result, as_json, comparison_text)
