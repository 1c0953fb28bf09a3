//! Numbers of variable length: seven bits a byte, the lowest first; the highest bit says that more follow.

use shingle_base::wire::Fields;

/// Adds a number.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a number; `None` if its bytes end too early, or are more than it takes.
pub(super) fn take(fields: &mut Fields<'_>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let byte = fields.u8()?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return (shift == 0 || byte > 0).then_some(number);
        }
    }
    None
}

/// Reads a number that fits 32 bits.
pub(super) fn take_u32(fields: &mut Fields<'_>) -> Option<u32> {
    u32::try_from(take(fields)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_only_their_own_bytes_are_taken() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), (1 << 62) + 5, (1 << 63) - 1] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut fields = Fields::new(&bytes);
            assert_eq!((take(&mut fields), fields.end()), (Some(number), Some(())));
            assert_eq!(take(&mut Fields::new(&bytes[..bytes.len() - 1])), None);
        }
        assert_eq!(take(&mut Fields::new(&[0x80, 0])), None, "longer than it need be");
        assert_eq!(take(&mut Fields::new(&[0xFF; 12])), None);
    }
}
