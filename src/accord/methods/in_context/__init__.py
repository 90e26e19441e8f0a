"""Scoring by showing rated examples, with learned prompts and selectors (Pu et al., *ADOROR*, EMNLP 2023)."""
