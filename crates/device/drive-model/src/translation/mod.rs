//! Drives that translate inside: mapping layers over the mechanics and over flash. (Dissertation, chapters 2, 3 and 5.)
//!
//! A [`Layer`] is the firmware: it hears the host's commands and sends its own to platters and flash. The built-in ones are
//! made from a profile's `[translation]`; others run in a [`Managed`] drive of one's own.

mod bands;
mod extents;
mod fully_associative;
mod hosts;
mod managed;
mod media_cache;
mod page_mapped;
mod set_associative;
mod steps;

pub use managed::{Inside, Layer, Managed, Medium, Work};

use crate::model::Model;
use crate::profile::{Profile, Translation};

/// The drive of a profile that translates inside.
///
/// # Panics
/// If the profile has no `[translation]`, which [`Profile::parse`] checks.
pub(crate) fn drive(profile: &Profile) -> Box<dyn Model> {
    let Some(translation) = &profile.translation else { panic!("profile `{}` translates nothing", profile.name) };
    let host = u64::from(profile.shape.zone_mib) * 256 * u64::from(profile.shape.zones);
    Box::new(match translation {
        Translation::MediaCache(spec) => media_cache::drive(profile, spec, host),
        Translation::SetAssociative(spec) => set_associative::drive(profile, spec, host),
        Translation::FullyAssociative(spec) => fully_associative::drive(profile, spec, host),
        Translation::PageMapped(spec) => page_mapped::drive(profile, spec, host),
    })
}
