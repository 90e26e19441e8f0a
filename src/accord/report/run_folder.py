"""Output folder of `accord run`, which is a complete project. Later runs keep edited files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from accord.edges import BadInput, load_yaml, read_json_file, strip_url_secrets
from accord.project import Config, config_from, load_config
from accord.values import PROJECT_FILE, content_hash, find_project_file

RUBRIC, STORE = "rubric.yaml", "accord.db"
_MARK = "run.json"
_HEAD = """\
# Project file written by `accord run`. You may edit it: a later run into this folder then keeps it and uses it.
# Commands in this folder use it: accord score new.jsonl --out scores.jsonl, accord compare, accord report, accord serve
"""


class RunFolder:
    """Output folder of a run, with a digest of each file that may be edited.

    Args:
        folder: The folder; it need not exist.

    Raises:
        BadInput: The folder holds files, and `accord run` did not write them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._digests: dict[str, list[str]] = {}
        if (folder / _MARK).is_file():
            self._digests = _marked(folder / _MARK)
        elif folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise BadInput(
                f"{folder} exists and is not the output of an earlier run; name a new folder with --out, or remove it"
            )

    def path(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.folder / name

    def is_edited(self, name: str) -> bool:
        """Return True if a file exists and differs from the text that a run wrote."""
        path = self.path(name)
        return path.is_file() and content_hash(
            path.read_text(encoding="utf-8", errors="replace")
        ) not in self._digests.get(name, ())

    def write(self, name: str, text: str) -> bool:
        """Write a file unless it was edited. Return True if it was written."""
        if self.is_edited(name):
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        # Keep the earlier digest: a run that is killed between the two writes leaves the earlier text.
        self._digests[name] = [*self._digests.get(name, ())[-1:], content_hash(text)]
        self.path(_MARK).write_text(json.dumps({"files": self._digests}, indent=1) + "\n", encoding="utf-8")
        self.path(name).write_text(text, encoding="utf-8")
        return True


class RunSettings(NamedTuple):
    """Settings of a run, the content of their file, and True if the rubric may be inferred from labels."""

    config: Config
    template: Mapping[str, Any]
    infers: bool


def run_settings(out: Path, config_file: Path | None = None, is_named: bool = False) -> RunSettings:
    """Settings of `accord run`: of a project file that is named or in the working folder, or the defaults.

    If the output folder is that of an earlier run and its project file was edited since, that file is used.

    Args:
        out: The output folder, which holds the store.
        config_file: Project file that was named.
        is_named: True if the call names settings or a rubric.

    Raises:
        BadInput: A file cannot be read, the folder holds unrelated files, or the call names settings and the
            project file in the output folder was edited.
    """
    folder, store = RunFolder(out), f"sqlite:///{out / STORE}"
    own = folder.path(PROJECT_FILE)
    if folder.is_edited(PROJECT_FILE):
        if is_named or config_file is not None:
            raise BadInput(f"{own} was edited, so a run into {out} uses it; change the settings there, or name "
                           "another folder with --out")  # fmt: skip
        return RunSettings(load_config(own), load_yaml(own), infers=False)
    here = find_project_file()
    if config_file is None and here is not None and not (own.is_file() and own.samefile(here)):
        config_file = here
    if config_file is None:
        return RunSettings(config_from({"store": store}), {}, infers=True)
    config = load_config(config_file).model_copy(update={"store": store})
    return RunSettings(config, load_yaml(config_file), infers=False)


def _marked(path: Path) -> dict[str, list[str]]:
    try:
        return {str(name): list(map(str, digests)) for name, digests in read_json_file(path)["files"].items()}
    except (BadInput, LookupError, TypeError, AttributeError):
        raise BadInput(f"{path} is damaged; name another folder with --out, or remove {path.parent}") from None


def project_text(config: Config, evaluator: str, folder: Path, template: Mapping[str, Any]) -> str:
    """Project file of a run's output folder, as YAML.

    Args:
        config: Settings of the run.
        evaluator: Name of the recommended evaluator.
        folder: The output folder; paths inside it are written relative to it.
        template: Content of the project file that the settings come from, with its `${VARIABLES}` in place.
    """
    import yaml

    content = config.model_dump(mode="json", exclude_unset=True)
    content |= {
        "store": f"sqlite:///{STORE}", "rubric": RUBRIC, "metrics": config.metrics, "evaluator": evaluator,
    }  # fmt: skip
    for settings in content.get("models", {}).values():
        if "paths" in settings:
            settings["paths"] = [_relative(config.folder / path, folder) for path in settings["paths"]]
    kept = {key: value for key, value in template.items() if key not in ("store", "rubric")}
    return _HEAD + yaml.safe_dump(_unfilled(content, kept), sort_keys=False, allow_unicode=True, width=120)


def _relative(path: Path, folder: Path) -> str:
    """Return a path inside the folder as a relative path, and any other path as an absolute path."""
    found, inside = path.resolve(), folder.resolve()
    return found.relative_to(inside).as_posix() if found.is_relative_to(inside) else str(found)


def _unfilled(value: Any, template: Any) -> Any:
    """Return the value with the template's `${VARIABLES}` restored, so that no secret is written."""
    if isinstance(value, dict):
        known = template if isinstance(template, Mapping) else {}
        return {key: _unfilled(each, known.get(key)) for key, each in value.items()}
    if isinstance(value, list):
        same = isinstance(template, list) and len(template) == len(value)
        return [_unfilled(each, template[place] if same else None) for place, each in enumerate(value)]
    if isinstance(template, str) and "${" in template:
        return template
    is_url = isinstance(value, str) and "://" in value
    return strip_url_secrets(value) if is_url and value != template and "@" in value else value
