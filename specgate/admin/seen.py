"""What the reading routes tell, gathered from where it is kept."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from specgate.admin.models import Status
from specgate.admin.recorded import Switch, SwitchLog
from specgate.core.view import GateView
from specgate.telemetry.history import EVERY_S, History
from specgate.telemetry.switches import KEPT, Switches


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`view` reads the gate's state, `wall` the time of day."""

    view: Callable[[], GateView]
    wall: Callable[[], float]
    history: History
    switches: Switches
    version: str

    def status(self) -> Status:
        return Status.of(
            self.view(),
            at=self.wall(),
            version=self.version,
            history=self.history,
            switches=self.switches,
        )

    def switch_log(self) -> SwitchLog:
        kept = [Switch.of(each) for each in self.switches.latest()]
        return SwitchLog(kept=KEPT, since_start=self.view().switches, switches=kept)

    def history_json(self, since: float | None) -> bytes:
        """`recorded.History`, encoded. Not through the model: for an hour of points that takes
        tens of milliseconds, in which every stream stands still."""
        columns = self.history.columns(since)
        # As JSON has no NaN, msgspec writes null.
        return msgspec.json.encode({"every_s": EVERY_S, "now": round(self.wall(), 3), **columns})
