"""Files of folders that may hold conversations or labels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from accord.edges import BadInput, unpacked_name
from accord.formats import READ, is_slack_channel, reason_to_skip

QUESTIONS_FILE = "questions.json"
"""List of questions in a benchmark folder."""


def files_in(paths: Iterable[str | Path], skipped: list[str] | None = None) -> list[Path]:
    """Expand folders to the files in them that may hold data; benchmark folders and Slack channels stay as they are.

    Args:
        paths: Files and folders.
        skipped: Receives the reason for each file of a folder that is skipped.

    Raises:
        BadInput: A folder holds no file to read.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir() or _is_whole(path):
            files.append(path)
            continue
        reasons = {file: reason_to_skip(file) for file in _data_files(path)}
        readable = [file for file, reason in reasons.items() if reason is None]
        if skipped is not None:
            skipped += filter(None, reasons.values())
        if not readable:
            raise BadInput(f"{path} holds no file to read; a file ends in {', '.join(READ)}, gzip or not")
        files += readable
    return files


def _data_files(folder: Path) -> list[Path]:
    """Return the benchmark folders and Slack channels in a folder, then its other files that Accord did not write."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not _is_hidden(file, folder))
    known = [file for file in files if unpacked_name(file.name.lower()).endswith(READ) and not _is_own(file)]
    wholes = {folder for folder in {file.parent for file in known} if _is_whole(folder)}
    is_slack = any(map(is_slack_channel, wholes))
    others = (
        file for file in known
        if file.parent not in wholes and file.name not in (QUESTIONS_FILE, *(_SLACK_LISTS if is_slack else ()))
    )  # fmt: skip
    return [*sorted(wholes), *others]


_SLACK_LISTS = ("users.json", "channels.json", "groups.json", "dms.json", "mpims.json", "integration_logs.json")
"""Files of a Slack export that are not channels; they hold no messages."""


def _is_whole(folder: Path) -> bool:
    """Return True for a folder that is read like a file: a benchmark, or a channel of a Slack export."""
    return (folder / "items.jsonl.gz").is_file() or is_slack_channel(folder)


def _is_own(file: Path) -> bool:
    """Return True for a file of an evaluator, of the mart, of a run, or of a folder of parts, which Accord writes."""
    return (
        (file.parent / "evaluator.json").is_file()
        or (file.parent.name.endswith(".scores") and file.name.startswith("part-"))
        or (file.name == "run.json" and (file.parent / "accord.yaml").is_file())
        or (file.name == "manifest.json" and any(file.parent.glob("part-*.parquet")))
    )


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
