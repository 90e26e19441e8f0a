"""Evaluators inside other tools, and scores sent to them: one module per tool, imported by its name."""
