//! Names that a store takes.

use shingle_store_api::StoreResult;

use crate::errors::invalid;

/// Names that a store takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a bucket's name.
    pub bucket_bytes_max: usize,
    /// Bytes of a key.
    pub key_bytes_max: usize,
    /// A key may have zero bytes. A bucket's name has none in any store.
    pub zeros_in_keys: bool,
}

impl Limits {
    /// Fails if no bucket of that name can be made.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check_bucket(&self, bucket: &str) -> StoreResult<()> {
        let most = self.bucket_bytes_max;
        if bucket.is_empty() || bucket.len() > most || bucket.contains('\0') {
            return Err(invalid(format!("a bucket's name has 1 to {most} bytes and no zero byte")));
        }
        Ok(())
    }

    /// Fails if no object of that name can be stored.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check(&self, bucket: &str, key: &str) -> StoreResult<()> {
        self.check_bucket(bucket)?;
        let most = self.key_bytes_max;
        if key.len() > most || (!self.zeros_in_keys && key.contains('\0')) {
            let zeros = if self.zeros_in_keys { "" } else { " and no zero byte" };
            return Err(invalid(format!("a key has at most {most} bytes{zeros}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_up_to_their_limits() {
        let strict = Limits { bucket_bytes_max: 5, key_bytes_max: 3, zeros_in_keys: false };
        let lax = Limits { zeros_in_keys: true, ..strict };
        for (bucket, key, taken) in [
            ("b", "", [true, true]),
            ("bbbbb", "kkk", [true, true]),
            ("bbbbbb", "k", [false, false]),
            ("", "k", [false, false]),
            ("b\0", "k", [false, false]),
            ("b", "kkkk", [false, false]),
            ("b", "k\0k", [false, true]),
        ] {
            assert_eq!([strict, lax].map(|limits| limits.check(bucket, key).is_ok()), taken, "{bucket:?} {key:?}");
        }
    }
}
