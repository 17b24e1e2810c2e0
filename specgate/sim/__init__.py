"""The simulated engine: two lanes of an SGLang-like server, without a GPU."""
