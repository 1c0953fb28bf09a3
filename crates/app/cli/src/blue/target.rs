//! Names of what is on a drive: an object, or a bucket alone.

use std::convert::Infallible;
use std::str::FromStr;

use shingle_base::printable;

/// A bucket, and what stands behind the slash: a key, its beginning, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) bucket: String,
    pub(super) key: String,
}

impl FromStr for Target {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (bucket, key) = text.split_once('/').unwrap_or((text, ""));
        Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl Target {
    /// For people.
    pub(super) fn shown(&self) -> String {
        let (bucket, key) = (printable(self.bucket.as_bytes()), printable(self.key.as_bytes()));
        if self.key.is_empty() { format!("bucket `{bucket}`") } else { format!("`{bucket}/{key}`") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_may_stand_alone() {
        let of = |text: &str| {
            text.parse::<Target>().map(|target| (target.bucket.clone(), target.key.clone(), target.shown()))
        };
        let shown = |bucket: &str, key: &str, shown: &str| Ok((bucket.to_owned(), key.to_owned(), shown.to_owned()));
        assert_eq!(of("b"), shown("b", "", "bucket `b`"));
        assert_eq!(of("b/"), shown("b", "", "bucket `b`"));
        assert_eq!(of("b/a/c"), shown("b", "a/c", "`b/a/c`"));
    }
}
