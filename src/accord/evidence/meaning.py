"""What a reply is about, as an embedder places it: one column a dimension, for methods that look for directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accord.evidence.table import Column, EvidenceTable
from accord.models import Embedder
from accord.values import Sample, Signature

MEANING = "meaning:"
"""What the names of these columns begin with."""
NOTHING_SAID = "nothing to place"


def measure_meaning(samples: Sequence[Sample], embedder: Embedder) -> EvidenceTable:
    """The unit vector of each subject's replies taken together; a subject without words has none."""
    said = ["\n".join(turn.content for turn in s.conversation.at(s.turn).replies).strip() for s in samples]
    embedder.prepare([text for text in said if text])
    made_by = str(Signature.of("meaning", embedder=embedder.name))
    rows = [np.asarray(embedder.embed(text)) if text else None for text in said]
    size = next((len(row) for row in rows if row is not None), 0)
    values = np.array([np.zeros(size) if row is None else row for row in rows]).reshape(len(samples), size)
    known = np.array([row is not None for row in rows], dtype=bool)
    columns = tuple(Column(f"{MEANING}{place}", made_by) for place in range(size))
    targets = tuple(sample.target for sample in samples)
    absences = {(t, MEANING): NOTHING_SAID for t, there in zip(targets, known, strict=True) if not there}
    return EvidenceTable(targets, columns, values, np.repeat(known[:, None], size, axis=1), absences)
