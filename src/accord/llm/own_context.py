"""How much a model in this process reads, as far as its name and its files say."""

from __future__ import annotations

import json
from pathlib import Path

from accord.llm.model import HF, IN_PROCESS_CONTEXT, in_process


def own_context(model: str) -> int | None:
    """Tokens that a model in this process reads, prompt and answer together; `None` for a model behind an endpoint.

    A folder that cannot be read says nothing here: opening it says what is wrong.
    """
    if not in_process(model):
        return None
    if not model.startswith(HF):
        return IN_PROCESS_CONTEXT
    try:
        config = json.loads((Path(model.removeprefix(HF)) / "config.json").read_text(encoding="utf-8"))
        return min(int(config["max_position_embeddings"]), IN_PROCESS_CONTEXT)
    except (OSError, ValueError, LookupError, TypeError):
        return IN_PROCESS_CONTEXT
