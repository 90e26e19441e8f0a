"""Names as they come, up to a bound: what is counted by name stays small, whatever is sent."""

from __future__ import annotations

OTHERS = "other systems"


class Names:
    """The first names that are met; all further ones share `OTHERS`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._met: set[str] = set()

    def of(self, name: str) -> str:
        """The name under which to count."""
        if name not in self._met and len(self._met) >= self.most:
            return OTHERS
        self._met.add(name)
        return name
