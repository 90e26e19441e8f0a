"""Which model has a role, where it answers, and on what terms it is asked: an entry of `models:` in `accord.yaml`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from accord.edges import is_web_address

NO_ADDRESS = "an endpoint is an address that begins with http:// or https://; leave it out to ask OPENAI_BASE_URL"
Mode = Literal["decisions", "systemone", "logprobs", "sampling", "verbalised", "recorded", "number"]


class ModelSettings(BaseModel):
    """One role's model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(
        default=None,
        description="The model's name at its endpoint, `embedded:NAME`, `gguf:PATH` or `hf:FOLDER`; of a recording, "
        "which of its models.",
    )
    mode: Mode | None = Field(
        default=None,
        description="How a distribution is obtained, of roles that give one (`judge`, `scorer`); nothing else is "
        "tried in its place. `number`: the number that a scorer writes.",
    )
    base_url: str | None = Field(default=None, description="An OpenAI-compatible endpoint; default OPENAI_BASE_URL.")
    paths: list[str] = Field(default_factory=list, description="Files of recorded judgements, or benchmark folders.")
    context: int | None = Field(
        default=None, ge=512, description="Tokens of one request; longer conversations are shown in part, and so said."
    )
    samples: int = Field(default=10, ge=2, le=100, description="Replies per question, for sampling.")
    concurrency: int = Field(default=64, ge=1, le=1024, description="The most requests under way.")
    attempts: int = Field(default=5, ge=1, le=20, description="How often a failing call is tried in all.")
    timeout: float = Field(default=120.0, gt=0, allow_inf_nan=False, description="Seconds that one attempt may take.")

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not is_web_address(url):
            raise ValueError(NO_ADDRESS)  # it may hold a secret
        return url
