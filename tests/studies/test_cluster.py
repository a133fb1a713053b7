"""A sweep on the workers of a client has the bits of one process, whatever becomes of workers, scheduler and client."""

import os
import signal
import subprocess
import sys
import threading
import time

import distributed
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import dalembert as da
from dalembert.step.run import machine as native

VALUES = {"m": np.array([0.5, 1.0, 2.0]), "k": np.array([1.0, 2.0, 3.0, 4.0, 5.0])}


def problem():
    """Lambdas, made anew: they are sent by what they contain."""
    return da.System(
        lambda q, v, p: 0.5 * p["m"] * v @ v - 0.5 * p["k"] * q @ q, coordinates=("x",), parameters={"m": 1.0, "k": 1.0}
    )


def sweep(**more):
    reduce = (lambda value, t, q, v, multipliers: jnp.maximum(value, jnp.abs(v[0])), 0.0)
    run = {"q0": [1.0], "v0": [0.0], "h": 0.05, "steps": 60, "save": da.Save(every=7)}
    return da.sweep(problem(), VALUES, run, reduce=reduce, **{"block": 3} | more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return sweep(store=tmp_path_factory.mktemp("whole") / "study.zarr").data.load()


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def test_workers_have_the_bits_of_one_process(whole, client, tmp_path, monkeypatch):
    translated = []
    real = native._compile
    monkeypatch.setattr(native, "_compile", lambda *x: translated.append(1) or real(*x))
    told = []
    study = sweep(client=client, store=tmp_path / "study.zarr", progress=lambda *x: told.append(x))
    assert study.data.equals(whole)
    assert translated == [1, 1]  # for the opening, and for six blocks
    assert told[-1] == (900, 900)
    assert sweep(client=client).data.equals(whole)
    pair = da.studies.run_statistics(lambda study: study.reduced)
    assert repr(sweep(client=client, over_runs=pair)) == repr(sweep(over_runs=pair))


def press(done, total):
    signal.raise_signal(signal.SIGINT)


def test_control_c_in_the_client(whole, client, tmp_path):
    store = tmp_path / "study.zarr"
    with pytest.raises(da.Interrupted) as error:
        sweep(client=client, store=store, progress=press)
    assert 0 < (error.value.path.data.code.values == 0).sum() < 15
    assert sweep(client=client, store=store).data.equals(whole)
    with pytest.raises(da.Interrupted) as error:
        sweep(client=client, progress=press)
    assert (error.value.path.data.code.values == 0).sum() in (2, 3)


def test_what_fails_on_a_worker_is_an_error_here(client):
    def odd(study):
        raise RuntimeError("odd")

    with pytest.raises(RuntimeError, match="odd"):
        sweep(client=client, over_runs=(odd, odd))
    with pytest.raises(TypeError, match=r"client: found 3; give a dask\.distributed\.Client"):
        sweep(client=3)


def test_a_scheduler_that_is_gone(whole, tmp_path):
    store = tmp_path / "study.zarr"
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as own,
        pytest.raises(ConnectionError, match="client: its scheduler is gone"),
    ):
        sweep(client=own, store=store, progress=lambda *x: cluster.close())
    assert 0 < int(xarray.open_zarr(store).committed.sum()) < 6
    assert sweep(store=store).data.equals(whole)


def test_a_worker_that_is_killed(whole, tmp_path):
    """kill -9 of a process that has blocks to compute; another worker takes them over."""
    options = {"n_workers": 0, "threads_per_worker": 1, "processes": False, "protocol": "tcp", "dashboard_address": ":0"}
    had = []

    def kill():
        """As soon as it has something to compute, for which it first has to load JAX."""
        while worker.poll() is None:
            if any(own.processing().values()):
                had.append(own.processing())
                worker.kill()
                return cluster.scale(1)
            time.sleep(0.01)
        return None

    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as own:
        words = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path)]
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, *words]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as worker:
            killer = threading.Thread(target=kill)
            killer.start()
            try:
                own.wait_for_workers(1, timeout=600)
                study = sweep(client=own, store=tmp_path / "study.zarr")
            finally:
                worker.kill()
                killer.join()
    assert len(had) == 1
    assert study.data.equals(whole)


def test_runs_are_divided_over_devices():
    """Two devices of XLA on this processor, each with its own loop: the turns of the discrete oscillator, ω² = k."""
    program = """
import numpy as np, jax, dalembert as da
spring = da.System(lambda q, v, p: 0.5 * v @ v - 0.5 * p["k"] * q @ q, parameters={"k": 1.0})
k, h = np.linspace(1.0, 2.0, 6), 0.05
runs = da.ensemble(spring, [1.0], [0.0], parameters={"k": k}, h=h, steps=50, backend="jax")
turns = 2 * np.arctan(0.5 * h * np.sqrt(k))[:, None] * np.arange(51)
print(len(jax.devices()), np.abs(runs.q[..., 0] - np.cos(turns)).max() < 1e-12)
"""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    run = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"XLA_FLAGS": flags}, capture_output=True, text=True
    )
    assert run.stdout.split() == ["2", "True"], run.stderr
