"""Heads and answer models as the papers publish them, which nothing else needs."""
