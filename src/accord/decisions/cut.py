"""Good and bad: the cut of a scale that calls, verdicts, reports and pages share.

An answer counts as good from the first option above the middle of the scale on, or from a given option on. All other
answers count as bad, also the middle one of a scale with an odd number of options.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput

Floats = NDArray[np.float64]


def lowest_good(options: Floats, good: float | None = None) -> float:
    """Return the lowest answer that counts as good.

    Args:
        options: (K,) rising options of the scale.
        good: The lowest good answer; None takes the first option above the middle of the scale.

    Raises:
        BadInput: `good` leaves no option on one of the two sides.
    """
    if good is None:
        return float(options[options > (options[0] + options[-1]) / 2][0]) if len(options) > 1 else float(options[0])
    if not options[0] < good <= options[-1]:
        raise BadInput(
            f"--good is the lowest answer that counts as good, above {options[0]:g} and at most {options[-1]:g}, got "
            f"{good:g}"
        )
    return good


def is_good(values: Floats, lowest: float) -> NDArray[np.bool_]:
    """Return (n,) True for answers that count as good."""
    return np.asarray(values >= lowest - 1e-9)


def good_share(options: Floats, shares: Floats, lowest: float) -> Floats:
    """Return (n,) probabilities of a good answer from (n, K) distributions over K options."""
    return np.asarray(shares[:, is_good(options, lowest)].sum(axis=1))
