"""Expected errors with one-line messages: what happened, the value, the allowed values, and the next step.

All derive from `AccordError`, so that the command line prints one line and returns an exit code. Any other exception is
a bug and shows its traceback.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from accord.edges.output_escaping import hide_folders
from accord.edges.secrets import redact_message


class Step:
    """A next step that a message names: a verb with its arguments and options.

    `str` returns the command of the shell; `Project` writes the call in Python in its place.

    Args:
        verb: Command.
        arguments: Arguments of the command.
        options: Options with their values; True for an option without a value, and a name may end in `_`.

    >>> print(Step("fit", "default", every_question=True))
    accord fit default --every-question
    >>> print(Step("init", from_="FILE", main="helpful"))
    accord init --from FILE --main helpful
    """

    def __init__(self, verb: str, *arguments: str, **options: str | float | bool) -> None:
        self.verb, self.arguments, self.options = verb, arguments, options

    def __str__(self) -> str:
        words = [*self.verb.split(), *self.arguments]
        for name, value in self.options.items():
            words += [f"--{name.rstrip('_').replace('_', '-')}", *([] if value is True else [str(value)])]
        return f"accord {shlex.join(words)}"


class ModelSetting(Step):
    """A next step that names the model of a role in the settings.

    >>> str(ModelSetting("judge", mode="logprobs", model="NAME"))
    'Add one to accord.yaml: models: {judge: {mode: logprobs, model: NAME}}'
    """

    def __str__(self) -> str:
        settings = ", ".join(f"{name}: {value}" for name, value in self.options.items())
        return f"Add one to accord.yaml: models: {{{self.verb}: {{{settings}}}}}"


class AccordError(Exception):
    """Base class of all expected errors. The message is redacted; `exit_code` is the exit code of the command line.

    An error takes its message, then the steps that the message names.

    Attributes:
        in_python: Message that names Python calls in place of commands, for errors of the verbs of `Project`.

    >>> from accord import load_rubric
    >>> try:
    ...     load_rubric("missing.yaml")
    ... except AccordError as error:
    ...     print(type(error).__name__, error.exit_code)
    BadInput 1
    """

    exit_code = 1
    in_python: str | None = None

    def __str__(self) -> str:
        return self.for_commands if self.in_python is None else redact_message(self.in_python)

    @property
    def for_commands(self) -> str:
        """Message that names commands of the shell as next steps, for the command line and for pages."""
        return redact_message(str(self.args[0]) if self.args else "")

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps that the message names."""
        return tuple(each for each in self.args[1:] if isinstance(each, Step))


def reason_of(error: Exception) -> str:
    """Return the message of an error for a page: with commands, and without folders of the server's machine."""
    return hide_folders(error.for_commands if isinstance(error, AccordError) else str(error))


class BadInput(AccordError):
    """An invalid file, setting or value.

    >>> from accord import load_rubric
    >>> try:
    ...     load_rubric("missing.yaml")
    ... except BadInput as error:
    ...     print("missing.yaml" in str(error))
    True
    """


class PluginError(BadInput):
    """An error inside the code of a plug-in; the message names the plug-in, the place and the cause.

    The traceback is in `__cause__`, and `--verbose` prints it.

    >>> from accord.evidence import metrics
    >>> from accord.testing import sample_project
    >>> __name__ = "my_metrics"  # in place of a file of that name
    >>> @metrics.register("broken")
    ... def broken(conversation):
    ...     "Fails."
    ...     return conversation.metadata["topic"] / 2
    >>> with sample_project(2, metrics=["broken"]) as project:
    ...     try:
    ...         project.compare()
    ...     except PluginError as error:
    ...         print(str(error)[:48])
    the metric 'broken' (the module my_metrics, line
    >>> metrics.forget("broken")
    """


class BadRow(BadInput):
    """An invalid row of a file, or of a table in memory, with its place and the reason; line 0 is the whole file."""

    def __init__(self, path: str, line: int, reason: str, *steps: Step) -> None:
        unit = "row" if path.startswith("<") or path.endswith(".parquet") else "line"
        super().__init__(f"{path}, {unit} {line}: {reason}" if line else f"{path}: {reason}", *steps)
        self.path = path
        self.line = line
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments for pickle."""
        return type(self), (self.path, self.line, self.reason, *self.steps)


class UnknownName(BadInput):
    """A name that a registry, rubric or file does not have; the message lists the available names.

    Args:
        kind: Kind of the name, such as `metric`.
        got: The unknown name.
        available: Known names; the message suggests the one with the closest spelling.
        renamed: Present name of each former one.
        elsewhere: Sentence on other places where the name may come from.

    >>> print(UnknownName("head", "mixd", ["mixed", "ridge"]))
    unknown head 'mixd'. Did you mean 'mixed'? Available: mixed, ridge.
    """

    def __init__(
        self, kind: str, got: str, available: Iterable[str], renamed: Mapping[str, str] = {}, elsewhere: str = ""
    ) -> None:
        names = sorted(set(available))
        anagrams = [name for name in names if sorted(name) == sorted(got)]
        if got in renamed:
            super().__init__(f"unknown {kind} {got!r}. It is now called {renamed[got]!r}: write {renamed[got]}.")
            return
        close = anagrams or difflib.get_close_matches(got, names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        listed = ", ".join(names[:24]) + (f", and {len(names) - 24} more" if len(names) > 24 else "")
        more = f" {elsewhere}" if elsewhere else ""
        super().__init__(f"unknown {kind} {got!r}.{hint} Available: {listed or 'none'}.{more}")


DISTRIBUTIONS = {"papers": "accord-papers"}
"""Extras that are packages of their own, which a source checkout has in `packages`."""


class MissingExtra(AccordError):
    """A feature whose optional dependency is not installed; the message has the command that installs it.

    Args:
        feature: The feature, as the subject of the message.
        extra: Extra of the package, such as `networks`.

    >>> str(MissingExtra("reading workbooks", "excel")).startswith("reading workbooks needs an optional part.")
    True
    """

    def __init__(self, feature: str, extra: str) -> None:
        part = f"the package {DISTRIBUTIONS[extra]}" if extra in DISTRIBUTIONS else "an optional part"
        super().__init__(f"{feature} needs {part}. Install it: {install_command(extra)}")


class ModelError(AccordError):
    """A failure of a model or its endpoint, which no request to it can avoid; answers of earlier requests are stored.

    >>> from accord.models import ScriptedJudge
    >>> from accord.testing import sample_project
    >>> def reject(sample, question):
    ...     raise ModelError("the endpoint rejects the key")
    >>> settings = {"judge": {"model": "scripted", "mode": "verbalised"}}
    >>> with sample_project(2, given={"judge": ScriptedJudge(reject)}, models=settings) as project:
    ...     try:
    ...         project.judge()
    ...     except ModelError as error:
    ...         print(error)
    the endpoint rejects the key
    """


class NotSent(ModelError):
    """A request that was not sent: the API key is missing, or the endpoint accepts no connection."""


class NotFitted(AccordError):
    """Prediction requested from an evaluator that is not fitted."""


class GateFailed(AccordError):
    """Results below the thresholds of `Project.gate`; the message names each failed condition.

    >>> from accord.sample import sources
    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     evaluator = project.fit("constant").evaluator
    ...     run = project.score([{"id": "a", "prompt": "Hi.", "response": "Hello!"}], evaluator=evaluator)
    ...     try:
    ...         project.gate(min_mean=4, allow_unproven=True)
    ...     except GateFailed as error:
    ...         print(str(error).partition(":")[0])
    1 of 4 conditions not met
    """

    exit_code = 3


class BudgetReached(AccordError):
    """The next request would exceed the budget; earlier answers are stored, and the same call continues from there.

    >>> from accord.models import Budget, Caps, Usage
    >>> try:
    ...     Budget(Caps(requests=0), {}).reserve("model", Usage(input_tokens=100))
    ... except BudgetReached as error:
    ...     print(str(error).partition(".")[0], error.exit_code)
    stopped: the next request would exceed the budget of 0 requests 4
    """

    exit_code = 4


class Unmeasured(AccordError):
    """A metric without a value for one sample; the reason is stored with the missing value."""


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation: from its source checkout, or from the index."""
    flag, folder = _installation()
    if folder is None:
        return f"pip install {shlex.quote(f'accord[{extra}]')}"
    source = "." if folder == Path.cwd() else str(folder)
    if extra in DISTRIBUTIONS:
        return f"pip install {flag}{shlex.quote(str(Path(source, 'packages', DISTRIBUTIONS[extra])))}"
    return f"pip install {flag}{shlex.quote(f'{source}[{extra}]')}"


def _installation() -> tuple[str, Path | None]:
    """Return pip's flag and the source checkout of this installation, or `None` if it came from an index or a wheel."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import, rarely needed

    try:
        origin = distribution("accord").read_text("direct_url.json")
        details = json.loads(origin) if origin else {}
        url = urlsplit(details["url"])
    except (PackageNotFoundError, ValueError, KeyError):
        return "", None
    if url.scheme != "file" or "dir_info" not in details:
        return "", None
    return "-e " if details["dir_info"].get("editable") else "", Path(unquote(url.path))
