"""The key of an entry: what a result depends on, as one digest. What cannot be digested is refused,
never taken by its address or by what it prints."""
