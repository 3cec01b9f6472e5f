"""From the bytes of a ticket to a `Message`. Nothing here raises: whatever comes in, something readable comes out."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parseaddr
from html.parser import HTMLParser

from examples.triage.model import Message

_MAIL_HEADER = re.compile(rb"\A(?:[A-Za-z][A-Za-z-]*:[^\n]*\r?\n(?:[ \t][^\n]*\r?\n)*)+\r?\n")
_CHAT_LINE = re.compile(r"^\[\d{1,2}:\d{2}\] (?P<who>[^:]+): (?P<what>.*)$")
_FORM_LINE = re.compile(r"^(?P<key>[A-Z][\w' -]{1,20}): (?P<value>.*)$")
_ATTACHMENTS = re.compile(r"^attachments?:(?P<names>.*)$", re.IGNORECASE | re.MULTILINE)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_QUOTE_STARTS = re.compile(
    r"^(?:On .+ wrote:|Am .+ schrieb.*:|Le .+ a écrit ?:|-----Original Message-----)\s*$", re.MULTILINE
)
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u200b\u2060\ufffd]")

_FORM_KEYS = {
    "name": "name",
    "nom": "name",
    "e-mail": "address",
    "email": "address",
    "topic": "topic",
    "subject": "subject",
    "sujet": "subject",
    "message": "message",
    "attachments": "attachments",
}


def parse(raw: bytes) -> Message:
    """Reads one ticket, whichever of the four shapes it has: e-mail, web form, chat transcript, plain note."""
    mail = parse_mail(raw)
    if mail is not None:
        return mail
    text, repairs = decode(raw)
    return parse_form(text, repairs) or parse_chat(text, repairs) or parse_note(text, repairs)


def decode(raw: bytes, charset: str | None = None) -> tuple[str, tuple[str, ...]]:
    """The text of some bytes, and what had to be repaired: a strange encoding, line ends, unprintable characters."""
    text, encoding = _decode(raw, charset)
    repairs = [] if encoding == "utf-8" else [f"read as {encoding}"]
    clean = _INVISIBLE.sub("", _TERMINAL.sub("", text.replace("\r\n", "\n")))
    removed = len(text.replace("\r\n", "\n")) - len(clean)
    if removed:
        repairs.append(f"removed {removed} unprintable characters")
    return clean.strip(), tuple(repairs)


def _decode(raw: bytes, charset: str | None) -> tuple[str, str]:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace"), "utf-16"
    for encoding in ("utf-8", charset or "latin-1"):
        with suppress(UnicodeDecodeError, LookupError):
            return raw.decode(encoding).removeprefix("\ufeff"), encoding
    return raw.decode("latin-1"), "latin-1"


def parse_mail(raw: bytes) -> Message | None:
    """An e-mail with headers, or None when there is no `From:` among the first lines."""
    if not _MAIL_HEADER.match(raw):
        return None
    mail = message_from_bytes(raw, policy=policy.default)
    if "From" not in mail:
        return None
    assert isinstance(mail, EmailMessage)
    name, address = parseaddr(str(mail["From"]))
    body, repairs = _mail_body(mail)
    body, attachments = split_attachments(strip_quotes(body))
    return Message(
        channel="email",
        address=address.lower(),
        name=_forename_first(name),
        subject=str(mail["Subject"] or ""),
        body=body,
        attachments=attachments,
        repairs=repairs,
    )


def _mail_body(mail: EmailMessage) -> tuple[str, tuple[str, ...]]:
    part = mail.get_body(preferencelist=("plain", "html"))
    payload = None if part is None else part.get_payload(decode=True)
    if part is None or not isinstance(payload, bytes):
        return "", ()
    text, repairs = decode(payload, part.get_content_charset())
    if part.get_content_type() == "text/html":
        return text_of_html(text), (*repairs, "read from HTML")
    return text, repairs


def _forename_first(name: str) -> str:
    last, comma, first = name.partition(", ")
    return f"{first} {last}" if comma else name


def strip_quotes(body: str) -> str:
    """The body without the messages it answers and without what follows the signature mark."""
    body = _QUOTE_STARTS.split(body, maxsplit=1)[0]
    body = re.split(r"^-- ?$", body, maxsplit=1, flags=re.MULTILINE)[0]
    return "\n".join(line for line in body.splitlines() if not line.startswith(">")).strip()


def split_attachments(body: str) -> tuple[str, tuple[str, ...]]:
    """The body without its `Attachments:` line, and the file names on that line."""
    found = _ATTACHMENTS.search(body)
    if found is None:
        return body, ()
    rest = body[: found.start()].rstrip() + body[found.end() :]
    return rest.strip(), _names(found["names"])


def _names(line: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in line.split(",") if name.strip())


def parse_form(text: str, repairs: tuple[str, ...] = ()) -> Message | None:
    """A web form of `Key: value` lines, or None when it has no message field. Indented lines continue a value."""
    fields: dict[str, str] = {}
    key: str | None = None
    for line in text.splitlines():
        found = _FORM_LINE.match(line)
        if found:
            key = _FORM_KEYS.get(found["key"].lower())
            fields |= {key: found["value"]} if key else {}
        elif line.startswith(" ") and key:
            fields[key] += "\n" + line.strip()
        elif line.strip():
            return None
    if "message" not in fields:
        return None
    return Message(
        channel="form",
        address=fields.get("address", "").lower(),
        name=fields.get("name", ""),
        topic=fields.get("topic", ""),
        subject=fields.get("subject", ""),
        body=fields["message"],
        attachments=_names(fields.get("attachments", "")),
        repairs=repairs,
    )


def parse_chat(text: str, repairs: tuple[str, ...] = ()) -> Message | None:
    """A chat transcript, or None. Only what the customer said counts: bots and agents are left out."""
    lines = [_CHAT_LINE.match(line) for line in text.splitlines() if line.strip()]
    if not lines or not all(lines):
        return None
    said = [line for line in lines if line and not line["who"].startswith(("bot", "agent"))]
    words = [line["what"] for line in said]
    address = _address("\n".join(words))
    return Message(
        channel="chat",
        address=address,
        name=said[0]["who"] if said else "",
        body="\n".join(word for word in words if word.strip().lower() != address),
        repairs=repairs,
    )


def parse_note(text: str, repairs: tuple[str, ...] = ()) -> Message:
    """Anything else: one line or many, with an address somewhere if we are lucky."""
    body, attachments = split_attachments(strip_quotes(text))
    return Message(channel="note", address=_address(body), body=body, attachments=attachments, repairs=repairs)


def _address(text: str) -> str:
    found = _ADDRESS.search(text)
    return found.group().lower() if found else ""


def text_of_html(html: str) -> str:
    """The words of an HTML page, one paragraph a line."""
    reader = _Words()
    reader.feed(html)
    reader.close()
    paragraphs = (" ".join(paragraph.split()) for paragraph in "".join(reader.words).split("\n\n"))
    return "\n".join(paragraph for paragraph in paragraphs if paragraph)


class _Words(HTMLParser):
    """Collects text; `script` and `style` say nothing, block elements end a paragraph."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._hidden += tag in ("script", "style")
        if tag in ("p", "br", "div", "li"):
            self.words.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)
