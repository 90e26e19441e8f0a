"""What JSON is made of, and what a JSON Schema is, as types."""

from __future__ import annotations

from typing import TypedDict

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
"""Any value that JSON has."""

JsonSchema = TypedDict(
    "JsonSchema",
    {
        "$schema": str,
        "$defs": dict[str, "JsonSchema"],
        "$ref": str,
        "type": str | list[str],
        "title": str,
        "description": str,
        "properties": dict[str, "JsonSchema"],
        "required": list[str],
        "additionalProperties": "bool | JsonSchema",
        "items": "JsonSchema",
        "maxItems": int,
        "enum": list[str] | list[int],
        "anyOf": list["JsonSchema"],
        "const": Json,
        "default": Json,
    },
    total=False,
)
"""The keywords of JSON Schema that are used here; every one may be left out."""
