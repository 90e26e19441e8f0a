"""Errors of the verbs of `Project` with Python calls in place of commands of the shell.

Messages name the command of the next step, and errors carry it as a `Step`. An error that leaves a verb of `Project`
also gets the text with the Python call, which `str` returns; the command line and the pages print the text with the
command. An error inside the code of a plug-in becomes a `PluginError`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from accord.edges import AccordError, ModelSetting, Step
from accord.values import plugin_error

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

_METHODS = {"import": "import_", "init": "import_", "label next": "label_next"}
"""Methods with another name than the command."""
_KEYWORDS = {"include_training": "training", "source": "sources", "labels_by": "made_by"}
"""Keywords of methods with another name than the option."""
STEPS = (
    *map(Step, ("import", "judge", "fit", "compare", "score", "report", "card", "gate", "gaps", "estimate", "run")),
    Step("label next"), Step("judge", source="issues"), Step("fit", "default"),
    Step("fit", "default", every_question=True), Step("import", "chats.jsonl"),
    Step("import", "chats.jsonl", "labels.csv"), Step("score", "CHATS", out="FILE"),
    Step("score", "new.jsonl", out="scores.jsonl"), Step("score", "chats.jsonl", out="scores.jsonl"),
)  # fmt: skip
"""Steps in messages of packages that know no verbs, and name the same steps everywhere."""
OPTIONS = (
    "out", "skip_bad_rows", "include_training", "min_mean", "min_within", "min_agreement", "max_unscored",
)  # fmt: skip
"""Options that messages name alone."""


def python_text(error: AccordError) -> str:
    """Return the message of an error with Python calls in place of commands of the shell.

    >>> python_text(AccordError("no labels; import some: accord import chats.jsonl labels.csv"))
    "no labels; import some: project.import_(['chats.jsonl', 'labels.csv'])"
    >>> fit = Step("fit", "mixture")
    >>> python_text(AccordError(f"not fitted; fit it: {fit}", fit))
    "not fitted; fit it: project.fit('mixture')"
    """
    text = error.for_commands
    for step in error.steps:
        text = text.replace(str(step), call_of(step))
    for step in sorted(STEPS, key=lambda step: -len(str(step))):
        text = _replaced(text, str(step), call_of(step), " ")
    for option in OPTIONS:
        text = _replaced(text, f"--{option.replace('_', '-')}", f"{_KEYWORDS.get(option, option)}=...")
    return text


def _replaced(text: str, old: str, new: str, goes_on: str = "") -> str:
    """Replace a text unless a letter, a digit, a hyphen or a character of `goes_on` follows: it is a longer command."""
    first, *rest = text.split(old)
    for part in rest:
        is_longer = part[:1].isalnum() or (part[:1] != "" and part[0] in f"-_{goes_on}")
        first += (old if is_longer else new) + part
    return first


def call_of(step: Step) -> str:
    """Return a step as a Python call.

    >>> call_of(Step("label next", count=5)), call_of(Step("fit", question="helpful"))
    ('project.label_next(count=5)', "Project(config, question='helpful').fit()")
    """
    if isinstance(step, ModelSetting):
        settings = ", ".join(f"{name!r}: {_value(value)}" for name, value in step.options.items())
        name = _value(step.verb)
        return f"Pass it in the settings: Config(models={{{name}: {{{settings}}}}})"
    if "undo" in step.options:
        return f"accord.store.Imports(project.store).undo({step.options['undo']!r})"
    options = dict(step.options)
    given = [_value(each) for each in (*step.arguments, *([options.pop("from_")] if "from_" in options else []))]
    if step.verb in ("import", "init", "run") and len(given) > 1:
        given = [f"[{', '.join(given)}]"]
    project = "project"
    if (question := options.pop("question", None)) is not None:
        project = f"Project(config, question={_value(question)})"
    for name, value in options.items():
        shown = f"[{_value(value)}]" if name == "source" else _value(value)
        given.append(f"{_KEYWORDS.get(name, name)}={shown}")
    return f"{project}.{_METHODS.get(step.verb, step.verb)}({', '.join(given)})"


def _value(value: str | float | bool) -> str:
    """Return an argument as Python: a placeholder in capitals as a variable, anything else as a literal."""
    if isinstance(value, str) and value.isupper() and value.replace("_", "").isalpha():
        return value.lower()
    return repr(value)


def tells_python_calls(project: C) -> C:
    """Let the public methods of the class, and `load`, raise errors that name Python calls; errors keep their types."""
    for name, verb in {"load": inspect.getattr_static(project, "load", None), **vars(project)}.items():
        if inspect.isfunction(verb) and not name.startswith("_"):
            setattr(project, name, _telling(verb))
    return project


def _telling(verb: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(verb)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return verb(*args, **kwargs)
        except AccordError as error:
            error.in_python = python_text(error)
            raise
        except Exception as error:
            if (fault := plugin_error(error)) is None:
                raise
            raise fault from error

    return call
