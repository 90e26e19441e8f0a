"""Figures of tables 1 to 3 of RUBICON (Biyani et al., AIware 2024), as shares."""

from __future__ import annotations

RUBICON = (27.4, 0.84, 0.76, 0.686, 0.96, 0.8)
"""ΔNetSAT, YieldRate@90, accuracy, precision, recall and F1, as in all rows."""
TABLE_1 = {
    "BING": (11.0, 0.58, 0.7, 0.647, 0.88, 0.746),
    "BING, adapted": (11.3, 0.64, 0.76, 0.709, 0.88, 0.786),
    "SPUR": (3.0, 0.28, 0.58, 0.559, 0.76, 0.644),
    "RUBICON": RUBICON,
}
TABLE_2 = {
    "RUBICON": RUBICON,
    "without design principles": (23.7, 0.72, 0.64, 0.585, 0.96, 0.727),
    "without task description": (17.9, 0.66, 0.52, 0.51, 1.0, 0.676),
    "without both": (15.7, 0.62, 0.5, 0.5, 1.0, 0.667),
}
TABLE_3 = {
    "UCB bandit": (23.6, 0.68, 0.72, 0.657, 0.92, 0.767),
    "brute force": (24.2, 0.74, 0.74, 0.677, 0.92, 0.78),
    "separation alone": (29.7, 0.74, 0.76, 0.697, 0.92, 0.793),
    "RUBICON": RUBICON,
}
SAT_DSAT = -0.69
"""Pearson's r of the sums over SAT and over DSAT assertions of RUBICON (section 4.2)."""
