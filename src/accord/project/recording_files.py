"""Registration of recorded judgements in a project file: the entry `models: {judge: {mode: recorded, ...}}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.edges import BadInput, load_yaml, parse_yaml
from accord.models import JUDGE, JUDGEMENTS_FILE, read_recordings
from accord.project.file_survey import is_recording
from accord.values import PROJECT_FILE, find_project_file

_MODELS = re.compile(r"(?m)^models:[ \t]*(?:\{[ \t]*\})?[ \t]*(?P<comment>#.*)?$")


@dataclass(frozen=True)
class Registered:
    """Outcome of a registration.

    Attributes:
        models: Recorded models, by the number of their answers.
        entry: Entry of the project file that names the judgements, as YAML.
        written: True if the entry was written; False if it was there already, or is left to the user.
        message: A sentence on the outcome, with the next step if one is left.
    """

    models: dict[str, int]
    entry: str
    written: bool
    message: str


def recordings_among(files: Sequence[Path]) -> list[Path]:
    """Files of recorded judgements, and benchmark folders that hold one."""
    return [path for path in files if (path / JUDGEMENTS_FILE).is_file() or (path.is_file() and is_recording(path))]


def register_recordings(paths: Sequence[Path], project_file: Path | None = None) -> Registered:
    """Make recorded judgements the judge of a project, if its file names no judge.

    Settings are never changed: if the file names a judge already, the message has the entry to write in its place.

    Args:
        paths: Files of judgements, or folders that hold one.
        project_file: The project file, by default that of the working folder; written if it does not exist.

    Raises:
        BadInput: A file cannot be read, or is no recording.
    """
    path = project_file or find_project_file() or Path(PROJECT_FILE)
    models = {name: len(recording.answers) for name, recording in read_recordings(paths).items()}
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    content: Any = load_yaml(path) if text else {}
    named = [_named(each, path.parent) for each in paths]
    entry = f"{JUDGE}: {{mode: recorded, paths: [{', '.join(map(_quoted, named))}]}}"
    found = f"recorded judgements of {', '.join(models) or 'no model'}"
    judge = (content.get("models") or {}).get(JUDGE)
    if judge is not None:
        known = {(path.parent / each).resolve() for each in judge.get("paths") or ()}
        if judge.get("mode") == "recorded" and known.issuperset(each.resolve() for each in paths):
            return Registered(models, entry, False, f"{found} are the judge in {path} already")
        return Registered(
            models, entry, False, f"{found} are not used: {path} names another judge. To use them, write there: "
            f"models: {{{entry}}}",
        )  # fmt: skip
    changed = _with_entry(text, entry)
    wanted = {**content, "models": {**(content.get("models") or {}), **parse_yaml(entry, str(path))}}
    if _parsed(changed, path) != wanted:
        return Registered(models, entry, False, f"{found} are not used yet. Add to models: in {path}: {entry}")
    path.write_text(changed, encoding="utf-8")
    return Registered(models, entry, True, f"{found} are the judge now: added to models: in {path}")


def _parsed(text: str, path: Path) -> Any:
    try:
        return parse_yaml(text, str(path))
    except BadInput:
        return None


def _with_entry(text: str, entry: str) -> str:
    """The text of a project file with one more entry under `models:`, every other line unchanged."""
    found = _MODELS.search(text)
    if found is None:
        return f"{text.rstrip()}\nmodels:\n  {entry}\n".lstrip()
    below = re.search(r"(?m)^(?!\s*#)( *)\S", text[found.end() :])
    indent = below[1] if below is not None and below[1] else "  "
    comment = f"  {found['comment']}" if found["comment"] else ""
    return f"{text[: found.start()]}models:{comment}\n{indent}{entry}{text[found.end() :]}"


def _named(path: Path, folder: Path) -> str:
    """A path inside the project's folder relative to it, any other path as an absolute one."""
    found, inside = path.resolve(), folder.resolve()
    return found.relative_to(inside).as_posix() if found.is_relative_to(inside) else str(found)


def _quoted(path: str) -> str:
    import json

    return path if re.fullmatch(r"[\w./-]+", path) else json.dumps(path)
