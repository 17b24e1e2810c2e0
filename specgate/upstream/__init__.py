"""Speaking HTTP/1.1 to a lane."""
