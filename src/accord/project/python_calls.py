"""Errors of the verbs of `Project` with Python calls in place of commands of the shell.

Messages name the command of the next step. An error that leaves a verb of `Project` also gets the text with the Python
call, which `str` returns; the command line and the pages print the text with the command. An error inside the code of a
plug-in becomes a `PluginError`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from accord.edges import AccordError
from accord.values import plugin_error

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

VERBS = (
    "import_", "judge", "plan_judge", "fit", "plan_fit", "fit_offline", "compare", "score", "score_parts", "load",
    "label_next", "estimate", "gaps", "insights", "synth", "run", "report", "card", "gate",
)  # fmt: skip
_METHODS = {
    "import": "import_", "init --from": "import_", "judge": "judge", "fit": "fit", "compare": "compare",
    "score": "score", "report": "report", "card": "card", "gate": "gate", "gaps": "gaps", "estimate": "estimate",
    "label next": "label_next", "run": "run",
}  # fmt: skip
_KEYWORDS = {
    "out": "out", "evaluator": "evaluator", "count": "count", "all": None, "every-question": "every_question",
    "skip-bad-rows": "skip_bad_rows", "min-mean": "min_mean", "min-within": "min_within",
    "min-agreement": "min_agreement", "include-training": "training", "columns": "columns", "main": "main",
    "source": "sources", "labels-by": "made_by",
}  # fmt: skip
"""Options of commands, with the keyword of the method; `None` for those that the method does not need."""
_ARGUMENT = (
    r"(?:--[a-z-]+(?:[= ](?![a-z-]+ )[^\s;,)]*[^\s;,).])?|(?<![A-Z_])[A-Z][A-Z_]*\b|"
    r"(?<![^\s;,)'\"])[^\s;,)'\"]+\.(?:jsonl|json|csv|parquet)\b|'[^']*')"
)
"""An option with its value, a placeholder, a file, or a quoted text."""
_COMMAND = re.compile(
    rf"`?accord (?P<verb>{'|'.join(map(re.escape, sorted(_METHODS, key=len, reverse=True)))})\b"
    rf"(?P<arguments>(?: {_ARGUMENT})*)(?P<name>(?<=fit) [a-z][\w-]*(?=$|[;.,)`]| --))?(?P<more>(?: {_ARGUMENT})*)`?"
)
_OPTION = re.compile(
    r"--(?P<option>out|skip-bad-rows|include-training|min-mean|min-within|min-agreement|max-unscored)\b"
)
_SETTING = re.compile(
    r"(?:Add one to|Set it in) accord\.yaml(?: under|:) (?P<path>models(?:\.\w+|: \{[^{}\n]*\{[^{}\n]*\}\}))"
)


def python_text(text: str) -> str:
    """Return a message with Python calls in place of commands of the shell.

    >>> python_text("no labels; import some: accord import chats.jsonl labels.csv")
    "no labels; import some: project.import_(['chats.jsonl', 'labels.csv'])"
    >>> python_text("nothing was compared yet; run: accord compare")
    'nothing was compared yet; run: project.compare()'
    """
    text = _COMMAND.sub(_call, text)
    text = _SETTING.sub(_setting, text)
    return _OPTION.sub(lambda found: f"{_keyword(found['option'])}=...", text)


def _call(found: re.Match[str]) -> str:
    verb, names, keywords = found["verb"], list[str](), list[str]()
    for argument in re.findall(_ARGUMENT, found["arguments"] + found["more"]):
        if not argument.startswith("--"):
            names.append(argument)
            continue
        option, _, value = argument.removeprefix("--").replace("=", " ", 1).partition(" ")
        if (keyword := _KEYWORDS.get(option, option.replace("-", "_"))) is not None:
            keywords.append(f"{keyword}={f'[{_value(value)}]' if option == 'source' else _value(value)}")
    name = (found["name"] or "").strip()
    positional = _positional(verb, [*names, name] if name else names)
    asked = next((keyword for keyword in keywords if keyword.startswith("question=")), None)
    project = "project" if asked is None else f"Project(config, {asked})"
    arguments = [*positional, *(keyword for keyword in keywords if keyword != asked)]
    return f"{project}.{_METHODS[verb]}({', '.join(arguments)})"


def _positional(verb: str, names: list[str]) -> list[str]:
    shown = [_value(each) for each in names]
    takes_list = verb in ("import", "init --from", "run") and len(shown) > 1
    return [f"[{', '.join(shown)}]"] if takes_list else shown


def _value(text: str) -> str:
    """Return an argument as Python: a placeholder in capitals as a variable, anything else as a text or a number."""
    if not text:
        return "True"
    if text.isupper() and text.replace("_", "").isalpha():
        return text.lower()
    return text if re.fullmatch(r"-?\d+(?:\.\d+)?", text) else repr(text.strip("'\""))


def _keyword(option: str) -> str:
    return str(_KEYWORDS.get(option, option.replace("-", "_")))


def _setting(found: re.Match[str]) -> str:
    """Return the setting of a model as the argument of `Config`."""
    role = re.search(r"models(?:\.|: \{)([\w-]+)", found["path"])
    return f"Pass it in the settings: Config(models={{{'' if role is None else role[1]!r}: {{'model': NAME}}}})"


def tells_python_calls(project: C) -> C:
    """Let the verbs of the class raise errors that name Python calls; errors keep their types."""
    for name in VERBS:
        if (verb := inspect.getattr_static(project, name, None)) is not None:
            setattr(project, name, _telling(verb))
    return project


def _telling(verb: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return verb(*args, **kwargs)
        except AccordError as error:
            error.in_python = python_text(error.for_commands)
            raise
        except Exception as error:
            if (fault := plugin_error(error)) is None:
                raise
            raise fault from error

    return call
