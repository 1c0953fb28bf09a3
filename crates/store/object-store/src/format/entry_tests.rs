use super::*;
use crate::format::{Attributes, BlobRef, Manifest};
use std::collections::BTreeMap;

const PLACE: EntryPlace = EntryPlace { set: 0x5e7, file: 0xf11e, ordinal: 3, offset: 4096 };

fn attributes() -> Attributes {
    let metadata = BTreeMap::from([("content-type".to_owned(), "text/plain".to_owned())]);
    Attributes { modified_unix_ns: 1_700_000_000_000_000_000, etag: "abc".to_owned(), metadata }
}

fn bodies() -> Vec<Body> {
    let (bucket, key) = ("photos".to_owned(), "a/ß.jpg".to_owned());
    let blob = BlobRef { blob: 77, number: 2, segment_bytes: 1000, size: 2500 };
    vec![
        Body::Put { bucket: bucket.clone(), key: key.clone(), attributes: attributes() },
        Body::Segment { blob: 77, index: 1 },
        Body::Commit {
            bucket: bucket.clone(),
            key: key.clone(),
            attributes: attributes(),
            manifest: Manifest { multipart: true, blobs: vec![blob, blob] },
        },
        Body::Delete { bucket: bucket.clone(), key: key.clone() },
        Body::BucketCreate { bucket: bucket.clone(), created_unix_ns: 5 },
        Body::BucketDelete { bucket: bucket.clone() },
        Body::UploadBegin { bucket, key, attributes: attributes() },
        Body::PartCommit { upload: 70, part: blob, attributes: attributes() },
        Body::UploadEnd { upload: 70 },
    ]
}

fn written(body: &Body) -> Vec<u8> {
    let data = if Body::carries_data(body.kind()) { vec![Bytes::from("da"), Bytes::from("ta")] } else { vec![] };
    let sealed = Sealed::new(Entry { version: 78, body: body.clone() }, data).unwrap();
    let mut pieces = Vec::new();
    sealed.pieces(PLACE, &mut pieces);
    let bytes = pieces.concat();
    assert_eq!(bytes.len() as u64, sealed.length());
    assert_eq!(sealed.location(PLACE).length(), sealed.length());
    bytes
}

fn read(bytes: &[u8], place: EntryPlace) -> Result<(Header, Body), Malformed> {
    let header = Header::decode(bytes, place)?;
    let head = bytes.get(HEADER_SIZE..HEADER_SIZE + header.head as usize).ok_or(Malformed("cut"))?;
    Ok((header, header.decode_head(head)?))
}

#[test]
fn every_kind_of_entry_is_read_as_it_was_written() {
    for body in bodies() {
        let bytes = written(&body);
        let (header, found) = read(&bytes, PLACE).unwrap();
        assert_eq!((found, header.version, header.length()), (body, 78, bytes.len() as u64));
    }
}

/// OS-ENT-2.
#[test]
fn a_changed_byte_in_header_or_head_is_noticed() {
    for body in bodies() {
        let good = written(&body);
        let checked = HEADER_SIZE + Header::decode(&good, PLACE).unwrap().head as usize;
        for at in 0..checked {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(read(&bad, PLACE).is_err(), "{} byte {at} bit {bit}", body.name());
            }
            assert!(read(&good[..at], PLACE).is_err(), "{} cut at {at}", body.name());
        }
    }
}

/// OS-ENT-1.
#[test]
fn an_entry_of_another_place_is_recognised() {
    let bytes = written(&bodies()[0]);
    let others = [
        EntryPlace { set: 1, ..PLACE },
        EntryPlace { file: 1, ..PLACE },
        EntryPlace { ordinal: 0, ..PLACE },
        EntryPlace { offset: 0, ..PLACE },
    ];
    for place in others {
        assert_eq!(read(&bytes, place), Err(Malformed("entry header: written for another place")));
    }
}

#[test]
fn heads_of_random_bytes_never_panic() {
    // Behind a correct checksum only a program of another kind would write nonsense; it is refused all the same.
    let mut state = 1u64;
    for _ in 0..20_000 {
        let mut bytes = [0u8; 48];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Mostly zeros, so that lengths are often small enough to be believed.
            *byte = if state >> 62 == 0 { (state >> 40) as u8 } else { 0 };
        }
        for kind in 0..12 {
            let length = (state >> 33) as usize % bytes.len();
            let _ = Body::decode(kind, &bytes[..length]);
        }
    }
}

#[test]
fn entries_keep_their_golden_bytes() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let delete = written(&bodies()[3]);
    assert_eq!(hex(&delete), GOLDEN_DELETE);
    let put = written(&bodies()[0]);
    assert_eq!(hex(&put), GOLDEN_PUT);
    let commit = written(&bodies()[2]);
    assert_eq!(hex(&commit), GOLDEN_COMMIT);
}

const GOLDEN_DELETE: &str = "53484f45010400004e000000000000001ef100000000000003000000e705000000100000000000001600000000000000684c7c32\
    c0ca3fef0600000070686f746f7308000000612fc39f2e6a7067";
const GOLDEN_PUT: &str = "53484f45010100004e000000000000001ef100000000000003000000e705000000100000000000004700000004000000de3aa393\
    9037c7570600000070686f746f7308000000612fc39f2e6a706700002a36fe9c971703000000616263010000000c000000636f6e\
    74656e742d747970650a000000746578742f706c61696e64617461";
const GOLDEN_COMMIT: &str = "53484f45010300004e000000000000001ef100000000000003000000e705000000100000000000007c00000000000000ead27f50\
    776426f60600000070686f746f7308000000612fc39f2e6a706700002a36fe9c971703000000616263010000000c000000636f6e\
    74656e742d747970650a000000746578742f706c61696e01020000004d0000000000000002000000e8030000c409000000000000\
    4d0000000000000002000000e8030000c409000000000000";
