//! Sessions with modelled drives.

use shingle_drive_model::Profile;
use shingle_skylight::exam::turn::{self, Turn};
use shingle_skylight::{Host, Modelled, Session, Unwatched};

/// Looks into the drive of a built-in profile.
pub(crate) fn with<T>(name: &str, seed: u64, look: impl FnOnce(&mut Session<'_>, &Turn) -> T) -> T {
    with_profile(&Profile::named(name).unwrap(), seed, look)
}

/// The same of any profile.
pub(crate) fn with_profile<T>(profile: &Profile, seed: u64, look: impl FnOnce(&mut Session<'_>, &Turn) -> T) -> T {
    let name = &profile.name;
    let mut drive = Modelled::new(profile, Host { seed, ..Host::default() }).unwrap();
    let mut unwatched = Unwatched;
    let mut session = Session::new(&mut drive, &mut unwatched, seed).unwrap();
    let turn = turn::of_drive(&mut session).unwrap();
    let turn = *turn.value().unwrap_or_else(|| panic!("{name}: {turn:?}"));
    look(&mut session, &turn)
}
