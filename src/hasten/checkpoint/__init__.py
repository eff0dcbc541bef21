"""A training's state on disk, whole or not there: how it is written, kept, found and read."""
