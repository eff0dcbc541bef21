"""Mechanisms of one optimizer step, usable alone; they know no plan."""
