"""Calibration of answer models: levels, other questions, shifts, distance, bands and the plausibility check."""
