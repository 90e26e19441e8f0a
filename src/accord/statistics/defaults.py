"""Defaults of resampling, tests and cross-validation, free of NumPy so that settings can import them."""

DRAWS = 2000
"""Number of bootstrap samples and of permutations."""
DETAIL_DRAWS = 1000
"""Bootstrap samples for details of a result: one group, one annotator."""
REPEATED_DRAWS = 500
"""Bootstrap samples for intervals that are computed many times: points of a curve, issues, assertions."""
RANK_DRAWS = 400
"""Largest number of bootstrap samples for statistics that need all rows together, such as rank correlations."""
CHART_DRAWS = 200
"""Bootstrap samples for intervals of charts."""
IMPORTANCE_DRAWS = 100
"""Bootstrap samples for the importance of each column of evidence."""
FOLDS = 5
"""Number of folds of a cross-validation."""
CONFIDENCE = 0.95
"""Confidence of every interval."""
SIGNIFICANT = 0.05
"""Level of a test that a reader sees: one in 20 tests of no effect is significant by chance."""
SURE = 0.01
"""Level of a test that Accord acts on by itself, by a recommendation or an alarm."""
