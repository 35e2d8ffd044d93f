"""Style of figures: sizes, fonts, and colours that colour-blind readers can tell apart."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's palette (Color Universal Design, 2008) without its yellow, which fades on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: The ticks of an axis as 12,000 rather than 12000.
GROUPED = "{x:,.10g}"
#: Lines are told apart by marker too, for print without colour.
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
#: Verdicts against the baseline.
BETTER, WORSE, UNSURE, BASELINE = "#0072B2", "#D55E00", "#8A8A8A", "#000000"

_SOFT = "#666666"
_STYLE = Path(__file__).with_name("figures.mplstyle")


@contextmanager
def figure(width: float, height: float, rows: int = 1, **subplots: Any) -> Iterator[tuple[Figure, Any]]:
    """Return a figure of this size in inches and its axes, in the house style, drawn without a screen.

    pyplot is not touched: its figures live until they are closed, and it wants the main thread.
    """
    import matplotlib as mpl  # noqa: PLC0415 (heavy, and only needed here)
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    # Room for labels around each panel (inches) and between panels (a share).
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, wspace=0.03, hspace=0.03)
    with mpl.rc_context(mpl.rc_params_from_file(_STYLE, use_default_template=False)):
        drawing = Figure(figsize=(width, height), layout=layout)
        FigureCanvasAgg(drawing)
        yield drawing, drawing.subplots(rows, **subplots)


def save(drawing: Figure, path: Path) -> Path:
    """Write a figure as PNG (or what the suffix says) and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Laid out once: left in place, the engine works again for every drawing, of which `savefig`
    # makes two, and takes longer than the drawing itself.
    engine = drawing.get_layout_engine()
    if engine is not None:
        engine.execute(drawing)
        drawing.set_layout_engine("none")
    # Without the software's name and date the same data gives the same bytes.
    drawing.savefig(path, metadata={"Software": None} if path.suffix == ".png" else None)
    return path


@dataclass(frozen=True, repr=False)
class Picture:
    """A figure as PNG: a notebook shows it, `save` writes it.

    Attributes
    ----------
    png
        The file's content.
    """

    png: bytes

    @classmethod
    def of(cls, draw: Callable[[Path], object]) -> Picture:
        """Return what a function draws into the file it is given."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figure.png"
            draw(path)
            return cls(path.read_bytes())

    def save(self, path: str | Path) -> Path:
        """Write the picture, and return its path."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.png)
        return path

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        width, height = struct.unpack(">II", self.png[16:24])
        return f"Picture({width} × {height}; save(PATH) writes it)"


def head(axes: Axes, title: str, explanation: str = "") -> None:
    """Write a bold title over the axes and, if given, small print under it."""
    lines = explanation.count("\n") + 1
    axes.set_title(title, pad=10 + 12 * lines if explanation else 8)
    if explanation:
        axes.annotate(
            explanation,
            xy=(0, 1),
            xycoords="axes fraction",
            xytext=(0, 7),
            textcoords="offset points",
            fontsize=9,
            color=_SOFT,
            annotation_clip=False,
        )
