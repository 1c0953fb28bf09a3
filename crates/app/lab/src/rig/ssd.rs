//! Files on modelled SSDs, for the buffer of an array.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_array_store::{BufferFile, BufferFiles};
use shingle_runtime::{LocalBoxFuture, Runtime};

/// Time of a write that is durable when it ends, beside its bytes: an SSD whose cache survives power cuts.
const WRITE: Duration = Duration::from_micros(100);

/// Bytes a second: a third of what an NVMe SSD of 2020 writes.
const BYTES_S: f64 = 1e9;

/// A file that keeps nothing, as the drives of experiments do: none of them opens an array on it again.
struct Ssd(Runtime);

/// The two files of a new array's buffer, each on its own SSD.
pub fn buffer(rt: &Runtime) -> BufferFiles {
    BufferFiles([Rc::new(Ssd(rt.clone())), Rc::new(Ssd(rt.clone()))])
}

impl BufferFile for Ssd {
    fn read(&self, _offset: u64, _length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(async { Ok(Bytes::new()) })
    }

    fn write(&self, _offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            self.0.sleep(WRITE + Duration::from_secs_f64(data.len() as f64 / BYTES_S)).await;
            Ok(())
        })
    }
}
