"""Defaults of resampling and cross-validation, free of NumPy so that settings can import them."""

DRAWS = 2000
"""Number of bootstrap samples and of permutations."""
FOLDS = 5
"""Number of folds of a cross-validation."""
CONFIDENCE = 0.95
"""Confidence of every interval."""
