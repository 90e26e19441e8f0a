"""The calibration network: formula, training and answers (LLM-RUBRIC)."""
