"""The rubrics that ship with Accord."""
