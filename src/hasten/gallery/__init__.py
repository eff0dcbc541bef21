"""Workloads that come with Hasten, one package each: ``gallery:NAME[@SIZE]`` names a task."""
