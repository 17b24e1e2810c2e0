"""What ends a bench before its time, in the user's words, with the exit code that it deserves.

BenchFault
├── Misused     2: a wrong option, address, model or key; nothing was measured
└── Voided      4: the engines did not do what a measurement needs
"""


class BenchFault(Exception):
    """Base; the message is one clear line that names the arm, where there is one."""

    exit_code = 4


class Misused(BenchFault):
    """The user can mend it by asking differently."""

    exit_code = 2


class Voided(BenchFault):
    """What was measured does not count, or nothing can be measured."""
