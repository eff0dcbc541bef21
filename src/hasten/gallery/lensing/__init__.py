"""Telling galaxies that a gravitational lens has drawn out to a ring from those it has not."""
