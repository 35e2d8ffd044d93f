"""Draw the learning curves of trainings in one figure.

    python scripts/plot_learning_curves.py DIR… --metric score_per_day --out curves.png [--line "T(0)=-7.93"]

DIR is the folder of a training (`gridtune train … --out DIR`). A line is drawn at the value of a rule.
"""

import argparse
import json
import sys
from pathlib import Path

from gridtune.core.style import GROUPED, MARKERS, PALETTE, figure, head, save


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders of trainings")
    parser.add_argument("--metric", default="return_mean", help="metric of their evaluations (return_mean)")
    parser.add_argument("--out", type=Path, required=True, help="file for the figure")
    parser.add_argument("--title", default="", help="title of the figure")
    parser.add_argument("--line", action="append", default=[], metavar="NAME=VALUE", help="line at a value")
    return parser.parse_args()


def curve(folder: Path, metric: str) -> tuple[list[float], list[float]]:
    """Return the steps so far and the metric at each evaluation."""
    steps, total, values = [], 0.0, []
    for line in (folder / "learning_curve.jsonl").read_text(encoding="utf-8").splitlines():
        point = json.loads(line)
        total += point.get("steps") or 0
        if point.get(metric) is not None:
            steps.append(total)
            values.append(point[metric])
    return steps, values


def main() -> None:
    options = arguments()
    with figure(8, 4) as (drawing, axes):
        for number, folder in enumerate(options.folders):
            style = {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[number % len(MARKERS)]}
            axes.plot(*curve(folder, options.metric), label=folder.name, markersize=4, **style)
        for line in options.line:
            name, _, value = line.rpartition("=")
            axes.axhline(float(value), color="#666666", linewidth=1, linestyle="--")
            axes.annotate(name, (1, float(value)), xycoords=("axes fraction", "data"), va="center")
        axes.set_xlabel("steps")
        axes.set_ylabel(options.metric)
        axes.xaxis.set_major_formatter(GROUPED)
        drawing.legend(loc="outside lower center", ncols=len(options.folders))
        head(axes, options.title)
        save(drawing, options.out)


if __name__ == "__main__":
    sys.exit(main())
