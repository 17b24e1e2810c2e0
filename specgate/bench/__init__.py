"""Measures what speculation gains at each load: plans, drives engines, records, judges."""
