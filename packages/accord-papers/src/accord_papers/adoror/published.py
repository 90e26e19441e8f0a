"""Figures of tables 1, 3, 4, 5 and 6 of ADOROR (Pu et al., EMNLP 2023)."""

from __future__ import annotations

from collections.abc import Mapping

COLUMNS = ("DDZ", "PZ", "UTC Ground.", "UTC Overall", "UPC Ground.", "UPC Overall")
TABLE_1: Mapping[str, tuple[float | None, ...]] = {
    "D-score": (0.523, 0.555, 0.327, 0.478, 0.389, 0.501),
    "GPTScore": (None, None, None, 0.427, None, 0.321),
    "Roberta-Large (cls)": (0.321, 0.454, 0.403, 0.217, 0.617, 0.237),
    "Roberta-Large (reg)": (0.623, 0.710, 0.482, 0.167, 0.654, 0.563),
    "Ruber-Roberta-Large": (0.202, 0.580, 0.352, 0.497, 0.174, 0.211),
    "Human-P (z.s)": (0.662, 0.678, 0.507, 0.474, 0.579, 0.459),
    "Human-P (few)": (0.684, 0.679, 0.482, 0.527, 0.690, 0.494),
    "Auto-P-Random": (0.585, 0.589, 0.460, 0.525, 0.645, 0.571),
    "Auto-P-Selected": (0.690, 0.680, 0.508, 0.583, 0.669, 0.610),
    "Auto-P-Selected with BM25": (0.576, 0.643, 0.523, 0.616, 0.658, 0.653),
    "Auto-P-Selected-Ensemble": (0.705, 0.694, 0.485, 0.609, 0.680, 0.602),
    "ADOROR": (0.733, 0.711, 0.529, 0.623, 0.703, 0.637),
    "ADOROR w/o subgraph": (0.714, 0.709, 0.510, 0.618, 0.687, 0.641),
}
"""Spearman's ρ of the turn-level systems, in the order of `COLUMNS`; UTC is Topical-USR."""
TABLE_3 = {
    "ADOROR w/o relative positions": -0.02536,
    "ADOROR w/o absolute positions": -0.02329,
    "ADOROR w/o scores": -0.02322,
    "ADOROR w/o subgraph": -0.03071,
}
"""Mean loss of ρ, relative to ADOROR, over the five data sets."""
TABLE_4 = {
    "DDZ Appropriateness": (0.0157, 0.0289, 0.0405), "PZ Appropriateness": (0.0140, 0.0224, 0.0315),
    "UTC Groundness": (0.0068, 0.0562, 0.1176), "UTC Overall": (0.0053, 0.0325, 0.0663),
    "UPC Groundness": (-0.0094, 0.0156, 0.0382), "UPC Overall": (0.0277, 0.0562, 0.0782),
    "FED Coherent": (0.0724, 0.1404, 0.2362), "FED Diverse": (-0.0361, 0.1410, 0.3143),
    "FED Depth": (-0.0225, 0.0996, 0.2623), "FED Likeable": (0.0827, 0.1566, 0.2497),
    "FED Understanding": (0.0087, 0.0708, 0.1473), "FED Flexible": (-0.0667, 0.0827, 0.2243),
    "FED Informative": (0.0475, 0.1725, 0.2343), "FED Overall": (0.1008, 0.1208, 0.1412),
}  # fmt: skip
"""Least, mean and largest gain in ρ over Auto-P-Selected-Ensemble, over γ × ζ."""
TABLE_5 = {"instances": 360, "turns": 11.2, "context words": 236.3, "response words": 22.4, "annotations": 6480}
"""Details of Topical-USR."""
TABLE_6 = {"ADOROR w/o subgraph": (0.0456, 0.0002), "Auto-P-Selected": (0.1101, 5.542e-07)}
"""Mean relative gain of ADOROR over all data sets, and p of Wilcoxon's test."""
