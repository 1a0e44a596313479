"""Clients for Messages-API servers and for the OpenAI API."""
