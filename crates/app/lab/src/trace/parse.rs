//! Each parser of traces as a function of any bytes, which says whether they are a trace as a whole. None may panic, or take memory out of
//! proportion.

use std::collections::BTreeMap;
use std::io::Cursor;

use super::blocks::BlockTrace;
use super::foreign::Format;
use super::order::Ordered;
use crate::calls::order::order;
use crate::calls::read;

/// A parser by name.
pub type Parser = (&'static str, fn(&[u8]) -> bool);

/// All of them.
pub const ALL: [Parser; 9] = [
    ("trace_blocks", |bytes| reads(Format::Shingle, bytes)),
    ("trace_zoned", |bytes| reads(Format::ShingleZoned, bytes)),
    ("trace_msr", |bytes| reads(Format::Msr, bytes)),
    ("trace_vscsi", |bytes| reads(Format::Vscsi, bytes)),
    ("trace_spc", |bytes| reads(Format::Spc, bytes)),
    ("trace_srt", |bytes| reads(Format::Srt, bytes)),
    ("trace_blkparse", |bytes| reads(Format::Blkparse, bytes)),
    ("trace_tencent", |bytes| reads(Format::Tencent, bytes)),
    ("file_calls", file_calls),
];

/// A recording of file calls, and what each of them waits for.
fn file_calls(bytes: &[u8]) -> bool {
    let recording = read::parse(Box::new(Cursor::new(bytes.to_vec())));
    recording.is_ok_and(|recording| order(&recording).len() == recording.calls.len())
}

fn reads(format: Format, bytes: &[u8]) -> bool {
    let bytes = Box::new(Cursor::new(bytes.to_vec()));
    match format.reader(bytes.clone()) {
        None => BlockTrace::read(bytes).is_ok_and(|mut trace| trace.all(|io| io.is_ok())),
        Some(reader) => {
            let layout = BTreeMap::from([(0, 0), (1, 1 << 40)]);
            let mut count = 0;
            Ordered::new(reader, layout, 0).inspect(|_| count += 1).all(|io| io.is_ok()) && count > 0
        }
    }
}
