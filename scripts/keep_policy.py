"""Keep the policy of a training, without what only training needs, as one that comes with gridtune.

For example `python scripts/keep_policy.py results/taurus/best.pt taurus`.
"""

import argparse

from gridtune.systems.shutdown.trained import bundled_folder
from gridtune.training.checkpoints import load_policy, read_checkpoint, write_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", help="the training's best.pt")
    parser.add_argument("name", help="what users will call it")
    given = parser.parse_args()
    read = read_checkpoint(given.checkpoint)
    notes = {**read.notes, "settings": dict((read.trainer or {}).get("settings", {}))}
    target = bundled_folder() / f"shutdown-{given.name}.pt"
    write_checkpoint(target, load_policy(given.checkpoint), notes=notes)
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
