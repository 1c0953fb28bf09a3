//! Numbers of variable length, and strings of bytes behind their length: seven bits of a number in a byte, the lowest first; the highest bit
//! says that more follow.

use shingle_base::wire::Fields;

/// Adds a number.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a number below 2^63; `None` if its bytes end too early, or are more than it takes.
pub fn take(fields: &mut Fields<'_>) -> Option<u64> {
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
pub fn take_u32(fields: &mut Fields<'_>) -> Option<u32> {
    u32::try_from(take(fields)?).ok()
}

/// Reads the number of things that follow, each of which takes a byte at least: none makes its reader allocate without bound.
pub fn take_count(fields: &mut Fields<'_>) -> Option<usize> {
    let count = usize::try_from(take(fields)?).ok()?;
    (count <= fields.rest().len()).then_some(count)
}

/// Adds a string of bytes behind its length.
pub fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

/// Reads a string of bytes.
pub fn take_bytes<'a>(fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let length = take_count(fields)?;
    fields.bytes(length)
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
        assert_eq!(take_bytes(&mut Fields::new(&[3, 1, 2])), None);
    }
}
