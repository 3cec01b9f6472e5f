"""The examples of agents give what they promise, without a key and without a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.agents import (
    billing_service,
    coder,
    first,
    model,
    refund,
    research,
    streaming,
    triage,
    with_mcp,
    with_openapi,
    writer_critic,
)
from examples.triage.desk import Desk
from flowagent import ItemError
from flowagent.agents import Agent
from flowagent.testing import Scripted, fail, say

ROOT = Path(__file__).parents[2]
NAMES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "FLOWAGENT_MODEL")
SCRIPTED = (
    "model: none, answers are scripted; set ANTHROPIC_API_KEY, OPENAI_API_KEY or FLOWAGENT_MODEL to ask a real one\n"
)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, no real request, and an empty folder to be in."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLOWAGENT_NO_REQUESTS", "1")
    monkeypatch.chdir(tmp_path)


# -- which model -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({}, ""),
        ({"OPENAI_API_KEY": "k"}, "openai:gpt-5.5"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "anthropic:claude-haiku-4-5"),
        ({"ANTHROPIC_API_KEY": "k", "FLOWAGENT_MODEL": "ollama:qwen3"}, "ollama:qwen3"),
    ],
)
def test_a_named_model_comes_before_a_key_and_a_key_before_a_script(
    environment: dict[str, str], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert model.real()[0] == chosen


def test_without_a_model_the_script_answers_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with model.real_or(Scripted("42")):
        assert Agent(model.MODEL).run_sync("?").output == "42"
    assert capsys.readouterr().err == SCRIPTED


def test_with_a_model_no_script_answers_and_that_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWAGENT_MODEL", "ollama:qwen3")
    with model.real_or(Scripted("42")):
        assert Agent(Scripted("43")).run_sync("?").output == "43"
    assert capsys.readouterr().err == "model: ollama:qwen3 (FLOWAGENT_MODEL names it)\n"


# -- the examples ----------------------------------------------------------------------------------------------------


def test_first_finds_what_the_invoice_is_wrong_by(capsys: pytest.CaptureFixture[str]) -> None:
    assert first.main() == 0
    out, err = capsys.readouterr()
    assert err == SCRIPTED
    assert out.splitlines()[0] == (
        "She is right: the lines add up to 387.50, and the total says 412.50, which is 25.00 too much."
    )
    assert "tool: result calculate: 387.5" in out


def test_triage_sends_each_ticket_to_a_desk_and_the_report_says_where_rules_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert triage.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 29
    assert [line.split()[0] for line in lines[:-1] if "(rules:" in line] == ["06-rant", "25-html-mail"]
    assert [line.split()[1] for line in lines[13:15]] == ["closed", "closed"]
    assert "(paged the security desk about 19-security-report.txt)" in lines[18]
    assert lines[-1].startswith("74 requests, 23 calls of tools, ")


def test_triage_goes_on_with_the_others_when_a_ticket_fails() -> None:
    """Of two tickets the desk of the first one does not answer."""
    tickets = [triage.Ticket(file=f"{number}-x.txt", text="?") for number in ("02", "21")]
    scripts = triage.script() | {"technical": Scripted(fail("refused", "no"))}
    with model.real_or(**scripts):
        run = triage.inbox.run_sync(triage.Inbox(tickets=tickets), deps=Desk())
    failed, reply = run.state.replies
    assert isinstance(failed, ItemError)
    assert (failed.kind, failed.message) == ("ModelError", "no")
    assert str(reply).startswith("Dear customer")
    assert triage.desks_of(run) == {0: "technical", 1: "sales"}


def test_triage_draws_what_happened_to_one_ticket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert triage.main(["--tickets", "11", "--draw", str(tmp_path / "run.dot")]) == 0
    assert capsys.readouterr().out.startswith("11-japanese                 technical                  Dear 田中 美咲")
    assert "desk" in (tmp_path / "run.dot").read_text(encoding="utf-8")


def test_research_quotes_what_stands_in_the_sources_and_lists_what_could_not_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "a.md").write_text("# Killed\n\nNobody is killed.\n\nA killed process is repeated.\n", encoding="utf-8")
    (folder / "b.md").write_text("Nothing here.\n", encoding="utf-8")
    (folder / "c.md").write_bytes(b"\x00\xff\xfe")
    report = tmp_path / "out" / "report.md"
    assert research.main(["--sources", str(folder), "--out", str(report), "Is a killed process repeated?"]) == 0
    out = capsys.readouterr().out
    wanted = "# Is a killed process repeated?\n\n- A killed process is repeated. [a.md]"
    assert report.read_text(encoding="utf-8") == wanted
    assert out.startswith(f"{wanted}\n\n2 of 3 sources were read; the report is in {report}\n  c.md: ")


def test_research_sends_a_quote_back_that_does_not_stand_in_the_source(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Runs are kept in a\nfile.\n", encoding="utf-8")
    reader = Scripted(
        say({"source": "a.md", "finding": "where", "quotes": ["Runs are kept for ever."]}),
        say({"source": "a.md", "finding": "where", "quotes": ["Runs are kept in a file."]}),
    )
    with model.real_or(read=reader, edit=Scripted("done")):
        graph = research.survey(tmp_path, tmp_path / "out.md")
        run = graph.run_sync(research.Survey(question="Where?", sources=["a.md"]))
    (note,) = run.state.notes
    assert isinstance(note, research.Note)
    assert note.quotes == ["Runs are kept in a file."]
    assert 'these passages do not stand in a.md: ["Runs are kept for ever."]' in reader.requests[1].messages[-1].text


def test_research_reads_the_pages_of_this_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert research.main(["--out", str(tmp_path / "r.md")]) == 0
    pages = len(list((ROOT / "docs").glob("*.md")))
    assert f"{pages} of {pages} sources were read" in capsys.readouterr().out


def test_writer_and_critic_go_round_until_the_critic_is_content(capsys: pytest.CaptureFixture[str]) -> None:
    assert writer_critic.main([]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Dear Dana Whitfield, your K400 arrived wet, it stops with E-40")
    assert out.endswith("\npoints by round: 2, 7, 9; the critic is content\n")


def test_writer_and_critic_stop_at_the_bound_with_the_best_draft(capsys: pytest.CaptureFixture[str]) -> None:
    script = writer_critic.script()
    with model.real_or(write=Scripted("good", "bad"), judge=script["judge"]):
        run = writer_critic.reply.run_sync(writer_critic.Reply(ticket="?", rounds=1))
    assert (run.state.best, run.state.points) == ("good", [2])
    assert writer_critic.main(["--rounds", "2"]) == 0
    assert capsys.readouterr().out.endswith("points by round: 2, 7; no more than 2 rounds; the best draft is taken\n")


def test_a_refund_waits_is_asked_again_by_another_call_and_is_paid_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def saying(*answers: str) -> Callable[[str], str]:
        left = list(answers)

        def ask(question: str) -> str:
            asked.append(question)
            if not left:
                raise EOFError
            return left.pop(0)

        return ask

    command = ["--out", str(tmp_path)]
    assert refund.main(command, saying()) == refund.WAITING
    assert "run `refund-08` waits in " in capsys.readouterr().out
    assert refund.main(command, saying("maybe", "y")) == 0
    assert refund.main(command, saying()) == 0
    assert capsys.readouterr().out == "This is what came of it: paid 1249.00 EUR to Katrin Schulze.\n" * 2
    assert set(asked) == {
        '`refund` is to be called with {"name":"Katrin Schulze","amount":"1249.00"} in `tools@2[0]` '
        "(above 1000 EUR). Approve, deny, answer or abort? [y/n] "
    }
    assert len(asked) == 3
    assert (tmp_path / "refunds.txt").read_text(encoding="utf-8") == (
        "1249.00 EUR to Katrin Schulze refund-08/tools@2[0]/call-2\n"
    )


def test_a_refund_that_a_person_denies_is_not_paid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refund.main(["--out", str(tmp_path), "--ticket", "06"], lambda _: "n") == 0
    assert "denied by the person in charge" in capsys.readouterr().out
    assert not (tmp_path / "refunds.txt").exists()


@pytest.mark.parametrize(
    ("ticket", "said"),
    [
        ("22", "This is what came of it: paid 49.00 EUR to Lee Chan.\n"),
        ("18", "Nothing was refunded: the contract of the sender is unknown.\n"),
    ],
)
def test_nobody_is_asked_about_a_small_refund_or_a_stranger(
    ticket: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(question: str) -> str:
        raise AssertionError(question)

    assert refund.main(["--out", str(tmp_path), "--ticket", ticket], never) == 0
    assert capsys.readouterr().out == said


def test_streaming_prints_text_and_tools_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert streaming.main(["--plain"]) == 0
    out = capsys.readouterr().out
    places = [
        out.index(part) for part in ("I look at", "-> list_files", "<- list_files", "A log:", "-> search", "-> read")
    ]
    assert places == sorted(places)
    assert "the error is `desk.cache.CacheFull: 268435456`" in out
    assert "4 requests, 3 tool calls, " in out


def test_the_printer_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert streaming.main([]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert '→ list_files({"folder":".","pattern":"*","recursive":false})' in out
    assert "the error is `desk.cache.CacheFull: 268435456`" in out


def test_tools_of_a_server_in_another_process_answer() -> None:
    command = [sys.executable, "-m", "examples.agents.with_mcp"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, SCRIPTED)
    assert done.stdout == (
        "- Brightmill Inc (ticket 6): ENOUGH. I want my money back\n"
        "- さくら商事 (ticket 11): ラベルが印刷されません\n"
        "3 requests, 17 calls of the server's tools\n"
    )


async def test_the_server_s_tool_that_deletes_is_none_of_the_model_s() -> None:
    async with with_mcp.desk_tools() as tools:
        assert [tool.name for tool in await tools.load()] == [
            "desk_list_tickets",
            "desk_read_ticket",
            "desk_find_customer",
        ]


def test_operations_of_a_service_are_tools(capsys: pytest.CaptureFixture[str]) -> None:
    assert with_openapi.main() == 0
    assert capsys.readouterr().out == (
        "No: its total is 25.00 too high, which is the price of one `Label roll 62 mm`.\n"
        "called: getInvoice, calculate\n"
    )


async def test_the_service_s_operation_that_deletes_is_none_of_the_model_s() -> None:
    with billing_service.serving() as url:
        loaded = await with_openapi.auditor(url).toolbox.load()
    assert [tool.name for tool in loaded.tools] == ["getInvoice", "findCustomer", "calculate"]


def test_a_failing_test_goes_back_to_the_coder_with_what_it_said(capsys: pytest.CaptureFixture[str]) -> None:
    """F18: planner, coder, tester, offline."""
    scripts = coder.script()
    with model.real_or(**scripts):
        run = coder.work.run_sync(coder.Work(task=coder.TASK))
    assert [report.splitlines()[-1] for report in run.state.reports] == ["5 of 7 passed", "7 of 7 passed"]
    assert "should be 1249.00 and is 1.24900" in scripts["code"].requests[1].messages[0].text
    assert list(dict.fromkeys(step.task for step in run.history if "/" not in step.task)) == [
        "plan",
        "code@1",
        "test@1",
        "how_it_went@1",
        "code@2",
        "test@2",
        "how_it_went@2",
    ]
    assert coder.main(["--tries", "1"]) == 1
    assert "5 of 7 passed" in capsys.readouterr().out


def test_code_that_does_not_end_is_killed_and_sees_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    assert coder.judged("while True: pass", 0.5) == (False, "the tests did not end within 0.5 seconds")
    leak = "import os\ndef amount_in(text): return sorted(name for name in os.environ if 'KEY' in name)"
    assert "and is []" in coder.judged(leak)[1]


def test_code_of_a_real_model_is_not_run_unless_somebody_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWAGENT_MODEL", "ollama:qwen3")
    assert coder.main([]) == 2
    assert "say --run-code" in capsys.readouterr().err


def test_each_module_says_what_it_is_and_does_nothing_when_it_is_imported() -> None:
    probe = """
import importlib, pathlib
for path in sorted(pathlib.Path("examples/agents").glob("[a-z]*.py")):
    assert importlib.import_module(f"examples.agents.{path.stem}").__doc__, path
"""
    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, encoding="utf-8")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
