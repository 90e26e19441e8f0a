"""Sections of `accord.yaml` on spending, alarms and live scoring."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from accord.edges import FROM_ENVIRONMENT, is_web_address
from accord.statistics import SURE


class StrictSettings(BaseModel):
    """Settings whose unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class BudgetConfig(StrictSettings):
    """Caps of a run, or of all runs that share a budget; a run stops before the request that would exceed a cap."""

    requests: int | None = Field(default=None, ge=0, description="Requests, including failed attempts.")
    tokens: int | None = Field(default=None, ge=0, description="Input and output tokens.")
    money: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="Money, at the prices of prices.yaml."
    )
    shared: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name of a shared budget: all runs on the same store with this name share the caps.",
    )


class WatchConfig(StrictSettings):
    """Settings of alarms on live scores."""

    webhook: str | None = Field(
        default=None,
        json_schema_extra=FROM_ENVIRONMENT,
        description="URL for alarms as JSON; keep it in an environment variable: ${VARIABLE}.",
    )
    false_alarm_rate: float = Field(
        default=SURE, gt=0, lt=1, description="Probability of a false alarm per assistant version and day."
    )

    otel: str | None = Field(
        default=None,
        json_schema_extra=FROM_ENVIRONMENT,
        description="Address of an OpenTelemetry collector that receives each score as a log record (OTLP over HTTP), "
        "such as http://localhost:4318/v1/logs. Default: the variables OTEL_EXPORTER_OTLP_*, or no records.",
    )

    @field_validator("webhook", "otel")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not is_web_address(url):
            raise ValueError("an address is a URL that begins with http:// or https://")  # it may hold a secret
        return url


class LiveConfig(StrictSettings):
    """Limits of live scoring: work per message, memory for all conversations, time per request.

    Texts in which words are longer than eight characters on average count one word per eight characters.
    """

    max_reply_words: int = Field(
        default=2000, ge=1, description="Words of a message that are read; the score of a longer message has a warning."
    )
    max_document_words: int = Field(
        default=8000, ge=1, description="Words that are read of all documents of a message together."
    )
    plausibility_share: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Share of live replies whose plausibility is checked, for evaluators with `plausibility`.",
    )
    memory_mb: float = Field(
        default=512,
        gt=0,
        allow_inf_nan=False,
        description="Estimated MB for open conversations and their documents; the oldest are dropped first.",
    )
    agree: float | None = Field(
        default=None,
        gt=0.5,
        lt=1,
        description="Agreement with people that live calls (good or bad) must keep, as `accord score --agree`; "
        "uncertain replies get no score. Default: no calls.",
    )
    good: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Lowest answer that counts as good for `agree`; default: the first above the scale's middle.",
    )
    timeout_seconds: float = Field(
        default=30, gt=0, allow_inf_nan=False, description="Seconds until a request to the service times out."
    )
