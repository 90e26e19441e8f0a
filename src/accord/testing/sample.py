"""A small project of the sample, for examples and for tests of plug-ins."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from accord.edges import trust_in_process
from accord.project import Project, load_project
from accord.sample import sources


def sample_project(conversations: int = 12, given: Mapping[str, Any] | None = None, **settings: Any) -> Project:
    """Return a new project with conversations of the sample and their ratings on the main question.

    Its settings keep every verb below a second: one metric as evidence, a mixed model, two folds, 20 bootstrap samples.
    The figures of so few ratings mean nothing. Its folder is temporary and is removed with the project.

    Args:
        conversations: Number of conversations, 1 to 150; each has three or four ratings from 1 to 4.
        given: Model objects by role, as in `Project`.
        **settings: Settings of `accord.yaml` that replace these.

    Raises:
        BadInput: A setting is unknown or has an invalid value.

    >>> with sample_project() as project:
    ...     project.question.id, project.store.count_conversations(), len(project.store.labels())
    ('Q0', 12, 41)
    """
    folder = Path(tempfile.mkdtemp(prefix="accord-sample-"))
    written = {
        "store": "sqlite:///:memory:",
        "metrics": ["words"],
        "evaluators": {"default": {"head": "mixed"}},
        **{"folds": 2, "repeats": 1, "draws": 20, "curve_draws": 1},
        **settings,
    }
    (folder / "accord.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
    trust_in_process(folder)
    try:
        project = Project(load_project(folder / "accord.yaml"), given=given)
    except BaseException:
        shutil.rmtree(folder)
        raise
    weakref.finalize(project, shutil.rmtree, folder, ignore_errors=True)
    chats, ratings = sources()
    with chats.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, conversations)]
    chosen = {row["id"] for row in rows}
    with ratings.open(encoding="utf-8", newline="") as lines:
        columns = ("conversation", "annotator", project.question.id)
        labels = [
            {name: row[name] for name in columns} for row in csv.DictReader(lines) if row["conversation"] in chosen
        ]
    project.import_([rows, labels])
    return project
