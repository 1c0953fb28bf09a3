"""Layers in Python, in virtual time: they decide as the native ones do, and can do no harm."""

import pathlib
import random
import time

import pytest

import shingle
from shingle import control
from shingle.layers import tl1, tl2

KIB = 1 << 10
SIZE = 12 * 250 << 20
#: A drive that such a volume nearly fills.
FULL = {"zones": 25}


def random_writes(count, seed=1, size=SIZE, length=256 * KIB):
    draw = random.Random(seed)
    return [("w", draw.randrange(size // length) * length, length) for _ in range(count)]


def run(policy, trace, **more):
    return shingle.simulate(policy, trace, **{"zones": 32, "size": SIZE, "depth": 4} | more)


def test_tl2_in_python_decides_as_the_native_one():
    trace = random_writes(20_000)
    native, python = run("tl2", trace, **FULL), run(tl2(), trace, **FULL)
    assert native["stats"]["sectors_copied"] > 0
    assert native["stats"] == python["stats"]
    assert native["took"] == python["took"]


def test_tl1_in_python_comes_close_to_the_native_one():
    trace = random_writes(12_000)
    native, python = run("tl1", trace), run(tl1(), trace)
    assert native["stats"]["sectors_copied"] > 0
    assert python["write_amplification"] == pytest.approx(native["write_amplification"], rel=0.1)


def test_the_same_arguments_give_the_same_run():
    trace = random_writes(3_000)
    assert run(tl2(young=3), trace) == run(tl2(young=3), trace)


def test_sequential_writes_go_to_homes_of_their_own():
    """TL1 beyond the paper: a stream is written once, but for the home in which it begins."""
    trace = [("w", at, KIB * KIB) for at in range(0, SIZE - (SIZE >> 1), KIB * KIB)] * 3
    result = run(tl1(), trace, depth=1)
    assert result["write_amplification"] < 1.15
    assert run(tl1(sequential=None), trace, depth=1)["write_amplification"] > 1.25


@pytest.mark.parametrize("layer", ["tl1", "tl2"])
def test_a_layer_has_at_most_200_lines(layer):
    source = pathlib.Path(shingle.__file__).parent / "layers" / f"{layer}.py"
    assert len(source.read_text().splitlines()) <= 200


def test_an_exception_of_a_policy_is_raised():
    def policy():
        yield control.wait(0.001)
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        run(policy, random_writes(100))


def test_a_policy_that_yields_something_else_is_told_so():
    def policy():
        yield 5

    with pytest.raises(TypeError, match="yields commands of shingle.control"):
        run(policy, random_writes(10))


def test_a_policy_without_end_is_stopped():
    def policy():
        while True:
            yield control.shape()

    with pytest.raises(RuntimeError, match="no time passes"):
        run(policy, random_writes(10))


def test_refused_commands_raise_and_can_be_caught():
    seen = []

    def policy():
        for wrong in (control.feed((3, 99)), control.copy([(9, 5)]), control.save(bytes(1 << 20))):
            try:
                yield wrong
            except ValueError as error:
                seen.append(str(error))
        seen.append((yield control.shape())["sector_bytes"])

    run(policy, random_writes(50))
    assert len(seen) == 4 and seen[-1] == 4096


def test_a_policy_that_ends_leaves_the_volume_to_clean_by_itself():
    def policy():
        return
        yield

    assert run(policy, random_writes(20_000), **FULL)["stats"]["cleaned"] > 0


@pytest.mark.parametrize(
    ("trace", "more", "text"),
    [
        ([("x", 0, 4096)], {}, "a trace has"),
        ([("w", 5, 4096)], {}, "begin and end with a sector"),
        ([("w", SIZE, 4096)], {}, "inside the store"),
        ([("w", 0, (1 << 63))], {}, "at most 1073741824 bytes"),
        ([("r", 0, (1 << 30) + 4096)], {}, "at most 1073741824 bytes"),
        ([("z", 0, 1 << 63)], {}, "inside the store"),
        ([], {"drive": "none"}, "no drive profile"),
        ([], {"drive": "st16000nm001g"}, "no host-managed"),
        ([], {"zones": 5}, "sequential zones"),
    ],
)
def test_bad_input_gets_a_clear_error(trace, more, text):
    with pytest.raises(ValueError, match=text):
        run(None, trace, **more)


def test_the_stub_names_all_commands():
    stub = (pathlib.Path(shingle.__file__).parent / "_native.pyi").read_text()
    commands = [name for name in dir(control.Command) if not name.startswith("_")]
    assert len(commands) >= 20
    for name in commands:
        assert f"def {name}(" in stub, name
        assert hasattr(control, name), name


def test_a_long_trace_takes_little_real_time():
    began = time.monotonic()
    result = run(None, random_writes(20_000, length=16 * KIB))
    assert result["seconds"] > time.monotonic() - began, "virtual time is slower than real time"
