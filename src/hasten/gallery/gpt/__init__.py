"""Pre-training a language model of the shape of GPT-2, 124 million parameters."""
