"""The stand-in Hub and its test."""
