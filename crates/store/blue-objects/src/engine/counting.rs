//! Number of objects: counted once in the background after opening, and kept from then on.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use shingle_blue_store::BlueErrorKind;

use super::Core;
use crate::format::Record;
use crate::ids;

/// Time after which names are read again that could not be read; twice as long behind each time in a row, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(10);

/// The longest of these.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Names looked at between two looks at whether others have something to do.
pub(super) const PAGE: usize = 64;

impl Core {
    pub(super) async fn count(self: Rc<Self>) {
        let mut last: Option<String> = None;
        loop {
            // Buckets that come meanwhile are counted if their turn has not passed, and kept by their changes if it has.
            let Some(bucket) = self.names.next(last.as_deref()) else {
                self.tally.begin_page();
                return self.tally.end_page(std::iter::empty(), None);
            };
            if !self.count_bucket(&bucket).await {
                return;
            }
            last = Some(bucket);
        }
    }

    /// False if the count is over.
    async fn count_bucket(&self, bucket: &str) -> bool {
        let (mut from, mut pause) = (Vec::new(), PAUSE);
        while !self.closing.get() {
            self.tally.begin_page();
            let page = match self.bucket_number(bucket) {
                Ok(number) => self.store.omap_list(&ids::names(number), &from, PAGE).await,
                // One that has gone meanwhile has no objects.
                Err(_) => Ok(Vec::new()),
            };
            let page = match page {
                Ok(page) => page,
                Err(_) if self.bucket_number(bucket).is_err() => Vec::new(),
                Err(error) => {
                    self.tally.drop_page();
                    if matches!(error.kind, BlueErrorKind::Unavailable | BlueErrorKind::Corrupt) {
                        tracing::warn!(bucket, %error, "objects cannot be counted; the next opening tries again");
                        return false;
                    }
                    tracing::warn!(bucket, %error, ?pause, "objects could not be counted; it is tried again");
                    let (paused, closes) = (pin!(self.rt.sleep(pause)), pin!(self.closing.wanted()));
                    // Either ends the pause.
                    let _ = select(paused, closes).await;
                    pause = (2 * pause).min(PAUSE_MAX);
                    continue;
                }
            };
            pause = PAUSE;
            let last = page.last().map(|(name, _)| name.clone());
            // One that is spoilt is counted as one of no bytes.
            let size = |value: &[u8]| Record::decode_object(value).map_or(0, |record| record.size);
            let named = |name: &[u8]| [bucket.as_bytes(), b"\0", name].concat();
            let sizes = page.iter().map(|(name, value)| (named(name), size(value)));
            // The end of a bucket is behind all of its keys.
            let upto = last.as_ref().map_or_else(|| [bucket.as_bytes(), b"\x01"].concat(), |last| named(last));
            self.tally.end_page(sizes, Some(upto));
            let Some(last) = last else { return true };
            from = [&last[..], b"\0"].concat();
            self.rt.yield_now().await;
        }
        false
    }
}
