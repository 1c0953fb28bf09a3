//! MD5's compression of four streams side by side, which takes half as long again as that of one.
//!
//! One stream cannot go faster: each of its steps needs the one before. Four fill a vector register, and the compiler makes vector
//! instructions of the loops over [`LANES`] here.

/// Streams that are compressed at a time.
pub(super) const LANES: usize = 4;

/// The unit of MD5, in bytes.
pub(super) const BLOCK: usize = 64;

/// State of a stream.
pub(super) type State = [u32; 4];

/// State before the first block. (RFC 1321, section 3.3.)
pub(super) const BEGIN: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// One word of each stream.
type Words = [u32; LANES];

/// The integer parts of 2^32 times the sines of 1 to 64 radians. (Section 3.4.)
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// Compresses the blocks of four streams, as many of each as the shortest has. Returns how many those were.
pub(super) fn compress(states: [&mut State; LANES], blocks: [&[[u8; BLOCK]]; LANES]) -> usize {
    let count = blocks.map(<[_]>::len).into_iter().min().unwrap_or(0);
    let mut state: [Words; 4] = std::array::from_fn(|word| each(|lane| states[lane][word]));
    for at in 0..count {
        let block = blocks.map(|blocks| &blocks[at]);
        let words = std::array::from_fn(|word| each(|lane| word_of(block[lane], word)));
        let next = compress_one(state, &words);
        state = std::array::from_fn(|word| each(|lane| state[word][lane].wrapping_add(next[word][lane])));
    }
    for (lane, kept) in states.into_iter().enumerate() {
        *kept = state.map(|words| words[lane]);
    }
    count
}

#[inline(always)]
fn each(word: impl Fn(usize) -> u32) -> Words {
    std::array::from_fn(word)
}

#[inline(always)]
fn word_of(block: &[u8; BLOCK], at: usize) -> u32 {
    let at = 4 * at;
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// The four rounds. (Section 3.4; the functions of the first two are written with one operation less.)
#[inline(always)]
fn compress_one(state: [Words; 4], words: &[Words; 16]) -> [Words; 4] {
    let state = round(state, words, 0, |at| at, [7, 12, 17, 22], |x, y, z| ((y ^ z) & x) ^ z);
    let state = round(state, words, 16, |at| 5 * at + 1, [5, 9, 14, 20], |x, y, z| ((x ^ y) & z) ^ y);
    let state = round(state, words, 32, |at| 3 * at + 5, [4, 11, 16, 23], |x, y, z| x ^ y ^ z);
    round(state, words, 48, |at| 7 * at, [6, 10, 15, 21], |x, y, z| y ^ (x | !z))
}

/// Sixteen steps from `first`; `word` says which word of the block a step takes.
#[inline(always)]
fn round(
    state: [Words; 4],
    words: &[Words; 16],
    first: usize,
    word: impl Fn(usize) -> usize + Copy,
    shifts: [u32; 4],
    mix: impl Fn(u32, u32, u32) -> u32 + Copy,
) -> [Words; 4] {
    let step = |[a, b, c, d]: [Words; 4], at: usize| {
        let (m, sine) = (&words[word(at) % 16], SINES[at]);
        let sum =
            each(|lane| a[lane].wrapping_add(m[lane]).wrapping_add(sine).wrapping_add(mix(b[lane], c[lane], d[lane])));
        [d, each(|lane| sum[lane].rotate_left(shifts[at % 4]).wrapping_add(b[lane])), b, c]
    };
    let four = |state, at| step(step(step(step(state, at), at + 1), at + 2), at + 3);
    four(four(four(four(state, first), first + 4), first + 8), first + 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the compression of one stream, of crate `md-5`.
    #[test]
    fn four_streams_are_digested_as_each_alone() {
        let streams: [Vec<[u8; BLOCK]>; LANES] = std::array::from_fn(|lane| {
            (0..10 + lane).map(|block| std::array::from_fn(|at| (at * 7 + block * 31 + lane * 101) as u8)).collect()
        });
        let mut states: [State; LANES] = std::array::from_fn(|lane| BEGIN.map(|word| word ^ lane as u32));
        let mut expected = states;
        let blocks = std::array::from_fn(|lane| streams[lane].as_slice());
        assert_eq!(compress(states.each_mut(), blocks), 10);
        for (state, stream) in expected.iter_mut().zip(&streams) {
            md5::block_api::compress(state, &stream[..10]);
        }
        assert_eq!(states, expected);
    }
}
