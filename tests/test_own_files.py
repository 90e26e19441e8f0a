"""Own files in thirteen forms: people, questions, conversations, replies, versions and documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from new_user_files import FORMS, Kind, wrong_readings

from accord import Project, check
from accord.project import Config, ImportOptions
from accord.project.importing.data_files import files_in


@pytest.mark.parametrize("form", [form for form in FORMS if not form.is_pairs], ids=lambda form: form.name)
def test_own_files_are_read_as_they_are(form: Kind, tmp_path: Path) -> None:
    if form.labels.endswith(".xlsx"):
        pytest.importorskip("fastexcel")
    (tmp_path / "data").mkdir()
    form.write(tmp_path / "data")
    roles = dict(name.split("=") for name in form.options if name != "--role")
    with Project(Config(store=f"sqlite:///{tmp_path / 'accord.db'}")) as project:
        imported = project.import_(files_in([tmp_path / "data"]), options=ImportOptions(roles=roles))
        assert wrong_readings(form, project, imported.raters, imported.judged.judges) == []


def test_pairs_are_read_as_they_are(tmp_path: Path) -> None:
    [form] = [form for form in FORMS if form.is_pairs]
    form.write(tmp_path)
    found = check(tmp_path / form.chats[0])
    assert {system.system for system in found.systems.systems} == form.systems
    assert (found.rows, found.labeled) == (form.scored, *form.people.values())
