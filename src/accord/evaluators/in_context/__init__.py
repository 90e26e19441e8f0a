"""In-context scoring with learned prompts and demonstrations (Pu et al., *ADOROR*, EMNLP 2023)."""
