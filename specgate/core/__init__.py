"""Pure decisions and formats: no I/O, no clock, no logging, standard library only."""
