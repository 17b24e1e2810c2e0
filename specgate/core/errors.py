"""The errors of the data path: whose fault, and what to answer.

    Fault                       abstract
    ├── ClientFault             the client's: 4xx
    │   ├── RequestRefused      its request is none that can be carried
    │   ├── ClientGone          it left; nobody is there to be answered
    │   └── ClientStalled       it stopped reading for longer than it may
    ├── LaneFault               the engine's: 502 or 504
    │   ├── ConnectFailed       no connection: nothing was sent, so another lane may be asked
    │   │   └── Unsent          it ended before all was sent: nothing can have been worked on
    │   ├── NoAnswer            the connection ended, or spoke no HTTP, before a response's head
    │   ├── FirstByteTimeout    no head within the time allowed
    │   ├── HalfDone            of a call that goes to both lanes, one gave no answer
    │   └── StreamBroken        the response ended before its end
    └── GateFault               ours: 503, or 429 for who asks for more than there is
        ├── NoLaneReachable     no lane took a connection
        │   └── HolderUnreachable   the lane that holds what is asked for took none
        ├── QueueFull           as much is in flight as may be, and no place to wait
        ├── QueueTimeout        it waited, and there was no room in time
        ├── Stopping            the gate is about to stop
        └── CutShort            the gate stopped before the response's end

No foreign exception crosses a room: `upstream/` maps its library's to these.
"""

from specgate.core.label import Label
from specgate.core.lanes import Lane


class FailureKind(Label):
    """How a lane failed. A closed set: metric label and log field."""

    CONNECT = "connect"
    UNSENT = "unsent"
    DECLINED = "declined"
    NO_ANSWER = "no_answer"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    BROKEN = "broken"
    IDLE_TIMEOUT = "idle_timeout"


class TurnedAway(Label):
    """Why the gate did not let a request in. A closed set: metric label and log field."""

    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    STOPPING = "gate_stopping"


class Fault(Exception):
    """Base of all; `status` is what to answer, `code` the machine-readable word for it."""

    status = 500
    code = "gate_error"


class ClientFault(Fault):
    """The client did it."""

    status = 400
    code = "bad_request"


class RequestRefused(ClientFault):
    """Not HTTP, too large, too slow, or of a kind that the gate does not carry."""

    def __init__(self, status: int, message: str, *, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ClientGone(ClientFault):
    """The client left. 499 appears in logs and metrics only."""

    status = 499
    code = "client_gone"


class ClientStalled(ClientFault):
    """The client did not read for longer than SEND_TIMEOUT_S."""

    status = 408
    code = "client_stalled"


class LaneFault(Fault):
    """The engine did it; `lane` says which one's."""

    status = 502
    code = "lane_failed"
    kind = FailureKind.NO_ANSWER

    def __init__(self, message: str, *, lane: Lane) -> None:
        super().__init__(message)
        self.lane = lane


class ConnectFailed(LaneFault):
    """The lane took no connection; the request was not sent."""

    code = "lane_unreachable"
    kind = FailureKind.CONNECT


class Unsent(ConnectFailed):
    """The connection ended before the whole request was handed over; all of it can be sent again.

    No engine starts on half a request, so that this is as good as no connection.
    """

    kind = FailureKind.UNSENT


class NoAnswer(LaneFault):
    """The request was sent, or part of it, and no response came: it may have been worked on.
    `unheard`: the connection ended, and not one byte had come."""

    code = "lane_no_answer"

    def __init__(self, message: str, *, lane: Lane, unheard: bool = False) -> None:
        super().__init__(message, lane=lane)
        self.unheard = unheard


class FirstByteTimeout(LaneFault):
    """No response head within FIRST_BYTE_TIMEOUT_S."""

    status = 504
    code = "lane_timeout"
    kind = FailureKind.FIRST_BYTE_TIMEOUT


class HalfDone(LaneFault):
    """A call that goes to both lanes was answered by one alone; `lane` is the other."""

    code = "half_done"


class StreamBroken(LaneFault):
    """The response broke off, or paused for longer than IDLE_TIMEOUT_S."""

    code = "lane_stream_broken"

    def __init__(self, message: str, *, lane: Lane, kind: FailureKind = FailureKind.BROKEN) -> None:
        super().__init__(message, lane=lane)
        self.kind = kind


class GateFault(Fault):
    """The gate's own. `retry_after_s`: when to come again, whole seconds. `turned_away`: why it was
    not let in, None if it was."""

    status = 503
    turned_away: TurnedAway | None = None

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NoLaneReachable(GateFault):
    """Neither lane took a connection."""

    code = "no_lane_reachable"


class QueueFull(GateFault):
    """MAX_IN_FLIGHT is reached and QUEUE_SIZE too."""

    status = 429
    code = turned_away = TurnedAway.QUEUE_FULL


class QueueTimeout(GateFault):
    """It waited for QUEUE_TIMEOUT_S."""

    code = turned_away = TurnedAway.QUEUE_TIMEOUT


class Stopping(GateFault):
    """The gate is about to stop, and this request must go elsewhere."""

    code = turned_away = TurnedAway.STOPPING


class HolderUnreachable(NoLaneReachable):
    """What the request refers to is held by a lane that takes no connection: the other would say
    that there is no such thing."""

    code = "holder_unreachable"


class CutShort(GateFault):
    """The response was not over at the drain's end."""

    code = "gate_stopped"
