"""Lists of objects: order, pages, prefixes and delimiters."""

import pytest

from s3api import bucket, client, md5, pytestmark, refused, s3, signed  # noqa: F401: fixtures


def fill(s3, bucket, keys):
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())


TREE = ["a/1", "a/2", "b", "c/x/1", "c/x/2", "c/y", "d", "ü/1"]


def test_lists_are_in_order_and_tell_sizes_and_etags(s3, bucket):
    fill(s3, bucket, reversed(TREE))
    for call in (s3.list_objects, s3.list_objects_v2):
        listed = call(Bucket=bucket)
        assert [item["Key"] for item in listed["Contents"]] == TREE
        assert not listed["IsTruncated"]
        for item in listed["Contents"]:
            assert item["Size"] == len(item["Key"].encode())
            assert item["ETag"] == f'"{md5(item["Key"].encode())}"'


@pytest.mark.parametrize(
    "prefix, delimiter, keys, prefixes",
    [
        ("", "/", ["b", "d"], ["a/", "c/", "ü/"]),
        ("c/", "/", ["c/y"], ["c/x/"]),
        ("c/", "", ["c/x/1", "c/x/2", "c/y"], []),
        ("c", "/", [], ["c/"]),
        ("none", "/", [], []),
        ("", "x/", ["a/1", "a/2", "b", "c/y", "d", "ü/1"], ["c/x/"]),
    ],
)
def test_prefix_and_delimiter(s3, bucket, prefix, delimiter, keys, prefixes):
    fill(s3, bucket, TREE)
    for call in (s3.list_objects, s3.list_objects_v2):
        listed = call(Bucket=bucket, Prefix=prefix, Delimiter=delimiter)
        assert [item["Key"] for item in listed.get("Contents", [])] == keys
        assert [item["Prefix"] for item in listed.get("CommonPrefixes", [])] == prefixes


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("delimiter", ["", "/"])
@pytest.mark.parametrize("name", ["list_objects", "list_objects_v2"])
def test_pages_join_to_the_whole(s3, bucket, name, delimiter, size):
    fill(s3, bucket, TREE)
    found = []
    for page in s3.get_paginator(name).paginate(Bucket=bucket, Delimiter=delimiter, PaginationConfig={"PageSize": size}):
        names = [item["Key"] for item in page.get("Contents", [])]
        names += [item["Prefix"] for item in page.get("CommonPrefixes", [])]
        assert len(names) <= size
        found += sorted(names, key=str.encode)
    assert found == (["a/", "b", "c/", "d", "ü/"] if delimiter else TREE)


def test_a_list_starts_after_what_is_named(s3, bucket):
    fill(s3, bucket, TREE)
    v2 = s3.list_objects_v2(Bucket=bucket, StartAfter="b")
    assert [item["Key"] for item in v2["Contents"]] == TREE[3:] and v2["KeyCount"] == len(TREE) - 3
    v1 = s3.list_objects(Bucket=bucket, Marker="b")
    assert [item["Key"] for item in v1["Contents"]] == TREE[3:]


def test_a_list_of_at_most_no_keys_is_empty(s3, bucket):
    fill(s3, bucket, ["a"])
    assert s3.list_objects_v2(Bucket=bucket, MaxKeys=0)["KeyCount"] == 0


def test_a_token_that_is_none_is_refused(s3, bucket):
    refused(s3.list_objects_v2, "InvalidArgument", 400, Bucket=bucket, ContinuationToken="\u0001?")


def test_keys_are_escaped_if_asked(bucket):
    c = client()
    c.put_object(Bucket=bucket, Key="a b\u0001+ü", Body=b"")
    status, _, text = signed("GET", f"/{bucket}", query="encoding-type=url&list-type=2")
    assert status == 200 and b"<EncodingType>url</EncodingType>" in text
    assert b"%01" in text and b"%C3%BC" in text, text
    assert [item["Key"] for item in c.list_objects_v2(Bucket=bucket)["Contents"]] == ["a b\u0001+ü"]
    # XML, and so DeleteObjects, cannot carry such a key.
    c.delete_object(Bucket=bucket, Key="a b\u0001+ü")
