"""Propose, search, confirm, prove, write down."""
