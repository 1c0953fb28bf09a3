"""The package as users have it: its wheel, and its example."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

import shingle

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "bindings/python"
#: What a wheel has beside the library.
SOURCES = {file.relative_to(PACKAGE / "python").as_posix() for suffix in ("py", "pyi", "typed") for file in PACKAGE.glob(f"python/**/*.{suffix}")}


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **more)
    assert done.returncode == 0, (command, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def test_a_wheel_has_library_stubs_and_types_for_every_python(tmp_path):
    """By this build's profile, so that hardly anything is built anew; `make wheel` makes a release."""
    pytest.importorskip("maturin", reason="maturin is not installed in this environment")
    run(sys.executable, "-m", "maturin", "build", "--profile", "dev", "--out", tmp_path, cwd=PACKAGE)
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp310-abi3-" in wheel.name, wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"shingle/py.typed", "shingle/_native.pyi", "shingle/layers/tl1.py"} <= SOURCES <= names, SOURCES - names
    assert "shingle/_native.abi3.so" in names
    # Into a folder of its own, and without anything of this one.
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", tmp_path / "there", wheel)
    code = "import shingle; print(shingle.__file__, shingle.simulate('tl2', [('w', 0, 4096)], zones=40)['stats']['extents'])"
    said = run(sys.executable, "-c", code, env={**os.environ, "PYTHONPATH": str(tmp_path / "there")}, cwd=tmp_path)
    assert said.split() == [str(tmp_path / "there/shingle/__init__.py"), "1"]


def test_the_example_ends_in_a_plot(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed in this environment")
    package = str(pathlib.Path(shingle.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": package, "MPLBACKEND": "agg", "MPLCONFIGDIR": str(tmp_path)}
    picture = tmp_path / "policies.png"
    said = run(sys.executable, PACKAGE / "examples/own_policy.py", picture, env=environment, cwd=tmp_path)
    assert [line.split("  ")[0] for line in said.splitlines()] == ["TL1", "TL2", "TL2, hot and cold", "patient"]
    bytes = picture.read_bytes()
    assert bytes.startswith(b"\x89PNG") and len(bytes) > 10_000
