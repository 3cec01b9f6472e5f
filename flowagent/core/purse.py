"""What the attempts of a run spend and reserve, held against its limits. Safe to use from every thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from flowagent.core.accounts import Account, Amounts, amounts_of
from flowagent.core.machine import Machine
from flowagent.core.policies import Limits
from flowagent.core.scope import Task
from flowagent.core.usage import NO_USAGE, Usage


class Purse:
    """Knows what is recorded, what attempts in flight have spent since, and what they have reserved.

    Args:
        machine: which knows what is recorded.
        limits: what all of it together may come to.
    """

    def __init__(self, machine: Machine, limits: Limits) -> None:
        self._machine = machine
        self._limits = limits
        self._lock = threading.Lock()
        self._open: set[Account] = set()
        self._told_unpriced = False

    def spend(self, task: Task, usage: Usage) -> bool:
        """Note what an attempt spent.

        Returns:
            Whether this is the first time that something of unknown price was spent under a limit of cost.
        """
        with self._lock:
            self._account(task).spend(usage)
            is_news = bool(usage.unpriced) and self._limits.cost is not None and not self._told_unpriced
            self._told_unpriced = self._told_unpriced or is_news
            return is_news

    def spent_around(self, task: Task) -> Usage:
        """What the graph that a task stands in has spent so far, with what the task's attempt has spent itself."""
        with self._lock:
            recorded = task.scope.spent
            return recorded if task.account is None else recorded + task.account.unrecorded

    def reserve(self, task: Task, asked: Amounts) -> str | None:
        """Set something aside for an attempt, if the limits leave room for it.

        Returns:
            None if it is set aside; else which limit is in the way, in words that end where the node may be named.
        """
        with self._lock:
            held = amounts_of(self._machine.root.spent)
            for account in self._open:
                held = held.plus(account.claim)
            for refusal in _refusals(self._limits, held, asked):
                return refusal
            account = self._account(task)
            account.reserved = account.reserved.plus(asked)
            return None

    def record(self, task: Task) -> Usage | None:
        """What an attempt spent since its last record, which counts as recorded from now on; None for nothing."""
        account = task.account
        if account is None:
            return None
        with self._lock:
            usage = account.unrecorded
            if not usage:
                return None
            account.unrecorded = NO_USAGE
            self._machine.spend(task.id, usage)
            return usage

    def close(self, task: Task, account: Account) -> None:
        """An attempt is over: what it had reserved is free again."""
        with self._lock:
            self._open.discard(account)
            if task.account is account:
                task.account = None

    def _account(self, task: Task) -> Account:
        if task.account is None:
            task.account = Account()
            self._open.add(task.account)
        return task.account


def _refusals(limits: Limits, held: Amounts, asked: Amounts) -> Iterator[str]:
    """The limits that something more would go over, or that are used up already.

    What a request will cost is known only afterwards, so the last one may go over; but no other one is made then.
    """
    for name in Amounts._fields:
        most: Any = getattr(limits, name)
        if most is None:
            continue
        used, more = getattr(held, name), getattr(asked, name)
        is_used_up = name in ("tokens", "cost") and asked.requests > 0 and used >= most
        if used + more > most or is_used_up:
            more_text = f", and {_figure(name, more)} more would go over it" if more else ""
            yield f"reached the limit of {_figure(name, most)}: {_figure(name, used)} spent or reserved{more_text}"


def _figure(name: str, amount: Any) -> str:
    if name == "cost":
        return f"${amount.normalize():f}"
    words = name.replace("_", " ")
    return f"{amount} {words.removesuffix('s') if amount == 1 else words}"
