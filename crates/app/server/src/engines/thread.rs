//! Threads of owners.

use shingle_runtime::{Runtime, real};
use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// Runs `main` on a thread of its own, called `name`. The receiver completes when the thread has dropped everything,
/// files included, or has panicked.
///
/// # Errors
/// `System` if the thread cannot be started.
pub(crate) fn start<F: Future<Output = ()>>(
    name: &str,
    main: impl FnOnce(Runtime) -> F + Send + 'static,
) -> Result<oneshot::Receiver<()>> {
    let (end, ended) = oneshot::channel();
    let body = move || {
        if let Err(error) = real::run(main) {
            tracing::error!("a thread could not begin its work: {error}");
        }
        // Nobody may be waiting.
        let _ = end.send(());
    };
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned.map(|_| ended).map_err(|error| Error::system(format_args!("no thread for {name}"), error))
}
