"""Reading the 2-grams of names back from the Bloom filters that record linkage shares."""
