"""Agents as nodes, maps and tools; routers by model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

