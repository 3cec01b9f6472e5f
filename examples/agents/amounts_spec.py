"""The tests that `coder` must pass: amounts of money as customers of the triage example really write them.

Run where an `amounts.py` is: `python amounts_spec.py` says what fails, each with what was given, wanted and returned.
"""

from __future__ import annotations

import importlib
import sys

WANTED: dict[str, str | None] = {
    "our February invoice shows a total of 412.50 EUR": "412.50",
    "please refund 49 EUR for one of the two": "49",
    "a refund of the purchase price, EUR 1,899.00, and I want": "1899.00",
    "I demand a refund of €2,480.50 for two printers": "2480.50",
    "Ich bitte um die Rückerstattung von 1.249,00 EUR auf das bekannte Konto": "1249.00",
    "nous vous demandons de nous rembourser 89,90 €, comme le prévoit": "89.90",
    "we did not print 40,000 labels": None,
}


def main() -> int:
    """Runs the tests; the exit code says whether all passed."""
    amount_in = importlib.import_module("amounts").amount_in
    failed = 0
    for text, wanted in WANTED.items():
        try:
            found = amount_in(text)
        except Exception as error:  # noqa: BLE001  # whatever the code under test raises is a finding
            found = f"{type(error).__name__}: {error}"
        if (None if found is None else str(found)) != wanted:
            failed += 1
            print(f"amount_in({text!r}) should be {wanted} and is {found}")
    print(f"{len(WANTED) - failed} of {len(WANTED)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
