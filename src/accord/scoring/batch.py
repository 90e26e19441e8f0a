"""A saved evaluator as a function of a batch: Arrow in, Arrow out, one row per row, in order.

Each row is a conversation (`messages`, or a prompt and a response, or what else `accord plugins` reads from one row); a
column `turn` names the turn that is scored, without one an evaluator of turns scores the last reply. What comes out has
the columns of `score_schema`, whatever comes in. A row that holds no conversation, or that cannot be scored, is a row
with its status and reason: a batch never fails for a row.
"""

from __future__ import annotations

import hashlib
import io
import logging
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accord.edges import BadInput, BadRow, BudgetReached, one_line
from accord.formats import Fields, WrongShape, arrow_schema, check_roles, convert_row, score_table, with_roles
from accord.learning import Evaluator, load_evaluator, project_of
from accord.models import Budget, Caps, Models, load_prices, memory_models
from accord.scoring.pipeline import (
    NO_REPLY,
    Perspective,
    ScoreOptions,
    Scorer,
    samples_of,
)
from accord.scoring.selective import NOT_COUNTED
from accord.store import SharedBudget, Store, StoreError
from accord.values import Conversation, Sample, Score, Target, Unscored, canonical_json

if TYPE_CHECKING:
    import polars as pl

SENT_BYTES = 900_000
"""An evaluator's packed folder up to this size travels with the function; a larger one is read where it is scored."""
SCORED_AT_ONCE = 2000
_OPEN_AT_ONCE = 4
_NAMELESS = "row-?"
_DATE = (1980, 1, 1, 0, 0, 0)


class BadConversation(NamedTuple):
    """A row that holds no conversation: what it is called, and why."""

    name: str
    reason: str


Item = Sample | BadConversation
"""What a row of a table of scores is about."""


@dataclass(frozen=True)
class Asking:
    """Whom the evaluator's sources may ask while a batch is scored; nobody unless it is said.

    Attributes:
        asks: Whether they may ask.
        store: Where answers are kept, and looked up; without one nothing outlives the process.
        caps: The most that one process may spend, or all that share the budget.
        shared: The name of a budget in that store which several processes share.
        folder: The folder that relative paths of models start from, and that holds `prices.yaml`; by default the
            project folder of the evaluator.
    """

    asks: bool = False
    store: str | None = None
    caps: Caps = Caps()
    shared: str | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class _Opened:
    scorer: Scorer
    models: Models


_opened: dict[str, _Opened] = {}
"""What this process has opened, by what it was opened from: a function that arrives again opens nothing."""


class BatchScorer:
    """Scores batches of conversations with a saved evaluator. Sent to other processes it weighs under a megabyte.

    Args:
        evaluator: The folder of a fitted evaluator.
        perspective: Whose scores they are.
        options: How scores are made; of `turns` only `last` is one row per row.
        asking: Whom its sources may ask.
        format: Of the rows; `auto` tells each row's own.
        columns: Our column name to the rows'.
        roles: Roles as the rows have them to `user`, `assistant`, `system` or `tool`.

    Raises:
        BadInput: The folder holds no evaluator, the options cannot be, or the evaluator asks where nobody may be asked.
        UnknownName: Nobody of that name was learned from.
    """

    def __init__(
        self,
        evaluator: str | Path,
        perspective: Perspective = Perspective(),
        options: ScoreOptions = ScoreOptions(),
        asking: Asking = Asking(),
        format: str = "auto",
        columns: Mapping[str, str] | None = None,
        roles: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = str(Path(evaluator).resolve())
        self.perspective, self.options, self.asking = perspective, options, asking
        self.format, self.columns = format, dict(columns or {})
        self.roles = check_roles(roles or {})
        if options.ask is not None or options.certify is not None:
            raise BadInput(
                "an adaptive rubric and --certify score one file in a project; leave out --ask and --certify"
            )
        if perspective.panel and perspective.rule == "each":
            raise BadInput("a batch has one row per row; the rule `each` has one per member: name mean, max or min")
        self.project = project_of(self.folder).absolute() if asking.folder is None else asking.folder.absolute()
        self._packed = _packed(Path(self.folder))
        self.made_from = hashlib.sha256(self._packed or self.folder.encode()).hexdigest()
        self.digest = ""
        self.digest = self.evaluator.digest()

    def __getstate__(self) -> dict[str, Any]:
        """What travels: settings, and the evaluator's folder where it is small."""
        sent = self._packed if self._packed is not None and len(self._packed) <= SENT_BYTES else None
        return {**self.__dict__, "_packed": sent}

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator, opened when it is first needed."""
        return self._open().scorer.evaluator

    @property
    def signature(self) -> str:
        """How the scores are made, of a person nobody has met; a perspective adds to it."""
        return str(self.evaluator.signature())

    def __call__(self, batch: Any) -> Any:
        """Score a batch: anything with `__arrow_c_stream__` in; pyarrow out for pyarrow, Polars for all else."""
        import polars as pl

        frame = batch if isinstance(batch, pl.DataFrame) else pl.DataFrame(batch)
        items = [self._item(fields) for fields in frame.iter_rows(named=True)]
        return _like(batch, self.table(items))

    def items(self, rows: Iterable[Conversation | BadRow]) -> Iterable[Item]:
        """What is scored of conversations: of each the whole, or the replies that the options name."""
        for row in rows:
            if isinstance(row, BadRow):
                yield BadConversation(f"{Path(row.path).name}-{row.line}", row.reason)
            else:
                found: Sequence[Item] = self._open().scorer.samples(with_roles(row, self.roles))
                yield from found or [BadConversation(row.id, NO_REPLY)]

    def table(self, items: Sequence[Item]) -> pl.DataFrame:
        """The table of scores of some items, a row each; of a shared budget nothing is held afterwards.

        Raises:
            StoreError: The store of the answers failed.
        """
        import polars as pl

        parts = [items[start : start + SCORED_AT_ONCE] for start in range(0, len(items), SCORED_AT_ONCE)]
        try:
            tables = [score_table(*self._scored(part)) for part in parts]
        finally:
            self._give_back()
        return pl.concat(tables) if tables else score_table([])

    def _give_back(self) -> None:
        """Give back what was taken of a shared budget and not spent: nobody says which batch is the last one."""
        if self.asking.shared is None:
            return
        try:
            self._open().models.budget.close()
        except StoreError as error:
            logging.getLogger("accord").warning("what was not spent of the shared budget stays taken: %s", error)

    def spent(self) -> dict[str, float]:
        """What this process has spent on answers so far, by what was counted and is not zero."""
        told = self._open().models.budget.to_json()
        return {name: value for name, value in told.items() if isinstance(value, int | float) and value}

    # --- one row ------------------------------------------------------------------------------------------------

    def _item(self, fields: Fields) -> Item:
        """What a row asks to be scored."""
        row = dict(fields)
        turn = row.pop("turn", None)
        try:
            conversation = convert_row(row, _NAMELESS, self.format, self.columns).conversation
            if conversation.id == _NAMELESS:
                conversation = replace(conversation, id=f"row-{_digest(row)}")
            return self._sample(with_roles(conversation, self.roles), turn)
        except WrongShape as error:
            return BadConversation(_name(row), str(error))

    def _sample(self, conversation: Conversation, turn: Any) -> Sample:
        level = self.evaluator.level
        if turn is None:
            found = samples_of(conversation, level, "last")
            if not found:
                raise WrongShape(NO_REPLY)
            return found[0]
        if level != "turn":
            raise WrongShape("the evaluator scores whole conversations; leave out the column `turn`")
        if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < len(conversation.turns):
            raise WrongShape(f"turn {turn!r} is none of the conversation's {len(conversation.turns)}: 0, 1, 2, ...")
        return Sample(conversation, turn)

    # --- many ---------------------------------------------------------------------------------------------------

    def _scored(self, items: Sequence[Item]) -> tuple[list[Score | Unscored], frozenset[int]]:
        """A score, or why there is none, for each item; and the places of those that hold no conversation."""
        opened = self._open()
        found: dict[int, Score | Unscored] = {}
        for places in _rounds([item if self._counts(item) else None for item in items]):
            samples = [item for place in places if isinstance(item := items[place], Sample)]
            found |= zip(places, self._tried(opened, samples), strict=True)
        bad = {place: item for place, item in enumerate(items) if isinstance(item, BadConversation)}
        found |= {place: self._unscored(Target(item.name), item.reason) for place, item in bad.items()}
        others = {
            place: item for place, item in enumerate(items) if isinstance(item, Sample) and not self._counts(item)
        }
        found |= {place: self._unscored(item.target, NOT_COUNTED) for place, item in others.items()}
        return [opened.scorer.decoded(found[place]) for place in range(len(items))], frozenset(bad)

    def _counts(self, item: Item) -> bool:
        """Whether an item is a conversation that `--synthetic` counts."""
        which = self.options.synthetic
        return isinstance(item, Sample) and (which == "with" or item.conversation.is_synthetic == (which == "only"))

    def _tried(self, opened: _Opened, samples: Sequence[Sample]) -> Sequence[Score | Unscored]:
        """Scores of samples; where together they fail, each is tried alone, and what fails then says why."""
        try:
            return opened.scorer.scores(samples, opened.models)
        except StoreError:
            raise  # no row's fault, and what is missing now is there when the store is
        except Exception as error:
            if len(samples) == 1 or isinstance(error, BudgetReached):
                said = one_line(str(error), 300)
                kind = "out of budget" if isinstance(error, BudgetReached) else f"failed: {type(error).__name__}"
                return [self._unscored(sample.target, f"{kind}: {said}") for sample in samples]
            middle = len(samples) // 2
            return [*self._tried(opened, samples[:middle]), *self._tried(opened, samples[middle:])]

    def _unscored(self, target: Target, reason: str) -> Unscored:
        return self._open().scorer.unscored(target, reason)

    # --- opening ------------------------------------------------------------------------------------------------

    def _open(self) -> _Opened:
        key = repr((self.made_from, self.perspective, self.options, self.asking))
        if key not in _opened:
            while len(_opened) >= _OPEN_AT_ONCE:
                _opened.pop(next(iter(_opened))).models.close()
            evaluator = self._loaded()
            _opened[key] = _Opened(Scorer(evaluator, self.perspective, self.options), self._models(evaluator))
        return _opened[key]

    def _loaded(self) -> Evaluator:
        if self._packed is None:
            found = load_evaluator(self.folder, self.project)
            if self.digest not in ("", found.digest()):
                raise BadInput(f"{self.folder} holds another evaluator than the one that was sent; send it again")
            return found
        with tempfile.TemporaryDirectory(prefix="accord-") as folder:
            with zipfile.ZipFile(io.BytesIO(self._packed)) as packed:
                packed.extractall(folder)
            return load_evaluator(folder, self.project)

    def _models(self, evaluator: Evaluator) -> Models:
        if not evaluator.roles:
            return memory_models()
        if not (self.asking.asks or self.asking.store):
            raise BadInput(
                f"this evaluator asks its {evaluator.roles[0]}; let it with Asking(asks=True, store=URL), or name the "
                "store that holds the answers: Asking(store=URL)"
            )
        about, store = self.asking, Store(self.asking.store or "sqlite:///:memory:")
        account = None if about.shared is None or store is None else SharedBudget(store, about.shared)
        budget = Budget(about.caps, load_prices(self.project), account)
        return Models(evaluator.models, store, budget, about.asks, folder=self.project)


def _packed(folder: Path) -> bytes | None:
    """The folder's files as one archive, the same bytes for the same files; `None` where there is no such folder."""
    if not folder.is_dir():
        return None
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            about = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _DATE)
            packed.writestr(about, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _rounds(items: Sequence[Item | None]) -> list[list[int]]:
    """The places of samples, in rounds of which none has a target twice: evidence is kept by target."""
    rounds: list[list[int]] = []
    seen: dict[Target, int] = {}
    for place, item in enumerate(items):
        if isinstance(item, Sample):
            number = seen.get(item.target, 0)
            seen[item.target] = number + 1
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(place)
    return rounds


def _name(row: Fields) -> str:
    """What a row that holds no conversation is called."""
    named = next((row[key] for key in ("id", "conversation", "conversation_id") if row.get(key) is not None), None)
    return one_line(str(named), 200) if isinstance(named, str | int) and named != "" else f"row-{_digest(row)}"


def _digest(row: Fields) -> str:
    """A name that follows from what a row says, and not from where it stands."""
    return hashlib.sha256(canonical_json(row, default=str).encode("ascii")).hexdigest()[:16]


def _like(batch: Any, table: pl.DataFrame) -> Any:
    """The table as what came in: pyarrow for pyarrow, Polars for all else."""
    kind = type(batch)
    if not kind.__module__.startswith("pyarrow"):
        return table
    made = table.to_arrow().cast(arrow_schema()).combine_chunks()
    return made if kind.__name__ != "RecordBatch" else (made.to_batches() or [_empty_batch()])[0]


def _empty_batch() -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=arrow_schema())
