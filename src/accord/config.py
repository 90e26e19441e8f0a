"""`accord.yaml`: the store, the rubric, the judge, the evidence, the evaluator. Unknown keys are refused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from accord.values import BadInput, check, is_web_address, load_yaml, plain_url

FILE = "accord.yaml"
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JudgeConfig(_Strict):
    """Which judge answers the rubric, and how a distribution is obtained from it."""

    mode: Literal["decisions", "systemone", "logprobs", "sampling", "verbalised", "recorded"] = Field(
        description="How a distribution is obtained; nothing else is tried in its place."
    )
    model: str | None = Field(default=None, description="The model's name; for a recording, which of its models.")
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint; default OPENAI_BASE_URL.")
    paths: list[str] = Field(default_factory=list, description="Files of recorded judgements, or benchmark folders.")
    context: int | None = Field(
        default=None, ge=512, description="Tokens of one request; longer conversations are shown in part, and so said."
    )
    samples: int = Field(default=10, ge=2, le=100, description="Replies a question, for sampling.")
    at_once: int = Field(default=64, ge=1, le=1024, description="The most requests under way.")
    attempts: int = Field(default=5, ge=1, le=20, description="How often a failing call is tried in all.")
    timeout: float = Field(default=60.0, gt=0, description="Seconds that one attempt may take.")


class LikelihoodConfig(_Strict):
    """Which model says how likely replies are."""

    model: str = Field(
        description="`embedded:NAME` (`accord models list`), or a model of an endpoint that honours echo."
    )
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint; default OPENAI_BASE_URL.")


class WriterConfig(_Strict):
    """Which chat model writes a rubric, and what it is told."""

    model: str = Field(description="A chat model of the endpoint, `embedded:NAME`, `gguf:PATH`, `hf:FOLDER`.")
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint; default OPENAI_BASE_URL.")
    task: str | None = Field(default=None, description="A YAML file: what the conversations are about, and expected.")
    domain: bool = Field(default=True, description="Tell the task (domain sensitisation).")
    principles: bool = Field(default=True, description="Tell the conversation design principles.")
    prompts: str | None = Field(default=None, description="A folder of prompt files that replace Accord's.")
    reasons: int = Field(default=3, ge=1, le=10, description="Reasons a conversation.")
    pool: int = Field(default=100, ge=1, le=1000, description="The most assertions of each class.")
    deduplicate: Literal["model", "embedding"] = Field(
        default="model", description="Who finds assertions that say the same: the writer, or an embedder."
    )
    embedder: str = Field(default="minilm-l6", description="Of deduplicate: embedding.")
    alike: float = Field(default=0.85, gt=0, le=1, description="The cosine from which on assertions are alike.")
    context: int | None = Field(
        default=None, ge=1024, description="Tokens of one prompt and its answer; longer conversations in part."
    )
    held_out: float = Field(
        default=0.5, gt=0, le=0.5, description="The share of the good and bad conversations that the table is made on."
    )
    at_once: int = Field(default=64, ge=1, le=1024, description="The most requests under way.")
    attempts: int = Field(default=5, ge=1, le=20, description="How often a failing call is tried in all.")
    timeout: float = Field(default=120.0, gt=0, description="Seconds that one attempt may take.")


class IssuesConfig(_Strict):
    """Who finds issues in turns, and by which taxonomy."""

    by: Literal["chat", "judge", "recorded"] = Field(
        default="chat",
        description="A chat model that writes assessments, the project's judge (a probability a kind), or assessments "
        "that were imported.",
    )
    model: str | None = Field(
        default=None, description="Of chat: a model of the endpoint, `gguf:PATH`, `hf:FOLDER`; of recorded: whose."
    )
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint; default OPENAI_BASE_URL.")
    taxonomy: str = Field(default="soda-eval", description="A shipped taxonomy's name, or a YAML file.")
    marks: str | None = Field(
        default=None, description="The taxonomy of people's marks, where it is another one that names its counterparts."
    )
    together: bool = Field(
        default=True, description="Of chat: ask about a whole dialogue in one request where it fits."
    )
    examples: bool = Field(
        default=True, description="Of chat: show two examples, where their kinds are in the taxonomy."
    )
    everyone: bool = Field(default=False, description="Assess the turns of all speakers, not the assistant's alone.")
    meaning: str | None = Field(
        default=None, description="An embedder: what a reply is about helps to tell which issues people mark."
    )
    context: int | None = Field(
        default=None, ge=1024, description="Of chat: tokens of one request and its answer; longer dialogues in part."
    )
    at_once: int = Field(default=16, ge=1, le=1024, description="The most requests under way.")
    attempts: int = Field(default=5, ge=1, le=20, description="How often a failing call is tried in all.")
    timeout: float = Field(default=120.0, gt=0, description="Seconds that one attempt may take.")


class InContextConfig(_Strict):
    """Scoring by a model that is shown rated examples."""

    model: str = Field(description="Who scores: a model of the endpoint, `embedded:NAME`, `gguf:PATH`, `hf:FOLDER`.")
    mode: Literal["number", "logprobs", "decisions", "systemone"] = Field(
        default="number",
        description="How a score is read: the first number that is written, or a distribution over the options; "
        "nothing else is tried in its place.",
    )
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint; default OPENAI_BASE_URL.")
    writer: str | None = Field(default=None, description="The chat model that writes prompts; default: who scores.")
    writer_base_url: str | None = Field(default=None, description="The writer's endpoint; default base_url.")
    level: Literal["turn", "dialogue"] | None = Field(
        default=None, description="What is scored, where people rated both turns and whole conversations."
    )
    background: str = Field(default="documents", description="What a conversation's documents are: fact, persona, ...")
    prompts: str | None = Field(default=None, description="A YAML file of prompts by hand that enter the contest.")
    inversion: str | None = Field(default=None, description="A file that replaces the text which asks for prompts.")
    private: list[str] = Field(
        default_factory=list, description="Regular expressions; conversations that fit one are shown beside no other."
    )
    marked: str | None = Field(default=None, description="The metadata key of conversations that are private too.")
    demonstrations: int = Field(default=5, ge=1, le=50, description="Examples of a request (k).")
    candidates: int = Field(default=80, ge=0, le=1000, description="Prompts to be written (m).")
    kept: int = Field(default=4, ge=1, le=20, description="Prompts that stay (ℓ).")
    sets: int = Field(default=4, ge=1, le=64, description="Sets of examples that are tried with each prompt (γ).")
    together: int = Field(
        default=4, ge=1, le=64, description="Inputs before which one set is tried; 1 as in the paper."
    )
    ranked: int = Field(default=512, ge=1, le=100_000, description="Random sets a prompt that are ranked (ζ).")
    ensemble: int = Field(default=5, ge=1, le=50, description="Requests of which a score is the mean.")
    edges: Literal["sum", "mean"] = Field(
        default="sum", description="How far sets differ, summed as in eq. 8, or the mean of the authors' own code."
    )
    selector: str = Field(default="auto", description="Who picks examples; `auto`: the simplest that is not worse.")
    towers: dict[str, Any] = Field(
        default_factory=dict, description="Settings of the selectors that learn: width, epochs, relative, ..."
    )
    embedder: str = Field(default="minilm-l6", description="What places examples and inputs, as for metrics.")
    calibrate: bool = Field(
        default=True, description="Ask about the training side too, to learn how people's ratings follow from answers."
    )
    held_out: float = Field(default=0.3, gt=0, le=0.5, description="The share of examples that the table is made on.")
    context: int | None = Field(
        default=None, ge=512, description="Tokens of one request; examples are shortened and dropped, inputs never cut."
    )
    at_once: int = Field(default=16, ge=1, le=1024, description="The most requests under way.")
    attempts: int = Field(default=5, ge=1, le=20, description="How often a failing call is tried in all.")
    timeout: float = Field(default=120.0, gt=0, description="Seconds that one attempt may take.")


class BudgetConfig(_Strict):
    """The most that one run may spend; the run stops before the call that would pass a cap."""

    requests: int | None = Field(default=None, ge=0, description="Requests, failed attempts included.")
    tokens: int | None = Field(default=None, ge=0, description="Tokens in and out.")
    money: float | None = Field(default=None, ge=0, description="Money, by the prices of prices.yaml.")


class WatchConfig(_Strict):
    """What is done about scores that move."""

    webhook: str | None = Field(
        default=None, description="An address that alarms are posted to as JSON; name it by ${VARIABLE}."
    )
    level: float = Field(default=0.01, gt=0, lt=1, description="The chance of a false alarm a system and day.")

    @field_validator("webhook")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not is_web_address(url):
            raise ValueError("a webhook is an address that begins with http:// or https://")  # it may hold a secret
        return url


class EvaluatorConfig(_Strict):
    """Which evaluator learns, and its settings."""

    method: str = Field(default="calibration", description="A name of `accord plugins`.")
    settings: dict[str, Any] = Field(default_factory=dict, description="Its constructor's arguments.")
    choose: dict[str, list[Any]] = Field(
        default_factory=dict,
        description="Settings to choose inside the training folds: values by name, simplest first.",
    )


class Config(_Strict):
    """Everything a project says once."""

    store: str = Field(default="sqlite:///accord.db", description="A database URL: sqlite:/// or postgresql://.")
    rubric: str = Field(default="llm-rubric", description="A shipped rubric's name, or a YAML file.")
    judge: JudgeConfig | None = Field(default=None, description="Without one, metrics alone are the evidence.")
    likelihood: LikelihoodConfig | None = Field(
        default=None, description="A model whose likelihoods of the replies are evidence."
    )
    writer: WriterConfig | None = Field(default=None, description="Writes rubrics: `accord fit learned-rubric`.")
    in_context: InContextConfig | None = Field(
        default=None, description="Scores by showing rated examples: `accord fit in-context`."
    )
    issues: IssuesConfig | None = Field(default=None, description="Finds what is wrong with each turn.")
    budget: BudgetConfig = Field(default_factory=BudgetConfig, description="Caps on what one run may spend.")
    metrics: list[str] = Field(
        default=["lexical"], description="Metric names; `lexical` and `embedding` stand for all of their kind."
    )
    evaluator: EvaluatorConfig = Field(default_factory=EvaluatorConfig)
    watch: WatchConfig = Field(default_factory=WatchConfig, description="Of live scores: `accord serve`, `follow`.")
    folds: int = Field(default=5, ge=2, description="Folds of the cross-validation, over whole conversations.")
    seed: int = Field(default=0, description="Of folds, resampling and every other draw.")

    def shown(self) -> dict[str, Any]:
        """The project's settings as JSON that may be kept and shown: no password, no query of a URL."""
        secret = {"watch": {"webhook"}}  # some have their secret in the path
        return _without_secrets(self.model_dump(mode="json", exclude=secret))  # type: ignore[no-any-return]


def _without_secrets(value: Any) -> Any:
    """The value with every URL in it stripped of its user, its password and its query."""
    if isinstance(value, dict):
        return {key: _without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    return plain_url(value) if isinstance(value, str) and "://" in value else value


def load_config(path: str | Path | None = None) -> Config:
    """Read `accord.yaml`; without a path, the one in the working folder, or the defaults where there is none.

    `${NAME}` in a value is the environment variable of that name; `ACCORD_STORE` overrides the store.

    Raises:
        BadInput: The file cannot be read, has unknown keys or wrong types, or names a variable that is not set.
    """
    named = Path(path) if path is not None else Path(FILE)
    content = _filled(load_yaml(named), str(named)) if path is not None or named.is_file() else {}
    config = check(Config, content, str(named))
    store = os.environ.get("ACCORD_STORE")
    return config.model_copy(update={"store": store}) if store else config


def _filled(value: Any, where: str) -> Any:
    """The value with every `${NAME}` replaced, wherever it stands."""
    if isinstance(value, dict):
        return {key: _filled(inner, where) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, where) for inner in value]
    return _VARIABLE.sub(lambda match: _variable(match[1], where), value) if isinstance(value, str) else value


def _variable(name: str, where: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise BadInput(f"{where}: the environment variable {name} is not set") from None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `accord.yaml`, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
