"""Programs of this repository that guests run, as cargo builds them.

Invariants:
- PROG-1: features are those of the whole workspace and its tests: after `cargo test --workspace` nothing is built anew.
"""

import json
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Seconds that cargo took: no limit for tests counts them.
spent = 0.0


def built(crate, kind, name, *command):
    """Has cargo build a target of a crate of this workspace, and returns where the program is."""
    global spent
    began = time.monotonic()
    command = ["cargo", *(command or ("test", "--no-run", "--workspace")), f"--{kind}", name]
    done = subprocess.run([*command, "--quiet", "--message-format=json"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    spent += time.monotonic() - began
    if done.returncode != 0:
        raise RuntimeError(f"failed: {' '.join(command)}")
    for line in done.stdout.splitlines():
        artifact = json.loads(line) if line.startswith("{") else {}
        own = pathlib.Path(artifact.get("manifest_path", "")).parent.name == crate
        if own and artifact["target"]["name"] == name and kind in artifact["target"]["kind"] and artifact["executable"]:
            return artifact["executable"]
    raise RuntimeError(f"no program came of: {' '.join(command)}")


def shingle():
    """The command under test."""
    if named := os.environ.get("SHINGLE_BINARY"):
        # Relative to here, and not to where a guest runs it.
        return os.path.abspath(named)
    return built("cli", "bin", "shingle", "build")
