//! A disk in memory over NBD, for trying clients:
//! `cargo run --example memory_disk -- 127.0.0.1:10809 [SIZE-MIB [SECTOR-BYTES [CHAIN.pem KEY.pem]]]`.

use std::rc::Rc;

use shingle_nbd_server::{About, Export, Listener, Options, Server, Tls, TlsUse};
use shingle_runtime::owner::{Closing, Desk};

#[path = "../tests/nbd/store.rs"]
#[expect(dead_code, reason = "tests do more with it")]
mod store;

struct Core {
    store: store::MemoryStore,
    closing: Closing,
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:10809".to_owned());
    let mut number = |usual| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (size_mib, sector): (u64, u64) = (number(1024), number(512));
    let tls = match (arguments.next(), arguments.next()) {
        (Some(chain), Some(key)) => {
            Some(Tls::from_pem(&std::fs::read(chain)?, &std::fs::read(key)?, None, TlsUse::Required)?)
        }
        _ => None,
    };
    let (desk, calls) = Desk::with_places(64, 1024);
    shingle_runtime::real::spawn_thread("store", move |runtime| async move {
        let store = store::MemoryStore::new(size_mib << 20, sector, std::sync::Arc::default());
        let core = Rc::new(Core { store, closing: Closing::default() });
        calls.serve(runtime, core, |core| &core.closing).await;
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let about = About { description: "a disk in memory".to_owned(), ..About::new("disk") };
        let server = Server::new(Options { tls, ..Options::default() });
        server.add(Export::of(desk, |core: &Core| &core.store, about).await?)?;
        let listener = Listener::tcp(address).await?;
        if let Some(address) = listener.tcp_address() {
            println!("nbd://{address}/disk");
        }
        let interrupted = async {
            // Without a handler it runs until it is killed, which is as well.
            let _ = tokio::signal::ctrl_c().await;
        };
        server.serve(vec![listener], interrupted).await;
        Ok(())
    })
}
