"""Training a language model of the shape of GPT-2 on the sources of Python's standard library."""
