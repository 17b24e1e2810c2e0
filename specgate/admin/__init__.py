"""The control surface: FastAPI routes under the gate's own paths."""
