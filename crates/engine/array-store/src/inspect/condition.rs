//! Condition of an open array, for its administrators: missing drives, and progress of a rebuild.

use std::rc::Rc;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::Result;
use crate::format::DriveState;
use crate::repair::told::RebuildProgress;
use crate::store::ArrayStore;
use crate::types::SetState;

/// Condition of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Drives that belong to it.
    pub drives: Vec<DriveCondition>,
    /// Drives that any set can do without, if none of its own is missing.
    pub parity: usize,
    /// The most members that a set with data lacks, 0 if sets were not asked for; parity makes up for that many more
    /// that are lost at once.
    pub lacking: usize,
    /// Zones of sets with data that are on drives which are missing or leave.
    pub lost_members: u64,
    /// The rebuild that is under way: how far it is, and for how long.
    pub rebuilding: Option<(RebuildProgress, Duration)>,
}

/// Condition of a drive of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveCondition {
    /// The name that its owner gave it.
    pub name: String,
    /// It is there, and did not fail.
    pub up: bool,
    /// It is being taken out.
    pub leaving: bool,
    /// It answers far later than its peers.
    pub slow: bool,
}

impl ArrayStore {
    /// Condition of the array. With `sets`, looks at each set if a drive is missing: meant for people, who ask now and
    /// then.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn condition(&self, sets: bool) -> Result<Condition> {
        self.0.objects()?;
        Ok(self.0.condition(sets))
    }
}

impl Engine {
    fn condition(self: &Rc<Self>, sets: bool) -> Condition {
        let slow: Vec<_> = self.slow_drives().into_iter().map(|slow| slow.drive).collect();
        let belong = self.drives.entries().into_iter().zip(self.drives.ids());
        let drives = belong.filter(|(entry, _)| entry.state != DriveState::Removed).map(|(entry, id)| DriveCondition {
            name: entry.name,
            up: self.drives.usable(id).is_some(),
            leaving: self.drives.is_leaving(id),
            slow: slow.contains(&id),
        });
        let mut condition = Condition { drives: drives.collect(), parity: self.code.parity(), ..Condition::default() };
        // If all drives are well, no set is looked at: there are many. (AS-LIST-2)
        let well = condition.drives.iter().all(|drive| drive.up && !drive.leaving);
        let sets = (sets && !well).then(|| self.sets.all());
        for (_, set) in sets.into_iter().flatten() {
            if !matches!(set.state(), SetState::Empty | SetState::Available) {
                let lossy = self.lossy(&set);
                condition.lacking = condition.lacking.max(lossy);
                condition.lost_members += lossy as u64;
            }
        }
        condition.rebuilding =
            self.membership.rebuilding.get().map(|(progress, began)| (progress, self.rt.now().since(began)));
        condition
    }
}
