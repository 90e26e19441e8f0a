"""Rubrics that come with Accord, by file name."""
