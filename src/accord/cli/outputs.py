"""Output parameters of commands, and the check of their paths before a command runs.

A parameter that names a file or folder to write carries an `Output` in its annotation. `checked_outputs` then compares
the path with the project's files and with the other parameters of the command, which are its inputs.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import BadParameter
from typer.models import ParameterInfo

from accord.edges import BadInput

if TYPE_CHECKING:
    from accord.edges import ProtectedFile
    from accord.project import Config

LINE = 2**20
"""Bytes of a file that are read to recognize it."""
_EVALUATOR, _PARTS, _METRIC = "evaluator.json", "manifest.json", "ruber.json"
_STORE_ENDINGS = ("", "-wal", "-shm", "-journal")
_GLOB = set("*?[")


@dataclass(frozen=True)
class Output:
    """Marks a parameter as the path of an output.

    Attributes:
        is_earlier: Recognizes an earlier output of the command; None if the command itself decides.
        may_hold_project: Whether the output is a folder that holds a project of its own.
        card: File that marks the folder as an earlier output, for outputs that are folders.
        beside: Endings of the files that the command writes next to the output, with its name.
    """

    is_earlier: Callable[[Path], bool] | None = None
    may_hold_project: bool = False
    card: str = ""
    beside: tuple[str, ...] = ()


def rows_with(*columns: str) -> Callable[[Path], bool]:
    """Return a recognizer of files of rows, JSON lines, CSV or Parquet, that have these columns."""

    def is_earlier(path: Path) -> bool:
        return path.is_file() and set(columns) <= set(_columns(path))

    return is_earlier


def page_titled(title: str) -> Callable[[Path], bool]:
    """Return a recognizer of HTML pages whose title begins with a text."""

    def is_earlier(path: Path) -> bool:
        return path.is_file() and f"<title>{title}" in _beginning(path)[:4096]

    return is_earlier


def folder_with(card: str) -> Output:
    """Return the mark of an output folder that an earlier run of the command has put a card in."""
    return Output(lambda path: (path / card).is_file(), card=card)


def _is_check(path: Path) -> bool:
    """Return True for a check as JSON or Markdown."""
    if not path.is_file():
        return False
    text = _beginning(path)
    return '"main_statistic"' in text or text.startswith("# Accord check: ")


def _is_empty_queue(path: Path) -> bool:
    """Return True for labels to fill in of which none is filled in."""
    import csv

    names = ("conversation", "turn", "question", "annotator", "value")
    if not rows_with(*names)(path):
        return False
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as stream:
            return not any(row["value"] for row in csv.DictReader(stream))
    if path.suffix == ".parquet":
        import polars as pl

        return pl.scan_parquet(path, glob=False).select(pl.col("value").is_null().all()).collect().item() is True
    with path.open(encoding="utf-8") as stream:
        return all(json.loads(line).get("value") is None for line in stream if line.strip())


_score_rows = rows_with("conversation", "value", "signature")


def _is_parts_folder(path: Path) -> bool:
    """Return True for a folder of score parts, also while another process writes its manifest as the first file."""
    return (path / _PARTS).is_file() or all(each.name.startswith(f".{_PARTS}.") for each in path.iterdir())


SCORES = Output(lambda path: _is_parts_folder(path) if path.is_dir() else _score_rows(path))
"""Scores in a file, or in a folder of parts."""
LIVE_ROWS = Output(rows_with("conversation", "status"))
_annotations = rows_with("conversation", "question", "by", "kind")
EXPORTED = Output(lambda path: _annotations(path) or _score_rows(path))
"""Annotations or scores in a file."""
PREDICTIONS = Output(lambda path: any(key in _beginning(path)[: 2**16] for key in ('"predictions"', '"suggestions"')))
QUEUE = Output(_is_empty_queue)
SYNTHETIC = Output(rows_with("id", "messages", "synthetic"))
REPORT = Output(page_titled("Accord report"))
ISSUES_PAGE = Output(page_titled("Accord: issues"))
AGREEMENT_CARD = Output(
    lambda path: '"accord_version"' in _beginning(path)[:4096] and '"agreement"' in _beginning(path),
    beside=(".md", ".svg"),
)
GATE_FILE = Output(lambda path: path.is_file() and "accord gate" in _beginning(path)[:4096])
CHECK = Output(lambda path: page_titled("Accord check")(path) or _is_check(path))
DISPUTED = Output(rows_with("id", "judge", "labels", "cell"))
"""Rows where the judge and a person differ."""
EVALUATOR = folder_with(_EVALUATOR)
METRIC = folder_with(_METRIC)
CYCLE = folder_with("index.html")
"""Folder of the weekly job."""
SKILL = folder_with("SKILL.md")
RUN = Output(may_hold_project=True)
CHECKED_BY_COMMAND = Output()
"""Mark for commands that check the path themselves."""


def _beginning(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.read(LINE).decode("utf-8", "replace")


def _columns(path: Path) -> list[str]:
    """Return the columns of a file of rows; none if it is no such file."""
    try:
        if path.suffix == ".parquet":
            import polars as pl

            return list(pl.read_parquet_schema(path))
        line = next((each for each in _beginning(path).splitlines() if each.strip()), "")
        if path.suffix == ".csv":
            return line.lstrip("\ufeff").split(",")
        row = json.loads(line)
        return list(row) if isinstance(row, dict) else []
    except Exception:  # an unreadable file is not an earlier output
        return []


# --- the check ------------------------------------------------------------------------------------------------------


def outputs_of(function: Callable[..., Any]) -> dict[str, Output]:
    """Return the output parameters of a command, by name."""
    found: dict[str, Output] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        for each in get_args(parameter.annotation)[1:]:
            if isinstance(each, Output):
                found[name] = each
    return found


_PATH = type("path", (), {})
"""Type of outputs, whose name the help shows as it shows the type of other paths."""


def refuse_empty_outputs(parameters: Iterable[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """Yield parameters whose outputs refuse an empty path, which `Path` takes for the current folder."""
    for parameter in parameters:
        kind, *marks = get_args(parameter.annotation) or (None,)
        if any(isinstance(each, Output) for each in marks):
            is_text = kind is str or str in get_args(kind)
            for each in marks:
                if isinstance(each, ParameterInfo):
                    each.parser = _text_output if is_text else _path_output
            if not is_text:
                parameter = parameter.replace(annotation=Annotated[_PATH, *marks])
        yield parameter


def _text_output(value: str) -> str:
    if not value:
        raise BadParameter("the path of an output is empty; name a file or folder")
    return value


def _path_output(value: str) -> Path:
    return Path(_text_output(value))


def check_outputs(outputs: Mapping[str, Output], given: Mapping[str, Any], force: bool) -> None:
    """Refuse output paths that would replace a file of the project, an input, or a file that is no earlier output.

    Args:
        outputs: Output parameters of a command.
        given: Values of all its parameters.
        force: Whether files that do not look like earlier outputs may be replaced.

    Raises:
        BadInput: Names the path, and the file it would replace.
    """
    from accord.edges import ProtectedFile, check_output, is_same_path

    named = {name: given[name] for name in outputs if given.get(name) and "://" not in str(given[name])}
    if not named:
        return
    inputs = [ProtectedFile(path, "an input of this command") for path in _inputs(outputs, given)]
    project = list(_project_files(given))
    for name, value in named.items():
        path, output = Path(value), outputs[name]
        others = [ProtectedFile(Path(each), "another output") for key, each in named.items() if key != name]
        files = [each for each in inputs if not each.path.is_dir() or is_same_path(each.path, path)]
        _check_folders(path, output)
        if not output.may_hold_project:
            _check_content(path, project)
        protected = [*(() if output.may_hold_project else project), *files, *others]
        check_output(path, protected, output.is_earlier, force, _written(path, given))
        for ending in output.beside if path.suffix else ():
            check_output(path.with_suffix(ending), protected, _beside(path, output), force, [])
        _check_in_inputs(path, inputs, output)


def _beside(path: Path, output: Output) -> Callable[[Path], bool]:
    """Return a recognizer of earlier files next to an output, which were written together with it."""
    return lambda _: path.is_file() and output.is_earlier is not None and output.is_earlier(path)


def _written(path: Path, given: Mapping[str, Any]) -> list[Path]:
    """Return the files that commands write next to an output: a temporary one, and one for each worker."""
    workers = given.get("workers")
    numbers = range(1, workers + 1) if isinstance(workers, int) and workers > 1 else ()
    shares = [path.with_name(f"{path.stem}-{number}{path.suffix}") for number in numbers]
    return [path.with_name(f"{path.name}.partial"), *shares] if path.name else []


def _check_in_inputs(path: Path, inputs: list[ProtectedFile], output: Output) -> None:
    """Refuse to replace a file in a folder that is read, unless it is an earlier output."""
    from accord.edges import is_inside

    if not path.is_file() or (output.is_earlier is not None and output.is_earlier(path)):
        return
    for each in inputs:
        if each.path.is_dir() and is_inside(path, each.path):
            raise BadInput(f"{path} is a file of {each.path}, which this command reads. Name another output")


def _check_folders(path: Path, output: Output) -> None:
    """Refuse an output in the folder of an evaluator, or in its place."""
    folders = [*Path(path).absolute().parents, *([] if output.card == _EVALUATOR else [path])]
    holder = next((each for each in folders if (each / _EVALUATOR).is_file()), None)
    if holder is not None:
        raise BadInput(f"{path} lies in {holder}, which holds an evaluator. Name another output")


def _check_content(path: Path, project: list[ProtectedFile]) -> None:
    """Refuse an output folder that holds files of the project, which an output could overwrite."""
    from accord.edges import is_inside

    if path.is_dir():
        for each in project:
            if each.path.exists() and is_inside(each.path, path):
                raise BadInput(f"{path} holds {each.path}, {each.role}. Name another folder")


def _inputs(outputs: Mapping[str, Output], given: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the files and folders that other parameters of a command name."""
    for name, value in given.items():
        if name in outputs:
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, Path) or (isinstance(each, str) and each and "://" not in each):
                yield from _existing(str(each))


def _existing(name: str) -> Iterator[Path]:
    try:
        if Path(name).exists():
            yield Path(name)
        elif _GLOB & set(name):
            import glob

            yield from map(Path, glob.glob(name, recursive=True))
    except (OSError, ValueError):
        return


def _project_files(given: Mapping[str, Any]) -> Iterator[ProtectedFile]:
    """Yield the files that make a project, and the files that its settings name."""
    from accord.edges import ProtectedFile
    from accord.project import Config, load_config, with_settings
    from accord.values import PROJECT_FILE, find_project_file

    file = Path(given.get("config_file") or find_project_file() or PROJECT_FILE)
    try:
        config = with_settings(load_config(given.get("config_file")), given.get("settings") or ())
    except BadInput:  # the command says why
        config = Config()
    folders = {Path(), file.parent, config.folder}
    yield ProtectedFile(file, "the project file")
    for folder in folders:
        yield ProtectedFile(folder / PROJECT_FILE, "the project file")
        yield ProtectedFile(folder / ".env", "the environment of the project")
        yield ProtectedFile(folder / "prices.yaml", "the prices of models")
        yield ProtectedFile(folder / config.rubric, "the rubric")
    yield ProtectedFile(Path(config.rubric), "the rubric")
    yield from _store_files(config)
    names = [name for name in _texts(config.model_dump(mode="json", exclude_unset=True)) if name and "://" not in name]
    for path in {folder / name for folder in folders for name in names}:
        yield from (ProtectedFile(each, "named in the project file") for each in _existing(str(path))
                    if not each.is_dir())  # fmt: skip


def _store_files(config: Config) -> Iterator[ProtectedFile]:
    from accord.edges import ProtectedFile
    from accord.store import mart_folder, store_file

    try:
        file, mart = store_file(config.store), mart_folder(config.store, config.mart, config.folder)
    except BadInput:  # the command says why
        return
    if file is not None:
        for ending in _STORE_ENDINGS:
            yield ProtectedFile(file.with_name(f"{file.name}{ending}"), "the store")
    if mart is not None:
        yield ProtectedFile(mart, "the scores of the board")


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in nested values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
