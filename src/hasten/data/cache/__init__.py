"""Expensive functions of data, computed once: keys by content, entries as memory-mapped arrays."""
