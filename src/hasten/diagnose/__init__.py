"""Measurement to findings: pure, ranked by what they could gain."""
