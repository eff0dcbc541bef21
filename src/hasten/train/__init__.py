"""A training from its first step to its last, whatever happens in between."""
