"""Batches that workers or threads make before they are asked for, in the order of a DataLoader."""
