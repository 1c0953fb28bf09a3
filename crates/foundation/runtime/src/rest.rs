//! Work that leaves the drives to others for half of the time.

use std::time::Duration;

use crate::local::Runtime;
use crate::time::Instant;

/// Work that is worth a rest.
const WORK_MIN: Duration = Duration::from_millis(10);
/// The longest rest at a time.
const REST_MAX: Duration = Duration::from_secs(5);

/// Rests between steps of long work, each as long as the work before it, or none at all.
pub struct Rests {
    runtime: Runtime,
    gentle: bool,
    /// The end of the last one.
    since: Instant,
}

impl Rests {
    /// The work begins now; unless it is `gentle`, there are no rests.
    pub fn new(runtime: &Runtime, gentle: bool) -> Self {
        Self { runtime: runtime.clone(), gentle, since: runtime.now() }
    }

    /// Rests as long as there was work since the last rest, if that is worth it.
    pub async fn rest(&mut self) {
        let worked = self.runtime.now().since(self.since);
        if self.gentle && worked >= WORK_MIN {
            self.runtime.sleep(worked.min(REST_MAX)).await;
            self.since = self.runtime.now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gentle_work_takes_half_of_the_time() {
        for (gentle, least) in [(true, 2), (false, 1)] {
            let took = crate::real::run(|runtime| async move {
                let began = runtime.now();
                let mut rests = Rests::new(&runtime, gentle);
                for _ in 0..8 {
                    runtime.sleep(Duration::from_millis(5)).await;
                    rests.rest().await;
                }
                runtime.now().since(began)
            });
            let least = Duration::from_millis(8 * 5 * least);
            assert!(took.unwrap() >= least, "gentle {gentle}");
        }
    }
}
