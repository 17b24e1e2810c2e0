"""The account of what is in flight: one Protocol, several homes."""
