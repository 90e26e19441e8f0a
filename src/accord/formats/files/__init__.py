"""Rows of files, tables in memory and object storage."""
