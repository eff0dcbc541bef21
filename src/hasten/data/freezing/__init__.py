"""Which datasets give the same items each time, and their items as columns."""
