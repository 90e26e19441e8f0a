"""Conversations that an evaluator was trained on, as digests of their ids and contents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.learning.answer_models.contract import part_arrays
from accord.learning.evaluator_files import CARD, OTHER_QUESTIONS, TRAINING_SET, read_arrays
from accord.values import Conversation, Sample, Target, canonical_json

_WHOLE = -1
"""Turn of a rating of a whole conversation."""


@dataclass(frozen=True)
class TrainingSet:
    """Conversations that had ratings when an evaluator was fitted.

    Attributes:
        digest: (n,) rising digests of the rated conversations.
        used: (n,) True for conversations that the evaluator learned from; the others were held out.
        rated: (m, 2) index of each rated target's conversation in `digest`, and its turn; -1 for the whole.
    """

    digest: NDArray[np.uint64]
    used: NDArray[np.bool_]
    rated: NDArray[np.int64]

    @classmethod
    def of(cls, samples: Iterable[Sample], rated: Collection[Target], used: Collection[Target]) -> TrainingSet:
        """Return the training set of some samples.

        Args:
            samples: Samples with their conversations.
            rated: Targets of the ratings on the evaluator's question.
            used: Targets that the evaluator learned from.
        """
        known = {sample.conversation.id: digest_of(sample.conversation) for sample in samples}
        learned = {target.conversation for target in used}
        rows = sorted((digest, name in learned, name) for name, digest in known.items())
        place = {name: number for number, (_, _, name) in enumerate(rows)}
        turns = sorted(
            (place[target.conversation], _WHOLE if target.turn is None else target.turn)
            for target in set(rated)
            if target.conversation in place
        )
        return cls(
            np.array([digest for digest, _, _ in rows], dtype=np.uint64),
            np.array([is_used for _, is_used, _ in rows], dtype=bool),
            np.array(turns, dtype=np.int64).reshape(-1, 2),
        )

    def place(self, conversation: Conversation) -> int | None:
        """Return the index of a conversation, or `None` if it is not in the set or its content differs."""
        digest = np.uint64(digest_of(conversation))
        place = int(np.searchsorted(self.digest, digest))
        return place if place < len(self.digest) and self.digest[place] == digest else None

    def turns(self, place: int) -> frozenset[int | None]:
        """Return the rated turns of the conversation at an index; None stands for the whole conversation."""
        first, end = np.searchsorted(self.rated[:, 0], [place, place + 1])
        return frozenset(None if turn == _WHOLE else int(turn) for turn in self.rated[first:end, 1])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields as arrays to save."""
        return dict(vars(self))

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> TrainingSet:
        """Return the training set from `arrays`.

        Raises:
            ValueError: The arrays do not fit each other.
        """
        result = cls(**{name: arrays[name] for name in cls.__dataclass_fields__})
        n = len(result.digest)
        fits = result.digest.dtype == np.uint64 and result.used.dtype == np.bool_ and result.rated.dtype == np.int64
        if not fits or result.used.shape != (n,) or result.rated.ndim != 2 or result.rated.shape[1] != 2:
            raise ValueError("arrays of the training set have different shapes")
        if len(result.rated) and not 0 <= result.rated[:, 0].min() <= result.rated[:, 0].max() < n:
            raise ValueError("ratings of conversations that are not in the training set")
        return result


def training_digests(folder: Path) -> set[int]:
    """Return the digests of the conversations that a saved evaluator, or one inside its folder, learned from.

    Raises:
        BadInput: The arrays are damaged.
        FileNotFoundError: The folder holds no evaluator.
    """
    digests: set[int] = set()
    for path in (folder, *sorted(each.parent for each in folder.glob(f"{OTHER_QUESTIONS}/*/{CARD}"))):
        arrays = part_arrays(TRAINING_SET, read_arrays(path))
        if arrays:
            known = TrainingSet.restored(arrays)
            digests.update(known.digest[known.used].tolist())
    return digests


def digest_of(conversation: Conversation) -> int:
    """Return a 64-bit digest of a conversation's id, the texts of its turns, and its documents.

    Roles are left out: a file scored without the role mapping of its import holds the same conversations.
    """
    turns = [turn.content for turn in conversation.turns]
    content = canonical_json([conversation.id, turns, [document.text for document in conversation.documents]])
    return int.from_bytes(blake2b(content.encode("ascii"), digest_size=8).digest(), "big")
