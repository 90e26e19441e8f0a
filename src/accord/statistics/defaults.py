"""What resampling and cross-validation do where nobody says otherwise; needs no array, so that settings can name it."""

DRAWS = 2000
"""Bootstrap samples, and permutations."""
FOLDS = 5
"""Of a cross-validation."""
CONFIDENCE = 0.95
"""Of every interval."""
