"""A saved evaluator as a function of Arrow batches: one output row per input row, in order.

Each input row is a conversation (`messages`, a prompt and a response, or another format of `accord plugins` that fits
one row). The column `turn` names the turn to score; without it, an evaluator of turns scores the last reply. The output
has the columns of `score_schema`. A row without a conversation, or one that cannot be scored, becomes a row with its
status and reason, so that no row fails a batch.
"""

from __future__ import annotations

import hashlib
import io
import logging
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accord.edges import (
    BadInput,
    BadRow,
    BudgetReached,
    NotSent,
    accept_trust,
    note_addresses,
    noted_trust,
    one_line,
)
from accord.formats import (
    Fields,
    MemoryTable,
    WrongShape,
    check_roles,
    convert_row,
    with_roles,
)
from accord.learning import Evaluator, load_evaluator, project_of
from accord.models import (
    Caps,
    Models,
    address_of,
    check_endpoint,
    in_process,
    memory_models,
    open_budget,
    own_addresses,
)
from accord.redaction import Redactor
from accord.scoring.pipeline import NOT_COUNTED, Perspective, ScoreOptions, Scorer, Scores, nothing_to_score, samples_of
from accord.store import Store, StoreError
from accord.values import (
    Conversation,
    Sample,
    Target,
    Unscored,
    accept_code,
    arrow_schema,
    canonical_json,
    find_project_file,
    plugin_code,
    plugin_error,
    project_folder,
    score_frame,
)

if TYPE_CHECKING:
    import polars as pl

MOST_PACKED_BYTES = 900_000
"""Largest packed evaluator that is pickled with the function; workers read a larger one from its folder."""
SCORED_TOGETHER = 2000
_MOST_OPEN = 4
_NAMELESS = "row-?"
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


class BadConversation(NamedTuple):
    """Row without a conversation, with its name and the reason."""

    name: str
    reason: str


ScoreItem = Sample | BadConversation
"""Subject of a row in a table of scores."""


@dataclass(frozen=True)
class ModelAccess:
    """Models and stored answers that an evaluator's sources may use in a batch; none by default.

    Attributes:
        asks: True to send requests.
        store: Store of answers; without one, answers end with the process.
        caps: Budget of this process, or of all processes that share it by name.
        folder: Folder for relative paths of models and for `prices.yaml`; by default the evaluator's project folder.
        redactor: Redacts requests that leave this machine (`privacy:` of a project); None sends them as they are.
    """

    asks: bool = False
    store: str | None = None
    caps: Caps = Caps()
    folder: Path | None = None
    redactor: Redactor | None = None


class _OpenScorer(NamedTuple):
    scorer: Scorer
    models: Models


_open_scorers: dict[str, _OpenScorer] = {}
"""Open evaluators of this process by origin, so that a scorer unpickled twice opens its evaluator once."""


class BatchScorer:
    """Scores batches of conversations with a saved evaluator; pickled, it takes less than a megabyte.

    Args:
        evaluator: Folder of a fitted evaluator.
        perspective: Annotator whose answers are predicted.
        options: Options of scoring; `turns` must select one turn per row for `__call__`.
        access: Models and answers that the evaluator's sources may use.
        format: Format of the rows; `auto` detects each row's format.
        columns: Our column names to the rows'.
        roles: Roles in the rows to `user`, `assistant`, `system` or `tool`.

    Raises:
        BadInput: The folder holds no evaluator, the options are invalid, or the evaluator needs access to models.
        UnknownName: The evaluator has not learned an annotator of this name.

    >>> import polars as pl
    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     scorer = BatchScorer(project.fit("constant").folder)
    ...     table = scorer(pl.DataFrame({"id": ["a"], "prompt": ["Hi."], "response": ["Hello!"]}))
    >>> table["conversation"].to_list(), table["status"].to_list()
    (['a'], ['scored'])
    """

    def __init__(
        self,
        evaluator: str | Path,
        perspective: Perspective = Perspective(),
        options: ScoreOptions = ScoreOptions(),
        access: ModelAccess = ModelAccess(),
        format: str = "auto",
        columns: Mapping[str, str] | None = None,
        roles: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = str(Path(evaluator).resolve())
        self.perspective, self.options, self.access = perspective, options, access
        self.format, self.columns = format, dict(columns or {})
        self.roles = check_roles(roles or {})
        if options.ask is not None or options.certify is not None:
            raise BadInput("--ask and --certify score one file in a project, not batches or parts; leave them out")
        if perspective.panel and perspective.rule == "each":
            raise BadInput(
                "a batch returns one row per input row, and rule `each` returns one per member; use mean, max or min"
            )
        self.project = project_of(self.folder).absolute() if access.folder is None else access.folder.absolute()
        self._packed = _packed(Path(self.folder))
        self.made_from = hashlib.sha256(self._packed or self.folder.encode()).hexdigest()
        self.digest = ""
        self.digest = self.evaluator.digest()
        self._plugins = plugin_code(self.project)
        file = find_project_file(self.folder)
        urls = [each.base_url for each in self.evaluator.models.values() if each.base_url]
        note_addresses(Path(self.folder) if file is None else project_folder(file), urls, own_addresses())

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: settings, and the evaluator's folder if it is small."""
        is_small = self._packed is not None and len(self._packed) <= MOST_PACKED_BYTES
        return {**self.__dict__, "_packed": self._packed if is_small else None, "_noted": noted_trust()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the settings, and note the plug-ins of the project for a machine without its folder."""
        accept_trust(state.pop("_noted"))
        self.__dict__.update(state)
        accept_code(self._plugins)

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator, opened at its first use."""
        return self._open().scorer.evaluator

    @property
    def signature(self) -> str:
        """Signature of scores for a new annotator; a perspective adds to it."""
        return str(self.evaluator.signature())

    def __call__(self, batch: Any) -> Any:
        """Score a batch with `__arrow_c_stream__`; returns pyarrow for pyarrow, and Polars for everything else."""
        import polars as pl

        frame = batch if isinstance(batch, pl.DataFrame) else pl.DataFrame(batch)
        # Ids and other cells are read as an import reads them.
        items = [
            BadConversation(f"row-{row.line}", row.reason) if isinstance(row, BadRow) else self._item(row)
            for row in MemoryTable(frame).rows()
        ]
        return _like(batch, self.table(items))

    def items(self, rows: Iterable[Conversation | BadRow]) -> Iterable[ScoreItem]:
        """Yield the items to score: each conversation, or the turns that the options select."""
        for row in rows:
            if isinstance(row, BadRow):
                yield BadConversation(f"{Path(row.path).name}-{row.line}", row.reason)
            else:
                samples: Sequence[ScoreItem] = self._open().scorer.samples(with_roles(row, self.roles))
                yield from samples or [BadConversation(row.id, nothing_to_score(self.evaluator.level))]

    def table(self, items: Sequence[ScoreItem]) -> pl.DataFrame:
        """Return the table of scores with a row per item; releases the reserved part of a shared budget.

        Raises:
            StoreError: The store of answers fails.
        """
        import polars as pl

        starts = range(0, len(items), SCORED_TOGETHER)
        try:
            tables = [self._table(items[start : start + SCORED_TOGETHER]) for start in starts]
        finally:
            self._release_budget()
        return pl.concat(tables) if tables else score_frame([])

    def _table(self, items: Sequence[ScoreItem]) -> pl.DataFrame:
        bad = frozenset(place for place, item in enumerate(items) if isinstance(item, BadConversation))
        return score_frame([score.to_json() for score in self._scores(items)], bad, is_escaped=True)

    def _release_budget(self) -> None:
        """Release the unspent reservation of a shared budget after each batch, since any batch may be the last."""
        if self.access.caps.shared is None:
            return
        try:
            self._open().models.budget.close()
        except StoreError as error:
            logging.getLogger("accord").warning("the unspent part of the shared budget stays reserved: %s", error)

    def spent(self) -> dict[str, float]:
        """Return what this process has spent on answers, without zeros."""
        spent = self._open().models.budget.to_json()
        return {name: value for name, value in spent.items() if isinstance(value, int | float) and value}

    # --- one row ------------------------------------------------------------------------------------------------

    def _item(self, fields: Fields) -> ScoreItem:
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
            samples = samples_of(conversation, level, "last")
            if not samples:
                raise WrongShape(nothing_to_score(level))
            return samples[0]
        if level not in ("turn", "step"):
            raise WrongShape("the evaluator scores whole conversations; leave out the column `turn`")
        if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < len(conversation.turns):
            raise WrongShape(
                f"turn {turn!r} does not exist; the conversation has {len(conversation.turns)} turns: 0, 1, 2, ..."
            )
        return Sample(conversation, turn)

    # --- many ---------------------------------------------------------------------------------------------------

    def _scores(self, items: Sequence[ScoreItem]) -> Scores:
        """Return a score, or the reason of a missing one, for each item."""
        scorer = self._open()
        scores: Scores = [self._without_score(item) for item in items]
        for places in _rounds([item if self._is_counted(item) else None for item in items]):
            samples = [item for place in places if isinstance(item := items[place], Sample)]
            for place, score in zip(places, self._score(scorer, samples), strict=True):
                scores[place] = score
        return scores

    def _without_score(self, item: ScoreItem) -> Unscored:
        if isinstance(item, BadConversation):
            return self._unscored(Target(item.name), item.reason)
        return self._unscored(item.target, NOT_COUNTED)

    def _is_counted(self, item: ScoreItem) -> bool:
        """Return True if an item is a conversation that the setting `synthetic` includes."""
        which = self.options.synthetic
        return isinstance(item, Sample) and (which == "with" or item.conversation.is_synthetic == (which == "only"))

    def _score(self, scorer: _OpenScorer, samples: Sequence[Sample]) -> Scores:
        """Score samples together; after an error, score the halves, down to the samples that fail."""
        try:
            return scorer.scorer.scores(samples, scorer.models)
        except StoreError:
            raise  # later calls succeed once the store is back
        except Exception as error:
            if len(samples) == 1 or isinstance(error, BudgetReached):
                error = plugin_error(error) or error
                kind = "out of budget" if isinstance(error, BudgetReached) else f"failed: {type(error).__name__}"
                reason = f"{kind}: {one_line(str(error), 300)}"
                return [self._unscored(sample.target, reason) for sample in samples]
            middle = len(samples) // 2
            return [*self._score(scorer, samples[:middle]), *self._score(scorer, samples[middle:])]

    def _unscored(self, target: Target, reason: str) -> Unscored:
        return self._open().scorer.unscored(target, reason)

    # --- opening ------------------------------------------------------------------------------------------------

    def _open(self) -> _OpenScorer:
        key = repr((self.made_from, self.perspective, self.options, self.access))
        if key not in _open_scorers:
            while len(_open_scorers) >= _MOST_OPEN:
                _open_scorers.pop(next(iter(_open_scorers))).models.close()
            evaluator = self._load()
            scorer = Scorer(evaluator, self.perspective, self.options)
            _open_scorers[key] = _OpenScorer(scorer, self._models(evaluator))
        return _open_scorers[key]

    def _load(self) -> Evaluator:
        if self._packed is None:
            evaluator = load_evaluator(self.folder, self.project)
            if self.digest not in ("", evaluator.digest()):
                raise BadInput(f"{self.folder} holds another evaluator than this scorer used; create the scorer again")
            return evaluator
        with tempfile.TemporaryDirectory(prefix="accord-") as folder:
            with zipfile.ZipFile(io.BytesIO(self._packed)) as packed:
                packed.extractall(folder)
            return load_evaluator(folder, self.project)

    def _models(self, evaluator: Evaluator) -> Models:
        if not evaluator.roles:
            return memory_models()
        access = self.access
        if not (access.asks or access.store):
            raise BadInput(
                f"this evaluator asks its {evaluator.roles[0]}; allow requests with ModelAccess(asks=True, store=URL), "
                "or name the store of its answers: ModelAccess(store=URL)"
            )
        store = Store(access.store or "sqlite:///:memory:")
        budget = open_budget(access.caps, self.project, store)
        return Models(evaluator.models, store, budget, access.asks, folder=self.project, redactor=access.redactor)


def confirm_endpoints(scorer: BatchScorer) -> None:
    """Ask the user about the endpoints of an evaluator; worker processes refuse one that is not confirmed."""
    evaluator = scorer.evaluator
    for each in [evaluator.models.get(role) for role in evaluator.roles] if scorer.access.asks else []:
        if each is not None and each.model is not None and each.mode != "recorded" and not in_process(each.model):
            with suppress(NotSent):
                check_endpoint(address_of(each.base_url))


def _packed(folder: Path) -> bytes | None:
    """Return a folder's files as an archive, or `None` if it does not exist; the bytes depend only on the files."""
    if not folder.is_dir():
        return None
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _ZIP_DATE)
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _rounds(items: Sequence[ScoreItem | None]) -> list[list[int]]:
    """Return the indices of samples in rounds without repeated targets, since evidence has one row per target."""
    rounds: list[list[int]] = []
    counts: dict[Target, int] = {}
    for place, item in enumerate(items):
        if isinstance(item, Sample):
            number = counts.get(item.target, 0)
            counts[item.target] = number + 1
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(place)
    return rounds


def _name(row: Fields) -> str:
    """Return the name of a row that holds no conversation."""
    name = next((row[key] for key in ("id", "conversation", "conversation_id") if row.get(key) is not None), None)
    return one_line(str(name), 200) if isinstance(name, str | int) and name != "" else f"row-{_digest(row)}"


def _digest(row: Fields) -> str:
    """Return a digest of a row's content, independent of its position."""
    return hashlib.sha256(canonical_json(row, default=str).encode("ascii")).hexdigest()[:16]


def _like(batch: Any, table: pl.DataFrame) -> Any:
    """Return the table as pyarrow for a pyarrow batch, else as it is."""
    kind = type(batch)
    if not kind.__module__.startswith("pyarrow"):
        return table
    arrow = table.to_arrow().cast(arrow_schema()).combine_chunks()
    return arrow if kind.__name__ != "RecordBatch" else (arrow.to_batches() or [kind.from_pylist([], arrow.schema)])[0]
