"""The loops, and the state that changes."""
