//! Blue stores that a configuration names.

use std::path::PathBuf;

use shingle_blue_store::Compression;

use super::values::maybe_size;

/// A drive that `shingle blue format` has made a blue store of.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlueConfig {
    /// Name that buckets use as their location: letters, digits and dashes.
    pub name: String,
    /// Storage class of its objects; `ONEZONE_IA` if not given.
    class: Option<String>,
    /// The drive, by its name, or a partition of it.
    pub drive: PathBuf,
    /// Compression of new bytes.
    #[serde(default)]
    pub compression: Packing,
    /// Memory for objects and data that were used, in bytes. Metadata in a log are in memory beside it; RocksDB's get a quarter on top.
    #[serde(default, deserialize_with = "maybe_size")]
    pub cache: Option<u64>,
}

/// Compression of new bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// None.
    #[default]
    Off,
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

impl From<Packing> for Compression {
    fn from(packing: Packing) -> Self {
        match packing {
            Packing::Off => Self::None,
            Packing::Lz4 => Self::Lz4,
            Packing::Zstd => Self::Zstd,
        }
    }
}

impl BlueConfig {
    /// Storage class of its objects.
    pub fn class(&self) -> &str {
        self.class.as_deref().unwrap_or("ONEZONE_IA")
    }
}
