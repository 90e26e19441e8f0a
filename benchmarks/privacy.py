"""Redaction of personal data: precision and recall by kind and language, and agreement with and without it.

    python benchmarks/privacy.py --data ../shared/data --json OUT [--only found,agreement] [--quick]

`found` plants personal data and numbers that look like some in messages of six languages
(`tests/planted_personal_data.py`). It counts the finds of the rules, and of libraries that are installed: datafog,
presidio-analyzer, phonenumbers. A piece is found if a span of any kind covers it; a
find is right if it overlaps a piece of its kind. The templates are ours, so the figures compare approaches, and say
nothing about the share that is found in real logs. `agreement` fits simple evaluators on real ratings, once as they are
and once redacted.
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
from planted_personal_data import LANGUAGES, planted

from accord.project import Config, Project
from accord.project.config_sections import PrivacyConfig
from accord.redaction import KINDS, Redactor

PARTS = ("found", "agreement")
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


def found_rows(messages: int) -> Iterator[Row]:
    """Yield precision and recall of each approach by kind and language, on messages of a fixed seed."""
    for name, make in FINDERS.items():
        try:
            find = make()
        except ImportError as error:
            yield {"what": f"found by {name}", "skipped": f"not installed: {error.name}"}
            continue
        planted_count, hit, right, made = Counter[Any](), Counter[Any](), Counter[Any](), Counter[Any]()
        start = time.process_time()
        for language in LANGUAGES:
            rng = random.Random(f"held out {language}")
            for _ in range(messages):
                case = planted(rng, language)
                found = find(case.text, language)
                for first, last, kind in case.spans:
                    planted_count[kind, language] += 1
                    hit[kind, language] += any(each[0] <= first and each[1] >= last for each in found)
                for first, last, kind in found:
                    same = {kind, _SAME.get(kind, kind)}
                    made[kind, language] += 1
                    right[kind, language] += any(
                        a < last and first < b and (each in same or _SAME.get(each, each) in same)
                        for a, b, each in case.spans
                    )
        seconds = (time.process_time() - start) / (messages * len(LANGUAGES))
        for kind in KINDS:
            for language in LANGUAGES:
                key = kind, language
                precision = right[key] / made[key] if made[key] else None
                row = {"what": f"found by {name}", "kind": kind, "language": language, "planted": planted_count[key]}
                recall = hit[key] / planted_count[key] if planted_count[key] else None
                yield {**row, "precision": precision, "recall": recall, "milliseconds": seconds * 1000}


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


def redaction_rows(parts: Sequence[str], data: Path, quick: bool) -> list[Row]:
    """Return the rows of the parts about redaction."""
    measures: dict[str, Callable[[], Iterator[Row]]] = {
        "found": lambda: found_rows(100 if quick else 1000),
        "agreement": lambda: agreement_rows(data, 60 if quick else None),
    }
    return [row for part in parts if part in measures for row in rows_of_part(part, measures[part])]


def main() -> None:
    parser = options("privacy", "Redaction of personal data: what is found, and agreement with and without it.", PARTS)
    given = parser.parse_args()
    parts = chosen(parser, given.only, PARTS)
    data = data_folder(parser, given.data) if "agreement" in parts else given.data
    rows = redaction_rows(parts, data, given.quick)
    columns = ["what", "kind", "language", "planted", "precision", "recall", "milliseconds", "redacted", "changed"]
    finish("privacy", rows, [*columns, "r", "rmse"], given.json)


if __name__ == "__main__":
    main()
