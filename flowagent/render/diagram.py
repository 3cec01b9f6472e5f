"""The drawing that `Graph.draw` and `Run.draw` return; made only when one of its forms is asked for."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from flowagent.core.picture import Picture
from flowagent.errors import DrawError
from flowagent.render.dot import dot_text
from flowagent.render.image import layout
from flowagent.render.mermaid import mermaid_source

SUFFIXES = (".dot", ".gv", ".svg", ".png", ".mmd")


class Diagram:
    """A picture in every form: DOT and Mermaid text, SVG and PNG.

    A notebook shows it by itself. Two runs can be compared as text by `times=False`.

    Args:
        picture: what to draw.
        times: whether durations are written.
    """

    def __init__(self, picture: Picture, *, times: bool = True) -> None:
        self._picture = picture
        self._times = times

    def dot(self) -> str:
        """The picture as DOT text; the same picture always gives the same text."""
        return dot_text(self._picture, times=self._times)

    def mermaid(self) -> str:
        """The picture as a Mermaid flowchart; the same picture always gives the same text."""
        return mermaid_source(self._picture, times=self._times)

    def svg(self) -> str:
        """The picture as an SVG document.

        Raises:
            DrawError: it could not be laid out; says what to install or what went wrong.
        """
        return layout(self.dot(), "svg").decode(errors="replace")

    def png(self) -> bytes:
        """The picture as a PNG image, sharp enough for a slide.

        Raises:
            DrawError: it could not be laid out; says what to install or what went wrong.
        """
        return layout(self.dot(), "png")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to a file, in the form that the suffix names: .dot .gv .svg .png .mmd.

        The file is replaced as a whole: whoever reads it sees the old or the new picture.

        Raises:
            DrawError: an unknown suffix, a folder that is missing, or a file that cannot be written.
        """
        target = Path(path)
        if target.suffix.lower() not in SUFFIXES:
            has = f"the suffix `{target.suffix}` is unknown" if target.suffix else "it has no suffix"
            raise DrawError(f"cannot save `{target}`: {has}; use one of {', '.join(SUFFIXES)}")
        if not target.parent.is_dir():
            raise DrawError(f"cannot save `{target}`: there is no folder `{target.parent}`; make it first")
        content = self._content(target.suffix.lower())
        try:
            _replace(target, content)
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
            raise DrawError(f"cannot save `{target}`: {error}") from error
        return target

    def _content(self, suffix: str) -> bytes:
        match suffix:
            case ".svg":
                return self.svg().encode()
            case ".png":
                return self.png()
            case ".mmd":
                return self.mermaid().encode()
            case _:
                return self.dot().encode()

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        picture = self._picture
        run = f", run {picture.run_id!r}, {picture.status}" if picture.is_run else ""
        return f"<Diagram of {picture.frame.title!r}{run}>"


def _replace(target: Path, content: bytes) -> None:
    draft = target.with_name(f".flowagent-{uuid.uuid4().hex}")
    try:
        draft.write_bytes(content)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
