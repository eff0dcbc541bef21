"""What to train: the contract, loading by name, traits, and the live parts of a run."""
