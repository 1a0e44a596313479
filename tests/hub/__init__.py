"""The tests' stand-in Hub."""
