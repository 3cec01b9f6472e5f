"""A pet shop that answers letters: three agents in a graph, of which two work at the same time.

The model is so small that it must be shown what is wanted. So each agent is given an earlier conversation, in which all
went well, as its history: a field of the state that starts with it and grows by what is said now.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel

from flowagent import END, START, Graph, State, append
from flowagent.agents import Agent
from flowagent.models.anthropic import AnthropicModel
from flowagent.models.base import Model, Profile, Settings
from flowagent.models.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, ToolResult, user
from flowagent.models.openai_chat import OpenAICompatible

Client = Literal["openai", "anthropic"]


class Purchase(BaseModel):
    """What somebody bought."""

    animal: Literal["cat", "dog", "bird"]
    number: int


def said(text: str) -> AssistantMessage:
    """A plain answer of the model's."""
    return AssistantMessage(parts=(Text(text=text),))


EARLIER_LETTERS: list[Message] = [
    user("I have 4 dogs."),
    said('{"animal": "dog", "number": 4}'),
    user("Five birds live here."),
    said('{"animal": "bird", "number": 5}'),
]
EARLIER_SUMS: list[Message] = [
    user("What is 2 + 3?"),
    AssistantMessage(parts=(ToolCall(id="earlier-1", name="add", arguments='{"a": 2, "b": 3}'),)),
    ToolMessage(results=(ToolResult(id="earlier-1", name="add", content=(Text(text="5"),)),)),
    said("5"),
]
EARLIER_THANKS: list[Message] = [
    user("Thank somebody who bought 4 dogs."),
    said("Thank you for buying 4 dogs! We hope they feel at home soon."),
    user("Thank somebody who bought 5 birds."),
    said("Thank you for buying 5 birds! We hope they sing for you every day."),
]


class Letter(State):
    """A letter to the shop, and what becomes of it."""

    text: str
    cans_in_stock: int = 19
    cans_delivered: int = 23
    bought: Purchase = Purchase(animal="cat", number=0)
    cans: str = ""
    answer: str = ""
    reading: Annotated[list[Message], append] = EARLIER_LETTERS
    counting: Annotated[list[Message], append] = EARLIER_SUMS
    thanking: Annotated[list[Message], append] = EARLIER_THANKS


def add(a: int, b: int) -> int:
    """Adds two whole numbers."""
    return a + b


def model_at(url: str, client: Client) -> Model:
    """The model behind a server on this machine.

    Args:
        url: where the server is.
        client: whose package asks it. Neither model nor server can call tools, so these are written into the prompt;
            and only behind OpenAI's interface this server can hold a reply to a schema, else it is asked to keep to it.
    """
    if client == "openai":
        return OpenAICompatible("smollm2", base_url=f"{url}/v1", provider="local", tool_calls="prompted")
    accepts = Profile(tools=False, settings=frozenset({"max_tokens", "stop"}))
    return AnthropicModel("smollm2", base_url=url, api_key="none", profile=accepts)


def shop(model: Model) -> Graph[Letter]:
    """The graph: a letter is read while cans are counted; then it is answered."""
    settings = Settings(max_tokens=100)
    reader = Agent(model, name="reader", output=Purchase, settings=settings)
    counter = Agent(model, name="counter", tools=[add], settings=settings)
    writer = Agent(model, name="writer", settings=Settings(max_tokens=100, stop=["\n"]))

    graph = Graph("pet-shop", Letter)
    graph.node(reader, prompt="{text}", into="bought", messages="reading")
    graph.node(counter, prompt="What is {cans_in_stock} + {cans_delivered}?", into="cans", messages="counting")
    graph.node(
        writer,
        prompt="Thank somebody who bought {bought.number} {bought.animal}s.",
        into="answer",
        messages="thanking",
    )
    graph.chain(START, "reader", "writer", END)
    graph.chain(START, "counter", "writer")
    return graph
