"""Evaluators of a project: fit, compare, choice, diagnostics and their cache."""
