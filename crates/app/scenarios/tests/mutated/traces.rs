//! Block traces of each format that the lab reads, and file calls.

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A trace of Hewlett-Packard Laboratories with two I/Os and one in doubt.
fn srt() -> Vec<u8> {
    let head = b"$$TR_IOREC-1.3\n\0\ndisks = {\n0 -> {\nsectorsize = 256,\n}\n};\n\x0c".to_vec();
    let io = |kind: u32, micros: u32| words(&[56, 4 << 16 | kind, 0, micros, 9, 20, 4096, 24, 0x107, 4, 1, 27, 9, 1]);
    [head, io(1, 5), io(4, 6), io(1, 7)].concat()
}

/// A trace of vscsiStats in one of its versions.
fn vscsi(version: u16) -> Vec<u8> {
    let tags = [0x2au16, version << 8].map(u16::to_le_bytes).concat();
    let numbers = [7u32, 4096, 1].map(u32::to_le_bytes).concat();
    let record = match version {
        1 => [numbers, tags, [8u64, 1000].map(u64::to_le_bytes).concat()].concat(),
        _ => [tags, numbers, [8u64, 1000, 250].map(u64::to_le_bytes).concat()].concat(),
    };
    record.repeat(3)
}

const TEXTS: [&str; 8] = [
    "{\"shingle_trace\":2,\"name\":\"some\",\"size\":1048576}\n\
     {\"at\":0,\"op\":\"write\",\"offset\":4096,\"length\":8192,\"fua\":true,\"took\":250000}\n\
     {\"at\":0,\"op\":\"read\",\"length\":512}\n{\"at\":300000,\"op\":\"flush\",\"after\":[2,1]}\n\
     {\"at\":300001,\"op\":\"trim\",\"offset\":1048064,\"length\":512,\"after\":[1]}\n",
    "{\"shingle_trace\":3,\"name\":\"some\",\"size\":1048576}\n{\"at\":0,\"op\":\"zero\",\"length\":8192,\"fua\":true}\n\
     {\"at\":5,\"op\":\"trim\",\"offset\":4096,\"length\":512,\"fua\":true,\"after\":[1]}\n",
    "shingle-trace 1 some 2048 10 2\nW 7 1 0\nA 2 256 1\nA 2 8 2\nO 3 0\nM 1048576\nD\nR 4096 1 1\nF 0\nX 2 0\nA 2 8 0\nZ\n",
    "128166372003061629,web,1,Read,383496192,32768,113736\r\n128166372016382155,web,1,Write,4096,512,99\n",
    "0,303567,3584,w,0.000000\n1,55590,3072,R,1.026214\n",
    "  8,0    1        2     0.000001000   697  D   W 223490 + 8 [kjournald]\n  \
       8,0    1        3     0.000002000   697  D   R 16 + 1 [cat]\n  8,0    3        1     0.004002000     0  C   R 16 + 1 [0]\n  \
       8,0    3        2     0.005000000   700  D FWFS 64 + 8 [jbd2]\n\nCPU1 (8,0):\n",
    "1538323200,8,16,1,1058\n1538323199,0,1,0,1058\n",
    "shingle-files 1\ne 0 9 0 0 0 0 LOCK 0\nc 0 1 1000 10 900 90 000001.log\na 0 1 100 10 90 0 4096\nc 0 2 50 10 40 0 000002.log\n\
     c 1 3 40 10 5 0 000003.sst\na 1 3 5000 100 4900 0 100000\nx 1 3 999 900 90 0\nc 2 8 1 1 1 0 MANIFEST.tmp\nh 2 8 1 0 0 0 3\n\
     n 2 8 5 5 0 0 MANIFEST-000001\ny 2 0 1 1 0 0\ns 1 8 1000 950 50 0\nc 0 4 9060 10 20 5 000004.log\no 2 3 100 10 20 0\n\
     p 2 3 1 1 0 0 7\ng 2 3 1 1 0 0 0 7\nr 2 3 10 10 0 0 0 10\nd 0 1 100 10 90 0\n",
];

pub(crate) fn specimens() -> Vec<Vec<u8>> {
    let texts = TEXTS.map(|text| text.as_bytes().to_vec());
    texts.into_iter().chain([srt(), vscsi(1), vscsi(2)]).collect()
}
