"""Erasing: rows and texts of erased conversations and people, and tombstones that keep them away."""
