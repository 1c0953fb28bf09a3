"""A tree of thousands of files and one file above 1 GiB go in through clients nobody here wrote, and come out equal."""

import os
import pathlib
import random
import shutil
import subprocess

import pytest

FILES = 2200
LARGE = (1 << 30) + 12_345
SEED = 20_230_221

FOLDERS = ["src", "docs", "Photos 2019", "música", "données", "写真", "a b", "build.d", "v1.2", "x+y", "100%", "it's"]
STEMS = ["README", "main", "index", "résumé", "IMG_4711", "report (final)", "naïve", "数据", "a=b&c", "tilde~", "#1", "Ω"]
ENDINGS = [".txt", ".rs", ".jpg", ".tar.gz", "", ".JSON", ".html", " copy.md"]


def size(rng):
    """Many small files, few large ones, some empty, some at the edges of a block."""
    kind = rng.random()
    if kind < 0.05:
        return 0
    if kind < 0.10:
        return rng.choice([1, 4063, 4064, 4065, 4095, 4096, 4097, 65_535, 65_536])
    if kind < 0.97:
        return int(rng.expovariate(1 / 6000))
    return rng.randrange(200_000, 2_000_000)


def make_tree(root, files=FILES):
    rng = random.Random(SEED)
    deep = pathlib.Path(*[f"level {depth}" for depth in range(24)])
    folders = [pathlib.Path(), deep]
    folders += [pathlib.Path(*rng.choices(FOLDERS, k=rng.randrange(1, 5))) for _ in range(60)]
    for number in range(files):
        folder = root / rng.choice(folders)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{rng.choice(STEMS)}-{number}{rng.choice(ENDINGS)}"
        (folder / name).write_bytes(rng.randbytes(size(rng)))
    return root


def make_large(path):
    """Random at first, then its own blocks with a counter, so that a piece in the wrong place shows."""
    block = bytearray(random.Random(SEED).randbytes(1 << 20))
    with open(path, "wb") as file:
        for number in range(LARGE >> 20):
            block[:8] = number.to_bytes(8, "little")
            file.write(block)
        file.write(block[: LARGE & ((1 << 20) - 1)])
    assert os.path.getsize(path) == LARGE
    return path


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = make_tree(tmp_path_factory.mktemp("tree"))
    yield root
    shutil.rmtree(root)


def run(command, environment, timeout=240):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout


def assert_equal_trees(one, other):
    done = subprocess.run(["diff", "-r", str(one), str(other)], capture_output=True, text=True)
    assert done.returncode == 0, f"seed {SEED}: " + (done.stdout + done.stderr)[:4000]


def rclone(server, home, *arguments):
    common = ["--transfers", "8", "--checkers", "8", "--retries", "1", "--low-level-retries", "3"]
    return run(["rclone", *arguments, *common], server.environment(home))


def test_rclone_moves_a_tree_in_and_out_and_a_restart_changes_nothing(server, tree, tmp_path):
    rclone(server, tmp_path, "copy", str(tree), "shingle:tree")
    rclone(server, tmp_path, "check", "--one-way", str(tree), "shingle:tree")
    server.stop()
    server.start()
    rclone(server, tmp_path, "copy", "shingle:tree", str(tmp_path / "out"))
    assert_equal_trees(tree, tmp_path / "out")
    assert len(rclone(server, tmp_path, "lsf", "-R", "--files-only", "shingle:tree").splitlines()) == FILES


def test_aws_moves_a_tree_in_and_out(server, tmp_path):
    tree = make_tree(tmp_path / "in", files=FILES)
    environment = server.environment(tmp_path)
    run(["aws", "s3", "mb", "s3://tree"], environment)
    run(["aws", "s3", "sync", "--only-show-errors", str(tree), "s3://tree/some/where"], environment)
    (tmp_path / "out").mkdir()
    run(["aws", "s3", "sync", "--only-show-errors", "s3://tree/some/where", str(tmp_path / "out")], environment)
    assert_equal_trees(tree, tmp_path / "out")


def test_a_file_above_one_gib_goes_in_by_rclone_and_comes_out_by_aws(server, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    large = make_large(tmp_path / "in" / "large image.bin")
    rclone(server, tmp_path, "copy", "--s3-chunk-size", "32Mi", str(tmp_path / "in"), "shingle:large")
    environment = server.environment(tmp_path)
    run(["aws", "s3", "cp", "--only-show-errors", f"s3://large/{large.name}", str(tmp_path / "out" / large.name)], environment)
    assert_equal_trees(tmp_path / "in", tmp_path / "out")
    # And the other way round, over the object that is there.
    shutil.rmtree(tmp_path / "out")
    run(["aws", "s3", "cp", "--only-show-errors", str(large), f"s3://large/{large.name}"], environment)
    rclone(server, tmp_path, "copy", "shingle:large", str(tmp_path / "out"))
    assert_equal_trees(tmp_path / "in", tmp_path / "out")
