"""Text of strangers, made fit for a line: nothing in it is a line end or speaks to a terminal.

A client chooses its path. Written as it is, one with a line feed is a line of its own, one with an
escape sequence paints over others, and one that turns the writing direction reads as another.
"""

import json


def visible(text: str) -> str:
    """The text with all that does not print as `\\uXXXX`, which JSON reads as the same character.
    Letters of all scripts stay."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in text
    )


def visible_bytes(line: bytes) -> bytes:
    """The same for UTF-8, which what is no UTF-8 becomes."""
    return visible(line.decode("utf-8", "replace")).encode()
