//! Fields of a message, read one after the other; nothing is read beyond its end.

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string with its length before it.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).ok()?)
    }

    /// True if nothing is left.
    pub(crate) fn end(self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_where_the_message_ends() {
        let mut fields = Fields(&[0, 0, 0, 2, 7, 8, 1, 2, 9]);
        assert_eq!(fields.string(), Some(&[7, 8][..]));
        assert_eq!(fields.u16(), Some(0x0102));
        assert_eq!((fields.u32(), fields.u64(), fields.bytes(2)), (None, None, None));
        assert!(!fields.end() && fields.bytes(1) == Some(&[9]) && fields.end());
        assert_eq!(Fields(&[0xff; 8]).string(), None);
    }
}
