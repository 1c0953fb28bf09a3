//! Drives under objects. (Dissertation, Table 5.1 and section 5.8.)

use shingle_drive_model::{Profile, Translation};

use crate::context::Context;
use crate::error::LabError;
use crate::rig::twin::conventional_twin;

/// MiB a second at the outer diameter: the CMR and the HM-SMR drive. (Table 5.1)
const CMR_MIB_S: f64 = 160.0;
const HM_SMR_MIB_S: f64 = 220.0;

/// Rate of the HM-SMR drive over that of the CMR drive.
pub(super) const FASTER: f64 = HM_SMR_MIB_S / CMR_MIB_S;

/// Bytes that each drive of the paper's clusters got. (Section 5.8)
pub(super) const PAPER_BYTES: u64 = 125 << 30;

fn named(name: &str) -> Result<Profile, LabError> {
    let mut profile = Profile::named(name).map_err(|error| LabError(error.0))?;
    profile.cache.write_cache = true;
    Ok(profile)
}

/// The host-managed drive, its volatile cache on.
pub(super) fn zoned(context: &Context) -> Result<Profile, LabError> {
    Ok(context.used(named("hsh721414al")?))
}

/// A ZNS SSD whose buffer survives power cuts, as that of the conventional one does.
pub(super) fn zns(context: &Context) -> Result<Profile, LabError> {
    let mut profile = Profile::named("zns-1tb").map_err(|error| LabError(error.0))?;
    profile.cache.write_cache = false;
    Ok(context.used(profile))
}

/// The conventional drive: the same mechanics, and the rate of the paper's.
pub(super) fn conventional(context: &Context) -> Result<Profile, LabError> {
    let slower = |zoned: &Profile| {
        let mut profile = conventional_twin(zoned);
        if let Some(recording) = &mut profile.recording {
            recording.outer_mb_s /= FASTER;
            recording.inner_mb_s /= FASTER;
        }
        Profile { name: "hua72303-like".to_owned(), ..profile }
    };
    Ok(context.twin(&named("hsh721414al")?, slower))
}

/// The conventional twin of the host-managed drive, as fast as that.
pub(super) fn twin(context: &Context) -> Result<Profile, LabError> {
    Ok(context.twin(&named("hsh721414al")?, conventional_twin))
}

/// The drive-managed disk, its persistent cache as large in proportion to `bytes` as the paper's to 125 GiB.
pub(super) fn managed(context: &Context, bytes: u64) -> Result<Profile, LabError> {
    let mut profile = named("st8000as0002")?;
    if let Some(Translation::MediaCache(cache)) = &mut profile.translation {
        let share = bytes as f64 / PAPER_BYTES as f64;
        for size in [&mut cache.cache_gib, &mut cache.ring_gib, &mut cache.map_extents, &mut cache.map_mib] {
            *size = ((f64::from(*size) * share.min(1.0)).round() as u32).max(1);
        }
        cache.ring_gib = cache.ring_gib.max(cache.cache_gib + 1);
        cache.map_extents = cache.map_extents.max(16);
    }
    Ok(context.used(profile))
}
