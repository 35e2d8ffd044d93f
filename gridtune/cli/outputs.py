"""Files that commands write: a name or place that cannot be is refused before any work is done."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["check_figure_file", "check_schedule_file"]


def check_figure_file(option: str, path: Path) -> None:
    """Refuse a suffix that nothing can be drawn as, and a folder that nothing can be written into."""
    from matplotlib.backend_bases import FigureCanvasBase

    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in formats:
        name = f"the suffix {path.suffix!r}" if path.suffix else "a name without suffix"
        raise click.BadParameter(
            f"{path}: a figure cannot have {name}; give .png, .svg or .pdf", param_hint=f"--{option}"
        )
    _check_folder(option, path)


def check_schedule_file(option: str, path: Path) -> None:
    """Refuse a suffix that no schedule is written as, and a folder that nothing can be written into."""
    from gridtune.core.schedule_files import check_suffix

    check_suffix(path)
    _check_folder(option, path)


def _check_folder(option: str, path: Path) -> None:
    from gridtune.sweep.journal.journal import check_writable

    check_writable(path.parent, hint=f"give another with --{option}")
