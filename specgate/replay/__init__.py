"""The gate in virtual time: on recorded or made traffic, against a profile."""
