"""One rule a file; a file that is put here is found by scan.registry."""
