"""The step engine: applies a plan to a pipeline and runs its steps. Never imports the tuner."""
