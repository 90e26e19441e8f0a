"""Figures of the CIU paper: tables 1 to 4, Spearman with Overall and with Uses Knowledge; case studies."""

from __future__ import annotations

Pair = tuple[float, float]

METRICS = ("bleu", "meteor", "rouge-l", "ciu-paper", "ruber", "bertscore-f1")
"""The paper's six metrics, in the order of its tables' columns."""

STANDALONE: dict[str, dict[str, Pair]] = {
    "topical_usr": {
        "random": (0.016, 0.023), "bleu": (0.298, 0.631), "meteor": (0.352, 0.716), "rouge-l": (0.339, 0.688),
        "ruber": (0.385, 0.778), "bertscore-f1": (0.395, 0.717), "ciu-paper-no-freq": (0.411, 0.728),
        "ciu-paper-no-pos": (0.412, 0.729), "ciu-paper": (0.415, 0.742),
    },
    "persona_usr": {
        "random": (0.011, 0.017), "bleu": (0.472, 0.515), "meteor": (0.223, 0.379), "rouge-l": (0.202, 0.387),
        "ruber": (0.435, 0.688), "bertscore-f1": (0.241, 0.486), "ciu-paper-no-freq": (0.461, 0.667),
        "ciu-paper-no-pos": (0.461, 0.669), "ciu-paper": (0.481, 0.685),
    },
}  # fmt: skip
"""Tables 1 and 3."""

_STRATEGIES = (
    "univariate", "random-forest", "recursive-5", "recursive-4", "recursive-3", "recursive-2", "recursive-1",
    "forward-1", "forward-2", "forward-3", "forward-4", "forward-5", "backward-1", "backward-2", "backward-3",
    "backward-4", "backward-5", "all", "moe-concat", "moe-ciu",
)  # fmt: skip
_TOPICAL = (
    (0.427, 0.773), (0.405, 0.721), (0.385, 0.734), (0.392, 0.733), (0.396, 0.767), (0.411, 0.781), (0.422, 0.781),
    (0.361, 0.729), (0.351, 0.742), (0.392, 0.747), (0.418, 0.757), (0.417, 0.771), (0.389, 0.735), (0.386, 0.736),
    (0.403, 0.752), (0.413, 0.761), (0.425, 0.771), (0.432, 0.778), (0.507, 0.788), (0.514, 0.799),
)  # fmt: skip
_PERSONA = (
    (0.529, 0.683), (0.492, 0.636), (0.436, 0.675), (0.487, 0.675), (0.483, 0.666), (0.505, 0.711), (0.514, 0.713),
    (0.381, 0.674), (0.455, 0.678), (0.511, 0.658), (0.504, 0.701), (0.507, 0.702), (0.377, 0.659), (0.446, 0.654),
    (0.501, 0.645), (0.518, 0.699), (0.521, 0.699), (0.519, 0.718), (0.521, 0.721), (0.531, 0.733),
)  # fmt: skip
UNIFIED: dict[str, dict[str, Pair]] = {
    "topical_usr": dict(zip(_STRATEGIES, _TOPICAL, strict=True)),
    "persona_usr": dict(zip(_STRATEGIES, _PERSONA, strict=True)),
}
"""Tables 2 and 4; the 17 strategies are all but the last three."""
SELECTED: dict[str, dict[str, float]] = {
    "topical_usr": dict(zip(METRICS, (0.294, 0.529, 0.529, 0.764, 0.764, 0.705), strict=True)),
    "persona_usr": dict(zip(METRICS, (0.823, 0.352, 0.352, 0.764, 0.823, 0.470), strict=True)),
}
"""Last rows of these tables: the share of the strategies that select a metric."""


COLUMNS = ("spearman_overall", "spearman_uses_knowledge")
"""Columns of a pair."""
LENGTH = -0.203
"""Section 3.2: correlation of length and usefulness."""
CASE_METRICS = ("ciu-paper", "ruber", "bertscore-f1", "moe-ciu", "rating")
CASES = {
    "the president of zimbabwe looks like": (0.32, 0.00, 0.36, 3.33, 3.66),
    "the un has an ambassador to aliens": (0.36, 0.99, 0.31, 2.66, 2.67),
    "i could have had 100 burgers": (0.91, 0.99, 0.62, 4.53, 5.00),
}
"""Tables 5 and 6: figures of each reply, by words that it alone contains; table 5 is the first one."""


def published(table: dict[str, dict[str, Pair]], dataset: str, system: str) -> dict[str, float]:
    """Return the paper's figures, `NAME_published` by column. It is empty for a data set that the paper lacks."""
    pair = table.get(dataset, {}).get(system)
    return {} if pair is None else {f"{name}_published": value for name, value in zip(COLUMNS, pair, strict=True)}
