"""SODA-EVAL (Mendonça et al., 2024): issue statistics, validation by people, and ABC-Eval."""
