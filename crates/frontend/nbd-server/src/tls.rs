//! TLS: certificates, and on which connections it is a must.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Connections that have to use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsUse {
    /// None: a client may.
    Offered,
    /// Those over TCP. A Unix socket is guarded by the file's permissions.
    RequiredOverTcp,
    /// All.
    Required,
}

/// Certificates of a server.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    demand: TlsUse,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("demand", &self.demand).finish_non_exhaustive()
    }
}

impl Tls {
    /// TLS 1.2 and 1.3 with a chain of certificates and its key, all of them PEM. With `clients`, certificates of authorities, only
    /// clients that have a certificate from one of them get in.
    ///
    /// # Errors
    /// `InvalidInput`: the PEM has no such thing, or key and certificate are not of each other.
    pub fn from_pem(chain: &[u8], key: &[u8], clients: Option<&[u8]>, demand: TlsUse) -> io::Result<Self> {
        let chain = certificates(chain, "the server's chain")?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| invalid(format!("the server's key: {error}")))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(error.to_string()))?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(authorities, "the clients' authorities")? {
                    roots.add(authority).map_err(|error| invalid(format!("the clients' authorities: {error}")))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| invalid(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config =
            builder.with_single_cert(chain, key).map_err(|error| invalid(format!("the server's chain: {error}")))?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), demand })
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }

    pub(crate) fn demand(&self) -> TlsUse {
        self.demand
    }
}

fn certificates(pem: &[u8], whose: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| invalid(format!("{whose}: {error}")))?;
    if found.is_empty() {
        return Err(invalid(format!("{whose}: no certificate in PEM")));
    }
    Ok(found)
}

fn invalid(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, words)
}
