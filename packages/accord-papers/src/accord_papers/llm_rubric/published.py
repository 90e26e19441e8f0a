"""Figures of tables 1 to 5 of LLM-RUBRIC (Hashemi et al., ACL 2024)."""

from __future__ import annotations

from collections.abc import Mapping

STATISTICS = ("rmse", "pearson", "spearman", "kendall")
TABLE_1: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "llm_rubric_synth": {
        "random": (1.499, 0.002, -0.003, -0.003),
        "judge-argmax": (0.984, 0.153, 0.161, 0.147),
        "judge-expected": (0.856, 0.182, 0.217, 0.168),
        "calibrated Q0 alone": (0.801, 0.198, 0.196, 0.193),
        "accord": (0.396, 0.401, 0.398, 0.393),
        "the authors' network, without shift by system": (0.396, 0.401, 0.398, 0.393),
        "a oracle": (0.237, 0.611, 0.626, 0.605),
        "b without the judge's answers": (0.276, 0.551, 0.548, 0.533),
        "c without personalization": (0.401, 0.476, 0.471, 0.468),
        "d c, personalized isotonic": (0.273, 0.521, 0.526, 0.519),
        "e depersonalized oracle": (0.492, 0.362, 0.355, 0.338),
        "f e, personalized isotonic": (0.321, 0.482, 0.485, 0.477),
    },
    "llm_rubric_real": {
        "random": (1.427, 0.011, 0.006, 0.005),
        "judge-argmax": (1.186, 0.106, 0.123, 0.120),
        "judge-expected": (0.901, 0.143, 0.141, 0.138),
        "calibrated Q0 alone": (0.784, 0.211, 0.218, 0.192),
        "accord": (0.422, 0.350, 0.347, 0.331),
        "a oracle": (0.289, 0.717, 0.711, 0.675),
        "b without the judge's answers": (0.357, 0.625, 0.629, 0.599),
        "c without personalization": (0.389, 0.582, 0.587, 0.565),
        "d c, personalized isotonic": (0.302, 0.650, 0.653, 0.644),
    },
}
MARKS_1: Mapping[str, Mapping[str, str]] = {
    "llm_rubric_synth": {
        "judge-argmax": "RMSE 1, r 1", "judge-expected": "RMSE 12, r 1", "calibrated Q0 alone": "RMSE 123, r 12",
        "accord": "RMSE 1234, r 1234",
    },
    "llm_rubric_real": {
        "judge-argmax": "RMSE 1, r 1", "judge-expected": "RMSE 12, r 1", "calibrated Q0 alone": "RMSE 123, r 123",
        "accord": "RMSE 1234, r 12345",
    },
}  # fmt: skip
"""Superscripts of table 1: rows with a significantly worse figure (p < .05); row 5 is FActScore."""
TABLE_2 = {
    "accord": (0.422, 0.350),
    "network": (0.422, 0.350),
    "network, without fine-tuning": (0.493, 0.249),
    "network, without pre-training": (0.525, 0.226),
    "network, without personalization": (0.601, 0.198),
    "accord, without personalization": (0.601, 0.198),
    "accord, without Q0": (0.554, 0.287),
    "accord, without Q1": (0.463, 0.313),
    "accord, without Q2": (0.471, 0.279),
    "accord, without Q3": (0.573, 0.075),
    "accord, without Q4": (0.497, 0.311),
    "accord, without Q5": (0.506, 0.192),
    "accord, without Q6": (0.424, 0.348),
    "accord, without Q7": (0.532, 0.254),
    "accord, without Q8": (0.510, 0.161),
}
"""RMSE and Pearson's r on the real dialogues."""
MARKS_2 = "▽ RMSE, ▽ r"
MARKED_2 = frozenset(TABLE_2) - {"accord", "network", "accord, without Q6"}
"""Rows of table 2 that are significantly worse than the whole."""
TABLE_3 = {
    "Q0": (0.901, 0.143), "Q1": (1.033, 0.177), "Q2": (0.799, 0.140), "Q3": (0.796, 0.347), "Q4": (0.919, 0.166),
    "Q5": (1.104, 0.191), "Q6": (1.726, 0.030), "Q7": (1.240, 0.057), "Q8": (0.981, 0.059),
}  # fmt: skip
"""RMSE and r of the judge's expected answer on the real dialogues."""
_QUESTIONS = ("DQQ1", "DQQ2", "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q0")
TABLE_4: Mapping[str, Mapping[str, float]] = {
    "DS1": dict(zip(_QUESTIONS[:3] + _QUESTIONS[7:], (3.8, 3.6, 3.4, 3.6, 3.6, 2.7, 2.3), strict=True)),
    "DS2": dict(zip(_QUESTIONS, (3.6, 3.4, 3.2, 3.5, 3.3, 3.3, 3.3, 3.3, 3.1, 2.5, 3.1), strict=True)),
    "DS3": dict(zip(_QUESTIONS, (3.6, 3.3, 3.2, 3.3, 3.0, 3.1, 3.1, 3.2, 3.1, 2.6, 3.0), strict=True)),
    "DS4": dict(zip(_QUESTIONS, (3.6, 3.3, 3.1, 3.4, 3.2, 3.1, 2.9, 3.7, 3.5, 2.5, 3.0), strict=True)),
    "DS5": dict(zip(_QUESTIONS, (3.5, 3.3, 3.1, 3.3, 3.0, 3.0, 2.6, 3.6, 3.6, 2.5, 2.9), strict=True)),
}
"""Means on the synthetic dialogues, by system and question."""
TABLE_5: Mapping[str, Mapping[str, float]] = {
    "DS1": dict(zip(_QUESTIONS[2:3] + _QUESTIONS[7:], (3.329, 3.473, 3.552, 2.803, 2.668), strict=True)),
    "DS2": dict(zip(_QUESTIONS[2:], (3.197, 3.155, 2.971, 3.112, 3.014, 3.436, 3.295, 2.788, 2.915), strict=True)),
    "DS3": dict(zip(_QUESTIONS[2:], (3.066, 2.763, 2.631, 2.618, 2.631, 3.473, 3.500, 2.739, 2.697), strict=True)),
}
"""Means on the real dialogues, by system and question."""
