"""Topics and personas of synthetic conversations: lists, files, or written by the user's model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from accord.edges import MB, BadInput, BadRow, read_text
from accord.formats import read_rows
from accord.models import USER, Failure, Flow, ListForm, Prompt, Reply, ask_for_list, stand_in_twice, to_role, together
from accord.synth.document_search import DocumentIndex
from accord.synth.prompting import SynthSettings, personas_prompt, plain, topics_prompt
from accord.synth.utterance_parser import clean
from accord.values import Topic, content_hash

ENTRIES_PER_REQUEST = 20
"""Topics or personas per request."""
_MAX_CHARACTERS = 500
PURPOSE = "topics"


def read_topics(path: str | Path) -> tuple[Topic, ...]:
    """Read topics: lines of a .txt file, or rows with `text` and optional `documents`.

    Documents are a list of IDs, or IDs separated by semicolons.

    Raises:
        BadInput: The file does not exist, or an entry is not a topic.
    """
    file = Path(path)
    if file.suffix.lower() in (".txt", ""):
        return _topics([{"text": line} for line in _lines(file, "topics")], file)
    rows: list[dict[str, Any]] = []
    if not file.is_file():
        raise BadInput(f"topics: there is no file {path}; name a file, or the number to write")
    for row in read_rows(file):
        if isinstance(row, BadRow):
            raise row
        ids = row.fields.get("documents") or ()
        named = [name.strip() for name in ids.split(";")] if isinstance(ids, str) else ids
        rows.append({"text": row.fields.get("text") or row.fields.get("topic") or "", "documents": named})
    return _topics(rows, file)


def _topics(rows: Sequence[dict[str, Any]], path: Path) -> tuple[Topic, ...]:
    topics = []
    for place, row in enumerate(rows, 1):
        try:
            topics.append(Topic(**row))
        except ValidationError as error:
            raise BadInput(f"topics {path}: {place}. {error.errors()[0]['msg']}") from None
    return tuple(topics)


def read_personas(path: str | Path) -> tuple[str, ...]:
    """Read personas, one per line of a text file; see `read_topics` for errors."""
    return tuple(_lines(Path(path), "personas"))


def _lines(path: Path, what: str) -> list[str]:
    if not path.is_file():
        raise BadInput(f"{what}: there is no file {path}; name a file, or the number to write")
    lines = [line.strip() for line in read_text(path, 8 * MB).splitlines() if line.strip()]
    if not lines:
        raise BadInput(f"{what} {path}: the file is empty; write one per line")
    return lines


def topics_of(settings: SynthSettings, library: DocumentIndex | None, seed: int) -> Flow[tuple[Topic, ...]]:
    """Return the topics of the settings without repetitions; a number requests that many from the user's model.

    Raises:
        BadInput: The list of topics is empty, or a topic names an unknown document.
    """
    setting, listed = settings.topics, tuple[Topic, ...]()
    if isinstance(setting, int):
        listed = yield from _written(settings, library, setting, seed)
    else:
        listed = read_topics(setting) if isinstance(setting, str) else setting
    topics = tuple({plain(topic.text).casefold(): topic for topic in reversed(listed)}.values())[::-1]
    if not topics:
        raise BadInput("no topics; name some: --topics FILE or N, or topics under synth: of accord.yaml")
    for topic in topics:
        if topic.documents and library is None:
            raise BadInput(f"the topic {topic.text!r} names documents, and there are none: --documents FOLDER")
        if library is not None:
            library.named(topic.documents)
    return topics


def _written(settings: SynthSettings, library: DocumentIndex | None, count: int, seed: int) -> Flow[tuple[Topic, ...]]:
    """Request topics from a model: about sampled documents, else about the subject of the settings."""
    documents = [] if library is None else list(library.documents.values())
    sampled = random.Random(f"topics/{seed}").sample(documents, min(count, len(documents)))
    requests = len(sampled) or -(-count // ENTRIES_PER_REQUEST)
    shares = [count // requests + (place < count % requests) for place in range(requests)]
    flows = []
    for place, share in enumerate(shares):
        document = sampled[place] if sampled else None
        prompt, form = topics_prompt(settings, share, document, seed * 1_000_000 + place if document is None else seed)
        flows.append(_listed(prompt, form))
    replies = yield from together(flows)
    topics = []
    for place, entries in enumerate(replies):
        named = (str(sampled[place].id),) if sampled else ()
        topics += [Topic(text=text, documents=named) for text in entries]
    if not topics:
        raise BadInput("the model wrote no topics; name topics in a file: --topics FILE")
    return tuple(topics)


def personas_of(settings: SynthSettings, seed: int) -> Flow[tuple[str, ...]]:
    """Return the personas of the settings; a number requests that many from the user's model."""
    setting = settings.personas
    if isinstance(setting, str):
        return read_personas(setting)
    if not isinstance(setting, int):
        return setting
    shares = [min(ENTRIES_PER_REQUEST, setting - at) for at in range(0, setting, ENTRIES_PER_REQUEST)]
    requests = [personas_prompt(settings, share, seed * 1_000_000 + place) for place, share in enumerate(shares)]
    replies = yield from together([_listed(*request) for request in requests])
    return tuple(dict.fromkeys(text for entries in replies for text in entries))


def _listed(prompt: Prompt, form: ListForm) -> Flow[list[str]]:
    """Return the first field of each entry of a model's list; an empty list for a failure."""
    expected = partial(_stand_in, form.most)
    flow = ask_for_list(prompt, form)
    entries = yield from to_role(USER, flow, PURPOSE, None, expected, partial(_stand_in, 1), stand_in_twice(expected))
    if isinstance(entries, Failure):
        return []
    texts = (plain(clean(str(next(iter(entry.values()), ""))))[:_MAX_CHARACTERS] for entry in entries)
    return [text for text in texts if text]


def _stand_in(count: int, prompt: Prompt) -> Reply:
    """Return a placeholder reply with a number of different lines, for estimates."""
    mark = content_hash([prompt.messages[0].content, prompt.repeat], length=8)
    return Reply("\n".join(f"- something to know {mark} {place}" for place in range(count)))
