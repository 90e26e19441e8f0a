"""Assertions learned from good and bad conversations (RUBICON): writing them, selecting them, scoring with them."""

from accord.evaluators.learned_rubric.learned_rubric import LearnedRubric

__all__ = ["LearnedRubric"]
