"""How hypothesis looks for faults in a campaign: as often as is said, from a seed, telling the smallest example."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings


def searching(rounds: int, **options: Any) -> settings:
    """The settings of a campaign: nothing is remembered, and nothing is slow."""
    return settings(
        max_examples=rounds,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        phases=[Phase.generate, Phase.shrink],
        **options,
    )


def told(error: BaseException) -> Iterator[str]:
    """What went wrong, each with the example that was found for it."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from told(one)
        return
    notes = "\n".join(getattr(error, "__notes__", ()))
    trace, where = error.__traceback__, list[str]()
    while trace is not None:
        where.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    yield f"{type(error).__name__}: {str(error)[:1500]}\n    at {' > '.join(where[-5:])}\n{notes[:4000]}"
