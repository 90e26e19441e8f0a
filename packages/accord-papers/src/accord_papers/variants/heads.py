"""Heads of the papers, registered when this module is imported, as by its entry point."""

from __future__ import annotations

from accord.learning import heads
from accord.learning.calibration.heads import answer_model_head, curves_head
from accord_papers.variants.label_free import LabelFree

heads.register("label-free")(LabelFree)
heads.register("svr")(
    answer_model_head(
        "svr", "Support vector regression on each text's mean rating, as MoE-CIU's paper learns its reward."
    )
)
heads.register("gated")(curves_head("gated", "MoE-CIU as published: trained embeddings of bins, mixed by a gate."))
heads.register("concat")(curves_head("concat", "MoE-Concat as published: trained embeddings of bins, without a gate."))
