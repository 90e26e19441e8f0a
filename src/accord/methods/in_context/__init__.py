"""Scoring with rated examples in the prompt, learned prompts and selectors (Pu et al., *ADOROR*, EMNLP 2023)."""
