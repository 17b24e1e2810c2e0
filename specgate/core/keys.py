"""Clients' keys, kept as hashes.

A plain SHA-256 is enough: keys are long and random, not words that somebody chose. Comparing takes
as long for a wrong key as for a right one, whichever it is and however many there are.
"""

import hmac
from collections.abc import Iterable
from hashlib import sha256

KEYS_MAX = 1000
"""Every request is compared with all of them: so many take a tenth of a millisecond."""


class KeyHashes:
    """A set of keys that can be asked, and not read. Equal where the keys are."""

    __slots__ = ("_digests",)

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = tuple(sorted({sha256(key.encode()).digest() for key in keys}))

    def holds(self, key: bytes) -> bool:
        """Whether it is one of them; in constant time."""
        digest = sha256(key).digest()
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(known, digest)
        return found

    def __or__(self, other: "KeyHashes") -> "KeyHashes":
        both = KeyHashes()
        both._digests = tuple(sorted({*self._digests, *other._digests}))
        return both

    def __len__(self) -> int:
        return len(self._digests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyHashes) and self._digests == other._digests

    def __hash__(self) -> int:
        return hash(self._digests)

    def __repr__(self) -> str:
        return f"KeyHashes({len(self)} keys)"
