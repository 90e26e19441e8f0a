"""How a small model is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from accord.errors import BadInput

ALL_LINEAR = "all-linear"


@dataclass(frozen=True)
class Settings:
    """How a small model is trained; a run that is resumed needs the same.

    Attributes:
        rank: Of LoRA's matrices (Hu et al., 2021); 0 trains all weights instead.
        alpha: LoRA's updates are scaled by alpha / rank.
        dropout: Share of LoRA's inputs that are left out at each step.
        learning_rate: Of AdamW, after the warm-up and before it falls to 0 along a line.
        warmup: Share of the steps in which it rises to that.
        weight_decay: Of AdamW.
        epochs: How often all examples are learned from; the epoch with the lowest validation loss is kept.
        batch: Examples that are read at once.
        accumulate: Batches that make one step.
        max_tokens: The longest example, prompt and answer together.
        checkpoint_every: Steps after which everything is saved; it is at the end of each epoch too.
        seed: Fixes the order of the examples, the first LoRA weights and the dropout.
        target_modules: Layers that LoRA adapts: `all-linear`, or names.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.05
    learning_rate: float = 2e-4
    warmup: float = 0.03
    weight_decay: float = 0.0
    epochs: int = 3
    batch: int = 2
    accumulate: int = 8
    max_tokens: int = 2048
    checkpoint_every: int = 200
    seed: int = 0
    target_modules: str | tuple[str, ...] = ALL_LINEAR

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "accumulate", "max_tokens", "checkpoint_every"):
            self._need(name, getattr(self, name) >= 1, "at least 1")
        for name in ("rank", "seed", "weight_decay"):
            self._need(name, getattr(self, name) >= 0, "at least 0")
        for name in ("dropout", "warmup"):
            self._need(name, 0 <= getattr(self, name) < 1, "from 0 to below 1")
        for name in ("learning_rate", "alpha"):
            self._need(name, getattr(self, name) > 0, "above 0")

    def _need(self, name: str, fits: bool, allowed: str) -> None:
        if not fits:
            raise BadInput(f"finetune: {name} must be {allowed}, got {getattr(self, name)}")

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, of so many."""
        rising = max(1, round(self.warmup * steps))
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (steps - step) / max(1, steps - rising)

    def to_json(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        row = asdict(self)
        return row if isinstance(self.target_modules, str) else {**row, "target_modules": list(self.target_modules)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Settings:
        """The inverse of `to_json`."""
        modules = row["target_modules"]
        return cls(**{**row, "target_modules": modules if isinstance(modules, str) else tuple(modules)})
