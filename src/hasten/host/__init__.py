"""This machine: what it has, what this process may use of it, and safe writes to its disk."""
