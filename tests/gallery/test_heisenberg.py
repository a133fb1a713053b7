"""The closed form of the Heisenberg problem against its equations."""

import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import heisenberg

exact = heisenberg.exact

Q, V = (0.3, -0.2, 0.1), (1.0, 0.5, -0.35)


@pytest.mark.parametrize("multiplier", [0.0, 1e-3, 0.7, -2.0])
def test_closed_form(multiplier):
    """ẍ = 2λẏ, ÿ = -2λẋ, ż = yẋ - xẏ, by central differences of q and v."""
    t, d = np.linspace(-1.0, 3.0, 9), 1e-4
    q, v = exact(t, Q, V, multiplier)
    ahead, behind = exact(t + d, Q, V, multiplier), exact(t - d, Q, V, multiplier)
    np.testing.assert_allclose((ahead[0] - behind[0]) / (2 * d), v, rtol=0, atol=1e-7)
    a = (ahead[1] - behind[1]) / (2 * d)
    np.testing.assert_allclose(a[:, :2], 2 * multiplier * np.stack([v[:, 1], -v[:, 0]], axis=1), rtol=0, atol=1e-6)
    np.testing.assert_allclose([heisenberg.constraint(x, w) for x, w in zip(q, v, strict=True)], 0, atol=1e-13)
    np.testing.assert_allclose(np.concatenate(exact(0.0, Q, V, multiplier)), [*Q, *V], rtol=0, atol=1e-14)


def test_an_unknown_principle_is_named():
    assert isinstance(heisenberg.heisenberg("vakonomic"), da.VariationalProblem)
    with pytest.raises(ValueError, match="principle: found 'gauss'"):
        heisenberg.heisenberg("gauss")
