"""Short words for models that fail in tests."""

from __future__ import annotations

import pytest

from flowagent.errors import ModelError
from flowagent.models.base import Model, ModelRequest
from tests.models.asking import asked


async def failed(model: Model, request: ModelRequest | None = None) -> ModelError:
    """How a request fails."""
    with pytest.raises(ModelError) as caught:
        await model.request(request or asked())
    return caught.value
