"""Frozen dataclasses as JSON: written, read back with errors that name the field, and described.

    written(record)            what json.dumps takes
    read(Kind, value)          the record, or RecordError: "levels[2].arms.spec.tok_s: must be ..."
    json_schema(Kind)          the JSON Schema that `read` holds values to
    Annotated[int, Says("what it means", above=0)]      a field, its meaning and its bound

Kinds that a field may have: str, int, float, bool, None, StrEnum, Literal, unions of them, tuples
(of one kind with ..., or of a fixed length), dicts by text, and such dataclasses. A key that is not
known is passed over, so that an older reader takes what a newer writer added. A field with a
default may be missing.
"""

import dataclasses
import math
import sys
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar, cast

Record = TypeVar("Record")


class RecordError(ValueError):
    """A value does not fit; the text begins with the field's place."""


@dataclasses.dataclass(frozen=True, slots=True)
class Says:
    """In a field's annotation: what it means, and what its numbers must be above."""

    meaning: str
    above: float | None = None


def hints_of(kind: Any) -> dict[str, tuple[Any, Says]]:
    """Each field of a record: its kind, and what it says of itself."""
    found = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        of, *notes = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        found[name] = of, next((note for note in notes if isinstance(note, Says)), Says(""))
    return found


def written(value: object) -> Any:
    """Plain JSON values: tuples as lists, enums as their words."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: written(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: written(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [written(one) for one in value]
    return str(value) if isinstance(value, StrEnum) else value


def read(kind: type[Record], value: object, at: str = "") -> Record:
    """The record that `value` says. Raises RecordError."""
    return cast("Record", _read(kind, value, at, None))


def json_schema(kind: type) -> dict[str, Any]:
    """A self-contained JSON Schema (2020-12) for records of `kind`."""
    known: dict[str, Any] = {}
    _schema(kind, None, known)
    top: dict[str, Any] = known.pop(kind.__name__)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "$defs": known}


def _read(kind: Any, value: object, at: str, above: float | None) -> object:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if _is_union(kind):
        if value is None and type(None) in inside:
            return None
        return _read_one_of([k for k in inside if k is not type(None)], kind, value, at, above)
    if origin is tuple:
        return _read_list(kind, inside, value, at, above)
    if origin is dict:
        if not isinstance(value, dict):
            raise _refusal(at, kind, value)
        return {key: _read(inside[1], one, _under(at, key), above) for key, one in value.items()}
    if origin is Literal:
        if value not in inside:
            raise _refusal(at, kind, value)
        return value
    if dataclasses.is_dataclass(kind):
        return _read_record(kind, value, at)
    if issubclass(kind, StrEnum):
        if value not in [str(word) for word in kind]:
            raise _refusal(at, kind, value)
        return kind(value)
    return _read_scalar(kind, value, at, above)


def _read_scalar(kind: type, value: object, at: str, above: float | None) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        # JSON's whole numbers have no limit; beyond it one is not converted, and refused below.
        value = float(value) if abs(value) < sys.float_info.max else value
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _refusal(at, kind, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _refusal(at, kind, value)
    if above is not None and isinstance(value, int | float) and not value > above:
        raise RecordError(f"{at}: must be above {above:g}, not {value}")
    return value


def _read_one_of(
    kinds: list[Any], union: Any, value: object, at: str, above: float | None
) -> object:
    if len(kinds) == 1:
        return _read(kinds[0], value, at, above)
    # Whole numbers stay whole where both kinds are allowed.
    for kind in sorted(kinds, key=lambda kind: kind is float):
        try:
            return _read(kind, value, at, above)
        except RecordError:
            continue
    raise _refusal(at, union, value)


def _read_list(
    kind: Any, inside: tuple[Any, ...], value: object, at: str, above: float | None
) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise _refusal(at, kind, value)
    kinds = [inside[0]] * len(value) if inside[-1] is Ellipsis else list(inside)
    if len(kinds) != len(value):
        raise _refusal(at, kind, value)
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_read(k, one, f"{at}[{i}]", above) for i, (k, one) in pairs)


def _read_record(kind: Any, value: object, at: str) -> object:
    if not isinstance(value, dict):
        raise _refusal(at, kind, value)
    hints = hints_of(kind)
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            place = _under(at, field.name)
            of, says = hints[field.name]
            values[field.name] = _read(of, value[field.name], place, says.above)
        elif not _has_default(field):
            raise RecordError(f"{_under(at, field.name)}: is missing")
    return kind(**values)


def _schema(kind: Any, above: float | None, known: dict[str, Any]) -> dict[str, Any]:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if _is_union(kind):
        return {"anyOf": [_schema(one, above, known) for one in inside]}
    if origin is tuple:
        if inside[-1] is Ellipsis:
            return {"type": "array", "items": _schema(inside[0], above, known)}
        items = [_schema(one, above, known) for one in inside]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inside[1], above, known)}
    if origin is Literal:
        return {"enum": list(inside)}
    if dataclasses.is_dataclass(kind):
        return _record_schema(kind, known)
    if issubclass(kind, StrEnum):
        return {"enum": [str(word) for word in kind]}
    found: dict[str, Any] = {"type": _JSON_NAMES[kind]}
    if above is not None and kind in (int, float):
        found["exclusiveMinimum"] = above
    return found


def _record_schema(kind: Any, known: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in known:
        known[name] = {}  # Holds the place while it is made: a record may hold its like.
        hints = hints_of(kind)
        fields = dataclasses.fields(kind)
        known[name] = {
            "title": name,
            "description": " ".join((kind.__doc__ or "").split()),
            "type": "object",
            "properties": {
                name: {**_schema(of, says.above, known), "description": says.meaning}
                for name, (of, says) in hints.items()
            },
            "required": [f.name for f in fields if not _has_default(f)],
        }
    return {"$ref": f"#/$defs/{name}"}


_JSON_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def in_words(kind: Any) -> str:
    """A kind, as people would say it."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is type(None):
        return "null"
    if _is_union(kind):
        words = [in_words(one) for one in inside]
        return " or ".join(f"({word})" if " or " in word else word for word in words)
    if origin is tuple:
        if inside[-1] is Ellipsis:
            return f"a list, each {in_words(inside[0])}"
        return f"a list of {len(inside)}, each {in_words(inside[0])}"
    if origin is dict:
        return f"an object, each {in_words(inside[1])}"
    if origin is Literal:
        return " or ".join(f'"{word}"' for word in inside)
    if dataclasses.is_dataclass(kind):
        return f"an object ({cast('type', kind).__name__})"
    if issubclass(kind, StrEnum):
        return " or ".join(f'"{word}"' for word in kind)
    return _WORDS[kind]


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _under(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _refusal(at: str, kind: Any, value: object) -> RecordError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:60] + "..."
    return RecordError(f"{at or 'the file'}: must be {in_words(kind)}, not {shown}")
