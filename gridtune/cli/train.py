"""`gridtune train`: train an agent for a system, as a trial of Tune over an algorithm of RLlib."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.parameters import JSON, PLUGINS, SystemCommand, complete_systems, system_help
from gridtune.cli.run import parse_parameters
from gridtune.cli.tables import print_json

if TYPE_CHECKING:
    from gridtune.tune.training import Trained

__all__ = ["train"]

#: Seconds between two lines where there is no terminal.
_LINE_SECONDS = 10.0


class _TrainCommand(SystemCommand):
    """A command whose help goes on with the parameters of the training it is asked about."""

    def help_of(self, name: str, options: Mapping[str, Any], *, everything: bool) -> str:
        """Return the help of a system's training."""
        from gridtune.tune.training import training_of

        training = training_of(name, options.get("algorithm"))
        usage = f"gridtune train {name} [KEY=VALUE]... [--seconds S] [--seed N] [--out DIR] [--json]"
        return system_help(training, usage, everything=everything)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Name the systems that have a training, with their algorithms."""
        from gridtune.core.system import SYSTEMS

        rows = [(name, ", ".join(system.trainings)) for name, system in SYSTEMS.items() if system.trainings]
        with formatter.section("Systems and algorithms"):
            formatter.write_dl(rows)


@click.command(cls=_TrainCommand)
@click.argument("system", shell_complete=complete_systems)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--algorithm", metavar="NAME", help="Which of the system's trainings; by default its first.")
@click.option("--iterations", type=click.IntRange(min=1), help="Iterations of the algorithm, all together.")
@click.option("--seconds", type=click.FloatRange(min=0), help="Time limit of this call.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of everything.")
@click.option("--seeds", type=click.IntRange(min=1), help="Train with seeds 0 to N − 1, each in DIR/seed-K.")
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), help="Where the network learns.  [default: cpu]"
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The training's folder; called again, it goes on there.  [default: results/train-SYSTEM]",
)
@click.option(
    "--resume", metavar="RUN", help="Go on with the training of this MLflow run, from its last checkpoint."
)
@click.option("--address", help="A running Ray cluster to join.")
@click.option("--track/--no-track", "tracking", default=True, help="Track in MLflow.  [default: track]")
@click.option("--tracking-uri", help="The MLflow store.  [default: MLFLOW_TRACKING_URI, else ./mlflow.db]")
@JSON
@PLUGINS
def train(
    system: str,
    parameters: tuple[str, ...],
    algorithm: str | None,
    iterations: int | None,
    seed: int,
    seeds: int | None,
    device: str | None,
    out: Path | None,
    as_json: bool,
    plugins: tuple[Path, ...],
    **options: Any,
) -> None:
    """Train an agent for SYSTEM with parameters KEY=VALUE, by an algorithm of RLlib under Tune.

    `gridtune train SYSTEM --help` lists the training's parameters. The folder gets a checkpoint that RLlib
    loads, the best policy by held-out data, and the learning curve; MLflow shows the curve while the training
    goes on. The same command goes on where it was stopped, or with more iterations.

    \b
    Examples:
      gridtune train shutdown --help
      gridtune train shutdown trace=taurus_days --seconds 600 --out results/taurus
      gridtune run shutdown trace=taurus_days subset=test policy=ppo checkpoint=results/taurus
      gridtune train shutdown trace=taurus_days learning_rate=0.001 --iterations 160 --seeds 3
    """
    from gridtune.core.user_code.plugins import load_plugins
    from gridtune.errors import require_module

    require_module("ray.rllib", user="training", extra="agents")
    require_module("torch", user="training", extra="agents")
    from gridtune.tune.training import train as train_system
    from gridtune.tune.training import training_of

    load_plugins(plugins)
    training = training_of(system, algorithm)
    asked = {"iterations": iterations, "device": device}
    given = {name: value for name, value in asked.items() if value is not None}
    watcher = _Watcher(quiet=as_json, objective=training.objective)
    done = train_system(
        training.name,
        parse_parameters(training, parameters, given),
        directory=out or Path("results") / f"train-{training.name.replace('/', '-')}",
        seeds=(seed,) if seeds is None else range(seeds),
        plugins=plugins,
        watcher=watcher,
        **options,
    )
    watcher.close()
    if as_json:
        content = [trained.as_dict() for trained in done]
        print_json(content[0] if seeds is None else content)
        return
    for trained in done:
        _print(trained, training.objective)


def _print(trained: Trained, objective: str) -> None:
    """Print what came of a training, and how to play its policy."""
    count, last = len(trained.curve), trained.curve[-1]
    before = f", {trained.began} of them before" if trained.began else ""
    click.echo(f"{trained.training}, seed {trained.seed}: {count} iterations{before}; in {trained.directory}")
    if last.get(objective) is not None:
        click.echo(f"  {objective} {last[objective]:,.6g} at the end")
    if trained.policy is not None:
        click.echo(f"  best policy: checkpoint={trained.directory}")
    if trained.tracking is not None and trained.tracking.unsent:
        click.echo(
            f"  {len(trained.tracking.unsent)} items were not sent to {trained.tracking.shown_uri}: "
            f"{trained.tracking.fault}; the same command sends them",
            err=True,
        )
    elif trained.tracking is not None:
        uri = trained.tracking.checkpoint(trained.policy.name) if trained.policy else ""
        click.echo(f"  tracked in {trained.tracking.shown_uri}" + (f": checkpoint={uri}" if uri else ""))


class _Watcher:
    """Shows how trainings go on: one line that changes on a terminal, else a line every few seconds.

    Parameters
    ----------
    quiet
        Show nothing.
    objective
        The metric that is shown.
    """

    def __init__(self, *, quiet: bool, objective: str) -> None:
        self._quiet, self._objective = quiet, objective
        self._stream = sys.stderr
        self._began, self._next = time.monotonic(), 0.0
        self._evaluated: dict[int, str] = {}

    def stage(self, what: str) -> None:
        """Show what the training is busy with."""
        self._show(f"{what} …", last=True)

    def point(self, seed: int, point: dict[str, Any]) -> None:
        """Show an iteration: its mean return, and the last evaluation."""
        if point.get(self._objective) is not None:
            value = f"{self._objective} {point[self._objective]:,.5g}"
            self._evaluated[seed] = f", {value} after {point['iteration']}"
        returned = point.get("return_mean")
        shown = "" if returned is None else f", return {returned:,.5g}"
        evaluated = self._evaluated.get(seed, "")
        passed = time.monotonic() - self._began
        self._show(f"seed {seed}: iteration {point['iteration']}{shown}{evaluated}; {passed:,.0f} s")

    def close(self) -> None:
        """Leave the line that changes."""
        if not self._quiet and self._stream.isatty():
            click.echo("", err=True)

    def _show(self, text: str, *, last: bool = False) -> None:
        if self._quiet:
            return
        if self._stream.isatty():
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)
        elif last or time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            click.echo(text, err=True)
