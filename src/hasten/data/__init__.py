"""Mechanisms that get data to the model, usable alone; they know no plan."""
