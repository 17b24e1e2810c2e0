"""Becomes `specgate serve` under what the unit for systemd allows: `confined.py CALL...`.

Any other system call ends the process. Exits with 77 where the kernel cannot confine it.
"""

import ctypes
import os
import sys

import pyseccomp

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_MDWE = 38, 24, 65
UNKNOWN_HERE = -1
NO_KERNEL = 77


def main(calls: list[str]) -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in range(64):
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    # Linux's own form of MemoryDenyWriteExecute, since 6.3.
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_MDWE, 1, 0, 0, 0):
        sys.exit(NO_KERNEL)
    only = pyseccomp.SyscallFilter(pyseccomp.KILL_PROCESS)
    machine = pyseccomp.Arch.NATIVE
    for call in calls:
        # systemd names calls of every machine.
        if pyseccomp.resolve_syscall(machine, call) != UNKNOWN_HERE:
            only.add_rule(pyseccomp.ALLOW, call)
    only.load()
    os.umask(0o077)
    os.execv(sys.executable, [sys.executable, "-m", "specgate", "serve"])


if __name__ == "__main__":
    main(sys.argv[1:])
