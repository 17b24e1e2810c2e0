"""Why an engine could not be looked at, in one line, with the exit code that it deserves.

DoctorFault
├── Unreachable     4: nothing answered, or not in a way that can be read
├── NeedsKey        2: 401 or 403
└── NoEngine        2: something answered that is no engine
"""


class DoctorFault(Exception):
    """Base; the message names the address."""

    exit_code = 4


class Unreachable(DoctorFault):
    """As with `specgate bench`, where such an arm is void."""


class NeedsKey(DoctorFault):
    """The user can mend it by asking differently."""

    exit_code = 2


class NoEngine(DoctorFault):
    """The address is wrong."""

    exit_code = 2
