"""Keys that can be asked and not read."""

import hmac
from hashlib import sha256
from types import SimpleNamespace

from specgate.core import keys
from specgate.core.keys import KeyHashes


def test_it_holds_what_it_was_made_of_and_nothing_else():
    held = KeyHashes(["one", "two"])
    assert held.holds(b"one")
    assert held.holds(b"two")
    for other in (b"", b"on", b"one ", b"onetwo", b"ONE", b"three", sha256(b"one").digest()):
        assert not held.holds(other)
    assert not KeyHashes().holds(b"")


def test_every_key_is_compared_whichever_is_right(monkeypatch):
    """In constant time each, and all of them, so that time tells nothing."""
    compared: list[bytes] = []

    def counting(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(keys, "hmac", SimpleNamespace(compare_digest=counting))
    held = KeyHashes(f"key-{number}" for number in range(10))
    for key in (b"key-0", b"key-5", b"key-9", b"none"):
        compared.clear()
        held.holds(key)
        assert len(compared) == 10


def test_equal_where_the_keys_are():
    assert KeyHashes(["a", "b"]) == KeyHashes(["b", "a", "b"])
    assert hash(KeyHashes(["a", "b"])) == hash(KeyHashes(["b", "a"]))
    assert KeyHashes(["a"]) != KeyHashes(["b"])
    assert KeyHashes(["a"]) != "a"
    joined = KeyHashes(["a"]) | KeyHashes(["b", "a"])
    assert joined == KeyHashes(["a", "b"])
    assert len(joined) == 2


def test_no_text_of_it_is_a_key_or_its_hash():
    held = KeyHashes(["secret"])
    for text in (repr(held), str(held), f"{held}"):
        assert text == "KeyHashes(1 keys)"
