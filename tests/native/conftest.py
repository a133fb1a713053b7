"""Tests of the native back-end keep nothing on disk, except where the cache itself is tested."""

import pytest

import dalembert  # noqa: F401  turns 64 bit mode on
from dalembert.native import CACHE


@pytest.fixture(autouse=True, scope="package")
def _nothing_on_disk():
    folder, CACHE.folder = CACHE.folder, None
    yield
    CACHE.folder = folder
