"""Inventory of personal data: every place of a project that can hold texts, names, or values derived from them."""

from __future__ import annotations

from typing import NamedTuple


class DataPlace(NamedTuple):
    """A place with personal data.

    Attributes:
        place: Table of the store, file or folder.
        holds: Personal data in this place.
        purpose: Use of the data.
        erased: Effect of `accord store erase`.
        kept: Time for which it stays without an erasure.
        kind: Kind of the files, as receipts name it; by default `place`.
        words: Name of the rows or files in receipts; empty for a place that an erasure does not change.
    """

    place: str
    holds: str
    purpose: str
    erased: str
    kept: str
    kind: str = ""
    words: str = ""


_RETENTION = "`retention: conversations`"
_ROWS = "rows deleted"
_UNTIL_ERASED = "until erased"

STORE_PLACES = (
    DataPlace(
        "conversations", "texts, documents, metadata", "judging and pages", _ROWS, _RETENTION, words="conversations"
    ),
    DataPlace(
        "annotations",
        "labels, comments, quotes, judge answers, issues, names of annotators",
        "learning, statistics",
        "rows deleted; `--keep-labels` keeps an annotator's labels under a pseudonym",
        _RETENTION,
        words="ratings, comments, issues and answers of models",
    ),
    DataPlace(
        "confirmations",
        "IDs of repeated rows of imports",
        "undoing imports",
        _ROWS,
        "until the import is undone",
        words="repeated rows of imports",
    ),
    DataPlace(
        "cache",
        "replies of models, embeddings, predictions, tokens of requests",
        "no request is paid twice",
        "replies and vectors made from the conversation, or from unknown ones, and all computed results deleted",
        "`retention: replies`",
        words="cached replies and computed results",
    ),
    DataPlace(
        "cache_conversations",
        "IDs of conversations by cached reply",
        "finding replies to erase",
        _ROWS,
        "as the reply",
        words="index of cached replies",
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
        words="records of commands",
    ),
    DataPlace(
        "days",
        "sampled scores by 64-bit hash, IDs of uncertain replies",
        "monitoring",
        "samples removed; `--keep-scores` keeps those without IDs",
        "`accord store prune`",
        words="statistics of days",
    ),
    DataPlace(
        "alarms", "sentences about days", "monitoring", "mentions removed", "`accord store prune`", words="alarms"
    ),
    DataPlace(
        "anchors",
        "scores of conversations that were judged again, answers of judges",
        "drift of judges",
        _ROWS,
        _RETENTION,
        words="conversations that were judged again",
    ),
    DataPlace("users", "names, digests of keys", "sign-in", "`--annotator`: deleted", _UNTIL_ERASED, words="accounts"),
    DataPlace(
        "sessions", "names, digests of keys", "sign-in", "`--annotator`: deleted", "until they expire", words="sign-ins"
    ),
    DataPlace(
        "studies",
        "settings with names and IDs",
        "studies",
        "mentions removed",
        _UNTIL_ERASED,
        words="settings of studies",
    ),
    DataPlace("items", "IDs, names of annotators", "studies", _ROWS, _RETENTION, words="items of studies"),
    DataPlace(
        "assignments",
        "names of annotators, reasons of skipped items",
        "studies",
        _ROWS,
        _RETENTION,
        words="assignments of studies",
    ),
    DataPlace(
        "predictions",
        "predicted ratings by annotator",
        "blind predictions",
        _ROWS,
        _RETENTION,
        words="predicted ratings",
    ),
    DataPlace("chats", "names of annotators, topics", "chats with an assistant", _ROWS, _RETENTION, words="chats"),
    DataPlace("chat_messages", "texts", "chats with an assistant", _ROWS, _RETENTION, words="messages of chats"),
)
"""Tables of the store. Free pages and the log of SQLite are overwritten; for PostgreSQL see the page on privacy."""

FILE_PLACES = (
    DataPlace(
        "STORE.scores/",
        "scores, IDs, metadata, notes, hashes of inputs; in open logs also evidence",
        "board, monitoring after a kill",
        "rows removed in all parts and open logs; `--keep-scores` keeps numbers under a pseudonym",
        _RETENTION,
        kind="mart",
        words="scores of another board",
    ),
    DataPlace(
        "STORE.unsaved/",
        "paid answers that the store could not take",
        "no answer is lost",
        "rows removed",
        "until the next command",
        kind="waiting answers",
        words="answers that wait for the store",
    ),
    DataPlace(
        "evaluators/",
        "weights, evidence without names, digests; in-context examples and quotes of learned rubrics",
        "scoring",
        "an evaluator with a text is removed; one without is named with the command that fits it again",
        "until it is fitted again",
        kind="evaluator",
        words="evaluator that held a text",
    ),
    DataPlace(
        "push-spool/",
        "scores with IDs that a host has not confirmed",
        "no score is lost",
        "rows removed",
        "until the host confirms them",
        kind="waiting scores",
        words="scores that wait to be sent",
    ),
    DataPlace(
        "hosts that received scores by accord push",
        "scores, IDs at the host",
        "use elsewhere",
        "not reached: delete them at the host",
        "by the host",
    ),
    DataPlace(
        "judgments/",
        "recorded answers by ID",
        "recorded judges",
        "rows removed",
        _UNTIL_ERASED,
        kind="judgements",
        words="recorded judgments",
    ),
    DataPlace(
        "uploads/",
        "files sent to the first page",
        "import",
        "files that mention it removed, also compressed ones, workbooks and Parquet; unreadable ones are listed",
        _UNTIL_ERASED,
        kind="upload",
        words="uploaded file",
    ),
    DataPlace(
        "reports and issue pages (HTML)",
        "excerpts, IDs, names of annotators",
        "reading",
        "pages with a mention replaced, other reports marked as outdated",
        _UNTIL_ERASED,
        kind="report",
        words="report",
    ),
    DataPlace(
        "files and folders of scores, rows of follow, exported annotations",
        "scores, IDs, notes, quotes",
        "use elsewhere",
        "rows removed below the project's folder; in logs of live scores they get the status `erased`",
        _UNTIL_ERASED,
        kind="scores",
        words="file of scores",
    ),
    DataPlace(
        "other stores: backups, folders of accord run",
        "everything a store holds",
        "backup, trial runs",
        "erased below the project's folder; `accord store restore` repeats later erasures",
        _UNTIL_ERASED,
        kind="store",
        words="copy of a store",
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
PLACE_WORDS = {each.kind or each.place: each.words for each in (*STORE_PLACES, *FILE_PLACES) if each.words}
"""Words for the tables of the store and for the kinds of files that an erasure changes."""


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
    rows = (f"| {name.format(each.place)} | {' | '.join(each[1:5])} |" for each in places)
    return "\n".join([head, *rows])
