use super::*;

fn some() -> Vec<Op> {
    let (zone, time) = (ZoneId(9), UnixTime { nanos: 1_000 });
    let name = || "a".to_owned();
    let record = |offset, block| Extent::of_record(offset, 100, zone, block);
    let many = Extent { offset: 201, length: 16_500, zone: ZoneId(8), block: 5, record: 8_000, last: 700 };
    vec![
        Op::MakeDir { serial: 2, parent: 1, name: name() },
        Op::Create {
            serial: 3,
            parent: 2,
            name: "000001.log".to_owned(),
            kind: FileKind::Wal,
            lifetime: WriteLifetime::Short,
            time,
        },
        Op::Link { serial: 3, parent: 1, name: name() },
        Op::Unlink { parent: 1, name: name() },
        Op::RemoveDir { parent: 1, name: name() },
        Op::Rename { parent: 1, name: name(), to_parent: 2, to_name: "b".to_owned() },
        Op::Place { serial: 3, time, extents: vec![record(0, 1), record(100, 2), Extent::lost(200, 1), many] },
        Op::Truncate { serial: 3, time, size: 77 },
        Op::Modified { serial: 3, time },
        Op::Open { zone, epoch: 300, stream: 4 },
        Op::Covered { zone, epoch: 300, block: 12 },
        Op::Closed { zone, epoch: 300, block: 13 },
        Op::Reset { zone, epoch: 300 },
    ]
}

#[test]
fn operations_come_back() {
    let bytes = encode(&some());
    assert_eq!(decode(&bytes), Some(some()));
    for op in some() {
        let bytes = encode(std::slice::from_ref(&op));
        for cut in 1..bytes.len() {
            assert_ne!(decode(&bytes[..cut]), Some(vec![op.clone()]), "{op:?} cut at {cut}");
        }
    }
}

#[test]
fn a_record_of_a_log_takes_three_bytes() {
    let (zone, time) = (ZoneId(9), UnixTime::default());
    let extents = (0..100).map(|number| Extent::of_record(number * 100, 100, zone, number as u32)).collect();
    let bytes = encode(&[Op::Place { serial: 3, time, extents }]);
    assert!(bytes.len() < 320, "{} bytes", bytes.len());
}

#[test]
fn operations_have_their_golden_bytes() {
    let hex: String = encode(&some()).iter().map(|byte| format!("{byte:02x}")).collect();
    let golden = concat!(
        "010201",
        "0161",
        "020302",
        "0a3030303030312e6c6f67",
        "0001",
        "e807",
        "030301",
        "0161",
        "0401",
        "0161",
        "0501",
        "0161",
        "0601",
        "0161",
        "02",
        "0162",
        "0703e807",
        "0400",
        "1401c901",
        "01c901",
        "0002",
        "1205e88102c03ebc05",
        "0803e8074d",
        "0903e807",
        "0a09ac0204",
        "0b09ac020c",
        "0c09ac020d",
        "0d09ac02",
    );
    assert_eq!(hex, golden);
}

#[test]
fn senseless_operations_are_refused() {
    let refused = |bytes: &[u8]| assert_eq!(decode(bytes), None, "{bytes:?}");
    refused(&[0]);
    refused(&[14, 1, 1]);
    refused(&[4, 1, 0]);
    refused(&[4, 1, 1, 0]);
    refused(&[4, 1, 1, 0xFF]);
    // More extents than bytes, an extent behind none, one of no bytes, one whose last record is longer than the others.
    refused(&[7, 3, 0, 0x7F, 0]);
    refused(&[7, 3, 0, 1, 0, 1, 3]);
    refused(&[7, 3, 0, 1, 0, 2, 0, 1]);
    refused(&[7, 3, 0, 1, 0, 2, 0, 20, 5, 6]);
    refused(&[2, 3, 1, 1, 97, 4, 0, 0]);
}
