"""Ports for servers that stop and start again at the same address."""

import random
import socket

BELOW_CLIENTS = range(20_000, 32_000)
"""Below those that kernels give to clients (Linux: from 32768 on): one of these could take a
server's port while that is down, or even connect to itself."""


def free_port() -> int:
    """One that nobody has now, and that no client gets from the kernel."""
    for port in random.sample(BELOW_CLIENTS, 200):
        with socket.socket() as tried:
            # As servers do: a port that one had a moment ago is free to the next.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")
