"""How what `pip install specgate` leaves out is installed: one wording for all who miss it."""


def how_to_install(extra: str) -> str:
    """`extra`: a name of `optional-dependencies` in pyproject.toml."""
    return f"pip install 'specgate[{extra}]', or from a clone: pip install '.[{extra}]'"
