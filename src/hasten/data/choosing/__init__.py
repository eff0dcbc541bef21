"""The fastest way of loading that is safe for a dataset: what it allows, measured, chosen."""
