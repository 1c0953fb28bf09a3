//! CRC-32C, the checksum of every record, slice and zone table entry.

/// CRC-32C (Castagnoli) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of bytes that lie in several pieces.
pub struct Crc(crc_fast::Digest);

impl Crc {
    /// The checksum of nothing yet.
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    /// Takes `bytes` in.
    #[must_use]
    pub fn update(mut self, bytes: &[u8]) -> Self {
        self.0.update(bytes);
        self
    }

    /// The checksum of all that was taken in.
    pub fn value(self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(Crc::new().update(b"1234").update(b"56789").value(), 0xE306_9283);
    }
}
