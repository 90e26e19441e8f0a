"""Estimate: a number with the ends of its interval."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval, or with another range that a column head or legend names.

    Attributes:
        value: `None` if the number is undefined.
        low, high: Ends of the interval or range; `None` if the data are too few for one. The interval of a quantity
            that noise raises, such as a calibration error, may lie below the value.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def text(self, digits: int = 2, ends: int = 2) -> str:
        """Return the value and its interval as text; a dash for an undefined value.

        Args:
            digits: Decimals of the value.
            ends: Decimals of the ends of the interval.
        """
        if self.value is None:
            return "–"
        value = f"{self.value:.{digits}f}"
        if self.low is None or self.high is None:
            return value
        return f"{value} [{self.low:.{ends}f}, {self.high:.{ends}f}]"

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> dict[str, float | None]:
        """Return the fields by name."""
        return asdict(self)
