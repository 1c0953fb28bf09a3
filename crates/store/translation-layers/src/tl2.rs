//! TL2: a log of all sectors. (FSTL, section IV-B, Algorithm 2.)
//!
//! Sectors stay where they are written. When few zones are free, one with few sectors alive is emptied: its sectors are copied to the
//! head of a log of copies.

use std::time::Duration;

use shingle_runtime::Runtime;
use shingle_store_api::StoreResult;
use shingle_translation::{Control, Event, Route, ZoneUse, ZoneView};

use crate::moves::move_zone;

/// The time between two looks at the volume.
const POLL: Duration = Duration::from_millis(200);

/// Choice of the zone that is emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogPolicy {
    /// The oldest.
    Fifo,
    /// The one with the fewest sectors alive.
    Greedy,
    /// The one with the best ratio of space to be won, weighted by age, to sectors to be copied. (LFS, section 3.)
    #[default]
    CostBenefit,
}

impl LogPolicy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::Greedy, Self::CostBenefit];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Greedy => "greedy",
            Self::CostBenefit => "cost_benefit",
        }
    }
}

/// Parameters of TL2.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tl2 {
    /// Choice of the zone that is emptied.
    pub policy: LogPolicy,
    /// Sectors that lie in so many zones opened last count as hot, and go to a frontier of their own; `None` = one frontier.
    pub young: Option<u32>,
}

/// Runs TL2 until the volume closes.
pub async fn tl2(rt: Runtime, control: Control, options: Tl2) {
    if let Some(young) = options.young {
        control.route(Route::Heat { young });
    }
    loop {
        if control.wait(POLL).await == Event::Closing {
            return;
        }
        if control.wants_room() && !matches!(clean(&control, options.policy).await, Ok(true)) {
            // Nothing could be done: others have to do something first.
            rt.sleep(POLL).await;
        }
    }
}

/// Empties a zone. False if there is none.
async fn clean(control: &Control, policy: LogPolicy) -> StoreResult<bool> {
    let Some(victim) = choose(policy, &control.zones(), control.shape().zone_sectors_scattered) else {
        return Ok(false);
    };
    move_zone(control, victim.name).await
}

/// The zone of which copying wins most, by a policy.
fn choose(policy: LogPolicy, zones: &[ZoneView], full: u64) -> Option<ZoneView> {
    let wins = |zone: &&ZoneView| {
        matches!(zone.used, ZoneUse::Written | ZoneUse::Copied) && zone.live > 0 && zone.live < full && !zone.stuck
    };
    let rank = |zone: &&ZoneView| -> u128 {
        match policy {
            LogPolicy::Fifo => zone.name.generation.into(),
            LogPolicy::Greedy => zone.live.into(),
            LogPolicy::CostBenefit => {
                let (free, age) = (u128::from(full - zone.live), u128::from(zone.age) + 1);
                u128::MAX - free * age * 1_000_000 / u128::from(full + zone.live)
            }
        }
    };
    zones.iter().filter(wins).min_by_key(|zone| (rank(zone), zone.name)).copied()
}
