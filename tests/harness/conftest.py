"""The embedded model's server, started once for all tests that talk to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from h2htalk_harness.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server
