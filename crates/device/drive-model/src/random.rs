//! Numbers that look random, from a seed: the same on every machine.

/// Number `at` of the sequence of a seed.
pub(crate) fn number(seed: u64, at: u64) -> u64 {
    let mut mixed = seed.wrapping_add(at.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The same from -1 up to 1.
pub(crate) fn either_way(seed: u64, at: u64) -> f64 {
    share(seed, at) * 2.0 - 1.0
}

/// The same from 0 up to 1.
pub(crate) fn share(seed: u64, at: u64) -> f64 {
    (number(seed, at) >> 11) as f64 / (1u64 << 53) as f64
}
