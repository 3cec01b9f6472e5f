"""Drawings of graphs and runs."""

from flowagent.render.diagram import Diagram

__all__ = ["Diagram"]
