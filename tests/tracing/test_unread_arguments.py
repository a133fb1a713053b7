"""Programs that read different ones of their arguments are different programs, also where XLA is given equal texts."""

import numpy as np

from dalembert.tracing import Jitted


def test_functions_of_different_arguments():
    applied = Jitted(lambda function, x, y: function(x, y))
    one, two = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert applied(lambda x, y: 2.0 * x, one, two).tolist() == [2.0, 4.0]
    assert applied(lambda x, y: 2.0 * y, one, two).tolist() == [6.0, 8.0]
