"""The aws command."""

import os
import shutil
import subprocess

import pytest

from s3api import ACCESS_KEY, ENDPOINT, MIB, REGION, SECRET_KEY, body, bucket, pytestmark, s3  # noqa: F401: fixtures


@pytest.fixture
def aws(tmp_path):
    if not shutil.which("aws"):
        pytest.skip("the aws command is not installed")
    environment = dict(
        os.environ,
        AWS_ACCESS_KEY_ID=ACCESS_KEY,
        AWS_SECRET_ACCESS_KEY=SECRET_KEY,
        AWS_DEFAULT_REGION=REGION,
        AWS_CONFIG_FILE=str(tmp_path / "config"),
        AWS_EC2_METADATA_DISABLED="true",
    )

    def run(*arguments):
        command = ["aws", "--endpoint-url", ENDPOINT, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    return run


def test_the_aws_command_copies_lists_syncs_and_removes(aws, bucket, tmp_path):
    tree = tmp_path / "tree"
    for number in range(12):
        path = tree / f"d{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body(1000 * number, number))
    (tree / "large").write_bytes(body(9 * MIB))
    aws("s3", "sync", str(tree), f"s3://{bucket}/tree")
    assert "large" in aws("s3", "ls", f"s3://{bucket}/tree/")
    aws("s3", "sync", f"s3://{bucket}/tree", str(tmp_path / "back"))
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        assert (tmp_path / "back" / path.relative_to(tree)).read_bytes() == path.read_bytes(), path
    aws("s3", "cp", f"s3://{bucket}/tree/large", f"s3://{bucket}/copy")
    aws("s3", "mv", f"s3://{bucket}/copy", f"s3://{bucket}/moved")
    head = aws("s3api", "head-object", "--bucket", bucket, "--key", "moved")
    assert f'"ContentLength": {9 * MIB}' in head
    aws("s3", "rm", f"s3://{bucket}", "--recursive")
    assert aws("s3", "ls", f"s3://{bucket}") == ""
