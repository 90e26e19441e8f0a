"""Sections of `accord.yaml` on spending, alarms, personal data, live scoring and hosts that receive scores."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
)

from accord.edges import FROM_ENVIRONMENT, is_web_address
from accord.models import Caps
from accord.redaction import KINDS, Redactor
from accord.statistics import SURE

USER_ENTRIES = ("user", "user_id", "userId", "user.id", "enduser.id", "customer", "customer_id", "session_user")
_PERIOD = {"type": "string", "pattern": r"^\d+ (hours?|days?|weeks?|years?)$", "examples": ["90 days"]}
_HOURS = {"hour": 1, "day": 24, "week": 168, "year": 8766}


def read_period(value: Any) -> Any:
    """Return the duration of a text such as `90 days`.

    Raises:
        ValueError: The text is no such duration.

    >>> read_period("2 weeks")
    datetime.timedelta(days=14)
    """
    match = (
        re.fullmatch(r"(\d{1,5}) *(hour|day|week|year)s?", value.strip(), re.ASCII) if isinstance(value, str) else None
    )
    if isinstance(value, timedelta):
        return value
    if match is None or not int(match[1]):
        raise ValueError(f"a time such as 90 days, 8 weeks, 12 hours or 1 year, got {value!r}")
    return timedelta(hours=int(match[1]) * _HOURS[match[2]])


def shown_period(period: timedelta) -> str:
    """Return a duration as `read_period` reads it.

    >>> shown_period(timedelta(days=1)), shown_period(timedelta(hours=36))
    ('1 day', '36 hours')
    """
    hours = round(period.total_seconds() / 3600)
    count, unit = (hours // 24, "day") if hours % 24 == 0 else (hours, "hour")
    return f"{count} {unit}{'' if count == 1 else 's'}"


Period = Annotated[timedelta, BeforeValidator(read_period), PlainSerializer(shown_period), WithJsonSchema(_PERIOD)]
"""A duration such as `90 days`, `8 weeks`, `12 hours` or `1 year`."""


class StrictSettings(BaseModel):
    """Settings whose unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class AnchorsConfig(StrictSettings):
    """Anchors: rated conversations that the present judge judges again, to tell its drift from drift of the system."""

    count: int = Field(default=40, ge=10, le=1000, description="Number of anchors, a fixed sample by the seed.")
    every: Period | None = Field(
        default=None,
        description="Time between rounds of `accord serve`, at least 1 day. Default: only `accord judge --anchors` "
        "judges anchors.",
    )
    budget: Caps = Field(
        default_factory=Caps,
        description="Caps on the spending for anchors in a day; the budget of the project holds as well.",
    )

    @field_validator("every")
    @classmethod
    def _is_a_day(cls, every: timedelta | None) -> timedelta | None:
        if every is not None and every < timedelta(days=1):
            raise ValueError("an anchor is judged at most once a day; use 1 day or more")
        return every

    @field_validator("budget")
    @classmethod
    def _is_own(cls, budget: Caps) -> Caps:
        if budget.shared is not None:
            raise ValueError("`shared` belongs to the budget of the project; leave it out here")
        return budget


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
    anchors: AnchorsConfig = Field(
        default_factory=AnchorsConfig, description="Rated conversations that the present judge judges again."
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


class RetentionConfig(StrictSettings):
    """Times after which `accord store expire`, and `accord serve` once a day, erase data."""

    conversations: Period | None = Field(
        default=None, description="Age of a conversation, by its last message or its import. Default: none is erased."
    )
    rated: Period | None = Field(
        default=None, description="Age of a conversation with ratings; default: that of `conversations`."
    )
    replies: Period | None = Field(
        default=None, description="Age of cached replies of models, which are paid for again when needed."
    )

    @property
    def has_period(self) -> bool:
        """True if anything expires."""
        return any(value is not None for value in (self.conversations, self.rated, self.replies))


class PrivacyConfig(StrictSettings):
    """Personal data: redaction, who wrote a conversation, and how long data are kept."""

    user: list[str] = Field(
        default=list(USER_ENTRIES),
        description="Metadata entries that name the person who wrote a conversation; a dot stands for an inner entry.",
    )
    retention: RetentionConfig = Field(
        default_factory=RetentionConfig, description="Times after which data are erased."
    )
    redact: tuple[str, ...] = Field(
        default=(),
        description=f"Kinds of personal data that become placeholders such as <EMAIL_1>: {', '.join(KINDS)}.",
        json_schema_extra={"items": {"enum": list(KINDS)}},
    )
    when: Literal["import", "send"] = Field(
        default="import",
        description="`import` stores no original; `send` redacts only what is sent to a model on another machine.",
    )
    recognizers: tuple[str, ...] = Field(default=(), description="Recognizers of plug-ins, by name.")

    @field_validator("redact")
    @classmethod
    def _are_kinds(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise ValueError(f"unknown kind {unknown[0]!r}; allowed: {', '.join(KINDS)}")
        return kinds

    def redactor(self, when: Literal["import", "send"]) -> Redactor | None:
        """Return the redactor of imports or of requests, or `None` if nothing is redacted then.

        Requests are redacted in both cases: a file that is scored may never have been imported.
        """
        redactor = Redactor(self.redact, self.recognizers)
        return redactor if redactor and (when == "send" or self.when == when) else None


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


PUSH_SPOOL = "push-spool"
"""Folder of live scores that a host has not confirmed, with a folder for each host."""
HOSTS = {
    "langfuse": "https://cloud.langfuse.com", "phoenix": "http://localhost:6006",
    "langsmith": "https://api.smith.langchain.com",
}  # fmt: skip
"""Default addresses of the hosts that receive scores."""


class HostConfig(StrictSettings):
    """Address and credentials of a host that receives scores, and names of the scores there."""

    url: str | None = Field(
        default=None,
        json_schema_extra=FROM_ENVIRONMENT,
        description="Address of the host; default: its public service, for Phoenix http://localhost:6006.",
    )
    api_key: str | None = Field(
        default=None,
        json_schema_extra=FROM_ENVIRONMENT,
        description="Key of Phoenix or LangSmith; keep it in an environment variable: ${VARIABLE}.",
    )
    public_key: str | None = Field(
        default=None, json_schema_extra=FROM_ENVIRONMENT, description="Public key of Langfuse; may hold ${VARIABLE}."
    )
    secret_key: str | None = Field(
        default=None,
        json_schema_extra=FROM_ENVIRONMENT,
        description="Secret key of Langfuse; keep it in an environment variable: ${VARIABLE}.",
    )
    project: str | None = Field(
        default=None,
        json_schema_extra=FROM_ENVIRONMENT,
        description="Id of the LangSmith project of traces whose import did not record one.",
    )
    name: str | None = Field(
        default=None, min_length=1, max_length=200, description="Name of the score; default: the id of the question."
    )
    ids: Literal["session", "trace"] | None = Field(
        default=None,
        description="Kind of the ids of conversations that were not imported from a trace; default: such scores are "
        "not sent by `accord push`, and live ones are about sessions (in LangSmith, traces).",
    )
    live: bool = Field(default=True, description="Send scores of `accord serve` and `accord follow`.")

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not is_web_address(url):
            raise ValueError("the address of a host begins with http:// or https://")  # it may hold a secret
        return url


class PushConfig(StrictSettings):
    """Hosts that receive scores."""

    langfuse: HostConfig | None = Field(default=None, description="Scores of traces and sessions in Langfuse.")
    phoenix: HostConfig | None = Field(
        default=None, description="Annotations of spans, traces and sessions in Phoenix."
    )
    langsmith: HostConfig | None = Field(default=None, description="Feedback on root runs in LangSmith.")

    @property
    def hosts(self) -> dict[str, HostConfig]:
        """Settings of the configured hosts by name."""
        given = {"langfuse": self.langfuse, "phoenix": self.phoenix, "langsmith": self.langsmith}
        return {name: settings for name, settings in given.items() if settings is not None}
