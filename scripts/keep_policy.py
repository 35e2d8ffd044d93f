"""Add the policy of a training to those that come with gridtune, without the state of its trainer.

For example `python scripts/keep_policy.py results/taurus/best.pt taurus`.
"""

import argparse

from gridtune.systems.shutdown.trained import bundled_folder
from gridtune.training.checkpoints import load_policy, read_checkpoint, write_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", help="the training's best.pt")
    parser.add_argument("name", help="the policy's name")
    options = parser.parse_args()
    checkpoint = read_checkpoint(options.checkpoint)
    notes = {**checkpoint.notes, "settings": dict((checkpoint.trainer or {}).get("settings", {}))}
    target = bundled_folder() / f"shutdown-{options.name}.pt"
    write_checkpoint(target, load_policy(options.checkpoint), notes=notes)
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
