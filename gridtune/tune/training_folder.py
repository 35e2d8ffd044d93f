"""The folder of a training: its checkpoint, its learning curve and its best policy.

It has `checkpoint/` (RLlib's own), the best policy (`best.pt`) and `learning_curve.jsonl`, a line for each
iteration. While Tune runs, it writes checkpoints elsewhere; whatever it leaves behind, the newest complete
one is what the training goes on from.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from gridtune.errors import PolicyError
from gridtune.training.run import Point, is_complete, read_state

__all__ = ["TrainingFolder"]

_CHECKPOINT, _CURVE = "checkpoint", "learning_curve.jsonl"


class TrainingFolder:
    """The folder of one training.

    Parameters
    ----------
    path
        Where it is, or is to be.
    tune
        Where Tune writes its checkpoints.
    policy_file
        Name of the file with the best policy.

    Attributes
    ----------
    curve
        A point for each iteration.
    """

    def __init__(self, path: Path, *, tune: Path, policy_file: str) -> None:
        self.path, self._tune, self._policy_file = path, tune, policy_file
        self.curve: list[Point] = []

    @property
    def checkpoint(self) -> Path:
        """RLlib's checkpoint."""
        return self.path / _CHECKPOINT

    @property
    def policy(self) -> Path:
        """The best policy so far."""
        return self.path / self._policy_file

    @property
    def iteration(self) -> int:
        """The last iteration."""
        return len(self.curve)

    def settle(self) -> None:
        """Keep the newest complete checkpoint, and set curve and policy to what it says."""
        found = [self.checkpoint, *self.path.glob(f"{_CHECKPOINT}.*"), *self._tune.glob("**/checkpoint_*")]
        complete = [(read_state(place)["iteration"], str(place)) for place in found if is_complete(place)]
        if complete:
            newest, kept = Path(max(complete)[1]), self.checkpoint.with_suffix(".new")
            if newest != self.checkpoint:
                if newest != kept:
                    shutil.rmtree(kept, ignore_errors=True)
                    newest.rename(kept)
                shutil.rmtree(self.checkpoint, ignore_errors=True)
                kept.rename(self.checkpoint)
            self.curve = read_state(self.checkpoint)["curve"]
            self.keep_policy(self.checkpoint)
        shutil.rmtree(self._tune, ignore_errors=True)
        self._write_curve()

    def check(self, identity: dict[str, Any]) -> None:
        """Refuse to go on with another training than that of the checkpoint.

        Raises
        ------
        PolicyError
            Naming what differs.
        """
        if not self.checkpoint.exists():
            return
        before = read_state(self.checkpoint)["identity"]
        if before == identity:
            return
        differing = [name for name in identity if before.get(name) != identity[name]]
        if "parameters" in differing:
            differing.remove("parameters")
            one, other = before["parameters"], identity["parameters"]
            differing += [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
        raise PolicyError(
            f"there is another training here, with another {', '.join(differing)}",
            path=self.path,
            hint="give another folder with --out, or the parameters that it was begun with",
        )

    def add(self, point: Point) -> None:
        """Add a point to the learning curve; one of an earlier iteration replaces what came after it."""
        number = int(point["iteration"])
        if number <= self.iteration:
            self.curve = self.curve[: number - 1]
            self._write_curve()
        self.curve.append(point)
        with (self.path / _CURVE).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(point) + "\n")

    def keep_policy(self, checkpoint: Path) -> None:
        """Copy the best policy of a checkpoint, if it has one."""
        source = checkpoint / self._policy_file
        if source.exists():
            partial = self.policy.with_name(self.policy.name + ".partial")
            shutil.copyfile(source, partial)
            partial.replace(self.policy)

    def _write_curve(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(point) + "\n" for point in self.curve)
        (self.path / _CURVE).write_text(text, encoding="utf-8")
