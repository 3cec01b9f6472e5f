from __future__ import annotations

import subprocess
import sys

import pytest

from flowagent.tools.docstrings import Described, described

GOOGLE = """Find pages.

    They are ranked.

    Args:
        query (str): what to look for,
            in any language
        most: how many: at least 1

    Returns:
        The pages.

    Raises:
        ValueError: nothing.

    Note:
        Be brief.
    """

NUMPY = """Find pages.

    They are ranked.

    Parameters
    ----------
    query : str
        what to look for,
        in any language
    most
        how many: at least 1

    Returns
    -------
    list
        The pages.

    Note
    ----
    Be brief.
    """

SPHINX = """Find pages.

    They are ranked.

    Note: Be brief.

    :param query: what to look for,
        in any language
    :type query: str
    :param int most: how many: at least 1
    :returns: The pages.
    :raises ValueError: nothing.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_three_styles_say_the_same(docstring: str) -> None:
    assert described(docstring) == Described(
        "Find pages.\n\nThey are ranked.\n\nNote: Be brief.",
        {"query": "what to look for, in any language", "most": "how many: at least 1"},
    )


def test_what_stands_after_the_parameters_is_kept() -> None:
    docstring = "Add.\n\nArgs:\n    a: one\n\nCall it rarely.\n\nExample:\n    >>> add(1)\n    2\n"
    assert described(docstring).text == "Add.\n\nCall it rarely.\n\nExample:\n>>> add(1)\n2"


def test_sections_of_other_kinds_are_kept_with_their_titles() -> None:
    docstring = (
        "Add.\n\nParameters\n----------\na, b : int\n    a number\n\nExamples\n--------\n>>> add(1)\n2\n\n"
        "Deprecated\n----------\n1.0\n    Use plus.\n\nAttributes\n----------\nx : int\n    Nothing of a function.\n"
    )
    assert described(docstring) == Described(
        "Add.\n\nExamples:\n>>> add(1)\n2\n\nDeprecated: Use plus.", {"a": "a number", "b": "a number"}
    )


def test_lists_and_paragraphs_in_the_description_of_a_parameter_stay() -> None:
    docstring = "Add.\n\nArgs:\n    a: one of\n\n        - x\n        - y\n    b: two"
    assert described(docstring).parameters == {"a": "one of\n\n- x\n- y", "b": "two"}


def test_a_list_of_parameters_that_cannot_be_read_is_told_as_it_stands() -> None:
    assert described("Add.\n\nArgs:\n    whatever") == Described("Add.\n\nArgs:\n    whatever")


@pytest.mark.parametrize("docstring", [None, ""])
def test_no_docstring_says_nothing(docstring: str | None) -> None:
    assert described(docstring) == Described()


def test_griffe_is_only_loaded_for_a_list_of_parameters() -> None:
    code = (
        "import sys; from flowagent.tools.docstrings import described; described('Add.');"
        "assert 'griffe' not in sys.modules;"
        "described('Add.\\n\\nArgs:\\n    a: one'); assert 'griffe' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
