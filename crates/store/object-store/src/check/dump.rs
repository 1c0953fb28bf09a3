//! The content of files, for those who look for a fault.

use std::rc::Rc;

use shingle_store_api::StoreResult;

use crate::engine::Core;
use crate::errors::from_chunk;
use crate::scan::{Next, Scanned, Scanner};

impl Core {
    /// Shows files, and entries if `entries`, a line at a time.
    pub(crate) async fn dump(self: &Rc<Self>, entries: bool, mut line: impl FnMut(String)) -> StoreResult<()> {
        self.working()?;
        let numbers: Vec<u64> = self.files.borrow().iter().map(|(number, _)| number).collect();
        for number in numbers {
            let chunks: Vec<u32> = {
                let files = self.files.borrow();
                let Some(file) = files.get(number) else { continue };
                let record = &file.record;
                line(format!(
                    "file {number} store {:016x} stream {} chunks {} size {} live {} graves {} indexed {}:{}{}{}",
                    record.store,
                    file.stream,
                    file.closed.len() + usize::from(file.tail.is_some()),
                    file.size(),
                    record.live_bytes,
                    record.grave_bytes,
                    record.indexed.ordinal,
                    record.indexed.offset,
                    if file.tail.is_some() { " open" } else { "" },
                    if record.dropping { " dropping" } else { "" },
                ));
                file.closed.keys().copied().chain(file.tail.map(|tail| tail.ordinal)).collect()
            };
            for ordinal in chunks.into_iter().filter(|_| entries) {
                let Some((client, name)) = self.chunk_of(number, ordinal) else { continue };
                let size = client.stat(name.id()).await.map_err(from_chunk)?.size;
                let mut scanner = Scanner::new(client, name, 0, size);
                loop {
                    match scanner.next().await.map_err(from_chunk)? {
                        Next::Entry(Scanned { version, body, location }) => line(format!(
                            "  {ordinal}:{} {} version {version} head {} data {} {body:?}",
                            location.offset,
                            body.name(),
                            location.head,
                            location.data
                        )),
                        Next::Damage { from, to, why, .. } => line(format!("  {ordinal}:{from} damage to {to}: {why}")),
                        Next::End => break,
                    }
                }
            }
        }
        Ok(())
    }
}
