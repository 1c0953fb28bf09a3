"""Digests of bodies, and signatures of requests."""

import hashlib
import zlib

import pytest

from s3api import (  # noqa: F401: fixtures
    CHECKSUMS,
    ENDPOINT,
    MIB,
    b64,
    body,
    bucket,
    client,
    pytestmark,
    refused,
    s3,
    send,
    signed,
)


def test_content_md5_is_checked(s3, bucket):
    data = b"some data"
    right, wrong = hashlib.md5(data).digest(), hashlib.md5(b"other").digest()
    s3.put_object(Bucket=bucket, Key="k", Body=data, ContentMD5=b64(right))
    refused(s3.put_object, "BadDigest", 400, Bucket=bucket, Key="other", Body=data, ContentMD5=b64(wrong))
    refused(s3.put_object, "InvalidDigest", 400, Bucket=bucket, Key="other", Body=data, ContentMD5="no digest")
    refused(s3.head_object, status=404, Bucket=bucket, Key="other")


@pytest.mark.parametrize("name", sorted(CHECKSUMS))
def test_checksums_are_verified_kept_and_returned(s3, bucket, name):
    data, field = b"123456789", f"Checksum{name}"
    digest = CHECKSUMS[name](data)
    put = s3.put_object(Bucket=bucket, Key="k", Body=data, **{field: b64(digest)})
    assert put[field] == b64(digest)
    for call in (s3.get_object, s3.head_object):
        assert call(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[field] == b64(digest)
    wrong = bytes([digest[0] ^ 1]) + digest[1:]
    refused(s3.put_object, ("BadDigest", "InvalidRequest", "XAmzContentChecksumMismatch"), 400, Bucket=bucket, Key="k",
            Body=b"123456789", **{field: b64(wrong)})


def test_a_checksum_in_a_trailer_is_kept(s3, bucket):
    """What SDKs send by default over TLS: aws-chunked, unsigned, the checksum after the body."""
    data = b"123456789" * 1000
    crc = b64(zlib.crc32(data).to_bytes(4, "big"))
    for trailer, status in ((crc, 200), (b64(b"\0\0\0\1"), 400)):
        halves = (data[:5000], data[5000:])
        framed = b"".join(f"{len(half):x}\r\n".encode() + half + b"\r\n" for half in halves)
        framed += b"0\r\nx-amz-checksum-crc32:" + trailer.encode() + b"\r\n\r\n"
        headers = {
            "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
            "Content-Encoding": "aws-chunked",
            "X-Amz-Trailer": "x-amz-checksum-crc32",
            "X-Amz-Decoded-Content-Length": str(len(data)),
        }
        answer = signed("PUT", f"/{bucket}/{status}", framed, headers)
        assert answer[0] == status, answer
    head = s3.head_object(Bucket=bucket, Key="200", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"] == crc and head["ContentLength"] == len(data)
    assert "ContentEncoding" not in head
    refused(s3.head_object, status=404, Bucket=bucket, Key="400")


def test_a_body_of_unknown_length_goes_up(s3, bucket):
    data = body(6 * MIB)
    uploader = client(request_checksum_calculation="when_supported")

    class Pipe:
        def __init__(self):
            self.at = 0

        def read(self, size=-1):
            size = len(data) if size is None or size < 0 else size
            piece = data[self.at : self.at + size]
            self.at += len(piece)
            return piece

    uploader.upload_fileobj(Pipe(), bucket, "piped")
    assert s3.get_object(Bucket=bucket, Key="piped")["Body"].read() == data


def test_unsigned_requests_are_refused(bucket):
    for method, path in (("GET", "/"), ("GET", f"/{bucket}"), ("GET", f"/{bucket}/k"), ("PUT", f"/{bucket}/k"),
                         ("DELETE", f"/{bucket}")):
        status, _, text = send(method, ENDPOINT + path)
        assert status == 403 and b"AccessDenied" in text, (method, path, status, text)


def test_wrong_keys_are_refused(bucket):
    wrong = client(aws_secret_access_key="wrong")
    refused(wrong.list_buckets, "SignatureDoesNotMatch", 403)
    unknown = client(aws_access_key_id="NOSUCHKEY")
    refused(unknown.list_buckets, ("InvalidAccessKeyId", "AccessDenied", "NotSignedUp"), 403)


def test_a_body_other_than_the_signed_one_is_refused(s3, bucket):
    headers = {"X-Amz-Content-SHA256": hashlib.sha256(b"signed").hexdigest()}
    status, _, text = signed("PUT", f"/{bucket}/k", b"forged", headers)
    assert status == 400, text
    refused(s3.head_object, status=404, Bucket=bucket, Key="k")


def test_presigned_urls(bucket):
    # Without being told, boto3 signs URLs for us-east-1 by version 2.
    s3 = client(signature_version="s3v4")
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "a b/ü"}, ExpiresIn=60)
    assert send("PUT", put, b"presigned")[0] == 200
    get = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ü"}, ExpiresIn=60)
    status, _, data = send("GET", get)
    assert (status, data) == (200, b"presigned")
    status, _, text = send("GET", get.replace("X-Amz-Expires=60", "X-Amz-Expires=61"))
    assert status == 403, text
    old = client(signature_version="s3").generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ü"})
    assert send("GET", old)[0] == 400, "signature version 2"
