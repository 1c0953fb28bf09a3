"""The clients of the tests of S3 operations, `test_s3_api_*.py`: boto3, which nobody here wrote, and requests signed by hand.

The server is found by SHINGLE_ENDPOINT, SHINGLE_ACCESS_KEY and SHINGLE_SECRET_KEY. Each test makes a bucket of its own
and removes it, so the suite can be run against a server in use.
"""

import base64
import hashlib
import http.client
import os
import random
import urllib.parse
import uuid
import zlib

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

ENDPOINT = os.environ.get("SHINGLE_ENDPOINT", "")
ACCESS_KEY = os.environ.get("SHINGLE_ACCESS_KEY", "")
SECRET_KEY = os.environ.get("SHINGLE_SECRET_KEY", "")
REGION = os.environ.get("SHINGLE_REGION", "us-east-1")
MIB = 1 << 20

CHECKSUMS = {
    "CRC32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "SHA1": lambda data: hashlib.sha1(data).digest(),
    "SHA256": lambda data: hashlib.sha256(data).digest(),
    # Known answers of the two that Python has no function for, of b"123456789".
    "CRC32C": lambda data: (0xE3069283).to_bytes(4, "big"),
    "CRC64NVME": lambda data: (0xAE8B14860A799888).to_bytes(8, "big"),
}

pytestmark = pytest.mark.skipif(
    not (ENDPOINT and ACCESS_KEY and SECRET_KEY),
    reason="set SHINGLE_ENDPOINT, SHINGLE_ACCESS_KEY and SHINGLE_SECRET_KEY to a running server's",
)


def client(**options):
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    keys.update({name: options.pop(name) for name in list(options) if name.startswith("aws_")})
    config = Config(
        s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, connect_timeout=10, read_timeout=60, **options
    )
    return boto3.client("s3", endpoint_url=ENDPOINT, region_name=REGION, config=config, **keys)


@pytest.fixture(scope="session")
def s3():
    return client()


@pytest.fixture
def bucket(s3):
    name = f"test-{uuid.uuid4().hex[:16]}"
    s3.create_bucket(Bucket=name)
    yield name
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=name):
        for upload in page.get("Uploads", []):
            s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        keys = [{"Key": item["Key"]} for item in page.get("Contents", [])]
        if keys:
            s3.delete_objects(Bucket=name, Delete={"Objects": keys})
    s3.delete_bucket(Bucket=name)


def refused(call, code=None, status=None, **arguments):
    """Calls, and holds the error against what is expected; `code` may be several."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    if code is not None:
        assert response["Error"]["Code"] in (code if isinstance(code, tuple) else (code,)), response
    if status is not None:
        assert response["ResponseMetadata"]["HTTPStatusCode"] == status, response
    return response


def body(size, seed=1):
    return random.Random(seed).randbytes(size)


def md5(data):
    return hashlib.md5(data).hexdigest()


def b64(data):
    return base64.b64encode(data).decode()


def signed(method, path, data=b"", headers=None, query=""):
    """A request signed by hand, for what boto3 does not send."""
    url = f"{ENDPOINT}{path}{'?' + query if query else ''}"
    headers = dict(headers or {})
    headers.setdefault("X-Amz-Content-SHA256", hashlib.sha256(data).hexdigest())
    request = AWSRequest(method=method, url=url, data=data, headers=headers)
    SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", REGION).add_auth(request)
    return send(method, url, data, dict(request.headers))


def send(method, url, data=b"", headers=None):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    try:
        target = parts.path + ("?" + parts.query if parts.query else "")
        connection.request(method, target, body=data or None, headers=headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()
