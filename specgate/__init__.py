"""specgate: decide, live, when speculative decoding pays."""

__version__ = "0.1.0"
