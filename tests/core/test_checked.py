"""Where numba checks bounds, an access beyond the ends of a bare column raises."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gridtune.core.checked import checked, checked_section
from gridtune.core.compiled import kernel


@kernel()
def _replace(array: Any, index: int, value: Any) -> Any:
    column = checked(array)
    before = column[index]
    column[index] = value
    return before


@kernel()
def _element(array: Any, start: int, length: int, index: int) -> Any:
    return checked_section(array, start, length)[index]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_, np.float64])
def test_a_column_reads_and_writes_the_elements_of_its_array(dtype: type) -> None:
    array: npt.NDArray[Any] = np.array([0, 0, 1], dtype)
    assert [_replace(array, 2, dtype(0)), _replace(array, 0, dtype(1))] == [1, 0]
    assert array.tolist() == [1, 0, 0]


@pytest.mark.parametrize("index", [3, -1, 2**62])
def test_an_index_beyond_the_ends_raises(index: int) -> None:
    with pytest.raises(IndexError):
        _replace(np.zeros(3, np.int64), index, np.int64(1))


def test_a_section_has_bounds_of_its_own_within_those_of_the_array() -> None:
    array = np.arange(5)
    assert [_element(array, 1, 3, index) for index in range(3)] == [1, 2, 3]
    for start, length, index in (
        (1, 3, 3),
        (1, 3, -1),
        (3, 3, 0),
        (-1, 2, 0),
        (6, 0, 0),
        (5, 0, 0),
        (3, -1, 0),
    ):
        with pytest.raises(IndexError):
            _element(array, start, length, index)
