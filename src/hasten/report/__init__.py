"""Records to text for people and to JSON for programs. Measures nothing, decides nothing."""
