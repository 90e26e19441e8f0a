"""In-context scoring with learned prompts and demonstrations (Pu et al., *ADOROR*, EMNLP 2023)."""

from accord.evaluators.in_context.in_context import InContext

__all__ = ["InContext"]
