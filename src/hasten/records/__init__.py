"""The typed records that cross rooms, and their JSON and TOML form."""
