"""Predicting a trait of a sample from the DNA sequences of the microbes that were found in it."""
