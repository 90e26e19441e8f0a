"""Numbered migrations of the store's tables, run by Alembic."""
