"""Watching what is scored: means per system and day, what moved, and whom to tell."""
