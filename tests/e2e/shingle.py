"""A real `shingle serve` on loopback with a data directory of its own, to start, kill and start again."""

import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import threading
import time

import boto3
from botocore.config import Config

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = pathlib.Path(os.environ.get("SHINGLE_BINARY", TARGET / "debug" / "shingle"))
START_SECONDS = 60
REGION = "us-east-1"


def keys_in(credentials):
    """Access and secret key in the text of a server's `credentials.toml`."""
    return tuple(re.search(rf'^{name} = "(.*)"$', credentials, re.M)[1] for name in ("access_key", "secret_key"))


def s3_client(endpoint, keys, attempts=1, connect_timeout=10, read_timeout=60):
    """boto3's client of a server; it tries nothing twice unless told, and gives up after so many seconds."""
    config = Config(
        s3={"addressing_style": "path"},
        retries={"total_max_attempts": attempts},
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
    )
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
        config=config,
    )


class Server:
    """One data directory, served by one process after another."""

    def __init__(self, data, config=None):
        self.data = pathlib.Path(data)
        self.config = config
        self.process = None
        self.endpoint = None
        self.lines = []

    def command(self):
        config = ["--config", str(self.config)] if self.config else []
        return [str(BINARY), "serve", *config, "--data", str(self.data), "--listen", "127.0.0.1:0"]

    def start(self):
        assert self.process is None, "it runs already"
        self.process = subprocess.Popen(
            self.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        ready, lines = queue.Queue(), []
        self.lines = lines

        def drain(output):
            for line in output:
                lines.append(line)
                found = re.search(r"Ready: (http://\S+)", line)
                if found:
                    ready.put(found[1])
            ready.put(None)

        threading.Thread(target=drain, args=(self.process.stdout,), daemon=True).start()
        try:
            self.endpoint = ready.get(timeout=START_SECONDS)
        except queue.Empty:
            self.endpoint = None
        if self.endpoint is None:
            self.kill()
            raise AssertionError("the server did not start:\n" + "".join(lines[-40:]))
        return self

    def kill(self):
        """Like a crash of the process: nothing is said, nothing is closed."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self):
        """Ends it in order, as Ctrl-C does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                status = self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError("the server did not stop") from None
            self.process = None
            assert status == 0, f"the server ended with status {status}"

    def restart_after_kill(self):
        self.kill()
        return self.start()

    @property
    def admin(self):
        """Where metrics are; said behind the line that says that the server is ready."""
        for _ in range(100):
            found = re.search(r"^Metrics: (http://\S+)/metrics", "".join(self.lines), re.M)
            if found:
                return found[1]
            time.sleep(0.1)
        raise AssertionError("the server did not say where its metrics are")

    @property
    def keys(self):
        return keys_in((self.data / "credentials.toml").read_text())

    def s3(self, attempts=1):
        return s3_client(self.endpoint, self.keys, attempts)

    def environment(self, home):
        """For the aws and rclone commands; `home` keeps the user's own settings out."""
        access, secret = self.keys
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "AWS_ACCESS_KEY_ID": access,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
            "RCLONE_CONFIG": str(pathlib.Path(home) / "rclone.conf"),
            "RCLONE_CONFIG_SHINGLE_TYPE": "s3",
            "RCLONE_CONFIG_SHINGLE_PROVIDER": "Other",
            "RCLONE_CONFIG_SHINGLE_ENV_AUTH": "true",
            "RCLONE_CONFIG_SHINGLE_REGION": REGION,
            "RCLONE_CONFIG_SHINGLE_ENDPOINT": self.endpoint,
        }


def shingle(*arguments, timeout=120, **options):
    """Runs a command of shingle's to its end."""
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **options
    )


def does_all_of_s3(server):
    """Runs the tests of S3 operations, all of them, against a server."""
    access, secret = server.keys
    there = {"SHINGLE_ENDPOINT": server.endpoint, "SHINGLE_ACCESS_KEY": access, "SHINGLE_SECRET_KEY": secret}
    folder = pathlib.Path(__file__).parent
    tests = sorted(path.name for path in folder.glob("test_s3_api_*.py"))
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(suite, cwd=folder, env={**os.environ, **there}, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0 and " skipped" not in done.stdout, done.stdout + done.stderr
