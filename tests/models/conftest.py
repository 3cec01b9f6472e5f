"""What tests of models share."""

from collections.abc import Iterator

import pytest

from tests.models.serving import Server
from tests.models.wire import APIS, Api


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on this machine that answers as the test tells it."""
    with Server().running() as running:
        yield running


@pytest.fixture(params=APIS, ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> Api:
    """Each of the interfaces in turn."""
    return request.param
