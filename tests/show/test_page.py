"""Moving pictures and pages: what is in the files. In a browser: tests/browser/check_runs.py."""

import base64
import json
import re
import sys

import numpy as np
import pytest
from PIL import Image

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.show import results_of
from dalembert.show.html.content import as_json, content_of

PENDULUM = ENTRIES["pendulum"]


@pytest.fixture(scope="module")
def path():
    return da.simulate(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, h=PENDULUM.h, steps=60)


@pytest.fixture(scope="module")
def hanging():
    entry = ENTRIES["chain"]
    return da.simulate(entry.system, entry.q0, entry.v0, h=0.01, steps=20)


def floats(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


def data_of(file):
    return json.loads(re.search(r'id="data">(.*?)</script>', file.read_text(encoding="utf-8"), re.DOTALL)[1])


def test_a_page_holds_the_path_and_asks_for_nothing(path, tmp_path):
    file = tmp_path / "run.html"
    da.page(path, file, title="Swing")
    text, data = file.read_text(encoding="utf-8"), data_of(file)
    assert len(text) < 200_000
    assert not re.search(r"(src|href)\s*=|url\(|@import|fetch\(|XMLHttp", text.replace("http://www.w3.org/2000/svg", ""))
    assert [panel["title"] for panel in data["panels"]] == ["θ", "velocities", "energy E − E₀"]
    line = data["panels"][0]["series"][0]
    np.testing.assert_array_equal(floats(data["arrays"][line["t"]]), np.asarray(path.t, dtype="<f4"))
    np.testing.assert_array_equal(floats(data["arrays"][line["y"]]), np.asarray(path.q[:, 0], dtype="<f4"))
    energy = da.measure.energy(PENDULUM.system, path).values
    np.testing.assert_array_equal(
        floats(data["arrays"][data["panels"][2]["series"][0]["y"]]), np.float32(energy - energy[0])
    )
    assert dict(data["reproduce"])["SHA-256 of the source"] == path.provenance.source_hash
    assert data["parameters"] == [["g_over_l", "1"]]


def test_texts_of_the_user_are_no_code(path, tmp_path):
    evil = '</script><img src=x onerror="alert(1)">&'
    system = da.System(lambda q, v, p: 0.5 * v @ v, coordinates=(evil,), parameters={evil: 1.0})
    run = da.simulate(system, [0.0], [1.0], h=0.1, steps=2)
    file = tmp_path / "evil.html"
    da.page({evil: run, "b": path}, file, title=evil)
    text = file.read_text(encoding="utf-8")
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert data_of(file)["title"] == evil
    assert as_json({"a": "</SCRIPT>\u2028"}) == '{"a":"\\u003c/SCRIPT\\u003e\\u2028"}'
    assert evil not in da.animate(run, title=evil)._repr_html_()


def test_thinning_keeps_extremes(path):
    t = np.linspace(0.0, 100.0, 100_001)
    q = np.sin(300.0 * t)
    q[54_321], q[12_345] = 7.0, -8.0
    long = da.Path(**{**vars(path), "t": t, "q": q[:, None], "t_velocity": t, "v": 0.0 * q[:, None], "provenance": None})
    content = content_of(results_of(long), "", "")
    y = floats(content["panels"][0]["series"][0]["y"])
    assert len(y) < 2000
    assert (y.max(), y.min()) == (7.0, -8.0)
    assert len(as_json(content)) < 400_000
    assert max(floats(c["x"]).max() for c in content["phase"][0]["curves"]) == 7.0


def test_constraints_forces_and_outcome_are_there(hanging):
    content = content_of(results_of(hanging), "", "")
    panels = {panel["title"]: panel for panel in content["panels"]}
    residual = panels["constraint residuals |φ|"]
    assert residual["log"]
    expected = da.measure.constraint_residual(ENTRIES["chain"].system, hanging)[0].values
    np.testing.assert_array_equal(floats(residual["series"][0]["y"]), np.float32(np.abs(expected).max(axis=1)))
    assert [line["name"] for line in panels["multipliers λ"]["series"]] == ["λ₁", "λ₂", "λ₃"]
    (run,) = content["runs"]
    assert (run["outcome"], run["good"]) == ("success", True)
    assert dict(run["facts"])["Newton iterations"].startswith(str(int(hanging.statistics.iterations)))


def test_a_failed_run_says_why_and_where(path):
    short = da.simulate(
        PENDULUM.system,
        PENDULUM.q0,
        PENDULUM.v0,
        h=PENDULUM.h,
        steps=60,
        stop=da.Stop(domain=lambda q, v, p: q[0] > 0.5),
        throw=False,
    )
    content = content_of(results_of({"short": short, "whole": path}), "", "")
    assert [run["good"] for run in content["runs"]] == [False, True]
    assert "left the domain" in content["runs"][0]["message"]
    assert content["panels"][0]["ends"] == [float(short.statistics.failed_time)]
    assert [line["name"] for line in content["panels"][0]["series"]] == ["short", "whole"]


def test_controls_have_their_bounds():
    move = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v, coordinates=("x",)), cost=lambda q, v, u: u @ u, actuated=0)
    plan = da.solve(move, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=20, bounds={"u": (-5.0, 5.0)})
    panels = {panel["title"]: panel for panel in content_of(results_of(plan), "", "")["panels"]}
    assert [set(floats(bound["y"])) for bound in panels["control u"]["bounds"]] == [{-5.0}, {5.0}]
    np.testing.assert_array_equal(floats(panels["control u"]["series"][0]["y"]), np.float32(plan.u[:, 0]))
    assert next(iter(panels)) == "x"


def test_a_motion_is_saved_as_a_gif_whose_frames_differ(path, tmp_path):
    motion = da.animate(path, speed=1.0, fps=5, title="$5 & _x_")
    assert motion.frames == 15
    motion.save(tmp_path / "run.gif", dpi=30)
    with Image.open(tmp_path / "run.gif") as picture:
        assert (picture.n_frames, picture.info["duration"]) == (15, 200)
        shots = []
        for frame in (0, 4, 14):
            picture.seek(frame)
            shots.append(np.asarray(picture.convert("RGB")))
    assert np.any(shots[0] != shots[1])
    assert np.any(shots[1] != shots[2])
    motion.save(tmp_path / "run.html")
    assert data_of(tmp_path / "run.html")["drawing"]["dimension"] == 2
    assert motion._repr_html_().startswith("<iframe srcdoc=")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_frame_shows_the_rod_where_it_is(path):
    motion = da.animate(path, speed=1.0, fps=20)
    (axes,) = motion.figure(-1).axes
    ends = [line.get_xydata()[-1] for line in axes.lines if len(line.get_xydata()) == 2]
    angle = float(path.q[-1, 0])
    assert any(np.allclose(end, [np.sin(angle), -np.cos(angle)], atol=1e-12) for end in ends)


def test_without_ffmpeg_a_video_is_refused_in_words(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="needs the program ffmpeg"):
        da.animate(path, fps=2).save(tmp_path / "run.mp4")
    with pytest.raises(ValueError, match=r"give a name that ends in .gif"):
        da.animate(path, fps=2).save(tmp_path / "run.avi")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        da.page(path, tmp_path / "nowhere" / "run.html")
    with pytest.raises(ValueError, match="speed, fps: these are"):
        da.animate(path, speed=1e-4)


def test_coordinates_choose_what_is_plotted_with_one_unit_of_length():
    entry = ENTRIES["vertical_rolling_disk"]
    run = da.simulate(entry.system, entry.q0, entry.v0, h=0.1, steps=10)
    figure = da.plot(run, coordinates=("x", "y"), dark=True)
    curve = next(ax for ax in figure.axes if ax.get_xlabel() == "x")
    assert curve.get_aspect() == 1.0
    assert [ax.get_ylabel() for ax in figure.axes][:2] == ["x", "y"]
    assert sum(figure.get_facecolor()[:3]) < 0.5
    with pytest.raises(ValueError, match="coordinates: found 'z'"):
        da.plot(run, coordinates=("x", "z"))
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_figure_is_under_plt_show_where_figures_have_windows(path, monkeypatch):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    da.plot(path)
    assert plt.get_fignums() == before  # a back-end without windows: nothing to show, nothing to close
    monkeypatch.setattr(plt, "get_backend", lambda: "qtagg")
    figure = da.plot(path)
    assert [plt.figure(number) for number in plt.get_fignums() if number not in before] == [figure]
    plt.close(figure)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    da.plot(path)
    assert plt.get_fignums() == before


FFMPEG = """#!/bin/sh
for last; do :; done
echo "$@" > "$last.words"
cat > "$last"
"""


@pytest.mark.parametrize("ending", ["mp4", "webm"])
def test_ffmpeg_is_given_all_frames_and_their_size(path, tmp_path, monkeypatch, ending):
    """A stand-in for ffmpeg writes down its words and keeps the raw frames."""
    stand_in = tmp_path / "ffmpeg"
    stand_in.write_text(FFMPEG)
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    motion, given, film = da.animate(path, speed=1.0, fps=4), [], tmp_path / f"run.{ending}"
    monkeypatch.setattr("dalembert.show.motion.write_whole", lambda target, write: (write(target), given.append(target)))
    motion.save(film, dpi=31)
    words = (tmp_path / f"run.{ending}.words").read_text().split()
    width, height = map(int, words[words.index("-s") + 1].split("x"))
    frames = np.frombuffer(film.read_bytes(), np.uint8).reshape(motion.frames, height, width, 4)
    assert given == [film]
    assert words[words.index("-framerate") + 1] == "4"
    assert np.any(frames[0] != frames[1])
    if ending == "mp4":
        assert words[words.index("-pix_fmt", words.index("pipe:")) + 1] == "yuv420p"
        assert (width % 2, height % 2) == (0, 0)  # what H.264 asks for
    else:
        assert "h264" not in words


def test_runs_of_a_study_are_named_by_what_was_swept(tmp_path):
    study = da.sweep(PENDULUM.system, {"g_over_l": [1.0, 2.5]}, {"q0": [1.0], "v0": [0.0], "h": 0.1, "steps": 4})
    da.page(study, tmp_path / "study.html")
    assert [run["name"] for run in data_of(tmp_path / "study.html")["runs"]] == ["g_over_l = 1", "g_over_l = 2.5"]
    one = da.simulate(PENDULUM.system.replace(g_over_l=2.5), [1.0], [0.0], h=0.1, steps=4)
    np.testing.assert_array_equal(results_of(study)[1].q, one.q)
    assert results_of(study)[1].problem.parameters["g_over_l"] == 2.5


def test_of_a_large_ensemble_the_page_says_how_many_it_shows(tmp_path):
    runs = da.ensemble(PENDULUM.system, np.linspace(0.1, 1.0, 14)[:, None], [0.0], h=0.1, steps=4)
    da.page(runs, tmp_path / "runs.html")
    assert "the first 12 of 14 runs" in (tmp_path / "runs.html").read_text(encoding="utf-8")
    with pytest.raises(TypeError, match=r"dalembert\.load reads what was stored"):
        da.page("run.nc", tmp_path / "runs.html")
