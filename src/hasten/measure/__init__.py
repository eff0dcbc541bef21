"""Takes numbers without disturbing them.

``worker`` is the handle in our process, ``child`` is what runs in the other one, ``messages`` is
what they say to each other. ``compare`` times two arms against each other.
"""
