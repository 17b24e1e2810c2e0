"""Everything that listens to facts."""
