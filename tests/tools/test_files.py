"""File tools stay below their base folder, whatever path a model gives, and write whole files or none."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowagent.errors import ToolError
from flowagent.tools.builtin.files import FileInfo, Files, Hit, Hits, Listing
from flowagent.tools.builtin.folder import BY_DESCRIPTOR, Folder, parts_of

SECRET = "the secret outside"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base folder `data` among things that it must not lead to."""
    base = tmp_path / "data"
    (base / "sub").mkdir(parents=True)
    (base / "sub" / "ok.txt").write_text("ok\n", encoding="utf-8")
    (tmp_path / "outside.txt").write_text(SECRET, encoding="utf-8")
    (tmp_path / "data-secret").mkdir()
    (tmp_path / "data-secret" / "x").write_text(SECRET, encoding="utf-8")
    (base / "link.txt").symlink_to(tmp_path / "outside.txt")
    (base / "link-inside.txt").symlink_to(base / "sub" / "ok.txt")
    (base / "out").symlink_to(tmp_path / "data-secret")
    (base / "sub" / "up").symlink_to("..")
    os.mkfifo(base / "pipe")
    return base


@pytest.fixture(params=[True, False], ids=["by descriptor", "by path"])
def files(request: pytest.FixtureRequest, base: Path) -> Files:
    if request.param and not BY_DESCRIPTOR:
        pytest.skip("this system does not walk by descriptors")
    return Files(base, writable=True, by_descriptor=request.param)


def everything(folder: Path) -> dict[str, object]:
    """All that is in a folder, with contents."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = path.readlink()
        else:
            found[str(path)] = path.read_bytes() if path.is_file() else "folder"
    return found


VERBS: dict[str, Callable[[Files, str], object]] = {
    "read": lambda files, path: files.read_file(path),
    "list": lambda files, path: files.list_files(path),
    "list all": lambda files, path: files.list_files(path, recursive=True),
    "search": lambda files, path: files.search_files("secret", path),
    "write": lambda files, path: files.write_file(path, "overwritten"),
    "replace": lambda files, path: files.write_file(path, "overwritten", replace=True),
    "append": lambda files, path: files.append_file(path, "overwritten"),
    "delete": lambda files, path: files.delete_file(path),
}
OUTSIDE = [
    "../outside.txt",
    "sub/../../outside.txt",
    "{base}/sub/ok.txt",
    "/etc/passwd",
    "../data-secret/x",
    "out/x",
    "out/new.txt",
    "sub/up/../../outside.txt",
    "sub/up/sub/ok.txt",
    "C:\\Windows\\win.ini",
    "C:/Windows/win.ini",
    "c:x",
    "\\\\server\\share\\x",
    "//server/share/x",
    "..\\outside.txt",
    "sub/ok.txt\x00.png",
    "\x00",
    "a\nb",
    "~/x",
    "~root/x",
    "NUL",
    "sub/con.txt",
    "COM1",
    "...",
    "sub/ok.txt.",
    "sub /x",
    "\ud800",
    "x" * 300,
    "a/" * 100 + "b",
    "",
]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("verb", VERBS)
def test_no_path_leads_out(files: Files, base: Path, verb: str, path: str) -> None:
    """FA-109: each is refused for each verb, and nothing is read, made, changed or deleted."""
    before = everything(base.parent)
    with pytest.raises(ToolError) as told:
        VERBS[verb](files, path.format(base=base))
    assert SECRET not in str(told.value)
    assert str(base.parent) not in str(told.value).replace(path.format(base=base), "")
    assert everything(base.parent) == before


@pytest.mark.parametrize("path", ["link.txt", "link-inside.txt", "out", "pipe"])
@pytest.mark.parametrize("verb", VERBS)
def test_links_and_devices_are_neither_followed_nor_touched(files: Files, base: Path, verb: str, path: str) -> None:
    """FA-109: a link is refused wherever it leads, and a pipe does not hold the tool up."""
    before = everything(base.parent)
    with pytest.raises(ToolError, match=r"is a link|link or no folder|is no plain file|is there already"):
        VERBS[verb](files, path)
    assert everything(base.parent) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root makes devices: run it as root")
def test_a_device_is_not_opened(files: Files, base: Path) -> None:
    try:
        os.mknod(base / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this container may not make devices")
    with pytest.raises(ToolError, match="`zero` is no plain file but a device"):
        files.read_file("zero")


def test_what_is_below_works(files: Files) -> None:
    """FA-109: `sub/ok.txt` works, for every verb."""
    assert files.read_file("sub/ok.txt") == "ok\n"
    assert files.read_file("./sub//ok.txt") == "ok\n"
    assert files.write_file("sub/deep/er/new.txt", "one\n") == "wrote 4 bytes to the new file `sub/deep/er/new.txt`"
    assert files.append_file("sub/deep/er/new.txt", "zwei ü\n") == "`sub/deep/er/new.txt` has 12 bytes now"
    assert files.write_file("sub/ok.txt", "fine\n", replace=True) == "wrote 5 bytes to `sub/ok.txt`"
    assert files.search_files("E", "sub") == Hits(
        (Hit("sub/deep/er/new.txt", 1, "one"), Hit("sub/deep/er/new.txt", 2, "zwei ü"), Hit("sub/ok.txt", 1, "fine"))
    )
    assert files.search_files("fine", "sub/ok.txt") == Hits((Hit("sub/ok.txt", 1, "fine"),))
    assert files.delete_file("sub/deep/er/new.txt") == "deleted `sub/deep/er/new.txt`"
    assert files.delete_file("sub/deep/er") == "deleted `sub/deep/er`"
    assert [(one.path, one.kind, one.size) for one in files.list_files("sub", recursive=True).entries] == [
        ("sub/deep", "folder", 0),
        ("sub/ok.txt", "file", 5),
        ("sub/up", "link", 0),
    ]


def test_the_base_is_listed_and_links_in_it_are_told_not_followed(files: Files) -> None:
    listing = files.list_files()
    assert [(one.path, one.kind) for one in listing.entries] == [
        ("link-inside.txt", "link"),
        ("link.txt", "link"),
        ("out", "link"),
        ("pipe", "other"),
        ("sub", "folder"),
    ]
    assert [one.path for one in files.list_files(pattern="ok.*", recursive=True).entries] == ["sub/ok.txt"]
    assert files.search_files("secret") == Hits(())
    assert files.file_info("link.txt").kind == "link"
    assert files.file_info(".").kind == "folder"


def test_info_tells_size_and_time(files: Files, base: Path) -> None:
    os.utime(base / "sub" / "ok.txt", (1_700_000_000, 1_700_000_000))
    assert files.file_info("sub/ok.txt") == FileInfo("sub/ok.txt", "file", 3, "2023-11-14T22:13:20+00:00")
    with pytest.raises(ToolError, match=r"there is no `sub/none`; list the folder"):
        files.file_info("sub/none")


def test_a_base_that_is_a_link_is_followed_once(base: Path) -> None:
    (base.parent / "alias").symlink_to(base)
    files = Files(base.parent / "alias")
    assert repr(files) == f"Files({str(base)!r}, writable=False)"
    assert files.read_file("sub/ok.txt") == "ok\n"


@pytest.mark.parametrize("name", ["missing", "data/sub/ok.txt"])
def test_a_base_that_is_no_folder_is_refused_when_it_is_named(base: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"No such file|must be a folder"):
        Files(base.parent / name)


def test_files_that_may_be_read_only_have_no_tools_that_write(base: Path) -> None:
    files = Files(base)
    names = [tool.name for tool in files.tools()]
    assert names == ["list_files", "read_file", "search_files", "file_info"]
    for write in (
        lambda: files.write_file("new.txt", ""),
        lambda: files.append_file("sub/ok.txt", ""),
        lambda: files.delete_file("sub/ok.txt"),
    ):
        with pytest.raises(ToolError, match="these files may be read only"):
            write()
    assert [tool.name for tool in Files(base, writable=True).tools()] == [
        *names,
        "write_file",
        "append_file",
        "delete_file",
    ]


def test_a_file_that_is_there_is_replaced_only_when_asked(files: Files, base: Path) -> None:
    with pytest.raises(ToolError, match=r"`sub/ok.txt` is there already; say that it shall be replaced"):
        files.write_file("sub/ok.txt", "new")
    assert (base / "sub" / "ok.txt").read_text(encoding="utf-8") == "ok\n"
    with pytest.raises(ToolError, match="`sub` is a folder, not a file"):
        files.write_file("sub", "new", replace=True)
    with pytest.raises(ToolError, match=r"`sub/ok.txt` is a link or no folder"):
        files.write_file("sub/ok.txt/below", "new")
    with pytest.raises(ToolError, match="names a folder"):
        files.write_file("new/", "x")
    with pytest.raises(ToolError, match="`sub`: Directory not empty"):
        files.delete_file("sub")
    with pytest.raises(ToolError, match="the base folder itself is not deleted"):
        files.delete_file(".")


def test_a_replaced_file_keeps_its_permissions(files: Files, base: Path) -> None:
    (base / "sub" / "ok.txt").chmod(0o640)
    files.write_file("sub/ok.txt", "new", replace=True)
    assert stat.S_IMODE((base / "sub" / "ok.txt").stat().st_mode) == 0o640


def test_a_reader_sees_the_old_file_or_the_new_one_never_a_part(base: Path) -> None:
    """What is written is there whole or not at all, and nothing else is left in the folder."""
    files = Files(base, writable=True)
    versions = {"a" * 200_000, "b" * 150_000}
    files.write_file("big.txt", "a" * 200_000)
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add((base / "big.txt").read_text(encoding="utf-8"))

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(30):
        for version in sorted(versions):
            files.write_file("big.txt", version, replace=True)
    done.set()
    reader.join()
    assert seen <= versions
    assert [path.name for path in base.iterdir() if path.name.startswith(".")] == []


def test_a_write_that_fails_leaves_the_old_file_and_no_other(files: Files, base: Path) -> None:
    small = Files(base, writable=True, max_bytes=10)
    with pytest.raises(ToolError, match=r"`sub/ok.txt` would have 11 bytes, and 10 are the most"):
        small.write_file("sub/ok.txt", "x" * 11, replace=True)
    with pytest.raises(ToolError, match="half of a character at 1"):
        files.write_file("sub/ok.txt", "x\ud800", replace=True)
    assert (base / "sub" / "ok.txt").read_text(encoding="utf-8") == "ok\n"
    assert sorted(path.name for path in (base / "sub").iterdir()) == ["ok.txt", "up"]


@pytest.mark.parametrize(("error", "told"), [(errno.EPERM, ""), (errno.ENOSPC, "`new.txt`: No space left on device")])
def test_a_disk_without_hard_links_takes_new_files_and_a_full_one_is_told(
    base: Path, monkeypatch: pytest.MonkeyPatch, error: int, told: str
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("os.link", refuse)
    files = Files(base, writable=True)
    if told:
        with pytest.raises(ToolError, match=re.escape(told)):
            files.write_file("new.txt", "x")
        assert not (base / "new.txt").exists()
    else:
        files.write_file("new.txt", "x")
        assert files.read_file("new.txt") == "x"
    assert [path.name for path in base.iterdir() if path.name.startswith(".")] == []


def test_texts_appended_at_once_are_all_there(files: Files) -> None:
    files.write_file("log.txt", "")
    threads = [threading.Thread(target=files.append_file, args=("log.txt", f"{n}\n")) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(files.read_file("log.txt").split(), key=int) == [str(n) for n in range(20)]


def test_lines_of_a_file_are_read_by_number(files: Files) -> None:
    files.write_file("lines.txt", "one\r\ntwo\nthree")
    assert files.read_file("lines.txt", 2) == "two\nthree"
    assert files.read_file("lines.txt", max_lines=1) == "one\r\n"
    assert files.read_file("lines.txt", 2, 1) == "two\n"
    with pytest.raises(ToolError, match=r"`lines.txt` has 3 lines; first_line=4 is behind its end"):
        files.read_file("lines.txt", 4)
    with pytest.raises(ToolError, match=r"whole numbers from 1"):
        files.read_file("lines.txt", 0)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfmarked", "marked"),
        ("wide ü".encode("utf-16"), "wide ü"),
        (b"", ""),
        (b"\xfe\xff\x00A", "A"),
    ],
)
def test_text_is_read_in_utf_8_or_in_utf_16_with_its_mark(files: Files, base: Path, data: bytes, text: str) -> None:
    (base / "any").write_bytes(data)
    assert files.read_file("any") == text


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x89PNG\r\n", "`any` is no text in UTF-8 or UTF-16: byte 0 of 6"),
        (b"latin \xfc", "`any` is no text in UTF-8 or UTF-16: byte 6 of 7"),
        (b"a\x00b", "`any` is binary: it has a NUL character at 1"),
    ],
)
def test_what_is_no_text_is_refused(files: Files, base: Path, data: bytes, told: str) -> None:
    (base / "any").write_bytes(data)
    with pytest.raises(ToolError, match=re.escape(told)):
        files.read_file("any")
    assert files.search_files("a", "any") == Hits((), skipped=1)


def test_what_is_too_much_is_counted_not_told(base: Path) -> None:
    files = Files(base, writable=True, max_bytes=50, max_entries=3)
    (base / "large").write_bytes(b"x" * 51)
    (base / "sub" / "many.txt").write_text("x\n" * 5, encoding="utf-8")
    with pytest.raises(ToolError, match=r"`large` has more than 50 bytes"):
        files.read_file("large")
    assert files.search_files("x") == Hits(
        tuple(Hit("sub/many.txt", line, "x") for line in (1, 2, 3)), complete=False, skipped=1
    )
    listing = files.list_files()
    assert (len(listing.entries), listing.more) == (3, 3)
    assert files.list_files("sub", "*.txt") == Listing(
        (files.file_info("sub/many.txt"), files.file_info("sub/ok.txt")), more=0
    )
    for text in ("", "two\nlines"):
        with pytest.raises(ToolError, match="what stands in one line"):
            files.search_files(text)


@pytest.mark.skipif(not BY_DESCRIPTOR, reason="this system does not walk by descriptors")
def test_a_folder_that_becomes_a_link_between_look_and_use_leads_nowhere(base: Path) -> None:
    """FA-109: someone swaps a folder for a link all the time; what is outside is never read, whatever the moment."""
    files = Files(base, writable=True)
    inside, outside = base / "sub", base.parent / "data-secret"
    (outside / "ok.txt").write_text(SECRET, encoding="utf-8")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            inside.rename(base / "aside")
            inside.symlink_to(outside)
            inside.unlink()
            (base / "aside").rename(inside)

    swapper = threading.Thread(target=swap)
    swapper.start()
    read: set[str] = set()
    for _ in range(1000):
        try:
            read.add(files.read_file("sub/ok.txt"))
            read |= {hit.text + "\n" for hit in files.search_files("s", "sub").hits}
        except ToolError:
            pass
    done.set()
    swapper.join()
    assert read <= {"ok\n"}
    assert (outside / "ok.txt").read_text(encoding="utf-8") == SECRET


@given(st.text(st.sampled_from("./\\ab~:\x00 cC1NUL"), max_size=12))
def test_the_parts_of_a_path_never_lead_up_or_elsewhere(path: str) -> None:
    try:
        parts = parts_of(path)
    except ToolError:
        return
    for part in parts:
        assert part not in {"", ".", ".."}
        assert not set(part) & set("/\\\x00")


def test_no_descriptor_stays_open(base: Path) -> None:
    def held() -> int:
        # Only those below the base: threads of other tests may close theirs meanwhile.
        return sum(one.resolve().is_relative_to(base.resolve()) for one in Path("/proc/self/fd").iterdir())

    if not Path("/proc/self/fd").exists():
        pytest.skip("this system has no /proc")
    files = Files(base, writable=True)
    before = held()
    for verb in VERBS.values():
        for path in ("sub/ok.txt", "sub", "link.txt", "out/x", "none/x", "pipe"):
            try:
                verb(files, path)
            except ToolError:
                pass
    assert held() == before


def test_a_walk_ends_where_folders_are_too_deep(base: Path) -> None:
    deep = base
    for _ in range(80):
        deep = deep / "d"
    deep.mkdir(parents=True)

    def depths() -> Iterator[int]:
        yield from (entry.path.count("/") for entry in Folder(base).walk(("d",)))

    assert max(depths()) == 64
