"""Personal data: redaction by kind and language, import time, agreement, canaries after erasing, and time to erase.

    python benchmarks/privacy.py --data ../shared/data --json OUT [--only found,written,...] [--quick]

`found` plants personal data and numbers that look like some in messages of six languages
(`tests/planted_personal_data.py`). It counts the finds of the rules, and of libraries that are installed:
`pip install datafog presidio-analyzer phonenumbers`. A piece is found if a span of any kind covers it; a
find is right if it overlaps a piece of its kind. The templates are ours, so the figures compare approaches, and say
nothing about the share that is found in real logs. `written` does the same with short texts in the forms of signatures,
invoices, logs and code (`tests/data/personal_data_as_written.txt`). `import` measures the processor time of an import
of conversations of 10 messages, without personal data and with some in 4 of 10 messages. `agreement` fits simple
evaluators on real ratings, once as they are and once redacted. `privacy_erasing.py` describes `canaries` and `large`.
"""

from __future__ import annotations

import gzip
import json
import logging
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import Row, chosen, data_folder, finish, options, rows_of_part
from planted_personal_data import LANGUAGES, Planted, as_written, planted
from privacy_erasing import canary_rows, large_rows

from accord import Project
from accord.project import Config
from accord.project.config_sections import PrivacyConfig
from accord.redaction import KINDS, Redactor

SENTENCE = "The router blinks twice and then the light goes out, although I pressed the button as you said."
PARTS = ("found", "written", "import", "agreement", "canaries", "large")
Finder = Callable[[str, str], list[tuple[int, int, str]]]
SETS = ("llm_rubric_real", "topical_usr")
_SAME = {"password": "secret", "url": "secret"}
"""Kinds that count as one: a URL with a password is found by either rule."""


def rules() -> Finder:
    """Return the rules of Accord."""
    redactor = Redactor(KINDS)
    return lambda text, language: [(each.start, each.end, each.kind) for each in redactor.find(text)]


def datafog() -> Finder:
    """Return the patterns of datafog, with those for German numbers."""
    from datafog.processing.text_processing.regex_annotator.regex_annotator import RegexAnnotator

    annotator = RegexAnnotator(locales=["de"])
    kinds = {"EMAIL": "email", "PHONE": "phone", "SSN": "national_id", "CREDIT_CARD": "card", "IP_ADDRESS": "ip",
             "DE_IBAN": "iban", "DE_TAX_ID": "national_id"}  # fmt: skip
    return lambda text, language: [
        (span.start, span.end, kinds[span.label])
        for span in annotator.annotate_with_spans(text)[1].spans
        if span.label in kinds
    ]


def presidio() -> Finder:
    """Return the rules of presidio for each language, without a language model."""
    import spacy
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    for name in ("presidio-analyzer", "tldextract"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    class Blank(SpacyNlpEngine):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.nlp: Any = {name: spacy.blank("xx" if name == "ja" else name) for name in LANGUAGES}

        def load(self) -> None:
            return None

        def is_loaded(self) -> bool:
            return True

    registry = RecognizerRegistry(supported_languages=list(LANGUAGES))
    registry.load_predefined_recognizers(languages=list(LANGUAGES))
    engine = AnalyzerEngine(registry=registry, nlp_engine=Blank(), supported_languages=list(LANGUAGES))
    kinds = {"EMAIL_ADDRESS": "email", "PHONE_NUMBER": "phone", "CREDIT_CARD": "card", "IBAN_CODE": "iban",
             "IP_ADDRESS": "ip", "US_SSN": "national_id", "ES_NIF": "national_id", "ES_NIE": "national_id",
             "IT_FISCAL_CODE": "national_id"}  # fmt: skip
    return lambda text, language: [
        (found.start, found.end, kinds[found.entity_type])
        for found in engine.analyze(text, language=language, entities=list(kinds))
    ]


def phonenumbers() -> Finder:
    """Return the telephone numbers that libphonenumber finds as valid ones of the language's country."""
    import phonenumbers as library

    regions = {"en": "US", "de": "DE", "fr": "FR", "es": "ES", "it": "IT", "ja": "JP"}
    return lambda text, language: [
        (match.start, match.end, "phone") for match in library.PhoneNumberMatcher(text, regions[language])
    ]


FINDERS: dict[str, Callable[[], Finder]] = {
    "accord": rules, "datafog": datafog, "presidio": presidio, "phonenumbers": phonenumbers,
}  # fmt: skip


class Counts:
    """Finds of an approach, by kind and language."""

    def __init__(self) -> None:
        self.planted, self.hit, self.right, self.made = Counter[Any](), Counter[Any](), Counter[Any](), Counter[Any]()

    def add(self, case: Planted, language: str, found: list[tuple[int, int, str]]) -> None:
        """Count the finds in a text."""
        for first, last, kind in case.spans:
            self.planted[kind, language] += 1
            self.hit[kind, language] += any(each[0] <= first and each[1] >= last for each in found)
        for first, last, kind in found:
            same = {kind, _SAME.get(kind, kind)}
            self.made[kind, language] += 1
            self.right[kind, language] += any(
                a < last and first < b and (each in same or _SAME.get(each, each) in same) for a, b, each in case.spans
            )

    def figures(self, *keys: tuple[str, str]) -> Row:
        """Return precision and recall over kinds and languages; None without finds or pieces."""
        planted, hit, right, made = (
            sum(counts[key] for key in keys) for counts in (self.planted, self.hit, self.right, self.made)
        )
        return {
            "planted": planted,
            "precision": right / made if made else None,
            "recall": hit / planted if planted else None,
        }


def _finders(what: str) -> Iterator[tuple[str, Finder | None, Row]]:
    for name, make in FINDERS.items():
        try:
            yield name, make(), {}
        except ImportError as error:
            yield name, None, {"what": f"{what} by {name}", "skipped": f"not installed: {error.name}"}


def found_rows(messages: int) -> Iterator[Row]:
    """Yield precision and recall of each approach by kind and language, on messages of a fixed seed."""
    for name, find, skipped in _finders("found"):
        if find is None:
            yield skipped
            continue
        counts, start = Counts(), time.process_time()
        for language in LANGUAGES:
            rng = random.Random(f"held out {language}")
            for _ in range(messages):
                case = planted(rng, language)
                counts.add(case, language, find(case.text, language))
        seconds = (time.process_time() - start) / (messages * len(LANGUAGES))
        for kind in KINDS:
            for language in LANGUAGES:
                row = {"what": f"found by {name}", "kind": kind, "language": language}
                yield {**row, **counts.figures((kind, language)), "milliseconds": seconds * 1000}


def written_rows() -> Iterator[Row]:
    """Yield precision and recall of each approach on texts as people write them, by language and over all."""
    for name, find, skipped in _finders("written"):
        if find is None:
            yield skipped
            continue
        counts = Counts()
        for language, case in as_written():
            counts.add(case, language, find(case.text, language))
        for language in (*LANGUAGES, "all"):
            keys = [(kind, each) for kind in KINDS for each in (LANGUAGES if language == "all" else (language,))]
            yield {"what": f"written, found by {name}", "kind": "all", "language": language, **counts.figures(*keys)}


def import_rows(conversations: int) -> Iterator[Row]:
    """Yield the processor time of imports in this process, without and with personal data and redaction."""
    for share in (0, 4):
        rng = random.Random(share)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "chats.jsonl"
            with source.open("w", encoding="utf-8") as stream:
                for number in range(conversations):
                    language = LANGUAGES[number % len(LANGUAGES)]
                    contents = [
                        planted(rng, language).text if turn % 5 < share // 2 else f"{number}.{turn} {SENTENCE}"
                        for turn in range(10)
                    ]
                    messages = [
                        {"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(contents)
                    ]
                    stream.write(json.dumps({"id": f"c{number}", "messages": messages}) + "\n")
            for kinds in ((), KINDS):
                store = f"sqlite:///{folder}/{len(kinds)}.db"
                with Project(Config(store=store, privacy=PrivacyConfig(redact=kinds))) as project:
                    start = time.process_time()
                    project.import_([source], workers=1)
                    seconds = time.process_time() - start
                yield {"what": f"import, personal data in {share} of 10 messages", "redacted": bool(kinds),
                       "conversations": conversations, "cpu_seconds": seconds}  # fmt: skip


def agreement_rows(data: Path, limit: int | None) -> Iterator[Row]:
    """Yield the correlation of a simple evaluator with people, with and without redaction."""
    for name in SETS:
        with gzip.open(data / name / "items.jsonl.gz", "rt", encoding="utf-8") as stream:
            lines = stream.read().splitlines()[:limit]
        for redacted in ((), KINDS):
            with tempfile.TemporaryDirectory() as folder:
                source = Path(folder) / "items.jsonl"
                source.write_text("\n".join(lines) + "\n", encoding="utf-8")
                config = Config(store="sqlite:///:memory:", metrics=["lexical"], privacy=PrivacyConfig(redact=redacted))
                with Project(config) as project:
                    project.import_([source])
                    changed = sum("_1>" in json.dumps(each.to_json()) for each in project.store.conversations())
                    compared = project.compare(["default"]).to_json()
            yield {"what": f"agreement on {name}", "redacted": bool(redacted), "conversations": len(lines),
                   "changed": changed, **_figures(compared)}  # fmt: skip


def _figures(compared: Any) -> Row:
    """Return the error and correlation of the default evaluator."""
    [row] = [row for row in compared["rows"] if row["evaluator"] == "default"]
    return {"rmse": row["rmse"], "r": row["pearson"], "r_low": row["pearson_low"], "r_high": row["pearson_high"]}


def privacy_rows(parts: Sequence[str], data: Path, quick: bool) -> list[Row]:
    """Return the rows of the parts."""
    measures: dict[str, Callable[[], Iterator[Row]]] = {
        "found": lambda: found_rows(100 if quick else 1000),
        "written": written_rows,
        "import": lambda: import_rows(1_000 if quick else 20_000),
        "agreement": lambda: agreement_rows(data, 60 if quick else None),
        "canaries": canary_rows,
        "large": lambda: large_rows(2_000 if quick else 100_000),
    }
    return [row for part in parts for row in rows_of_part(part, measures[part])]


def main() -> None:
    parser = options("privacy", "Personal data: redaction, agreement, import time, and erasing.", PARTS)
    given = parser.parse_args()
    parts = chosen(parser, given.only, PARTS)
    data = data_folder(parser, given.data) if "agreement" in parts else given.data
    columns = [
        "what", "kind", "language", "planted", "precision", "recall", "milliseconds", "redacted", "conversations",
        "cpu_seconds", "changed", "r", "rmse", "tables", "files", "tables_after", "files_after", "others_unchanged",
        "megabytes", "seconds",
    ]  # fmt: skip
    finish("privacy", privacy_rows(parts, data, given.quick), columns, given.json)


if __name__ == "__main__":
    main()
