"""The names that traces and metrics use: OpenTelemetry's conventions for generative AI, and our own for graphs.

They are written out, as the constants of the Python package are deprecated: the conventions have moved.
"""

from __future__ import annotations

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
WORKFLOW: Final = "gen_ai.workflow.name"
AGENT: Final = "gen_ai.agent.name"

REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_SETTINGS: Final = {
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
}
"""The settings that have a name in the conventions."""
OUTPUT_TYPE: Final = "gen_ai.output.type"

RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"

USAGE: Final = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}
"""The figures of `Usage` that have a name in the conventions."""

SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"

TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

ERROR_TYPE: Final = "error.type"

TOKEN_TYPE: Final = "gen_ai.token.type"
TOKENS: Final = "gen_ai.client.token.usage"
DURATION: Final = "gen_ai.client.operation.duration"
TOKEN_BOUNDARIES: Final = tuple(4.0**power for power in range(14))
DURATION_BOUNDARIES: Final = tuple(0.01 * 2.0**power for power in range(14))

RUN: Final = "flowagent.run.id"
RESUMED: Final = "flowagent.run.resumed"
STATUS: Final = "flowagent.run.status"
TASK: Final = "flowagent.task.id"
NODE: Final = "flowagent.node.name"
PATH: Final = "flowagent.node.path"
GRAPH: Final = "flowagent.graph.name"
VISIT: Final = "flowagent.visit"
ITEM: Final = "flowagent.item"
ATTEMPT: Final = "flowagent.attempt"
ENDING: Final = "flowagent.task.ending"
RETRY_IN: Final = "flowagent.retry_in"
QUESTION: Final = "flowagent.question.id"
COST: Final = "flowagent.cost"
FROM_CACHE: Final = "flowagent.from_cache"
WAIT: Final = "flowagent.wait"
"""The name of the event of a `chat` span that a request failed and is made again after a wait."""
WAIT_SECONDS: Final = "flowagent.wait.seconds"
