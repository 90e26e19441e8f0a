"""Issues that models found in turns, stored as annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import func, select

from accord.store.rows import BATCH, AddedCounts, AnnotationKeys, annotation_from, annotation_row, batches, now
from accord.store.schema import annotation_table
from accord.store.store import MODEL, Store
from accord.values import OVERALL, Annotation, Conversation, IssueAnnotation, issues_from, turn_digests

_IS_OVERALL = (
    annotation_table.c.kind == MODEL,
    annotation_table.c.question == OVERALL,
    annotation_table.c.signature.is_not(None),
)


class IssueAnnotations:
    """Issue annotations in a store; of each turn and signature the first stays."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, new: Iterable[IssueAnnotation]) -> AddedCounts:
        """Add issue annotations and return the counts of turns."""
        counts, keys, places, added = AddedCounts(), AnnotationKeys(), self._store._last_places(), now()
        for batch in batches(new, BATCH):
            items = (item for each in batch for item in Annotation.from_issues(each))
            rows = [annotation_row(item, keys.of(item), added) for item in items]
            count, *_ = self._store._insert_annotations(rows, places)
            counts = counts.plus(AddedCounts(count, len(batch) - count))
        return counts

    def of(self, conversations: Iterable[Conversation], signature: str) -> Iterator[IssueAnnotation]:
        """Yield the annotations of one signature for the turns of conversations, in order.

        Annotations of a stored conversation with the same ID but other texts are left out.
        """
        table = annotation_table.c
        query = select(annotation_table).where(table.signature == signature)
        for batch in batches(conversations, BATCH):
            in_batch = query.where(table.conversation.in_([conversation.id for conversation in batch]))
            rows = self._store._stream(in_batch.order_by(table.turn, table.place, table.key))
            by_conversation: dict[str, list[IssueAnnotation]] = {}
            for item in issues_from(row for row in map(annotation_from, rows) if row.is_of_issues):
                by_conversation.setdefault(item.target.conversation, []).append(item)
            for conversation in batch:
                yield from _of_same_texts(conversation, by_conversation.get(conversation.id, ()))

    def conversations(self, signature: str) -> list[str]:
        """Return the IDs of conversations with an annotated turn of one signature."""
        query = (
            select(annotation_table.c.conversation)
            .where(*_IS_OVERALL, annotation_table.c.signature == signature)
            .distinct()
        )
        return sorted(name for (name,) in self._store._stream(query))

    def makers(self) -> dict[str, int]:
        """Return the number of annotated turns by signature."""
        query = (
            select(annotation_table.c.signature, func.count())
            .where(*_IS_OVERALL)
            .group_by(annotation_table.c.signature)
        )
        return dict(sorted(tuple(row) for row in self._store._stream(query)))


def _of_same_texts(conversation: Conversation, items: Sequence[IssueAnnotation]) -> Iterator[IssueAnnotation]:
    """Yield the first annotation of each turn whose texts are those of the conversation."""
    digests = turn_digests(conversation) if items else []
    annotated_turns = set()
    for item in items:
        turn = item.target.turn or 0
        exists = turn < len(digests) or not digests
        is_same = exists and (not item.said or not digests or item.said == digests[turn])
        if is_same and turn not in annotated_turns:
            annotated_turns.add(turn)
            yield item
