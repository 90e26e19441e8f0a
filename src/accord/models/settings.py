"""Settings of one role's model: an entry of `models:` in `accord.yaml`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from accord.edges import is_web_address

NO_ADDRESS = "an endpoint begins with http:// or https://; leave it out to use OPENAI_BASE_URL"
Mode = Literal["decisions", "systemone", "logprobs", "sampling", "verbalised", "recorded", "number"]


class ModelSettings(BaseModel):
    """Settings of one role's model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(
        default=None,
        description="Name of the model at its endpoint, `embedded:NAME`, `gguf:PATH` or `hf:FOLDER`; for a recording "
        "the name of one of its models.",
    )
    mode: Mode | None = Field(
        default=None,
        description="Way to obtain a distribution, for roles that give one (`judge`, `scorer`). No other way is tried. "
        "`number` reads the number that a scorer writes.",
    )
    base_url: str | None = Field(default=None, description="OpenAI-compatible endpoint; default OPENAI_BASE_URL.")
    paths: list[str] = Field(default_factory=list, description="Files of recorded judgements, or benchmark folders.")
    context: int | None = Field(
        default=None,
        ge=512,
        description="Maximum tokens per request; longer conversations are shown in part, with a notice.",
    )
    samples: int = Field(default=10, ge=2, le=100, description="Replies per question in mode sampling.")
    concurrency: int = Field(default=64, ge=1, le=1024, description="Largest number of requests in progress.")
    attempts: int = Field(default=5, ge=1, le=20, description="Number of times a failing request is sent.")
    timeout: float = Field(
        default=120.0, gt=0, allow_inf_nan=False, description="Time limit of one attempt, in seconds."
    )

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not is_web_address(url):
            raise ValueError(NO_ADDRESS)  # without the address, which may hold a secret
        return url
