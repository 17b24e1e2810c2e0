"""The most that was seen within a time, remembered by the minute."""

from collections import deque

SLOT_S = 60.0


class Peaks:
    """`now`: monotonic seconds, of calls in the order of time. memory_s: rounded up to minutes."""

    __slots__ = ("_memory", "_slots", "most")

    def __init__(self, memory_s: float) -> None:
        self._memory = memory_s / SLOT_S
        self._slots: deque[tuple[int, float]] = deque()
        self.most = 0.0
        """Within the memory; 0 while nothing was seen."""

    def saw(self, value: float, now: float) -> None:
        slots, slot = self._slots, int(now // SLOT_S)
        if slots and slots[-1][0] == slot:
            if value <= slots[-1][1]:
                return
            slots[-1] = (slot, value)
        else:
            slots.append((slot, value))
            while slots[0][0] < slot - self._memory:
                slots.popleft()
        self.most = max(each for _, each in slots)
