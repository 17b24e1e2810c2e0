"""`load`: file beneath environment, into Settings, with where each came from and what is wrong."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from specgate.core.config import NEVER
from specgate.settings.collector import collector_advice, collector_problems
from specgate.settings.conflicts import advice_on_turns, conflicts
from specgate.settings.file import FileError, read_file, unknown_keys
from specgate.settings.keys import read_keys_file
from specgate.settings.measured import measured
from specgate.settings.model import Settings, env_name, kind_of
from specgate.settings.names import CONFIG, sort_out
from specgate.settings.unused import Unused, unused

Source = Literal["default", "file", "environment", "profile"]


class SettingsError(ValueError):
    """Some settings are wrong. As text, a line for each problem.

    warnings: as in `Loaded`; a name that is no setting often explains one that is not set.
    """

    def __init__(self, problems: list[str], warnings: tuple[str, ...] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
        self.warnings = warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Settings in force. `sources`: of each setting, by name; `warnings`: a line for each."""

    settings: Settings
    sources: dict[str, Source]
    warnings: tuple[str, ...]

    @property
    def unused(self) -> tuple[Unused, ...]:
        """Settings that somebody gave and that do nothing beside the others."""
        return unused(self.settings, lambda name: self.sources[name] in ("environment", "file"))


def load(environ: Mapping[str, str] | None = None) -> Loaded:
    """Reads the environment (the process's own unless given) and the file it names, afresh.

    Raises SettingsError, which tells of every problem at once.
    """
    outside = os.environ if environ is None else environ
    variables, warnings = sort_out(outside)
    path = variables.pop(CONFIG, None)
    in_environment = _values(variables)
    try:
        in_file = {} if path is None else read_file(path)
    except FileError as error:
        # What is missing may well be in that file, so only what is wrong is told besides.
        wrong = _check(in_environment, {}, None, missing=False)
        raise SettingsError([f"{CONFIG}={path!r}: {error}", *wrong], warnings) from error
    problems = unknown_keys(in_file, path or "")
    in_file = {name: value for name, value in in_file.items() if name in Settings.model_fields}
    for values in (in_environment, in_file):
        values.update(_one_engine(values, {**in_file, **in_environment}))
    problems += _check(in_environment, in_file, path)
    if problems:
        raise SettingsError(problems, warnings)
    settings = Settings(**{**in_file, **in_environment})
    found_conflicts = conflicts(settings)
    if settings.otel:
        found_conflicts += collector_problems(outside)
        warnings += collector_advice(outside)
    if found_conflicts:
        raise SettingsError(found_conflicts, warnings)
    sources = {name: _source(name, in_environment, in_file) for name in Settings.model_fields}
    if settings.api_keys_file is not None:
        try:
            settings = settings.with_file_keys(read_keys_file(settings.api_keys_file))
        except ValueError as error:
            problem = f"{env_name('api_keys_file')}={settings.api_keys_file!r}: {error}"
            raise SettingsError([problem], warnings) from error
    advice = _advice(settings)
    if settings.profile is not None:
        try:
            given = in_file.keys() | in_environment.keys()
            found = measured(settings.profile, given, adaptive=settings.adaptive)
        except ValueError as error:
            problem = f"{env_name('profile')}={settings.profile!r}: {error}"
            raise SettingsError([problem], warnings) from error
        settings = settings.with_profile(
            found.values, found.curves, found.contexts, found.fingerprint
        )
        sources.update(dict.fromkeys(found.values, "profile"))
        advice += (f"{env_name('profile')}: {found.caveat}",) if found.caveat else ()
    if settings.adaptive and (why := _not_adaptive(settings)):
        advice += (f"{env_name('adaptive')} changes nothing: {why}",)
    return Loaded(settings=settings, sources=sources, warnings=warnings + advice)


def _one_engine(given: Mapping[str, Any], all_given: Mapping[str, Any]) -> dict[str, Any]:
    """In shadow one lane serves, so the other's URL may be left out: it is the same engine."""
    lane = str(given.get("shadow", "")).strip().lower()
    served, other = ("spec_url", "plain_url") if lane == "spec" else ("plain_url", "spec_url")
    if lane not in ("spec", "plain") or served not in all_given or other in all_given:
        return {}
    return {other: all_given[served]}


def _values(variables: Mapping[str, str]) -> dict[str, Any]:
    source = EnvSettingsSource(Settings)
    # It has read the process's own environment; these are the ones that `sort_out` let through.
    source.env_vars = {name.lower(): value for name, value in variables.items()}
    return source()


def _check(
    in_environment: Mapping[str, Any],
    in_file: Mapping[str, Any],
    path: str | None,
    *,
    missing: bool = True,
) -> list[str]:
    """A line for each setting that is wrong, or (`missing`) that is required and not there."""
    try:
        Settings(**{**in_file, **in_environment})
    except ValidationError as error:
        details = error.errors(include_url=False)
    else:
        return []
    problems = []
    for detail in details:
        name = str(detail["loc"][0])
        kind = kind_of(name)
        if name in in_environment:
            where = f"{env_name(name)}={kind.show(in_environment[name])}"
        elif name in in_file:
            where = f"{path}: {name}={kind.show(in_file[name])}"
        elif missing:
            problems.append(f"{env_name(name)} is not set: must be {kind.allowed}")
            continue
        else:
            continue
        problems.append(f"{where}: {detail['ctx']['error']}")
    return problems


def _source(name: str, in_environment: Mapping[str, Any], in_file: Mapping[str, Any]) -> Source:
    if name in in_environment:
        return "environment"
    return "file" if name in in_file else "default"


def _not_adaptive(settings: Settings) -> str | None:
    """Why the live accept length cannot move anything, if so."""
    curves = settings.policy.curves
    if settings.profile is None:
        return f"it needs the curves of a profile, and {env_name('profile')} is not set"
    if curves is None and settings.threshold == NEVER:
        return "speculation never pays here, so the spec lane is off and shows no accept length"
    if curves is None:
        return "there are no curves to move; a threshold that is set stands by itself"
    if curves.accept_length is None:
        return f"{env_name('profile')} does not say which accept length it was measured with"
    if settings.scrape_interval_s is None:
        return f"{env_name('scrape_interval_s')} is off, so none is read"
    return None


def _advice(settings: Settings) -> tuple[str, ...]:
    """What is allowed and hardly meant."""
    lanes = {"spec_url": settings.spec_url, "plain_url": settings.plain_url}
    advice = [
        f"{env_name(name)} ends in /v1, and so begin the paths that clients ask for: "
        "the engine will see /v1/v1/..."
        for name, url in lanes.items()
        if url.endswith("/v1")
    ]
    if settings.spec_url == settings.plain_url and settings.shadow is None:
        advice.append("both lanes have the same URL: switching sides will change nothing")
    advice += _advice_on_keys(settings)
    advice += advice_on_turns(settings)
    return tuple(advice)


def _advice_on_keys(settings: Settings) -> list[str]:
    advice = []
    engine_keys = [name for name in ("spec_api_key", "plain_api_key") if getattr(settings, name)]
    if engine_keys and settings.client_keys is None:
        advice.append(
            f"{env_name(engine_keys[0])} is set and {env_name('api_keys')} is not: whoever reaches "
            "the gate may use the engine"
        )
    token, keys = settings.admin_token, settings.client_keys
    if token is not None and keys is not None and keys.holds(token.get_secret_value().encode()):
        advice.append(
            f"{env_name('admin_token')} is one of the clients' keys: each of them may change the "
            "gate"
        )
    return advice
