//! S3 on a store in memory, for trying clients: `cargo run --example memory_server -- 127.0.0.1:9100 [CAPACITY-BYTES]`.

use std::sync::Arc;

use shingle_s3_gateway::{Credentials, Gateway, Options};
use shingle_store_testing::MemoryStore;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9100".to_owned());
    let capacity = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(8 << 30);
    let credentials = Credentials { access_key: "shingle".to_owned(), secret_key: "only-for-trying".to_owned() };
    let options = Options { credentials: vec![credentials], ..Options::default() };
    let gateway = Gateway::new(Arc::new(MemoryStore::new(capacity)), options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(&address).await?;
        println!("http://{} access key shingle, secret key only-for-trying", listener.local_addr()?);
        let interrupted = async {
            // Without a handler it runs until it is killed, which is as well.
            let _ = tokio::signal::ctrl_c().await;
        };
        gateway.serve(listener, interrupted).await;
        Ok(())
    })
}
