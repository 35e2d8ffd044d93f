"""The notebooks run from their first cell to the last, as they are but for the length of a training."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras import AGENTS

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
#: Bytes of a notebook that is kept without its output.
LARGEST = 20_000


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_kept_small(notebook: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    content = nbformat.read(notebook, as_version=4)
    assert notebook.stat().st_size < LARGEST
    assert not any(cell.get("outputs") for cell in content.cells)


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    for package in ("nbformat", "nbclient", "ipykernel"):
        pytest.importorskip(package)
    import nbclient  # noqa: PLC0415
    import nbformat  # noqa: PLC0415

    if notebook.stem == "training" and not AGENTS:
        pytest.skip("it needs the extra `agents`")
    content = nbformat.read(notebook, as_version=4)
    for cell in content.cells:
        cell.source = cell.source.replace("ITERATIONS = 3", "ITERATIONS = 1")
    client = nbclient.NotebookClient(content, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    # Every cell that ends with an expression shows something.
    shown = [cell for cell in content.cells if cell.cell_type == "code" and cell.outputs]
    assert len(shown) >= 3
