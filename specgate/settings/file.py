"""The settings file: TOML, flat, keys in small letters."""

from pathlib import Path
from typing import Any

from pydantic_settings import TomlConfigSettingsSource

from specgate.settings.model import Settings
from specgate.settings.names import did_you_mean


class FileError(ValueError):
    """The file cannot be read; says why, without its name."""


def read_file(path: str) -> dict[str, Any]:
    """What the file says, by its own keys; raises FileError."""
    file = Path(path)
    try:
        # Pydantic's source takes a file that is not there for an empty one.
        if not file.is_file():
            raise FileError("not a regular file" if file.exists() else "no such file")
        values = TomlConfigSettingsSource(Settings, file).toml_data
    except FileError:
        raise
    except OSError as error:
        raise FileError(error.strerror or "cannot be read") from error
    except UnicodeDecodeError as error:
        raise FileError("not TOML: not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"not TOML: {error}") from error
    # Writers empty a file before they fill it: taken at that moment, it would reset every setting.
    if not values:
        raise FileError("holds no settings")
    return values


def unknown_keys(values: dict[str, Any], path: str) -> list[str]:
    """A line for each key that is no setting. It has no value: that might be a secret."""
    return [
        f"{path}: {key!r} is not a setting{_hint(key, value)}"
        for key, value in values.items()
        if key not in Settings.model_fields
    ]


def _hint(key: str, value: object) -> str:
    """None for a table: no setting is one."""
    return "" if isinstance(value, dict) else did_you_mean(key, Settings.model_fields)
