"""Pure numbers: no clock, no torch, no files."""
