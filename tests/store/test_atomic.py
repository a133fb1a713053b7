"""A save that fails, is killed or meets another one: the old file or the new one is there, whole, and the path in memory."""

import dataclasses
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES

PENDULUM = ENTRIES["pendulum"]
EARLIER = Path(__file__).parent / "earlier" / "path.nc"  # a path that a child process need not compute


@pytest.fixture(scope="module")
def path():
    return da.simulate(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, h=0.1, steps=4)


def with_rows(path: da.Path, rows: int, value: float = 0.5) -> da.Path:
    """A path of another length, whose positions are all `value`: whoever reads it sees at once whose it is."""
    many, t = jnp.full((rows, 1), value), jnp.arange(rows, dtype=float)
    return dataclasses.replace(path, t=t, q=many, t_velocity=t, v=many)


SETTING = """
import dataclasses, errno, os, resource, sys
import jax.numpy as jnp
import numpy as np
import dalembert as da

path, folder = da.load(sys.argv[1]), sys.argv[2]

def with_rows(rows, value):
    n = path.q.shape[1]
    many, t = jnp.full((rows, n), value), jnp.arange(rows, dtype=float)
    return dataclasses.replace(path, t=t, q=many, t_velocity=t, v=many)
"""

FULL = """
if sys.argv[3] == "limit":
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
da.save(path, f"{folder}/run.nc")
old = open(f"{folder}/run.nc", "rb").read()
large = with_rows(100_000, 0.5)  # 5.6 MB where 1 MiB fits
try:
    da.save(large, f"{folder}/run.nc")
except OSError as error:
    print(error.errno in (errno.ENOSPC, errno.EFBIG), error.filename, error)
assert np.all(np.asarray(large.q) == 0.5) and len(large.q) == 100_000
assert open(f"{folder}/run.nc", "rb").read() == old
assert os.listdir(folder) == ["run.nc"], os.listdir(folder)
da.save(with_rows(1000, 0.25), f"{folder}/run.nc")  # there is room for this one
assert float(da.load(f"{folder}/run.nc").q[-1, 0]) == 0.25
print("alive")
"""


def child(program: str, *words, prefix=()) -> list[str]:
    return [*prefix, sys.executable, "-W", "ignore", "-c", SETTING + program, str(EARLIER), *map(str, words)]


def small_file_system(folder: Path) -> list[str]:
    """What runs a command with an own file system of 1 MiB in the folder, which goes away with the command."""
    mounting = ["unshare", "--map-root-user", "--mount"]
    mount = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'
    command = [*mounting, "sh", "-c", mount, str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here: neither as root nor in a user namespace")
    return command


MEMORY = """
if sys.argv[3] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    large = with_rows(500_000, 0.5)
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    for extra in range(0, 100, 20):  # megabytes; the file has 28
        resource.setrlimit(resource.RLIMIT_AS, (used + extra * 2**20, resource.RLIM_INFINITY))
        try:
            da.save(large, f"{folder}/large.nc")
        except MemoryError:
            print(extra)
    assert float(large.q[-1, 0]) == 0.5
    print("alive")
"""


@pytest.mark.parametrize("way", ["disk", "limit"])
def test_a_full_disk_or_memory_is_an_error_and_nothing_is_lost(way, tmp_path):
    """The limit on the size of files stops writing as a full disk does, and needs no rights. HDF5 ends the process where it
    gets no memory; it is asked for before: how much is in use is read from Linux's /proc."""
    prefix = small_file_system(tmp_path) if way == "disk" else ()
    program = FULL + MEMORY if Path("/proc/self/statm").exists() else FULL
    done = subprocess.run(child(program, tmp_path, way, prefix=prefix), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert first.startswith(f"True {tmp_path}/run.nc ")
    assert "what was there before is unchanged" in first
    assert second == "alive"
    if way == "limit" and program != FULL:
        *refused, last = rest
        assert refused[:2] == ["0", "20"]
        assert last == "alive"


SAVER = """
value = float(sys.argv[3])
mine = with_rows(2000, value)
print("begins", flush=True)
while not os.path.exists(f"{folder}/stop"):
    da.save(mine, f"{folder}/run.nc")
flush = os.fsync
def stuck(handle):
    print("in the middle", flush=True)
    sys.stdin.readline()
os.fsync = stuck
da.save(mine, f"{folder}/run.nc")
"""


def test_two_savers_of_one_name_and_a_kill_in_the_middle(tmp_path, path):
    """Whoever reads sees one of the two files, whole; a killed save leaves the other's file, and a temporary at most."""
    target, mine = tmp_path / "run.nc", with_rows(path, 3000, 1.0)
    command = child(SAVER, tmp_path, 2.0)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "begins\n"
            seen = []
            while len(set(seen)) < 2 or len(seen) < 20:
                da.save(mine, target)
                found = [da.load(target) for _ in range(2)]
                seen += [(x.q.shape[0], float(x.q[0, 0])) for x in found]
                assert len(seen) < 2000, "the other one never had a turn"
            assert set(seen) == {(3000, 1.0), (2000, 2.0)}
            (tmp_path / "stop").touch()
            assert other.stdout.readline() == "in the middle\n"
            da.save(mine, target)
            other.send_signal(signal.SIGKILL)
        finally:
            other.kill()
    assert len(da.load(target).q) == 3000
    left = sorted(x.name for x in tmp_path.iterdir() if x.name not in ("run.nc", "stop"))
    assert len(left) == 1
    assert left[0].startswith(".dalembert-")
    assert left[0].endswith(".part")
    da.save(path, target)
    assert da.load(target).q.shape == path.q.shape


def test_an_interrupt_leaves_the_old_file_and_no_temporary(tmp_path, path, monkeypatch):
    da.save(path, tmp_path / "run.nc")

    def interrupted(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        da.save(with_rows(path, 10), tmp_path / "run.nc")
    assert os.listdir(tmp_path) == ["run.nc"]
    assert da.load(tmp_path / "run.nc").q.shape == path.q.shape


def test_the_file_is_on_the_disk_before_it_has_its_name_and_its_name_after(tmp_path, path, monkeypatch):
    calls = []
    real_flush, real_rename = os.fsync, os.replace

    def flush(handle):
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real_flush(handle)

    def rename(source, target):
        calls.append("rename")
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", rename)
    da.save(path, tmp_path / "run.nc")
    assert calls == ["file", "rename", "folder"]


def test_files_of_other_names_are_left_alone(tmp_path, path):
    """The fixed name run.nc.part was a user's own file, or a link out of the folder."""
    kept, outside = tmp_path / "run.nc.part", tmp_path / "outside"
    kept.write_text("mine")
    outside.write_text("precious")
    (tmp_path / "link.nc.part").symlink_to(outside)
    da.save(path, tmp_path / "run.nc")
    da.save(path, tmp_path / "link.nc")
    assert (kept.read_text(), outside.read_text()) == ("mine", "precious")
    assert len(list(tmp_path.iterdir())) == 5


def test_a_link_is_followed(tmp_path, path):
    """As by np.save: the file it points to is replaced, in its own folder, and the link stays a link."""
    (tmp_path / "far").mkdir()
    real, link, loop = tmp_path / "far" / "real.nc", tmp_path / "run.nc", tmp_path / "loop.nc"
    link.symlink_to("far/real.nc")
    for rows in (10, 20):  # the link dangles first
        da.save(with_rows(path, rows), link)
        assert link.is_symlink()
        assert not real.is_symlink()
        assert da.load(real).q.shape == da.load(link).q.shape == (rows, 1)
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        da.save(path, loop)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_replaced_file_keeps_its_mode(mode, tmp_path, path):
    target = tmp_path / "run.nc"
    da.save(path, target)
    target.chmod(mode)
    da.save(path, target)
    assert stat.S_IMODE(target.stat().st_mode) == mode


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_a_new_file_has_the_mode_of_open(mask, tmp_path, path):
    before = os.umask(mask)
    try:
        da.save(path, tmp_path / "run.nc")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run.nc").stat().st_mode) == 0o666 & ~mask


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to somebody else")
def test_root_leaves_the_file_of_another_to_him(tmp_path, path):
    target = tmp_path / "run.nc"
    da.save(path, target)
    os.chown(target, 1234, 4321)
    target.chmod(0o640)
    da.save(path, target)
    found = target.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o640)


def test_what_is_no_file_or_read_only_is_not_replaced(tmp_path, path, monkeypatch):
    (tmp_path / "folder.nc").mkdir()
    os.mkfifo(tmp_path / "pipe.nc")
    da.save(path, tmp_path / "kept.nc")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        da.save(path, tmp_path / "folder.nc")
    with pytest.raises(OSError, match="no file"):
        da.save(path, tmp_path / "pipe.nc")
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # what os.access says of a read-only file, but not to root
    with pytest.raises(PermissionError, match="read-only"):
        da.save(with_rows(path, 10), tmp_path / "kept.nc")
    assert da.load(tmp_path / "kept.nc").q.shape == path.q.shape
    assert len(list(tmp_path.iterdir())) == 3


def test_a_file_system_without_reservation_is_written_all_the_same(tmp_path, path, monkeypatch):
    def refused(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refused)
    da.save(path, tmp_path / "run.nc")
    np.testing.assert_array_equal(da.load(tmp_path / "run.nc").q, path.q)
