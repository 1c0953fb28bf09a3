//! Data zones: their states, the leases of open ones, and the task that opens, closes and resets them. (SMRstore, section 5.4.)

pub(crate) mod census;
mod keeper;
pub(crate) mod leases;
mod reset;
mod residents;
mod table;
mod zone;

pub(crate) use keeper::OPEN_AGAIN;
pub(crate) use table::{GC_RESERVE, ZoneTable};
pub(crate) use zone::{Rest, Zone};
