"""What each engine calls things: routes, health paths, names."""
