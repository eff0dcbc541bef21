"""Reads source and finds what costs time or memory; torch is never imported here."""
