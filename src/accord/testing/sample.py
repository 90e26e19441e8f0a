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
from typing import Any, Literal

import yaml

from accord.edges import UnknownName, trust_in_process
from accord.project import load_project
from accord.sample import sources
from accord.verbs import Project

SMALL_PROFILE: dict[str, Any] = {"repeats": 1, "folds": 2, "draws": 20}
"""Settings of `accord.yaml` for tests: one repetition of the cross-validation on two folds, 20 bootstrap samples."""


def sample_project(
    conversations: int = 12,
    given: Mapping[str, Any] | None = None,
    profile: Literal["small", "default"] = "small",
    **settings: Any,
) -> Project:
    """Return a new project with conversations of the sample and their ratings on the main question.

    The small profile keeps every verb below a second: `SMALL_PROFILE`, one metric as evidence, and a mixed model as the
    evaluator `default`. The figures of so few ratings mean nothing. The folder is temporary and is removed with the
    project.

    Args:
        conversations: Number of conversations, 1 to 150; each has three or four ratings from 1 to 4.
        given: Model objects by role, as in `Project`.
        profile: `small`, or `default` for the settings of a project whose `accord.yaml` is empty.
        **settings: Settings of `accord.yaml` that replace the settings of the profile.

    Raises:
        BadInput: A setting or the profile is unknown, or a setting has an invalid value.

    >>> with sample_project() as project:
    ...     project.question.id, project.store.count_conversations(), len(project.store.labels())
    ('Q0', 12, 41)
    """
    small = {"metrics": ["words"], "evaluators": {"default": {"head": "mixed"}}, **SMALL_PROFILE}
    profiles: dict[str, dict[str, Any]] = {"small": small, "default": {}}
    if profile not in profiles:
        raise UnknownName("profile", profile, profiles)
    folder = Path(tempfile.mkdtemp(prefix="accord-sample-"))
    written = {"store": "sqlite:///:memory:", **profiles[profile], **settings}
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
