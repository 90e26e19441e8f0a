"""The JSON Schema of `accord.yaml`: every reference resolves, and a document with every section is valid."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from accord.project import config_from, json_schema

DOCUMENT = """
store: sqlite:///accord.db
mart: scores
rubric: llm-rubric
models:
  judge: {model: m1, base_url: http://127.0.0.1:1/v1}
  judge-law: {model: m2, base_url: http://127.0.0.1:1/v1}
repeats: 2
metrics: [words, {ciu: {position: 1.0, effort: paper}}]
sources:
  in-context: {level: dialogue, towers: {layers: 1, heads: 2, width: 32}}
  rubric: {judges: {judge-law: {questions: [Q0], where: {topic: [law]}}}}
  issues: {by: judge}
  learned-rubric: {policy: correctness}
  meaning: {embedder: minilm}
evaluators: {own: {sources: [metrics], head: curves}}
evaluator: own
people: {business: [ann], engineer: [eve]}
studies:
  look: {title: First look, annotators_per_item: 2, show: {business: [question, reply], engineer: all}}
  talk: {chat: {assistants: {one: {role: judge}}, topics: [billing, {text: outages}]}}
plugins: [extra.py]
synthetic: with
other_scales: map
synth: {topics: [billing, {text: outages, documents: [d1]}], personas: 3}
group_by: [system]
budget: {requests: 10, tokens: 1000, money: 1.5, shared: team}
monitoring: {false_alarm_rate: 0.01, anchors: {count: 40, every: 7 days, budget: {requests: 5}}}
live: {max_reply_words: 100, agree: 0.9}
privacy: {redact: [email], retention: {conversations: 90 days}}
push: {phoenix: {url: http://localhost:6006, ids: trace}}
folds: 3
seed: 1
draws: 50
curve_draws: 2
"""


@cache
def schema() -> dict[str, Any]:
    return dict(json_schema())


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key == "$ref")
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from references(inner)


def test_every_reference_of_the_schema_resolves() -> None:
    Draft202012Validator.check_schema(schema())
    found = set(references(schema()))
    assert {"#/$defs/JudgeRoute", "#/$defs/TowerSettings"} <= found
    assert not {name for name in found if name.removeprefix("#/$defs/") not in schema()["$defs"]}


def test_a_document_with_every_section_is_valid() -> None:
    content = yaml.safe_load(DOCUMENT)
    assert set(content) == set(schema()["properties"])
    Draft202012Validator(schema()).validate(content)
    without_code = {name: settings for name, settings in content.items() if name != "plugins"}
    assert config_from(without_code, "accord.yaml").settings_of("rubric")["judges"].keys() == {"judge-law"}


@pytest.mark.parametrize(
    ("section", "settings"),
    [
        ("sources", {"in-context": {"towers": {"layer": 1}}}),
        ("sources", {"rubric": {"judges": {"judge-law": {"question": ["Q0"]}}}}),
        ("monitoring", {"anchors": {"counts": 40}}),
    ],
)
def test_an_unknown_key_inside_a_section_is_invalid(section: str, settings: dict[str, Any]) -> None:
    assert not Draft202012Validator(schema()).is_valid({section: settings})
