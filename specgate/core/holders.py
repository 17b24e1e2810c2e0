"""Which lane holds what: a map from keys to lanes, bounded in size and in time."""

from collections import OrderedDict

from specgate.core.lanes import Lane


class Holders:
    """most: keys kept; beyond it the one that was used longest ago goes. keep_s: seconds that a key
    is kept after its last use. `now`: monotonic seconds, in the order of time."""

    __slots__ = ("_held", "_keep_s", "_most")

    def __init__(self, *, most: int, keep_s: float) -> None:
        self._most = most
        self._keep_s = keep_s
        # In the order of their last use, so that what expires and what goes stand in front.
        self._held: OrderedDict[bytes | str, tuple[Lane, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, key: bytes | str, lane: Lane, now: float) -> None:
        """From now on the key is this lane's."""
        held = self._held
        held[key] = (lane, now)
        held.move_to_end(key)
        self._expire(now)
        if len(held) > self._most:
            held.popitem(last=False)

    def of(self, key: bytes | str, now: float) -> Lane | None:
        """The key's lane, None if it is not known, or not any more. Asking is a use."""
        self._expire(now)
        found = self._held.get(key)
        if found is None:
            return None
        self._held[key] = (found[0], now)
        self._held.move_to_end(key)
        return found[0]

    def forget(self, lane: Lane) -> None:
        """Another engine is in the lane: what the old one held is gone with it."""
        for key in [key for key, (holder, _) in self._held.items() if holder is lane]:
            del self._held[key]

    def _expire(self, now: float) -> None:
        held = self._held
        while held:
            key, (_, used) = next(iter(held.items()))
            if now - used <= self._keep_s:
                return
            del held[key]
