"""The examples run as their readers would run them, and give what they promise."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from examples import documents, nested_map
from examples.triage import __main__ as triage
from examples.triage import attachments, checks, drafting
from examples.triage.answers import WAITING, by_asking, by_rule
from examples.triage.desk import HERE, Desk
from examples.triage.graphs import Inbox, inbox
from examples.triage.model import Message
from examples.triage.parsing import parse

ROOT = Path(__file__).parents[2]

# Shape, language, queue, priority and number of drafts of each ticket.
SORTED = {
    "01-email-invoice.txt": ("email", "en", "billing", "normal", 1),
    "02-email-thread.txt": ("email", "en", "technical", "urgent", 2),
    "03-chat-printer.txt": ("chat", "en", "technical", "low", 1),
    "04-form-login.txt": ("form", "en", "technical", "normal", 1),
    "05-one-liner.txt": ("note", "en", "technical", "normal", 4),
    "06-rant.txt": ("email", "en", "billing", "urgent", 4),
    "07-german-latin1.txt": ("email", "de", "billing", "normal", 1),
    "08-german-refund.txt": ("email", "de", "billing", "normal", 1),
    "09-french-form.txt": ("form", "fr", "technical", "high", 1),
    "10-french-quoted-printable.txt": ("email", "fr", "billing", "normal", 1),
    "11-japanese.txt": ("email", "ja", "technical", "high", 1),
    "12-stack-trace.txt": ("form", "en", "technical", "normal", 1),
    "13-broken-attachment.txt": ("email", "en", "billing", "normal", 1),
    "14-empty.txt": ("note", "en", "closed", "low", 0),
    "15-only-quotes.txt": ("email", "en", "closed", "low", 0),
    "16-emoji-and-junk.txt": ("note", "en", "technical", "normal", 2),
    "17-duplicate.txt": ("form", "en", "duplicates", "normal", 0),
    "18-refund-threat.txt": ("email", "en", "billing", "urgent", 3),
    "19-security-report.txt": ("email", "en", "security", "urgent", 2),
    "20-spam.txt": ("email", "en", "spam", "low", 0),
    "21-sales-question.txt": ("form", "en", "sales", "normal", 1),
    "22-small-refund.txt": ("chat", "en", "billing", "normal", 1),
    "23-expired-contract.txt": ("email", "en", "technical", "normal", 1),
    "24-mixed-languages.txt": ("note", "de", "technical", "normal", 2),
    "25-html-mail.txt": ("email", "en", "sales", "normal", 1),
    "26-chat-german.txt": ("chat", "de", "technical", "high", 1),
    "27-utf16-crlf.txt": ("note", "en", "technical", "low", 2),
    "28-thanks.txt": ("email", "en", "closed", "low", 0),
}

NOTES = {
    "05-one-liner.txt": ("contract unknown", "a person must read the reply: no name"),
    "06-rant.txt": ("refunded 1899.00 EUR",),
    "07-german-latin1.txt": ("read as iso-8859-1",),
    "08-german-refund.txt": ("refunded 1249.00 EUR",),
    "10-french-quoted-printable.txt": ("refunded 89.90 EUR",),
    "14-empty.txt": ("empty",),
    "15-only-quotes.txt": ("empty",),
    "16-emoji-and-junk.txt": ("removed 17 unprintable characters",),
    "17-duplicate.txt": ("same as 01-email-invoice.txt",),
    "18-refund-threat.txt": ("contract unknown", "refund of 2480.50 EUR denied"),
    "19-security-report.txt": ("contract unknown", "paged the security desk about 19-security-report.txt"),
    "20-spam.txt": ("spam",),
    "21-sales-question.txt": ("contract unknown",),
    "22-small-refund.txt": ("refunded 49.00 EUR",),
    "23-expired-contract.txt": ("contract expired",),
    "25-html-mail.txt": ("read from HTML",),
    "27-utf16-crlf.txt": ("read as utf-16",),
    "28-thanks.txt": ("thanks",),
}

QUESTIONS = [
    "Refund 1899.00 EUR to Dana Whitfield (06-rant.txt)?",
    "Refund 1249.00 EUR to Katrin Schulze (08-german-refund.txt)?",
    "Refund 2480.50 EUR to R. Castellan (18-refund-threat.txt)?",
]


# ------------------------------------------------------------------------------------------------- triage: the parts


def test_a_form_continues_a_value_on_indented_lines():
    """A web form's message may have several lines; fields nobody asked for are dropped."""
    raw = b"Name: Lee\nE-mail: LEE@x.example\nConsent: yes\nMessage: one\n  two\n"
    assert parse(raw) == Message(channel="form", name="Lee", address="lee@x.example", body="one\ntwo")


def test_a_chat_keeps_only_what_the_customer_said():
    """Bots and agents are left out, and so is the line that is nothing but the address."""
    raw = b"[09:00] bot: Address?\n[09:01] Lee: lee@x.example\n[09:02] agent Jo: Yes?\n[09:03] Lee: it broke\n"
    assert parse(raw) == Message(channel="chat", name="Lee", address="lee@x.example", body="it broke")


def test_a_mail_loses_quotes_signature_and_the_attachment_line():
    """What is left of an e-mail is what its sender wrote this time."""
    raw = (
        b'From: "Fox, Ann" <ann@x.example>\nSubject: Hi\n\nHello\n\nAttachments: a.csv, b.log\n-- \nAnn\n'
        b"On Monday Bob wrote:\n> old\n"
    )
    assert parse(raw) == Message(
        channel="email",
        name="Ann Fox",
        address="ann@x.example",
        subject="Hi",
        body="Hello",
        attachments=("a.csv", "b.log"),
    )


@pytest.mark.parametrize(
    "raw", [b"", b"\xff", b"\x00\x01", b"\xff\xfe\x00", b"Subject: no sender\n\nx", b"[09:00]", b": :"]
)
def test_whatever_comes_in_something_comes_out(raw: bytes):
    """The parser never raises."""
    assert isinstance(parse(raw), Message)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("refund 1.249,00 EUR", "1249.00"),
        ("refund EUR 1,899.00", "1899.00"),
        ("refund of €2,480.50.", "2480.50"),
        ("please refund 49 EUR", "49.00"),
        ("rembourser 89,90 €", "89.90"),
        ("refund 10 EUR of 1,000 euros", "1000.00"),
        ("the total is 12 EUR", None),
        ("refund it", None),
    ],
)
def test_amounts_are_read_as_people_write_them(text: str, amount: str | None):
    """Points and commas may separate thousands or cents; the largest amount counts, and only if money is asked back."""
    assert checks.refund_wanted(Message(body=text)) == (Decimal(amount) if amount else None)


def test_attachments_are_summarised():
    """Each kind of attachment has a reader that says what matters in it."""
    folder = HERE / "attachments"
    assert attachments.summarise(folder, "invoice-2041.csv") == (
        "5 rows with item, quantity, unit_price, amount; the total says 412.50, the lines add up to 387.50"
    )
    assert attachments.summarise(folder, "crash.log") == (
        "2 error, 1 warn, 2 info lines; desk.cache.CacheFull: 268435456 at desk/cache.py:41"
    )
    assert attachments.summarise(folder, "settings.json").startswith("version = 5.1.0, printer.model = K200")


def test_attachments_that_cannot_be_read_say_why(tmp_path: Path):
    """A missing, cut off, foreign or damaged file raises; a name cannot lead out of the folder."""
    (tmp_path / "a.exe").write_bytes(b"MZ")
    (tmp_path / "a.csv").write_text("item,amount\nx,much\n", encoding="utf-8")
    cut_off = HERE / "attachments" / "usage-2026-01.csv.gz"
    (tmp_path / cut_off.name).write_bytes(cut_off.read_bytes())
    for name, error in [
        ("a.exe", attachments.UnreadableError),
        ("a.csv", ValueError),
        (cut_off.name, EOFError),
        ("../../graphs.py", FileNotFoundError),
    ]:
        with pytest.raises(error):
            attachments.summarise(tmp_path, name)


def test_each_fault_of_a_draft_can_be_mended_but_a_missing_name():
    """Avoiding a fault gives a draft without it."""
    facts = drafting.Facts(message=Message(body="WHERE is my MONEY? " * 60), language="en", urgent=True)
    assert drafting.faults_in(drafting.draft_reply(facts), "en") == ["no name", "shouts", "promises", "too long"]
    mended = drafting.draft_reply(facts, {"no name", "shouts", "promises", "too long"})
    assert drafting.faults_in(mended, "en") == ["no name"]


def test_answers_come_from_a_rule_or_a_person():
    """A rule compares the amount; a person is asked until the answer fits."""
    assert [by_rule(question, Decimal(1500)) for question in QUESTIONS] == ["deny", "approve", "deny"]
    said = iter(["", "maybe", "APP"])
    assert by_asking(QUESTIONS[0], ask=lambda _: next(said)) == "approve"


def test_without_an_answer_the_run_is_left_waiting():
    """Where nobody can answer, the command ends as one that waits."""

    def nobody(_: str) -> str:
        raise EOFError

    with pytest.raises(SystemExit) as ended:
        by_asking(QUESTIONS[0], ask=nobody)
    assert ended.value.code == WAITING


# ------------------------------------------------------------------------------------------------- triage: the whole


def test_triage_sorts_every_ticket_and_asks_before_large_refunds(tmp_path: Path):
    """Three tickets wait while all others are done; answered, the run ends with every ticket where it belongs."""
    desk, store = Desk(out=tmp_path), tmp_path / "runs.db"
    run = inbox.run_sync(Inbox(), store=str(store), run_id="t", deps=desk)
    assert (run.status, sorted(question.text for question in run.questions)) == ("waiting", sorted(QUESTIONS))

    answers = {question.id: by_rule(question.text, Decimal(2000)) for question in run.questions}
    run = inbox.resume_sync("t", answers=answers, store=str(store), deps=desk)

    assert run.status == "completed"
    outcomes = {outcome.file: outcome for outcome in run.state.outcomes}
    assert {name: (o.channel, o.language, o.queue, o.priority, o.drafts) for name, o in outcomes.items()} == SORTED
    assert {name: o.notes for name, o in outcomes.items() if o.notes} == NOTES
    assert outcomes["13-broken-attachment.txt"].readings == ("invoice-2041.csv",)
    assert outcomes["13-broken-attachment.txt"].unreadable == ("usage-2026-01.csv.gz", "scan.pdf")
    assert sorted(path.name for path in (tmp_path / "replies").iterdir()) == [
        name for name, (_, _, _, _, drafts) in SORTED.items() if drafts
    ]
    paid = [line.rpartition(" ")[0] for line in desk.refunds.read_text(encoding="utf-8").splitlines()]
    assert sorted(paid) == [
        "1249.00 EUR to Katrin Schulze",
        "1899.00 EUR to Dana Whitfield",
        "49.00 EUR to Lee",
        "89.90 EUR to Pierre Dubois",
    ]
    keys = desk.effects.read_text(encoding="utf-8").splitlines()
    assert len(keys) == len(set(keys)), "no task ran twice"


def test_triage_from_the_command_line_waits_goes_on_and_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The same command starts a run, finds it waiting, answers it, and finds it done."""
    command = ["--out", str(tmp_path)]
    assert triage.main(command) == WAITING
    asked = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()[1:4]]
    assert sorted(asked) == sorted(QUESTIONS)
    assert triage.main([*command, "--approve-up-to", "2000"]) == 0
    effects = (tmp_path / "effects.txt").read_bytes()
    assert triage.main(command) == 0
    assert (tmp_path / "effects.txt").read_bytes() == effects
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# Triage\n\n28 tickets: ")


@pytest.mark.slow
def test_triage_demo_survives_kill_9(tmp_path: Path):
    """The demo kills, resumes, answers and draws, and no recorded task runs again."""
    command = [sys.executable, "-m", "examples.triage.demo", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recorded tasks ran again" in done.stdout
    assert "5. The run is completed" in done.stdout
    pictures = {path.name for path in tmp_path.glob("*.svg")}
    assert pictures == {
        "1-definition.svg",
        "2-killed.svg",
        "3-waiting.svg",
        "4-completed.svg",
    }


# --------------------------------------------------------------------------------------------------------- the others


def test_documents_writes_an_index_and_lists_what_it_could_not_read(tmp_path: Path):
    """Files are read side by side; the unreadable one is an entry of its own and stops nobody."""
    (tmp_path / "docs").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "secret.md").write_text("# No\n", encoding="utf-8")
    (tmp_path / "docs" / "a.md").write_text(
        "# A\n\n[there](b.py) [gone](c.md#x) [web](https://x.example) ![pic](no.png)\n\n"
        "```\n# no heading\n```\n## A2\n",
        encoding="utf-8",
    )
    (tmp_path / "docs" / "b.py").write_text("class B:\n    pass\n\n\ndef f():\n    pass\n", encoding="utf-8")
    (tmp_path / "docs" / "spoiled.md").write_bytes(b"caf\xe9\n")
    (tmp_path / "docs" / "picture.png").write_bytes(b"\x89PNG")

    run = documents.library.run_sync(documents.Library(folders=[tmp_path.as_posix()]))

    base = f"{tmp_path.as_posix()}/docs"
    assert run.state.index == "\n".join(
        [
            "# Index",
            "",
            "2 files, 14 lines, 19 words, 2 headings, 2 definitions",
            "",
            "## Longest",
            "",
            f"- {base}/a.md",
            f"- {base}/b.py",
            "",
            "## Broken links",
            "",
            f"- `c.md#x` in {base}/a.md",
            "",
            "## Could not be read",
            "",
            f"- {base}/spoiled.md: 'utf-8' codec can't decode byte 0xe9 in position 3: invalid continuation byte",
            "",
            "## Files",
            "",
            f"- {base}/a.md (8 lines): A, A2",
            f"- {base}/b.py (6 lines): B, f",
            "",
        ]
    )


def test_documents_reads_this_repository(tmp_path: Path):
    """Every document and source of the repository can be read; the spoiled file is the only one that cannot."""
    index = tmp_path / "index.md"
    assert documents.main(["--spoil", "--out", str(index), "--draw", str(tmp_path / "run.svg")]) == 0
    text = index.read_text(encoding="utf-8")
    unread = text.partition("## Could not be read\n\n")[2].partition("\n\n##")[0]
    assert unread.count("\n") == 0
    assert "spoiled.md: 'utf-8' codec can't decode" in unread
    assert "examples/documents.py" in text


def test_nested_map_judges_each_review_and_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Results stand in input order, and what follows the map runs once."""
    assert nested_map.main(["--draw", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[:5] == [
        "liked     Great coffee, friendly people. We will come again!",
        "disliked  The soup was cold and the waiter rude.",
        "mixed     Lovely cakes, but slow. Fresh bread, noisy room.",
        "liked     Best breakfast in town.",
        "2 of 4 guests liked it",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nested_map-run.svg", "nested_map.svg"]


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "examples.triage"],
        ["-m", "examples.triage.demo"],
        ["examples/documents.py"],
        ["examples/nested_map.py"],
    ],
)
def test_every_example_explains_itself(command: list[str]):
    """`--help` works from the root of the repository, for each of them."""
    done = subprocess.run([sys.executable, *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout[:6]) == (0, "", "usage:")
