"""H2HTalk's data: schema, checks, sources, prompts and build. No heavy imports here."""
