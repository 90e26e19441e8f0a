"""ADOROR: demonstrations and prompts selected for each input (Pu et al., EMNLP 2023)."""
