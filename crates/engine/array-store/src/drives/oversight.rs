//! Fate of drives that are not well, as far as they themselves show it: silent, gone, or failing their reads. (AS-HANG-2,
//! AS-EVICT-2; those that fail writes are judged by their writers, those that are slow by `pace`.)

use std::rc::{Rc, Weak};

use shingle_base::Lba;
use shingle_zoned::{DeviceError, DeviceErrorKind};

use crate::engine::Engine;
use crate::types::DriveId;
use crate::watch::Overseer;

/// Of an engine, which owns the drives that own this.
struct Of(Weak<Engine>);

impl Overseer for Of {
    fn is_silent(&self, drive: DriveId, silent: &[DriveId]) -> bool {
        // Without an engine nobody asks the drive for anything.
        self.0.upgrade().is_none_or(|engine| engine.give_up_silent(drive, silent))
    }

    fn is_gone(&self, drive: DriveId, error: &DeviceError) {
        if let Some(engine) = self.0.upgrade() {
            engine.do_without(drive, error);
        }
    }

    fn fails_reads(&self, drive: DriveId, error: &DeviceError) {
        if let Some(engine) = self.0.upgrade() {
            engine.give_up_unreadable(drive, error);
        }
    }
}

impl Engine {
    /// From now on it is noticed when a drive is not well.
    pub(crate) fn oversee_drives(self: &Rc<Self>) {
        self.drives.oversee(Rc::new(Of(Rc::downgrade(self))));
    }

    /// (AS-HANG-2)
    fn give_up_silent(self: &Rc<Self>, drive: DriveId, silent: &[DriveId]) -> bool {
        if self.lifecycle.serving.get() && !self.may_do_without(silent.iter().copied().chain([drive])) {
            return false;
        }
        let name = self.drives.name(drive);
        tracing::error!(drive = name, "a drive does not answer; it is taken for gone");
        let gone = DeviceError { kind: DeviceErrorKind::Gone, at: Lba(0), zone: None };
        self.do_without(drive, &gone);
        true
    }

    /// A drive that can still read some of what it holds is given up only while parity is left without it, or no other is
    /// missing: what it can read may be needed. (AS-EVICT-2)
    fn give_up_unreadable(self: &Rc<Self>, drive: DriveId, error: &DeviceError) {
        let most = self.code.parity().saturating_sub(1).max(1);
        if self.lifecycle.serving.get() && self.lacking_without([drive]) <= most && self.may_do_without([drive]) {
            self.do_without(drive, error);
        }
    }

    /// Does without a drive, which is written down in the background; an opening does that itself.
    pub(crate) fn do_without(self: &Rc<Self>, drive: DriveId, error: &DeviceError) {
        if self.fail_drive(drive, error) && self.lifecycle.serving.get() {
            let engine = self.clone();
            self.rt.spawn_detached(async move {
                if let Err(error) = engine.record_failures().await {
                    tracing::warn!(%error, "that a drive failed is written down later");
                }
            });
        }
    }
}
