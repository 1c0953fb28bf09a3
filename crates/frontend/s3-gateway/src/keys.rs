//! Access keys and their secrets: only requests signed with one of them are served.

use std::collections::BTreeMap;

use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

use crate::options::Credentials;

/// Secret keys by access key.
pub(crate) struct Keys(BTreeMap<String, SecretKey>);

impl Keys {
    pub(crate) fn new(pairs: Vec<Credentials>) -> Self {
        Self(pairs.into_iter().map(|pair| (pair.access_key, pair.secret_key.into())).collect())
    }
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        self.0.get(access_key).cloned().ok_or_else(|| {
            s3_error!(InvalidAccessKeyId, "The AWS Access Key Id you provided does not exist in our records.")
        })
    }
}
