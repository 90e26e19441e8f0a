"""Scores of conversations in the form of another tool: the part that all hosts share.

A host passes rows as `accord score` reads them, and gets `ScoreRow`s: a value in units of the scale, or the reason why
there is none. The numbers equal the output of `accord score --turns last`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import AccordError, BadInput, BudgetReached, MissingExtra, install_command, one_line
from accord.formats import exchange as exchange
from accord.formats import fields_about as fields_about
from accord.learning import CARD, Evaluator, load_evaluator
from accord.models import Models, memory_models
from accord.project import load_project
from accord.scoring import ScoreOptions, Scorer, pipeline, samples_of
from accord.values import (
    PROJECT_FILE,
    Conversation,
    Sample,
    Score,
    ScoreRow,
    Target,
    Unscored,
    find_project_file,
    plugin_error,
)
from accord.verbs import Project

if TYPE_CHECKING:
    from accord.formats import Fields

_REASON = 300


class MissingHost(MissingExtra, ImportError):
    """The package of a host is missing or too old; the message has the command that installs it."""

    def __init__(self, package: str, at_least: str, extra: str, found: str | None) -> None:
        needs = f"accord.hosts.{extra.replace('-', '_')} needs {package} {at_least} or later"
        state = "which is not installed" if found is None else f"and {found} is installed"
        verb = "Install" if found is None else "Upgrade"
        AccordError.__init__(self, f"{needs}, {state}. {verb} it: {install_command(extra)}")


def require(package: str, at_least: str, extra: str, module: str | None = None) -> Any:
    """Import the package of a host.

    Args:
        package: Name of its distribution.
        at_least: Oldest supported version, such as `4.3`.
        extra: Extra of Accord that installs it.
        module: Module to import; by default the name of the distribution.

    Raises:
        MissingHost: The package is missing or older.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        raise MissingHost(package, at_least, extra, None) from None
    if _numbers(found) < _numbers(at_least):
        raise MissingHost(package, at_least, extra, found)
    return import_module(module or package)


def _numbers(text: str) -> list[int]:
    """Return the leading numbers of a version: `4.3.1rc2` is 4, 3, 1."""
    parts = [part[: len(part) - len(part.lstrip("0123456789"))] for part in text.split(".")]
    return [int(part) for part in parts if part]


class HostScorer:
    """A fitted evaluator for conversations of another tool, one score each.

    An evaluator of whole conversations scores the conversation, an evaluator of turns its last reply.

    Args:
        evaluator: A fitted evaluator.
        models: Models for sources that ask one; None sends no requests.
        project: Project of the evaluator, with its conversations and labels.

    Raises:
        BadInput: A source asks a model, and `models` is None.
        NotFitted: The evaluator is not fitted.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     scorer = open_scorer(project.fit("constant").folder)
    >>> [row] = scorer.score([{"id": "a", "prompt": "Where is it?", "response": "It arrives on Monday."}])
    >>> row["conversation"], 1 < row["value"] < 4, row["unscored"]
    ('a', True, None)
    """

    def __init__(self, evaluator: Evaluator, models: Models | None = None, project: Project | None = None) -> None:
        evaluator.head.check_fitted()
        if models is None and evaluator.roles:
            raise BadInput(
                f"the evaluator {evaluator.name!r} asks its {evaluator.roles[0]}, and no models are given. Name its "
                f"project in place of its folder: the folder with {PROJECT_FILE}"
            )
        self.evaluator, self.question, self.project = evaluator, evaluator.question, project
        self._scorer = Scorer(evaluator, options=ScoreOptions(turns="last"))
        self._models = models or memory_models()

    @property
    def name(self) -> str:
        """Name of the scores in other tools: the question's id."""
        return self.question.id

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest value of the scale."""
        return float(self.question.scale.numbers[0]), float(self.question.scale.numbers[-1])

    def share(self, row: ScoreRow) -> float | None:
        """Return a score as a share of the scale, from 0 to 1, for tools that take no other numbers."""
        low, high = self.ends
        return None if row["value"] is None else min(1.0, max(0.0, (row["value"] - low) / (high - low)))

    def one(self, messages: Sequence[Mapping[str, Any]], name: str = "conversation", **fields: Any) -> ScoreRow:
        """Return the score of the messages of one conversation, with further fields of its row (`fields_about`)."""
        return self.score([{"id": name, "messages": list(messages), **fields}])[0]

    def score(self, conversations: Iterable[Conversation | Fields]) -> list[ScoreRow]:
        """Return a score, or the reason of a missing one, for each conversation or row that holds one, in order."""
        return self.rows([self.sample(each, f"row-{place}") for place, each in enumerate(conversations, 1)])

    def sample(self, given: Conversation | Fields, name: str) -> Sample | Unscored:
        """Return the sample of a conversation, or of a row that holds one, or why there is nothing to score.

        Args:
            given: A conversation, or a row in a format of `accord plugins`.
            name: Id of a row without one.
        """
        from accord.formats import WrongShape, convert_row

        if isinstance(given, Conversation):
            conversation = given
        else:
            try:
                conversation = convert_row(given, name, values="live").conversation
            except WrongShape as error:
                known = given.get("id") if isinstance(given, Mapping) else None
                return self.unscored(Target(str(known or name)), str(error))
        samples = samples_of(conversation, self.evaluator.level, "last")
        return (
            samples[0]
            if samples
            else self.unscored(Target(conversation.id), pipeline.nothing_to_score(self.evaluator.level))
        )

    def unscored(self, target: Target, reason: str) -> Unscored:
        """Return a missing score with its reason as one line."""
        return self._scorer.unscored(target, one_line(reason, _REASON))

    def rows(self, samples: Sequence[Sample | Unscored]) -> list[ScoreRow]:
        """Return the score of each sample in order, and each missing score as it is."""
        rounds: dict[int, list[int]] = {}
        seen: dict[Target, int] = {}
        for place, each in enumerate(samples):
            if isinstance(each, Sample):  # evidence has one row per target
                seen[each.target] = seen.get(each.target, -1) + 1
                rounds.setdefault(seen[each.target], []).append(place)
        scores: dict[int, Score | Unscored] = {
            place: each for place, each in enumerate(samples) if isinstance(each, Unscored)
        }
        for places in rounds.values():
            together = [each for place in places if isinstance(each := samples[place], Sample)]
            scores.update(zip(places, self._scores(together), strict=True))
        rows = [scores[place].to_json() for place in range(len(samples))]
        for row, each in zip(rows, samples, strict=True):
            if isinstance(each, Sample) and row["value"] is not None and (missing := self._missing(each.conversation)):
                row["warning"] = "; ".join(filter(None, [row["warning"], missing]))
        return rows

    def _missing(self, conversation: Conversation) -> str:
        """Return a sentence on the entries of the metadata that the score depends on and the host does not have."""
        needed = self.evaluator.metadata_names
        missing = [name for name in needed if conversation.metadata.get(name) in (None, "")]
        return f"scored without {', '.join(missing)}, which changes scores of this evaluator" if missing else ""

    def _scores(self, samples: Sequence[Sample]) -> Sequence[Score | Unscored]:
        """Score samples together; after an error one by one, so that a sample fails alone."""
        try:
            return self._scorer.scores(samples, self._models)
        except Exception as error:
            if len(samples) > 1 and not isinstance(error, BudgetReached):
                return [self._scores([sample])[0] for sample in samples]
            return [self.unscored(sample.target, f"failed: {plugin_error(error) or error}") for sample in samples]


Openable = str | Path | Evaluator | Project | HostScorer
"""A fitted evaluator or its folder, or a project, its folder or its `accord.yaml`."""


def open_scorer(evaluator: Openable | None = None) -> HostScorer:
    """Open an evaluator, or the evaluator in use of a project, which may send requests within its budget.

    Args:
        evaluator: See `Openable`; None is the project in the working folder or above it.

    Raises:
        BadInput: The folder holds neither an evaluator nor a project, or the evaluator asks a model and is given alone.
    """
    if isinstance(evaluator, HostScorer):
        return evaluator
    if isinstance(evaluator, Project):
        return HostScorer(evaluator.load(), evaluator.models, evaluator)
    if evaluator is not None and not isinstance(evaluator, str | Path):
        return HostScorer(evaluator)
    folder = Path() if evaluator is None else Path(evaluator)
    if (folder / CARD).is_file():
        return HostScorer(load_evaluator(folder))
    file = folder if folder.is_file() else folder / PROJECT_FILE
    if evaluator is None:
        file = find_project_file() or file
    if not file.is_file():
        raise BadInput(
            f"{folder} holds neither an evaluator ({CARD}) nor a project ({PROJECT_FILE}); fit one: accord fit"
        )
    return open_scorer(Project(load_project(file)))


def reason_text(row: ScoreRow) -> str:
    """Return a score with its interval and warning, or the reason of a missing one, as a sentence."""
    if row["value"] is None:
        return f"no score: {row['unscored']}"
    warning = f"; {row['warning']}" if row["warning"] else ""
    return f"{row['value']:.3f}, 80% interval {row['low']:g} to {row['high']:g}{warning}"
