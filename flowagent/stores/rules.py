"""What all stores say alike: the checks and the errors that do not depend on where a journal is kept."""

from __future__ import annotations

from collections.abc import Sequence

from flowagent.core.records import FORMAT, Record
from flowagent.errors import RunConflict, RunExists, RunNotFound, StoreError


def check_run_id(run_id: str) -> bytes:
    """The id as bytes.

    Raises:
        StoreError: the id is empty or is not text that can be written as UTF-8.
    """
    if not run_id:
        raise StoreError("a run id may not be empty; give run_id= some text, or leave it out")
    try:
        return run_id.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"run id {run_id!r} is not valid text (a lone surrogate); use another id") from error


def check_numbers(run_id: str, records: Sequence[Record], first: int) -> None:
    """Refuse records that are not numbered on from `first`.

    Raises:
        RunConflict: the first number is taken already.
        StoreError: a number was left out.
    """
    for expected, record in enumerate(records, first):
        if record.seq != expected:
            raise misnumbered(run_id, record.seq, expected)


def misnumbered(run_id: str, got: int, expected: int) -> RunConflict | StoreError:
    """The error for a record that does not carry the next number."""
    if got < expected:
        return RunConflict(f"record {got} of run `{run_id}` is already stored; the next one is {expected}")
    return StoreError(f"record {got} of run `{run_id}` would leave a gap; the next one is {expected}")


def check_format(store: str, run_id: str, stored: int) -> None:
    """Refuse a run whose records were written in a newer format.

    Raises:
        StoreError: the format is newer than the one of this version.
    """
    if stored > FORMAT:
        raise StoreError(
            f"run `{run_id}` in {store} was written by a newer flowagent (record format {stored}, this one knows "
            f"{FORMAT}); upgrade flowagent to go on with it"
        )


def check_parent(run_id: str, parent: str, parent_seq: int, parent_next: int) -> None:
    """Refuse a fork at a record that the parent does not have.

    Raises:
        StoreError: `parent_seq` is no number of a record of the parent.
    """
    if not 0 <= parent_seq < parent_next:
        raise StoreError(
            f"run `{run_id}` cannot share run `{parent}` up to record {parent_seq}; "
            f"it has the records 0 to {parent_next - 1}"
        )


def not_found(store: str, run_id: str) -> RunNotFound:
    """The error for an id that no run has."""
    return RunNotFound(f"there is no run `{run_id}` in {store}; check the id, or pass the store= it was kept in")


def exists(store: str, run_id: str) -> RunExists:
    """The error for an id that a run has already."""
    return RunExists(f"there is a run `{run_id}` in {store} already; choose another id, or resume that run")


def held(store: str, run_id: str, holder: str) -> RunConflict:
    """The error for a claim on a run that a live owner holds."""
    return RunConflict(
        f"run `{run_id}` in {store} is being advanced by {holder}; wait until it lets go, or cancel the run"
    )


def taken_over(store: str, run_id: str, epoch: int, now: str) -> RunConflict:
    """The error for an append by an owner that has been replaced."""
    return RunConflict(
        f"this call no longer holds run `{run_id}` in {store} (its epoch was {epoch}; {now}); nothing was stored, "
        "and whoever holds the run now goes on with it"
    )


def shared(store: str, run_id: str, children: Sequence[str]) -> RunConflict:
    """The error for a delete of a run whose records other runs share."""
    names = ", ".join(f"`{child}`" for child in children)
    return RunConflict(f"run `{run_id}` in {store} shares its records with {names}; delete those first")


def damaged_line(store: str, run_id: object) -> StoreError:
    """The error for a run of whose line in the table of runs nothing can be trusted."""
    return StoreError(f"the line of run `{run_id}` in {store} is damaged; restore the store from a backup")


def damaged(store: str, run_id: str, seq: int, what: str) -> StoreError:
    """The error for a record that cannot be trusted."""
    return StoreError(
        f"record {seq} of run `{run_id}` in {store} {what}; restore the store from a backup, or start the run again "
        "under another id"
    )
