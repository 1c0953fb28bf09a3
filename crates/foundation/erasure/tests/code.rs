//! The code's promises (EC-1 to EC-3), and what it refuses.

use reed_solomon_simd::ReedSolomonEncoder;
use shingle_erasure::{COLUMN, Code, CodeError, Coder};

fn code(text: &str) -> Code {
    text.parse().unwrap()
}

/// Bytes that look random and are the same in every run.
fn filler(count: usize, length: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..count).map(|_| (0..length).map(|_| next()).collect()).collect()
}

fn slices(fragments: &[Vec<u8>]) -> Vec<&[u8]> {
    fragments.iter().map(Vec::as_slice).collect()
}

/// All fragments, data first.
fn encoded(coder: &mut Coder, length: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut data = filler(coder.code().data(), length, seed);
    let mut parity = vec![vec![0xee; 100]; coder.code().parity()];
    coder.encode(&slices(&data), &mut parity).unwrap();
    data.append(&mut parity);
    data
}

fn by_library(code: Code, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut library = ReedSolomonEncoder::new(code.data(), code.parity(), data[0].len()).unwrap();
    for fragment in data {
        library.add_original_shard(fragment).unwrap();
    }
    library.encode().unwrap().recovery_iter().map(<[u8]>::to_vec).collect()
}

/// EC-1.
#[test]
fn every_pattern_of_losses() {
    for text in ["1+1", "5+1", "4+2", "2+3", "10+2", "1+4", "8+8", "17+3", "16+4", "1+19", "19+1"] {
        let code = code(text);
        let mut coder = Coder::new(code);
        let all = encoded(&mut coder, 3 * COLUMN, 7);
        let mut patterns = 0;
        for lost in 0u32..1 << code.width() {
            if lost.count_ones() as usize > code.parity() || (code.parity() > 4 && !lost.is_multiple_of(37)) {
                continue;
            }
            patterns += 1;
            let is_lost = |number: &usize| lost >> number & 1 == 1;
            let present: Vec<_> = (0..code.width()).filter(|n| !is_lost(n)).map(|n| (n, all[n].as_slice())).collect();
            let wanted: Vec<_> = (0..code.width()).filter(is_lost).collect();
            let made = coder.reconstruct(&present, &wanted).unwrap();
            for (number, made) in wanted.iter().zip(&made) {
                assert!(*made == all[*number], "{text}: fragment {number} with {lost:#b} lost");
            }
        }
        assert!(patterns > code.parity(), "{text}");
    }
}

/// EC-1: which fragments are used, and in which order they are given, does not matter.
#[test]
fn order_and_choice_do_not_matter() {
    let mut coder = Coder::new(code("6+3"));
    let all = encoded(&mut coder, 2 * COLUMN, 3);
    for first in 0..9 {
        let present: Vec<_> = (0..7).map(|n| (first + n * 4) % 9).map(|n| (n, all[n].as_slice())).collect();
        let wanted: Vec<_> = (0..9).rev().collect();
        let made = coder.reconstruct(&present, &wanted).unwrap();
        assert!(made.iter().rev().eq(&all), "from {first}");
    }
}

/// Strips do not show: the parity is the library's own.
#[test]
fn parity_is_the_librarys() {
    for text in ["1+1", "5+1", "4+2", "3+5", "10+2", "16+4", "10+10"] {
        for length in [COLUMN, 4 << 10, (4 << 10) + COLUMN, (20 << 10) - COLUMN] {
            let code = code(text);
            let all = encoded(&mut Coder::new(code), length, 11);
            let (data, parity) = all.split_at(code.data());
            assert!(parity == by_library(code, data), "{text}, {length}");
        }
    }
}

/// EC-2.
#[test]
fn ranges_are_independent() {
    for text in ["5+1", "10+2", "16+4"] {
        let code = code(text);
        let mut coder = Coder::new(code);
        let length = 150 * COLUMN;
        let all = encoded(&mut coder, length, 5);
        for (start, end) in [(0, 1), (1, 2), (63, 65), (64, 150), (149, 150), (7, 140), (9, 9)] {
            let range = start * COLUMN..end * COLUMN;
            let parts: Vec<_> = all.iter().map(|fragment| fragment[range.clone()].to_vec()).collect();
            let mut parity = vec![Vec::new(); code.parity()];
            coder.encode(&slices(&parts[..code.data()]), &mut parity).unwrap();
            assert!(parity == parts[code.data()..], "{text}, {range:?}");

            let present: Vec<_> = (code.parity()..code.width()).map(|n| (n, parts[n].as_slice())).collect();
            let wanted: Vec<_> = (0..code.parity()).collect();
            let made = coder.reconstruct(&present, &wanted).unwrap();
            assert!(made == parts[..code.parity()], "{text}, {range:?}");
        }
    }
}

/// EC-3.
#[test]
fn one_parity_is_exclusive_or() {
    for data in 1..=19 {
        let code = Code::new(data, 1).unwrap();
        let data = filler(code.data(), 4 * COLUMN, 1);
        let sum: Vec<u8> = (0..4 * COLUMN).map(|at| data.iter().fold(0, |sum, fragment| sum ^ fragment[at])).collect();
        assert_eq!(by_library(code, &data), std::slice::from_ref(&sum));
        let mut parity = [Vec::new()];
        Coder::new(code).encode(&slices(&data), &mut parity).unwrap();
        assert_eq!(parity, [sum]);
    }
}

/// Drives hold fragments encoded so: these bytes never change.
#[test]
fn golden_bytes() {
    let parity = |text: &str| {
        let code = code(text);
        // Byte i of data fragment n is i * (2 * n + 3) + 17 * n.
        let data: Vec<Vec<u8>> =
            (0..code.data()).map(|n| (0..COLUMN).map(|i| (i * (2 * n + 3) + 17 * n) as u8).collect()).collect();
        let mut parity = vec![Vec::new(); code.parity()];
        Coder::new(code).encode(&slices(&data), &mut parity).unwrap();
        parity.iter().map(|fragment| fragment.iter().map(|b| format!("{b:02x}")).collect()).collect::<Vec<String>>()
    };
    assert_eq!(
        parity("5+1"),
        [concat!(
            "444f3235307b9e919c670a2d487396a9f4ff2225202b4e414c577a5d78a3c6d9",
            "242f121510dbfef1fc476a8da8d3f689545f8285808baea1acb7dabdd883a6b9"
        )]
    );
    assert_eq!(
        parity("4+2"),
        [
            concat!(
                "9c08ce649aa015303465b839d7eab95d2db929b496ba1fb0b4309dc02c04ca2e",
                "3c399430765d6b5c584750a9ff40c5ce181d4769879bb49a9e8ba504e707a2a9"
            ),
            concat!(
                "9c08a634daa00d3034a500a9574af11d2db9018496ba67b0b43085f02c24826e",
                "bcb93ce0b65d735c580728397fa00d0e181daf99879b8c9a9e8bbd74e767eae9"
            )
        ]
    );
}

#[test]
fn empty_fragments() {
    let mut coder = Coder::new(code("3+2"));
    let all = encoded(&mut coder, 0, 1);
    assert!(all.iter().all(Vec::is_empty));
    let present: Vec<_> = (2..5).map(|n| (n, all[n].as_slice())).collect();
    assert_eq!(coder.reconstruct(&present, &[0, 1]), Ok(vec![Vec::new(), Vec::new()]));
    assert_eq!(coder.reconstruct(&present, &[]), Ok(Vec::new()));
}

#[test]
fn refusals() {
    let mut coder = Coder::new(code("3+2"));
    let good = vec![0u8; 128];
    let (odd, short) = (vec![0u8; 100], vec![0u8; 64]);
    let mut parity = [Vec::new(), Vec::new()];

    assert_eq!(coder.encode(&[&good, &good], &mut parity), Err(CodeError::Count { expected: 3, given: 2 }));
    let one = &mut parity[..1];
    assert_eq!(coder.encode(&[&good, &good, &good], one), Err(CodeError::Count { expected: 2, given: 1 }));
    assert_eq!(coder.encode(&[&good, &good, &short], &mut parity), Err(CodeError::Length { given: 64 }));
    assert_eq!(coder.encode(&[&odd, &odd, &odd], &mut parity), Err(CodeError::Length { given: 100 }));

    let mut rebuild = |numbers: &[usize], last: &[u8], wanted: &[usize]| {
        let mut present: Vec<_> = numbers.iter().map(|&n| (n, good.as_slice())).collect();
        if let Some(entry) = present.last_mut() {
            entry.1 = last;
        }
        coder.reconstruct(&present, wanted)
    };
    assert_eq!(rebuild(&[], &good, &[0]), Err(CodeError::TooFew { needed: 3, given: 0 }));
    assert_eq!(rebuild(&[0, 1], &good, &[2]), Err(CodeError::TooFew { needed: 3, given: 2 }));
    assert_eq!(rebuild(&[0, 4, 4], &good, &[2]), Err(CodeError::Twice(4)));
    assert_eq!(rebuild(&[0, 1, 5], &good, &[2]), Err(CodeError::Fragment(5)));
    assert_eq!(rebuild(&[0, 1, 3], &good, &[2, 9]), Err(CodeError::Fragment(9)));
    assert_eq!(rebuild(&[0, 1, 3], &short, &[2]), Err(CodeError::Length { given: 64 }));
    assert_eq!(rebuild(&[0, 1, 3], &good, &[2]), Ok(vec![good.clone()]));
}

#[test]
fn codes_are_written_with_a_plus() {
    for text in ["1+1", "5+1", "10+2", "16+4", "19+1"] {
        let code: Code = text.parse().unwrap();
        assert_eq!(code.to_string(), text);
        assert_eq!(code.width(), code.data() + code.parity());
    }
    for text in
        ["", "5", "+", "5+", "+1", "0+1", "1+0", "17+4", "++1", "5++1", "5+ 1", "+5+1", "-5+1", "256+1", "5+1+1"]
    {
        assert_eq!(text.parse::<Code>(), Err(CodeError::Shape), "{text}");
    }
}
