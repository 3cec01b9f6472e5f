"""Tools that come along, each safe by default.

Importing them loads nothing heavy: a package for HTTP is loaded when something is first fetched.
"""

from flowagent.tools.builtin.addresses import Reach
from flowagent.tools.builtin.calculator import calculate, calculator
from flowagent.tools.builtin.clock import Clock, Moment
from flowagent.tools.builtin.fetch import Fetch, Page
from flowagent.tools.builtin.files import Files

__all__ = [
    "Clock",
    "Fetch",
    "Files",
    "Moment",
    "Page",
    "Reach",
    "calculate",
    "calculator",
]
