"""What synthetic conversations are about and who asks: lists, files, or written by the model that plays the user."""

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
from accord.synth.prompting import personas_prompt, plain, topics_prompt
from accord.synth.settings import SynthSettings
from accord.synth.utterance_parser import clean
from accord.values import Topic, content_hash

AT_ONCE = 20
"""Topics or personas of one request."""
_LONGEST = 500
PURPOSE = "topics"


def read_topics(path: str | Path) -> tuple[Topic, ...]:
    """Topics of a file: one a line of a .txt file, else rows with a `text` and, where there are some, `documents`.

    Documents are a list of ids, or ids with a semicolon between them.

    Raises:
        BadInput: There is no such file, or something in it is no topic.
    """
    found = Path(path)
    if found.suffix.lower() in (".txt", ""):
        return _topics([{"text": line} for line in _lines(found, "topics")], found)
    rows: list[dict[str, Any]] = []
    if not found.is_file():
        raise BadInput(f"topics: there is no file {path}; name one, or how many are to be written")
    for row in read_rows(found):
        if isinstance(row, BadRow):
            raise row
        ids = row.fields.get("documents") or ()
        named = [each.strip() for each in ids.split(";")] if isinstance(ids, str) else ids
        rows.append({"text": row.fields.get("text") or row.fields.get("topic") or "", "documents": named})
    return _topics(rows, found)


def _topics(rows: Sequence[dict[str, Any]], path: Path) -> tuple[Topic, ...]:
    found = []
    for place, row in enumerate(rows, 1):
        try:
            found.append(Topic(**row))
        except ValidationError as error:
            raise BadInput(f"topics {path}: {place}. {error.errors()[0]['msg']}") from None
    return tuple(found)


def read_personas(path: str | Path) -> tuple[str, ...]:
    """Personas of a text file, one a line.

    Raises:
        BadInput: It cannot be read, or is empty.
    """
    return tuple(_lines(Path(path), "personas"))


def _lines(path: Path, what: str) -> list[str]:
    if not path.is_file():
        raise BadInput(f"{what}: there is no file {path}; name one, or how many are to be written")
    found = [line.strip() for line in read_text(path, 8 * MB).splitlines() if line.strip()]
    if not found:
        raise BadInput(f"{what} {path}: the file is empty; write one a line")
    return found


def topics_of(settings: SynthSettings, library: DocumentIndex | None, seed: int) -> Flow[tuple[Topic, ...]]:
    """The topics of the settings, each once; those that are written are asked for, a document each where there are.

    Raises:
        BadInput: There is none, or one of them names a document that is not there.
    """
    given, found = settings.topics, tuple[Topic, ...]()
    if isinstance(given, int):
        found = yield from _written(settings, library, given, seed)
    else:
        found = read_topics(given) if isinstance(given, str) else given
    topics = tuple({plain(topic.text).casefold(): topic for topic in reversed(found)}.values())[::-1]
    if not topics:
        raise BadInput("no topics; name some: --topics FILE or N, or topics under synth: of accord.yaml")
    for topic in topics:
        if topic.documents and library is None:
            raise BadInput(f"the topic {topic.text!r} names documents, and there are none: --documents FOLDER")
        if library is not None:
            library.named(topic.documents)
    return topics


def _written(settings: SynthSettings, library: DocumentIndex | None, count: int, seed: int) -> Flow[tuple[Topic, ...]]:
    """Topics that a model writes: of documents that are drawn, else of what `about` says."""
    documents = [] if library is None else list(library.documents.values())
    drawn = random.Random(f"topics/{seed}").sample(documents, min(count, len(documents)))
    asks = len(drawn) or -(-count // AT_ONCE)
    shares = [count // asks + (place < count % asks) for place in range(asks)]
    flows = []
    for place, share in enumerate(shares):
        document = drawn[place] if drawn else None
        prompt, form = topics_prompt(settings, share, document, seed * 1_000_000 + place if document is None else seed)
        flows.append(_listed(prompt, form))
    found = yield from together(flows)
    topics = []
    for place, entries in enumerate(found):
        named = (str(drawn[place].id),) if drawn else ()
        topics += [Topic(text=text, documents=named) for text in entries]
    if not topics:
        raise BadInput("no topic came of the model that was asked to write some; name topics in a file: --topics FILE")
    return tuple(topics)


def personas_of(settings: SynthSettings, seed: int) -> Flow[tuple[str, ...]]:
    """The personas of the settings; those that are written are asked for."""
    given = settings.personas
    if isinstance(given, str):
        return read_personas(given)
    if not isinstance(given, int):
        return given
    shares = [min(AT_ONCE, given - at) for at in range(0, given, AT_ONCE)]
    asked = [personas_prompt(settings, share, seed * 1_000_000 + place) for place, share in enumerate(shares)]
    found = yield from together([_listed(*each) for each in asked])
    return tuple(dict.fromkeys(text for entries in found for text in entries))


def _listed(prompt: Prompt, form: ListForm) -> Flow[list[str]]:
    """The first field of each entry that a model writes, as one line; none where it fails."""
    expected = partial(_stand_in, form.most)
    asked = ask_for_list(prompt, form)
    entries = yield from to_role(USER, asked, PURPOSE, None, expected, partial(_stand_in, 1), stand_in_twice(expected))
    if isinstance(entries, Failure):
        return []
    texts = (plain(clean(str(next(iter(entry.values()), ""))))[:_LONGEST] for entry in entries)
    return [text for text in texts if text]


def _stand_in(count: int, prompt: Prompt) -> Reply:
    """What is assumed where a plan is priced: so many different lines."""
    mark = content_hash([prompt.messages[0].content, prompt.repeat], length=8)
    return Reply("\n".join(f"- something to know {mark} {place}" for place in range(count)))
