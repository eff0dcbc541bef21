"""A whole training: epochs, checkpoints, evaluation, and those who are told of it."""
