"""What models have in common that stand around another one: they are it, but for what they do to a request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator

from flowagent.models.base import Model, ModelRequest, Profile, Reply, StreamPart, drained


class Around(ABC):
    """A model that asks another one.

    Args:
        model: who is asked.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """Who it is, as `provider:model`."""
        return self._model.name

    @property
    def profile(self) -> Profile:
        """What it accepts."""
        return self._model.profile

    async def request(self, request: ModelRequest) -> Reply:
        """Answer; what `stream` does and raises, without its parts."""
        return await drained(self.stream(request))

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer, telling parts as they come; the last one is the `Reply`."""
        ...
