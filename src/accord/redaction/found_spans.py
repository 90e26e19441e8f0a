"""Spans of personal data in a text: checked, merged, and without placeholders that are there already."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from accord.edges import BadInput, one_line
from accord.entry_points import reason_line

Recognizer = Callable[[str], Iterable[tuple[int, int, str]]]

PLACEHOLDER = re.compile(r"<([A-Z][A-Z_]{0,30})_(\d{1,5})>")
"""Placeholder; neither part is long enough to hide a number that a rule would find."""
_KIND = re.compile(r"[a-z][a-z_]{0,30}", re.ASCII)


class Span(NamedTuple):
    """A piece of personal data in a text: first character, last character + 1, and kind."""

    start: int
    end: int
    kind: str


def recognized(name: str, recognizer: Recognizer, text: str) -> list[Span]:
    """Return the spans of a recognizer, or raise BadInput: a failure must not leave a text unredacted."""
    try:
        found: list[tuple[Any, ...]] = [tuple(each) for each in recognizer(text)]
    except Exception as error:
        raise BadInput(
            f"the recognizer {name!r} raised {reason_line(error)}; nothing was stored or sent. Correct it, or remove "
            "it from privacy: recognizers:"
        ) from error
    for each in found:
        is_span = len(each) == 3 and all(type(place) is int for place in each[:2])
        if not is_span or not 0 <= each[0] < each[1] <= len(text) or not isinstance(each[2], str):
            raise BadInput(
                f"the recognizer {name!r} returned {one_line(repr(each), 60)}; allowed: (start, end, kind) with "
                f"0 <= start < end <= {len(text)}, the length of the text. Check it with "
                "accord.testing.check_recognizer"
            )
        if not _KIND.fullmatch(each[2]):
            raise BadInput(
                f"the recognizer {name!r} returned the kind {one_line(repr(each[2]), 60)}; allowed: lower-case letters "
                "and underscores, such as customer_number"
            )
    return [Span(*each) for each in found]


def merged_spans(spans: list[Span]) -> list[Span]:
    """Return the union of overlapping spans, in order; the longest one gives the kind."""
    if len(spans) < 2:
        return spans
    merged: list[Span] = []
    longest = 0
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        length = span.end - span.start
        if merged and span.start < merged[-1].end:
            kind = span.kind if length > longest else merged[-1].kind
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end), kind)
            longest = max(longest, length)
        else:
            merged.append(span)
            longest = length
    return merged


def without_placeholders(spans: list[Span], text: str) -> list[Span]:
    """Return spans without the parts that are placeholders already, and without single signs left between them."""
    if "<" not in text:
        return spans
    taken = [match.span() for match in PLACEHOLDER.finditer(text)]
    ends, kept = [end for _, end in taken], list[Span]()
    for span in spans:
        start = span.start
        for number in range(bisect.bisect_right(ends, span.start), len(taken)):
            first, last = taken[number]
            if first >= span.end:
                break
            kept.append(Span(start, first, span.kind))
            start = last
        kept.append(Span(start, span.end, span.kind))
    whole = set(spans)
    return [span for span in kept if span in whole or re.search(r"\w", text[span.start : max(span.start, span.end)])]


_PLAIN = r"\x20-\x27)-*,-/:;=?A-Z\[-~\n\u00c0-\u024f\u3041-\u30ff\u4e00-\u9fff\uff1a\u3001\u3002"
_OPEN = re.compile(rf"(?:[{_PLAIN}(]?[ \n(\u3041-\u30ff\u4e00-\u9fff\uff1a])?")
_CLOSE = re.compile(rf"(?:[ \n.,;!?)\u3041-\u30ff\u4e00-\u9fff\u3001\u3002][{_PLAIN}]{{0,2}})?")


def stands_apart(text: str, span: Span) -> bool:
    """Return True if a placeholder in place of a span cannot uncover another find.

    Rules look at most three characters to the left and two to the right of a find. Words before a number are read back
    to the last find or digit, and a placeholder has a digit.
    """
    before, after = text[max(span.start - 2, 0) : span.start], text[span.end : span.end + 3]
    return _OPEN.fullmatch(before) is not None and _CLOSE.fullmatch(after) is not None
