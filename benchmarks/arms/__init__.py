"""The ways to train one workload that ``step_engine.py`` compares, each in a process of its own."""
