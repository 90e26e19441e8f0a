"""Judges: one file per mode of obtaining a distribution."""
