"""The source `meaning`: what a reply is about, as an embedder places it; for heads that look for directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from accord.evidence.source import Settings, Source, sources
from accord.evidence.table import Column, EvidenceTable
from accord.models import EMBEDDER, EmbeddingText, Flow, Request
from accord.values import Sample, Signature

MEANING = "meaning:"
"""What the names of these columns begin with."""
NOTHING_SAID = "nothing to place"


class MeaningSettings(Settings):
    """Who places texts."""

    embedder: str = Field(default="minilm-l6", description="An embedder, as for metrics.")


@sources.register("meaning")
class Meaning(Source):
    """What a sample's replies are about, taken together: the coordinates of an embedder's unit vector."""

    settings_type = MeaningSettings
    settings: MeaningSettings

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """One column per dimension; a sample without words has none."""
        said = ["\n".join(turn.content for turn in s.conversation.at(s.turn).replies).strip() for s in samples]
        texts = [text for text in said if text]
        vectors = iter((yield [Request(EMBEDDER, EmbeddingText(self.settings.embedder, text)) for text in texts]))
        rows = [np.asarray(next(vectors)) if text else None for text in said]
        signature = str(Signature.of("meaning", embedder=self.settings.embedder))
        size = next((len(row) for row in rows if row is not None), 0)
        values = np.array([np.zeros(size) if row is None else row for row in rows]).reshape(len(samples), size)
        known = np.array([row is not None for row in rows], dtype=bool)
        columns = tuple(Column(f"{MEANING}{place}", signature) for place in range(size))
        targets = tuple(sample.target for sample in samples)
        absences = {(t, MEANING): NOTHING_SAID for t, there in zip(targets, known, strict=True) if not there}
        return EvidenceTable(targets, columns, values, np.repeat(known[:, None], size, axis=1), absences)
