"""What was measured to what binds a step and to findings, ranked: pure."""
