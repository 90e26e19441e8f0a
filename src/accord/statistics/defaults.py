"""Defaults of resampling, tests and cross-validation, free of NumPy so that settings can import them."""

DRAWS = 2000
"""Number of bootstrap samples and of permutations."""
FOLDS = 5
"""Number of folds of a cross-validation."""
CONFIDENCE = 0.95
"""Confidence of every interval."""
SIGNIFICANT = 0.05
"""Level of a test that a reader sees: one in 20 tests of no effect is significant by chance."""
SURE = 0.01
"""Level of a test that Accord acts on by itself, by a recommendation or an alarm."""
