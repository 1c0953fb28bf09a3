//! Buckets in host names: `BUCKET.domain`, whatever the port. Any other host has its buckets in paths, so that clients
//! that use another name or an address are served as well. (`s3s` has a parser that takes every foreign name for a
//! bucket's, and compares ports.)

use s3s::S3Result;
use s3s::host::{S3Host, VirtualHost};

/// The domain below which names are buckets.
pub(crate) struct Domain(String);

impl Domain {
    /// `None` where it is no domain: labels of letters, digits and hyphens.
    pub(crate) fn new(domain: &str) -> Option<Self> {
        is_domain(domain).then(|| Self(domain.to_ascii_lowercase()))
    }

    fn bucket(&self, host: &str) -> Option<String> {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
        let bucket = name.strip_suffix(&self.0)?.strip_suffix('.')?;
        (!bucket.is_empty()).then(|| bucket.to_owned())
    }
}

/// True if buckets can be found below this name: labels of letters, digits and hyphens.
pub fn is_domain(domain: &str) -> bool {
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    domain.split('.').all(is_label)
}

impl S3Host for Domain {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let found = VirtualHost::new(self.0.as_str());
        Ok(match self.bucket(host) {
            Some(bucket) => found.with_bucket(bucket),
            None => found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_below_the_domain_are_buckets() {
        let domain = Domain::new("S3.example.com").unwrap();
        let bucket = |host| domain.bucket(host);
        assert_eq!(bucket("pics.s3.example.com"), Some("pics".to_owned()));
        assert_eq!(bucket("a.b.S3.Example.com:9000"), Some("a.b".to_owned()));
        for host in ["s3.example.com", "s3.example.com:9000", "localhost:9000", "127.0.0.1:9000", "[::1]:9000", ""] {
            assert_eq!(bucket(host), None, "{host}");
        }
        assert_eq!(bucket("pics-s3.example.com"), None);
    }

    #[test]
    fn what_is_no_domain_is_refused() {
        for domain in ["", "a..b", "a b", "host:9000", "ü.example"] {
            assert!(Domain::new(domain).is_none(), "{domain}");
        }
    }
}
