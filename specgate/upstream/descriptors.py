"""How many files the process may have open: every connection is one, and a stream has two.

A process that runs out of them takes no connections, probes no lane and reads no file, all at once
and with no word to its clients. So the limit is raised as far as the system allows when the gate
starts, and what is then too low for it is said at once.
"""

import errno
import resource
from dataclasses import dataclass

PER_REQUEST = 2
"""One to the client, one to the lane."""

RESERVED = 128
"""For the listener, the loop, log and libraries, probes, scrapes, and the control surface."""

ENOUGH = 4096
"""Below it the limit is worth a word: some two thousand streams at once."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The limit now, None: there is none; and what it was before it was raised."""

    limit: int | None
    was: int | None

    @property
    def requests(self) -> int | None:
        """How many requests can be in hand at once; None: no limit."""
        return None if self.limit is None else max(0, self.limit - RESERVED) // PER_REQUEST

    def warning(self, wanted: int | None) -> str | None:
        """What is wrong with the limit, None if nothing. wanted: requests that the settings let in,
        in flight and queued; None: as many as come."""
        limit, room = self.limit, self.requests
        if limit is None or room is None:
            return None
        told = f"{limit} open files are allowed, which is room for {room} requests at once"
        if wanted is not None and room < wanted:
            return f"{told}, and the settings let in {wanted}: raise it (ulimit -n, LimitNOFILE)"
        if wanted is None and limit < ENOUGH:
            return f"{told}: raise it (ulimit -n, LimitNOFILE), or set SPECGATE_MAX_IN_FLIGHT"
        return None


SHORT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What a connection fails with for want of something here, whoever it was to be made to."""


def is_ours(error: BaseException | None) -> bool:
    """Whether a connection failed because this machine is short of files or memory: then it says
    nothing of the other side."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in SHORT_OF:
            return True
        if isinstance(error, BaseExceptionGroup):
            return any(is_ours(each) for each in error.exceptions)
        error = error.__cause__ or error.__context__
    return False


def raise_limit() -> Descriptors:
    """Take what the system allows this process at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    now = soft
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            now = hard
        except (OSError, ValueError):
            # Some systems have a lower one that they do not tell; what there is, stays.
            pass
    return Descriptors(limit=_known(now), was=_known(soft))


def _known(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit
