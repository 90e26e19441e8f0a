"""Inventory of personal data: every place of a project that can hold texts, names, or values derived from them."""

from __future__ import annotations

from typing import NamedTuple


class DataPlace(NamedTuple):
    """A place with personal data.

    Attributes:
        place: Table of the store, file or folder.
        holds: Personal data in it.
        purpose: Use of the data.
        erased: Effect of `accord store erase`.
        kept: Time for which it stays without an erasure.
    """

    place: str
    holds: str
    purpose: str
    erased: str
    kept: str


_RETENTION = "`retention: conversations`"
_ROWS = "rows deleted"
_UNTIL_ERASED = "until erased"

STORE_PLACES = (
    DataPlace("conversations", "texts, documents, metadata", "judging and pages", _ROWS, _RETENTION),
    DataPlace(
        "annotations",
        "labels, comments, quotes, judge answers, issues, names of annotators",
        "learning, statistics",
        "rows deleted; `--keep-labels` keeps an annotator's labels under a pseudonym",
        _RETENTION,
    ),
    DataPlace(
        "confirmations", "IDs of repeated rows of imports", "undoing imports", _ROWS, "until the import is undone"
    ),
    DataPlace(
        "cache",
        "replies of models, embeddings, predictions",
        "no request is paid twice",
        "replies and vectors made from the conversation, or from unknown ones, and all computed results deleted",
        "`retention: replies`",
    ),
    DataPlace(
        "cache_conversations", "IDs of conversations by cached reply", "finding replies to erase", _ROWS, "as the reply"
    ),
    DataPlace(
        "erased",
        "64-bit hashes of names, digests of texts",
        "nothing erased is stored again",
        "stays; `accord import --with-erased` removes it",
        "for good",
    ),
    DataPlace(
        "claims", "hashes of requests in progress", "no request is sent twice", "no text: left", "at most 30 minutes"
    ),
    DataPlace("budgets", "amounts", "shared budgets", "no text: left, so that payments stay right", "for good"),
    DataPlace(
        "runs",
        "settings and results of commands, with IDs and excerpts; IDs of conversations in provider batches",
        "history, gates, resumed batches",
        "mentions removed",
        "`accord store prune`",
    ),
    DataPlace(
        "days",
        "sampled scores by 64-bit hash, IDs of uncertain replies",
        "monitoring",
        "samples removed; `--keep-scores` keeps those without IDs",
        "`accord store prune`",
    ),
    DataPlace("alarms", "sentences about days", "monitoring", "mentions removed", "`accord store prune`"),
    DataPlace(
        "anchors",
        "scores of conversations that were judged again, answers of judges",
        "drift of judges",
        _ROWS,
        _RETENTION,
    ),
    DataPlace("users", "names, digests of keys", "sign-in", "`--annotator`: deleted", _UNTIL_ERASED),
    DataPlace("sessions", "names, digests of keys", "sign-in", "`--annotator`: deleted", "until they expire"),
    DataPlace("studies", "settings with names and IDs", "studies", "mentions removed", _UNTIL_ERASED),
    DataPlace("items", "IDs, names of annotators", "studies", _ROWS, _RETENTION),
    DataPlace("assignments", "names of annotators, reasons of skipped items", "studies", _ROWS, _RETENTION),
    DataPlace("predictions", "predicted ratings by annotator", "blind predictions", _ROWS, _RETENTION),
    DataPlace("chats", "names of annotators, topics", "chats with an assistant", _ROWS, _RETENTION),
    DataPlace("chat_messages", "texts", "chats with an assistant", _ROWS, _RETENTION),
)
"""Tables of the store. Free pages and the log of SQLite are overwritten; for PostgreSQL see the page on privacy."""

FILE_PLACES = (
    DataPlace(
        "STORE.scores/",
        "scores, IDs, metadata, notes, hashes of inputs; in open logs also evidence",
        "board, monitoring after a kill",
        "rows removed in all parts and open logs; `--keep-scores` keeps numbers under a pseudonym",
        _RETENTION,
    ),
    DataPlace(
        "STORE.unsaved/",
        "paid answers that the store could not take",
        "no answer is lost",
        "rows removed",
        "until the next command",
    ),
    DataPlace(
        "evaluators/",
        "weights, evidence without names, digests; in-context examples and quotes of learned rubrics",
        "scoring",
        "an evaluator with a text is removed; one without is named with the command that fits it again",
        "until it is fitted again",
    ),
    DataPlace(
        "push-spool/",
        "scores with IDs that a host has not confirmed",
        "no score is lost",
        "rows removed",
        "until the host confirms them",
    ),
    DataPlace(
        "hosts that received scores by accord push",
        "scores, IDs at the host",
        "use elsewhere",
        "not reached: delete them at the host",
        "by the host",
    ),
    DataPlace("judgments/", "recorded answers by ID", "recorded judges", "rows removed", _UNTIL_ERASED),
    DataPlace(
        "uploads/",
        "files sent to the first page",
        "import",
        "files that mention it removed, also compressed ones, workbooks and Parquet; unreadable ones are listed",
        _UNTIL_ERASED,
    ),
    DataPlace(
        "reports and issue pages (HTML)",
        "excerpts, IDs, names of annotators",
        "reading",
        "pages with a mention replaced, other reports marked as outdated",
        _UNTIL_ERASED,
    ),
    DataPlace(
        "files and folders of scores, rows of follow, exported annotations",
        "scores, IDs, notes, quotes",
        "use elsewhere",
        "rows removed below the project's folder; in logs of live scores they get the status `erased`",
        _UNTIL_ERASED,
    ),
    DataPlace(
        "other stores: backups, folders of accord run",
        "everything a store holds",
        "backup, trial runs",
        "erased below the project's folder; `accord store restore` repeats later erasures",
        _UNTIL_ERASED,
    ),
    DataPlace(
        "your own files: logs, labels, .env, accord.yaml",
        "texts, names",
        "import",
        "never changed; the receipt lists those that mention it, and those that cannot be read",
        "your decision",
    ),
    DataPlace(
        "links out of the project's folder, .git",
        "files elsewhere, earlier versions of files",
        "your use",
        "not searched; the receipt lists them",
        "your decision",
    ),
    DataPlace(
        "files of other folders and object storage",
        "scores, reports, backups",
        "use elsewhere",
        "not searched: run `accord store erase` for a copy, or remove them",
        "your decision",
    ),
    DataPlace(
        "batch files at a provider",
        "prompts with texts",
        "cheap requests",
        "the receipt names the batches; delete them at the provider",
        "by the provider, often 30 days",
    ),
    DataPlace("endpoints of models", "prompts with texts", "judging", "by the provider's terms", "by the provider"),
    DataPlace(
        "memory of running servers",
        "open conversations",
        "live scoring",
        "not stored; dropped after `--minutes`",
        "60 minutes",
    ),
    DataPlace(
        "log output of commands and servers",
        "IDs in messages, never texts",
        "operation",
        "your log shipper",
        "your decision",
    ),
)
"""Files and places outside the store."""


def inventory_table() -> str:
    """Return the inventory as Markdown tables."""
    head = "| place | holds | purpose | erased | kept |\n| --- | --- | --- | --- | --- |"
    parts = [
        "Tables of the store:",
        _rows(head, STORE_PLACES, "`{}`"),
        "Files and other places:",
        _rows(head, FILE_PLACES, "{}"),
    ]
    return "\n\n".join(parts)


def _rows(head: str, places: tuple[DataPlace, ...], name: str) -> str:
    rows = (f"| {name.format(each.place)} | {' | '.join(each[1:])} |" for each in places)
    return "\n".join([head, *rows])
