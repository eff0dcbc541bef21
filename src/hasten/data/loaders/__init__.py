"""The batches of a DataLoader, in its order and with its randomness, made in other ways."""
