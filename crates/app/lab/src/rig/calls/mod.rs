//! Files for recorded calls: a modelled file system with its page cache, and files on zones, as the paper has them and as they are.

mod cache;
mod ext4;
mod zones;

pub use cache::Caching;
pub use ext4::Ext4Calls;
pub use zones::{Gathering, ZoneCalls};
