"""Synthetic conversations: dialogues that nobody held, made in five ways (LLM-RUBRIC, appendix F), and told apart."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
