//! TLS: offered, required, with certificates of clients.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use shingle_nbd_server::{About, Limits, Listener, Options, Tls, TlsUse};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};

use crate::client::{Client, info, request};
use crate::harness::Harness;

/// An authority, and certificates of it.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A chain and its key, in PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn tls(&self, demand: TlsUse, of_clients: bool) -> Tls {
        let (chain, key) = self.issue("localhost");
        let clients = of_clients.then(|| self.0.pem());
        Tls::from_pem(chain.as_bytes(), key.as_bytes(), clients.as_deref().map(str::as_bytes), demand).unwrap()
    }

    /// A client that trusts this authority, and has a certificate of `own`.
    fn connector(&self, own: Option<&Authority>, versions: &[&'static SupportedProtocolVersion]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.0.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = own.issue("client");
                let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}

async fn server(tls: Tls) -> Harness {
    Harness::new(About::new("disk"), 512, Options { tls: Some(tls), ..Options::default() }).await
}

async fn covered(mut client: Client, connector: &TlsConnector) -> std::io::Result<Client> {
    assert_eq!(client.verdict(5, &[]).await, 1);
    let name = ServerName::try_from("localhost").unwrap();
    let socket = connector.connect(name, client.socket).await?;
    Ok(Client { socket: Box::new(socket), structured: false })
}

const ALL: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

#[tokio::test]
async fn data_goes_over_tls_of_either_version() {
    let authority = Authority::new();
    let harness = server(authority.tls(TlsUse::Offered, false)).await;
    for (round, version) in (1u8..).zip(ALL) {
        let mut client = covered(harness.client().await, &authority.connector(None, &[version])).await.unwrap();
        assert_eq!(client.verdict(5, &[]).await, -3, "TLS is on");
        client.structured().await;
        client.go("disk", &[3]).await;
        let data = vec![round; 5 << 20];
        client.write(0, &data).await;
        assert!(client.read(0, 5 << 20).await == data);
        client.send_raw(&request((2, 0), 1, 0, 0)).await;
        client.closed().await;
    }
    // Without it, as the client likes.
    harness.attached().await.write(0, &[1; 512]).await;
}

/// NBD-TLS-1.
#[tokio::test]
async fn where_tls_is_required_nothing_is_told_before_it() {
    let authority = Authority::new();
    let harness = server(authority.tls(TlsUse::RequiredOverTcp, false)).await;
    let mut client = harness.client().await;
    for (option, data) in [(3, vec![]), (6, info("disk", &[])), (7, info("none", &[])), (8, vec![]), (77, vec![])] {
        let answers = client.option(option, &data).await;
        assert_eq!(answers.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [(1 << 31) + 5]);
    }
    let mut client = covered(client, &authority.connector(None, &ALL)).await.unwrap();
    client.go("disk", &[3]).await;
    client.write(0, &[1; 512]).await;
    let mut client = harness.client().await;
    client.send_option(1, b"disk").await;
    client.closed().await;
    // A socket that only its owner can open need not be covered.
    let folder = std::env::temp_dir().join(format!("shingle-nbd-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let listener = Listener::unix(folder.join("socket")).await.unwrap();
    let local = harness.server.clone();
    let serving = tokio::spawn(async move { local.serve(vec![listener], std::future::pending()).await });
    let socket = tokio::net::UnixStream::connect(folder.join("socket")).await.unwrap();
    Client::greet(Box::new(socket), 3).await.go("disk", &[3]).await;
    serving.abort();
    std::fs::remove_dir_all(&folder).unwrap();
}

/// NBD-TLS-1: bytes that anybody put between the client's STARTTLS and its TLS are not taken for the client's.
#[tokio::test]
async fn bytes_before_tls_end_the_connection() {
    let authority = Authority::new();
    // Longer than a handshake takes on a busy machine.
    let limits = Limits { handshake_timeout: Duration::from_secs(2), ..Limits::default() };
    let options = Options { limits, tls: Some(authority.tls(TlsUse::Offered, false)) };
    let harness = Harness::new(About::new("disk"), 512, options).await;
    let mut client = harness.client().await;
    let option = |option: u8| [&b"IHAVEOPT"[..], &[0, 0, 0, option, 0, 0, 0, 0]].concat();
    client.send_raw(&[option(5), option(8)].concat()).await;
    client.bytes(20).await;
    client.closed().await;
    // Neither is silence borne in place of TLS, nor plain bytes. (NBD-SAFE-2)
    for bytes in [&b""[..], b"IHAVEOPT, and no TLS"] {
        let mut client = harness.client().await;
        assert_eq!(client.verdict(5, &[]).await, 1);
        client.send_raw(bytes).await;
        let mut rest = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut client.socket, &mut rest).await;
        assert!(rest.len() < 100, "no more than an alert of TLS");
    }
    // Structured replies that were agreed before are not agreed after it.
    let mut client = harness.client().await;
    client.structured().await;
    let mut client = covered(client, &authority.connector(None, &ALL)).await.unwrap();
    let (_, flags) = client.go("disk", &[3]).await;
    assert_eq!(flags & 0x80, 0);
    assert_eq!(client.read(0, 512).await, [0; 512], "by a simple reply");
}

#[tokio::test]
async fn clients_may_need_a_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let harness = server(authority.tls(TlsUse::Required, true)).await;
    let mut client = covered(harness.client().await, &authority.connector(Some(&authority), &ALL)).await.unwrap();
    client.go("disk", &[3]).await;
    for own in [None, Some(&stranger)] {
        // By TLS 1.3 a client learns of it after its own part.
        if let Ok(mut client) = covered(harness.client().await, &authority.connector(own, &ALL)).await {
            client.closed().await;
        }
    }
    let metrics = harness.server.metrics();
    let failed = || metrics.handshakes_failed.load(std::sync::atomic::Ordering::Relaxed);
    crate::harness::until(|| failed() == 2).await;
}

#[test]
fn keys_and_certificates_that_are_none_are_refused() {
    let authority = Authority::new();
    let ((chain, key), (_, other)) = (authority.issue("a"), authority.issue("b"));
    let refused = |chain: &str, key: &str, clients: Option<&str>| {
        let result = Tls::from_pem(chain.as_bytes(), key.as_bytes(), clients.map(str::as_bytes), TlsUse::Offered);
        result.is_err_and(|error| error.kind() == std::io::ErrorKind::InvalidInput)
    };
    assert!(!refused(&chain, &key, None));
    assert!(refused("", &key, None) && refused(&chain, "", None) && refused(&key, &chain, None));
    assert!(refused(&chain, &other, None) && refused(&chain, &key, Some("")));
}
