import numpy as np
import pytest

import evenhand as eh
from evenhand.exceptions import InputError


def test_linear_coefficients_reproduce_the_counted_values():
    counted = eh.cell_rates([0, 1, 1, 0, 1], [1, 0.5, 1, 0, 0], {"g": list("aabbb")})
    error = eh.Statistic("error rate", slope=(1, -1), intercept=(0, 1))
    A, k = error.linear(counted.masses, np.eye(2))
    assert (A * counted.rates).sum(axis=(1, 2)) + k == pytest.approx(error.values(counted, np.eye(2)))
    assert error.values(counted, np.eye(2)) == pytest.approx([0.75, 1 / 3])


def test_statistics_need_labels_only_if_they_depend_on_them():
    assert not eh.Statistic("selection rate").needs_labels
    assert eh.Statistic("true-positive rate", mask=(0, 1)).needs_labels


def test_a_statistic_without_mass_is_undefined():
    counted = eh.cell_rates([0, 0, 1], [1, 0, 1], {"g": list("aab")})
    tpr = eh.Statistic("true-positive rate", mask=(0, 1), slope=(0, 1))
    values = tpr.values(counted, np.eye(2))
    assert np.isnan(values[0])
    assert values[1] == 1
    assert np.isnan(tpr.linear(counted.masses, np.eye(2))[1][0])


@pytest.mark.parametrize("mask", [(0, 1, 1), [0, 1], (0, "1"), (-1, 1)])
def test_invalid_coefficients_are_refused(mask):
    with pytest.raises(InputError, match="mask of the statistic 'rate'"):
        eh.Statistic("rate", mask=mask)
