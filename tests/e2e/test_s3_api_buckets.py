"""Buckets, and operations and settings that are not served: each is refused or answered as S3 does."""

import uuid

import pytest

from s3api import REGION, bucket, pytestmark, refused, s3, signed  # noqa: F401: fixtures


def test_a_bucket_is_created_found_listed_and_deleted(s3):
    name = f"test-{uuid.uuid4().hex[:16]}"
    s3.create_bucket(Bucket=name)
    s3.head_bucket(Bucket=name)
    assert name in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] in (None, REGION)
    s3.delete_bucket(Bucket=name)
    refused(s3.head_bucket, status=404, Bucket=name)
    refused(s3.delete_bucket, "NoSuchBucket", 404, Bucket=name)


def test_a_bucket_that_is_made_again_keeps_its_objects(s3, bucket):
    """In us-east-1 that succeeds, in other regions it is 409."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    if REGION == "us-east-1":
        s3.create_bucket(Bucket=bucket)
    else:
        refused(s3.create_bucket, "BucketAlreadyOwnedByYou", 409, Bucket=bucket)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_a_bucket_with_an_object_is_not_deleted(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    refused(s3.delete_bucket, "BucketNotEmpty", 409, Bucket=bucket)


@pytest.mark.parametrize("name", ["ab", "Upper-case", "under_score", "192.168.1.1", "-dash", "a..b", "a.-b", "a-.b", "x" * 64])
def test_names_that_are_no_bucket_names_are_refused(name):
    status, _, text = signed("PUT", f"/{name}")
    assert status == 400 and b"InvalidBucketName" in text, text


def test_a_bucket_that_is_not_there_is_named_so(s3):
    for call in (s3.list_objects_v2, s3.list_objects, s3.list_multipart_uploads):
        refused(call, "NoSuchBucket", 404, Bucket="no-such-bucket-here")
    refused(s3.put_object, "NoSuchBucket", 404, Bucket="no-such-bucket-here", Key="k", Body=b"x")
    refused(s3.get_object, "NoSuchBucket", 404, Bucket="no-such-bucket-here", Key="k")


def test_what_is_not_served_is_refused(s3, bucket):
    for call, arguments in (
        (s3.put_bucket_versioning, {"VersioningConfiguration": {"Status": "Enabled"}}),
        (s3.put_bucket_policy, {"Policy": "{}"}),
        (s3.put_object_tagging, {"Key": "k", "Tagging": {"TagSet": []}}),
        (s3.put_object, {"Key": "k", "Body": b"x", "ServerSideEncryption": "AES256"}),
        (s3.put_object, {"Key": "k", "Body": b"x", "ACL": "public-read"}),
    ):
        refused(call, "NotImplemented", 501, Bucket=bucket, **arguments)
    refused(s3.head_object, status=404, Bucket=bucket, Key="k")


def test_everything_is_private(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ACL="private")
    for get, put, here in (
        (s3.get_bucket_acl, s3.put_bucket_acl, {"Bucket": bucket}),
        (s3.get_object_acl, s3.put_object_acl, {"Bucket": bucket, "Key": "k"}),
    ):
        found = get(**here)
        assert [(grant["Grantee"]["ID"], grant["Permission"]) for grant in found["Grants"]] == [
            (found["Owner"]["ID"], "FULL_CONTROL")
        ]
        put(ACL="private", **here)
        put(AccessControlPolicy={"Grants": found["Grants"], "Owner": found["Owner"]}, **here)
        refused(put, "NotImplemented", 501, ACL="public-read", **here)


def test_each_object_has_one_version(s3, bucket):
    for key in ("a", "b", "c"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    versions = [item for page in pages for item in page["Versions"]]
    assert [(item["Key"], item["VersionId"], item["IsLatest"]) for item in versions] == [
        (key, "null", True) for key in ("a", "b", "c")
    ]
    for item in versions:
        assert s3.get_object(Bucket=bucket, Key=item["Key"], VersionId="null")["Body"].read() == item["Key"].encode()


def test_settings_that_nothing_has_are_told_so(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    refused(s3.get_bucket_policy, "NoSuchBucketPolicy", 404, Bucket=bucket)
    refused(s3.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration", 404, Bucket=bucket)
