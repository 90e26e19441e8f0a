"""Settings of a project, `accord.yaml`: store, rubric, models by role, evaluators. Unknown keys are errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, PrivateAttr, field_validator
from pydantic.json_schema import SkipJsonSchema

from accord.edges import (
    FROM_ENVIRONMENT,
    BadInput,
    ModelSetting,
    UnknownName,
    check_folder_names,
    check_ownership,
    is_elsewhere,
    is_secret_name,
    load_yaml,
    note_addresses,
    origin_of,
    parse_yaml,
    project_that_set,
    read_json_file,
    strip_url_secrets,
    validate,
)
from accord.formats import OtherScales
from accord.learning import PRESETS, RENAMED, SIMPLE, EvaluatorSettings
from accord.models import (
    ASSISTANT,
    FINDER,
    JUDGE,
    LIKELIHOOD,
    SCORER,
    URL_VARIABLE,
    USER,
    WRITER,
    Caps,
    ModelSettings,
    own_addresses,
)
from accord.project.config_sections import (
    HOSTS,
    PUSH_SPOOL,
    LiveConfig,
    PrivacyConfig,
    PushConfig,
    StrictSettings,
    WatchConfig,
)
from accord.project.environment import connection_texts, fill_settings, read_env_file, set_variables
from accord.statistics import DRAWS, FOLDS
from accord.store import located_store, mart_folder
from accord.synth import SynthSettings
from accord.values import (
    PROJECT_FILE,
    WITHOUT_SYNTHETIC,
    InvalidStudy,
    Json,
    JsonSchema,
    StudyName,
    StudySettings,
    Synthetic,
    check_plugin_names,
    find_project_file,
    note_plugins,
    project_folder,
    read_study,
    validate_study,
)

FURTHER_JUDGE = "judge-"
"""Prefix of the roles of further judges."""
_ROLES = (JUDGE, WRITER, SCORER, FINDER, LIKELIHOOD, USER, ASSISTANT)


class Config(StrictSettings):
    """Settings of a project.

    >>> config = Config(store="sqlite:///:memory:", metrics=["words"])
    >>> config.folds, config.evidence
    (5, ('metrics',))
    """

    _folder: Path = PrivateAttr(default=Path())

    store: str = Field(
        default="sqlite:///accord.db",
        json_schema_extra=FROM_ENVIRONMENT,
        description="Database URL: sqlite:/// or postgresql://; may hold ${VARIABLE}.",
    )
    mart: str | None = Field(
        default=None,
        json_schema_extra=FROM_ENVIRONMENT,
        description="Folder of the scores for the board; default: next to the file of a SQLite store. May hold "
        "${VARIABLE}.",
    )
    rubric: str = Field(default="llm-rubric", description="Name of a shipped rubric, or a YAML file.")
    models: dict[str, ModelSettings] = Field(
        default_factory=dict,
        description="Models by role: judge, further judges judge-NAME, writer, scorer, finder, likelihood, and user "
        "and assistant of synthetic conversations.",
    )
    repeats: int = Field(
        default=5,
        ge=1,
        le=50,
        description="Most repetitions of the cross-validation that a verdict is averaged over; fewer with many "
        "ratings, or if further ones cannot change it.",
    )
    metrics: list[str] = Field(
        default=["lexical"],
        description="Names of metrics, or of groups of metrics: `lexical`, `bank`, `embedding`, ...; "
        "`ciu: {position: 1.0, effort: paper}` sets terms of CIU.",
    )
    sources: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings of evidence sources, by name."
    )
    evaluators: dict[str, EvaluatorSettings] = Field(
        default_factory=dict, description="Evaluators by name, in addition to the presets: sources and a head."
    )
    evaluator: str = Field(
        default="default",
        description="Evaluator that `accord fit` fits by default. Other commands use the evaluator fitted last.",
    )
    people: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="Names of people by role, such as business or engineer; `show` of a study names what a role sees.",
    )
    studies: dict[StudyName, StudySettings | SkipJsonSchema[InvalidStudy]] = Field(
        default_factory=dict, description="Studies for annotators in the workbench (`accord serve`), by name."
    )
    plugins: tuple[str, ...] = Field(
        default=(),
        description="Plug-ins: Python files in the project's folder and importable modules, run when metrics, sources, "
        "heads, formats or judges are looked up. Only projects that you trust run code.",
    )
    synthetic: Synthetic = Field(
        default=WITHOUT_SYNTHETIC,
        description="Synthetic conversations in training and statistics: `without`, `with`, or `only` them.",
    )
    other_scales: OtherScales = Field(
        default="stop",
        description="Labels on another scale than their question has now: `stop`, `leave-out`, `map` or `keep` them.",
    )
    synth: SynthSettings = Field(default_factory=SynthSettings, description="Settings of `accord synth`.")
    group_by: list[str] = Field(
        default_factory=list,
        description="Metadata entries (or `system`) whose equal values are never divided by a split.",
    )
    budget: Caps = Field(default_factory=Caps, description="Caps on the spending of a run.")
    monitoring: WatchConfig = Field(
        default_factory=WatchConfig, description="Alarms on live scores of `accord serve` and `accord follow`."
    )
    live: LiveConfig = Field(default_factory=LiveConfig, description="Limits of live scoring: work, memory, time.")
    privacy: PrivacyConfig = Field(
        default_factory=PrivacyConfig, description="Personal data: redaction, erasing by user, and retention."
    )
    push: PushConfig = Field(
        default_factory=PushConfig,
        description="Hosts that receive scores, by `accord push` and by `accord serve` and `accord follow`.",
    )
    folds: int = Field(default=FOLDS, ge=2, description="Folds of the cross-validation, over groups.")
    seed: int = Field(default=0, description="Seed of folds, resampling and all other random choices.")
    draws: int = Field(default=DRAWS, ge=2, le=100_000, description="Bootstrap samples and permutations.")
    curve_draws: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Random subsets at each share of the learning curve; from 2 on with mean and standard deviation.",
    )

    @field_validator("metrics", mode="before")
    @classmethod
    def _name_metrics(cls, metrics: Any) -> Any:
        if not isinstance(metrics, list) or all(isinstance(each, str) and "@" not in each for each in metrics):
            return metrics
        from accord.evidence import metric_name  # imported here, so that other projects load no evidence code

        return list(map(metric_name, metrics))

    @field_validator("evaluators")
    @classmethod
    def _check_names(cls, evaluators: Any) -> Any:
        try:
            check_folder_names(evaluators, "each evaluator has a folder")
        except BadInput as error:
            raise ValueError(str(error)) from None
        return evaluators

    @field_validator("plugins", mode="before")
    @classmethod
    def _name_plugins(cls, names: Any) -> Any:
        return check_plugin_names(names)

    @field_validator("people")
    @classmethod
    def _has_one_role_each(cls, people: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        names = [name for role in people.values() for name in dict.fromkeys(role)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"{twice[0]!r} has two roles; a person has one")
        return people

    @field_validator("studies", mode="before")
    @classmethod
    def _read_studies(cls, studies: Any) -> Any:
        if not isinstance(studies, dict):
            return studies
        try:
            return {
                name: each if isinstance(each, InvalidStudy) else read_study(name, each)
                for name, each in studies.items()
            }
        except BadInput as error:
            raise ValueError(str(error)) from None

    @property
    def broken_studies(self) -> dict[str, str]:
        """Errors of the studies with invalid settings, by name."""
        return {name: each.error for name, each in self.studies.items() if isinstance(each, InvalidStudy)}

    @property
    def folder(self) -> Path:
        """Folder for relative paths; empty for the working folder."""
        return self._folder

    def shown(self) -> dict[str, Json]:
        """Return the settings as JSON without secrets: no passwords and no queries of URLs."""
        secret: Any = {"monitoring": {"webhook"}, "push": True}  # a path may be a secret
        return _without_secrets(self.model_dump(mode="json", exclude=secret))  # type: ignore[no-any-return]

    @property
    def evidence(self) -> tuple[str, ...]:
        """Sources that measure without learning and are configured."""
        configured = {
            "rubric": JUDGE in self.models, "metrics": bool(self.metrics), "likelihood": LIKELIHOOD in self.models,
            "issues": "issues" in self.sources or FINDER in self.models,
        }  # fmt: skip
        return tuple(name for name, is_configured in configured.items() if is_configured)

    def settings_of(self, source: str) -> dict[str, Json]:
        """Return the settings of a source."""
        own = dict(self.sources.get(source, {}))
        if source == "rubric":
            further: dict[str, Json] = {role: {} for role in self.models if role.startswith(FURTHER_JUDGE)}
            return {**own, "judges": {**further, **own.get("judges", {})}} if further else own
        return {"names": list(self.metrics), **own} if source == "metrics" else own

    def about(self, evaluator: str) -> EvaluatorSettings:
        """Return the settings of an evaluator: the preset of that name, with the project's entry merged into it.

        Keys that the entry leaves out keep the preset's value. The preset's head settings stay as long as the entry
        names no other head.

        Raises:
            UnknownName: The evaluator is neither in the project nor a preset.
        """
        presets = {**SIMPLE, **PRESETS}
        if evaluator not in {**presets, **self.evaluators}:
            raise UnknownName("evaluator", evaluator, [*self.evaluators, *presets], RENAMED)
        preset, own = presets.get(evaluator), self.evaluators.get(evaluator)
        if preset is None or own is None:
            return own or presets[evaluator]
        merged = {**preset.model_dump(exclude_unset=True), **own.model_dump(exclude_unset=True)}
        if merged.get("head") == preset.model_dump(exclude_unset=True).get("head"):
            merged["settings"] = {**preset.settings, **own.settings}
        return EvaluatorSettings(**merged)


def _without_secrets(value: Any) -> Any:
    """Return a value with user, password and query removed from all its URLs."""
    if isinstance(value, dict):
        return {key: _without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    return strip_url_secrets(value) if isinstance(value, str) and "://" in value else value


def _check_roles(config: Config, where: str) -> None:
    """Check the names of roles, and that every further judge has a model."""
    for role in config.models:
        if role not in _ROLES and not re.fullmatch(rf"{FURTHER_JUDGE}[\w-]+", role):
            raise BadInput(f"{where}: models: {UnknownName('role', role, (*_ROLES, f'{FURTHER_JUDGE}NAME'))}")
    judges = [role for role in config.models if role == JUDGE or role.startswith(FURTHER_JUDGE)]
    if judges and JUDGE not in judges:
        raise BadInput(f"{where}: models: {judges[0]} is a further judge; name the first one {JUDGE}")
    for role in config.sources.get("rubric", {}).get("judges", {}):
        if role not in judges:
            raise BadInput(f"{where}: sources: rubric: judges: {UnknownName('judge', role, judges)}; add it to models:")


STORE_VARIABLE = "ACCORD_STORE"
_ADDRESSES = (URL_VARIABLE, STORE_VARIABLE, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables that name an address: an endpoint of models, a store, a collector of OpenTelemetry."""


def load_config(path: str | Path | None = None) -> Config:
    """Read `accord.yaml`: the given file, or the one in the working folder or the nearest folder above it.

    Without a file the defaults apply. A file `.env` next to the project file is read first. `${NAME}` in a setting of a
    connection is replaced by the environment variable, and `ACCORD_STORE` replaces the store. Relative paths start from
    the folder of the project file. Addresses in these files are noted: the first request to one needs a confirmation
    (`accord.edges.trust`).

    Raises:
        BadInput: The file cannot be read, has unknown keys or wrong types, names a variable that is not set, or another
            account could have written it.
    """
    file = Path(path) if path is not None else find_project_file()
    if file is None:
        content, where, folder = {}, PROJECT_FILE, Path()
    else:
        folder = project_folder(file)
        if (folder / ".env").is_file():
            check_ownership(folder / ".env")
        variables = read_env_file(folder / ".env")
        content, where = load_yaml(file), str(file)
        set_variables(folder, variables, content)
        content = fill_settings(content, Config, where, variables)
    named = list(_addresses(content, folder, {name: os.environ[name] for name in _ADDRESSES if project_that_set(name)}))
    store = os.environ.get(STORE_VARIABLE)
    if store and isinstance(content, dict):
        content["store"] = store
    config = config_from(content, where, folder)
    if file is not None:
        note_addresses(folder, named, own_addresses())
    return config


def _addresses(content: Any, folder: Path, of_file: Mapping[str, str]) -> Iterator[str]:
    """Yield the addresses that the files of a project name, and the places of its store, its mart and its spools.

    Args:
        content: Content of its `accord.yaml`, which need not be valid.
        folder: Its folder.
        of_file: Variables that its `.env` file sets.
    """
    given = content if isinstance(content, dict) else {}
    variables = {**of_file, **os.environ}
    texts = dict(connection_texts({"store": "sqlite:///accord.db", **given}, Config, variables))
    store, mart = texts.pop(("store",), ""), texts.pop(("mart",), None)
    yield from (text for text in texts.values() if "://" in text)
    hosts = given.get("push")
    for name, settings in hosts.items() if isinstance(hosts, dict) else ():
        if name in HOSTS and isinstance(settings, dict):
            yield from () if settings.get("url") else (HOSTS[name],)
            yield str(folder / PUSH_SPOOL / name)
    yield from (of_file[name] for name in _ADDRESSES if of_file.get(name) and name != STORE_VARIABLE)
    is_chosen = bool(os.environ.get(STORE_VARIABLE)) and STORE_VARIABLE not in of_file
    with suppress(BadInput):  # opening the store reports it
        store = variables.get(STORE_VARIABLE) or store
        store = store if folder == Path() else located_store(store, folder)  # as `_located`
        place = mart_folder(store, None if mart is None else str(folder / mart), folder)
        yield from () if is_chosen else (store,)
        yield from () if place is None or (is_chosen and mart is None) else (str(place),)


def _evaluator_addresses(folder: Path) -> Iterator[str]:
    """Yield the addresses of models that a folder's evaluators name; the folder may itself be an evaluator."""
    from accord.learning import CARD  # imported here, so that other commands load no code of evaluators

    for card in (folder / CARD, *sorted(folder.glob(f"evaluators/*/{CARD}"))):
        with suppress(BadInput, FileNotFoundError):  # no evaluator is opened from it
            content = read_json_file(card)
            models = content.get("models") if isinstance(content, dict) else None
            for each in models.values() if isinstance(models, dict) else ():
                if isinstance(each, dict) and isinstance(each.get("base_url"), str):
                    yield each["base_url"]


def covered_by_trust(folder: Path) -> dict[str, list[str]]:
    """Return what trust in a project covers, by kind: addresses, files outside its folder, code, variables of `.env`.

    The files are read, and nothing in them takes effect.

    Raises:
        BadInput: A file cannot be read.
    """
    content = load_yaml(folder / PROJECT_FILE) if (folder / PROJECT_FILE).is_file() else {}
    variables = read_env_file(folder / ".env")
    new = {name: value for name, value in variables.items() if name not in os.environ or project_that_set(name)}
    urls = [*_addresses(content, folder, new), *_evaluator_addresses(folder)]
    places = sorted({origin_of(url) for url in urls if is_elsewhere(folder, url)})
    keys = [name for name in variables if is_secret_name(name)]
    return {
        "addresses": [place for place in places if not place.startswith("file://")],
        "files": [place.removeprefix("file://") for place in places if place.startswith("file://")],
        "code": list(_plugins_in(content)),
        "keys": keys,
        "variables": [name for name in variables if name not in keys],
    }


def endpoint_of(config: Config, name: str, base_url: str | None = None) -> tuple[str, str | None, str | None]:
    """Return the model, the endpoint and the mode of a role; any other name names a model at the endpoint.

    Raises:
        BadInput: The role has no model, or one without an endpoint.
    """
    settings = config.models.get(name)
    if settings is None:
        if base_url is None and (name in _ROLES or name.startswith(FURTHER_JUDGE)):
            configured = ", ".join(config.models) or "none"
            setting = ModelSetting(name, model="NAME")
            raise BadInput(
                f"no model configured for role {name!r} (configured: {configured}). {setting}; or name a model instead "
                "of a role", setting,
            )  # fmt: skip
        return name, base_url, None
    if settings.model is None or settings.mode == "recorded":
        raise BadInput(f"models.{name} is a recording and has no endpoint to check; name a model instead")
    return settings.model, base_url or settings.base_url, settings.mode


def load_project(path: str | Path | None = None) -> Config:
    """Read `accord.yaml` as `load_config` does, but require a project file.

    Raises:
        BadInput: The project file does not exist, or is invalid.
    """
    if path is None and find_project_file() is None:
        raise BadInput(
            f"no project in {Path.cwd()}: neither this folder nor one above it has a file {PROJECT_FILE}. "
            "Create one: accord init"
        )
    return load_config(path)


def config_from(content: Any, where: str = PROJECT_FILE, folder: Path = Path()) -> Config:
    """Return a project's settings from plain values; relative paths start from `folder`.

    An invalid study becomes an `InvalidStudy`, so that only its own commands fail.

    Raises:
        BadInput: A key is unknown or renamed, or a value has the wrong type.
    """
    if isinstance(content, dict) and isinstance(content.get("evaluator"), dict):
        raise BadInput(
            f"{where}: `evaluator` is a name, such as default; its settings are under "
            "evaluators: {NAME: {sources: [...], head: ..., settings: {...}}}"
        )
    note_plugins(folder, _plugins_in(content))  # settings may name a plug-in
    config = validate(Config, _with_studies(content), where)
    if config.sources:
        from accord.evidence import sources  # imported here, so that other projects load no evidence code
    for name, settings in config.sources.items():
        validate(sources.get(name).settings_type, settings, where, ("sources", name))
    _check_roles(config, where)
    return _located(config, folder)


def _plugins_in(content: Any) -> tuple[str, ...]:
    """Return the names of plug-ins in settings; empty if the settings are invalid, which their validation reports."""
    try:
        return check_plugin_names(content.get("plugins", ())) if isinstance(content, dict) else ()
    except ValueError:
        return ()


def _located(config: Config, folder: Path) -> Config:
    """Return the settings with the store, the mart and the rubric relative to the working folder.

    Paths of models, sources, studies and synthetic conversations stay as written, because fitted evaluators keep
    them; the code that opens one resolves it against `Config.folder`.
    """
    config._folder = folder
    if folder == Path():
        return config
    changes: dict[str, str] = {"store": located_store(config.store, folder)}
    if config.mart is not None and "://" not in config.mart:
        changes["mart"] = str(folder / config.mart)
    if "/" in config.rubric or config.rubric.endswith((".yaml", ".yml")) or (folder / config.rubric).is_file():
        changes["rubric"] = str(folder / config.rubric)
    return config.model_copy(update=changes)


def _with_studies(content: Any) -> Any:
    """Return the settings with every study validated; an invalid one becomes an `InvalidStudy`."""
    if not isinstance(content, dict) or not isinstance(content.get("studies"), dict):
        return content
    studies = {str(name): validate_study(name, each) for name, each in content["studies"].items()}
    return {**content, "studies": studies}


def with_settings(config: Config, pairs: Iterable[str]) -> Config:
    """Return the settings with some values replaced.

    Args:
        config: The settings.
        pairs: Replacements as `PATH.TO.KEY=VALUE`, with the value in YAML.

    Raises:
        BadInput: A pair has no `=`, or its key or value is invalid.
    """
    content: dict[str, Any] = config.model_dump(mode="json", exclude_unset=True)
    for study in config.broken_studies:
        content["studies"][study] = config.studies[study]
    is_changed = False
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise BadInput(f"--set takes KEY=VALUE, got {pair!r}; for example sources.in-context.top_prompts=2")
        *path, last = key.split(".")
        place = content
        for name in path:
            inner = place.setdefault(name, {})
            if not isinstance(inner, dict):
                reason = inner.error if isinstance(inner, InvalidStudy) else f"{name!r} holds no settings"
                raise BadInput(f"--set {pair}: {reason}")
            place = inner
        place[last], is_changed = parse_yaml(value, f"--set {key}"), True
    return config_from(content, "--set", config.folder) if is_changed else config


def json_schema() -> JsonSchema:
    """Return the JSON Schema of `accord.yaml`, with the settings of every source, for editors."""
    from accord.evidence import CIU, sources

    schema = _schema_of(Config)
    settings = {name: _schema_of(kind.settings_type) for name, kind in sources}
    for part in settings.values():  # a reference such as `#/$defs/JudgeRoute` is resolved from the root of the document
        schema["$defs"].update(part.pop("$defs", {}))
    ciu = {"type": "object", "properties": {"ciu": CIU.model_json_schema()}, "required": ["ciu"],
           "additionalProperties": False}  # fmt: skip
    schema["properties"]["metrics"]["items"] = {"anyOf": [{"type": "string"}, ciu]}
    schema["properties"]["sources"]["properties"] = settings
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _schema_of(model: type[BaseModel]) -> JsonSchema:
    """Return the JSON Schema of a model, described without the example of its docstring."""
    schema = model.model_json_schema()
    return (
        {**schema, "description": schema["description"].partition("\n\n>>>")[0]} if "description" in schema else schema
    )
