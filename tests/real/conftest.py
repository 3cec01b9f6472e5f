"""The two servers. Without them their tests are skipped, unless `FLOWAGENT_REAL=required` says that none may be."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import NoReturn

import pytest

from examples.local_model.served import Served
from examples.local_model.server import local_model, missing
from tests.real.mock import INSTALL, MockServer, absent, mock_server

_FIXTURES = ("mock", "model_server")


@pytest.fixture(scope="session")
def _mock_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockServer]:
    if reason := absent():
        _unavailable(f"{reason}; do {INSTALL}")
    with mock_server(tmp_path_factory.mktemp("aimock")) as mock:
        yield mock


@pytest.fixture
def mock(_mock_process: MockServer) -> MockServer:
    """The mock server, which knows nothing yet."""
    _mock_process.reset()
    return _mock_process


@pytest.fixture(scope="session")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A real model, SmolLM2-135M-Instruct, served by llama.cpp."""
    if steps := missing():
        _unavailable(f"the real model is not installed; do `make test-model`, or: {steps}")
    with local_model(tmp_path_factory.mktemp("model") / "server.log") as server:
        yield server


@pytest.fixture(autouse=True)
def _only_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test gets wrong, no request of ours leaves this machine."""
    monkeypatch.setenv("FLOWAGENT_NO_REQUESTS", "remote")


def _unavailable(reason: str) -> NoReturn:
    if os.environ.get("FLOWAGENT_REAL") == "required":
        pytest.fail(f"{reason} (FLOWAGENT_REAL=required lets no test be skipped)", pytrace=False)
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what its server wrote."""
    report = yield
    used: dict[str, object] = getattr(item, "funcargs", {})
    for name in _FIXTURES:
        server = getattr(used.get(name), "server", used.get(name))
        if report.failed and isinstance(server, Served):
            report.sections.append((f"log of `{name}`", server.said()))
    return report
