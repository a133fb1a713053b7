"""What the tests of stored runs and of stored sweeps share."""

import pytest

from dalembert.store import atomic


@pytest.fixture
def broken():
    """(monkeypatch, number): what writes files fails at that file and from there on, as in a killed process."""

    def begin(monkeypatch, number):
        real, left = atomic._write, [number]

        def write(place, old, content, flushed):
            left[0] -= 1
            if left[0] < 0:
                raise SystemExit
            real(place, old, content, flushed)

        monkeypatch.setattr(atomic, "_write", write)
        return left

    return begin
