"""One file per command. Only here are things printed, signals handled and exit codes chosen."""
