"""The Helm chart's schema of values, as far as it follows from the settings.

After a new setting `poe docs-gen` writes that part of values.schema.json anew, and leaves the rest.
"""

import json
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr

from specgate.core.keys import KeyHashes
from specgate.settings import Settings, kind_of
from specgate.settings.kinds import FLAG
from tests.deploy.tools import DEPLOY

PATH = DEPLOY / "helm" / "specgate" / "values.schema.json"

OF_THE_IMAGE = {"host", "port", "metrics_host"}
"""Settings that the chart does not let anybody change: the Service counts on them."""


def read(path: Path = PATH) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(path.read_text())
    return schema


def secrets() -> set[str]:
    """The settings that may not stand in values."""
    fields = Settings.model_fields.items()
    return {name for name, field in fields if _holds_secret(field.annotation)}


def settings() -> dict[str, dict[str, Any]]:
    """What `settings` may hold: a schema for each setting, by its name."""
    left_out = OF_THE_IMAGE | secrets()
    return {name: _schema(name) for name in Settings.model_fields if name not in left_out}


def from_secrets() -> list[str]:
    """What `secretSettings` may hold."""
    return [name for name in Settings.model_fields if name not in OF_THE_IMAGE]


def _schema(name: str) -> dict[str, Any]:
    kind = kind_of(name)
    told = f"{Settings.model_fields[name].description} It must be {kind.allowed}."
    if kind is FLAG:
        return {"description": told, "type": "boolean"}
    # YAML reads a bare `off` as false; the chart writes it back as the word.
    words: list[object] = [*kind.words, *([False] if "off" in kind.words else [])]
    choices: list[dict[str, Any]] = [{"enum": words}] if words else []
    choices += [form for form, example in _FORMS if _reads(name, example)][:1]
    return {"description": told, **(choices[0] if len(choices) == 1 else {"anyOf": choices})}


_NUMBER = {"type": "number"}
_TEXT = {"type": "string", "minLength": 1}

# With an example of each: the first that a setting takes says what it is.
_FORMS: tuple[tuple[dict[str, Any], object], ...] = (
    (_NUMBER, 1),
    (_NUMBER, 0.5),
    (_TEXT, "http://engine:1"),
    (_TEXT, "/a/path"),
)


def _reads(name: str, example: object) -> bool:
    try:
        kind_of(name).read(example)
    except ValueError:
        return False
    return True


def _holds_secret(annotation: object) -> bool:
    return annotation in (SecretStr, KeyHashes) or any(map(_holds_secret, get_args(annotation)))


def renewed() -> dict[str, Any]:
    """The schema as it is, with that part as the settings are now."""
    schema = read()
    schema["properties"]["settings"]["properties"] = settings()
    schema["properties"]["secretSettings"]["propertyNames"]["enum"] = from_secrets()
    return schema


def write() -> None:
    PATH.write_text(json.dumps(renewed(), indent=2) + "\n")
    print(PATH.relative_to(DEPLOY.parent))


if __name__ == "__main__":
    write()
