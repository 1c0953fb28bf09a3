//! The cleaner of a volume by its name, for those who serve volumes.

use std::fmt;
use std::str::FromStr;

use shingle_runtime::Runtime;
use shingle_translation::Volume;

use crate::{CachePolicy, LogPolicy, Tl1, Tl2, tl1, tl2};

/// The cleaner of a volume. Its name is that of a layer, and its policy may follow behind a colon: `tl1`, `tl2:greedy`.
#[derive(Clone, Copy, Debug, Default)]
pub enum Layer {
    /// The volume's own cleaner.
    #[default]
    Builtin,
    /// A persistent cache in front of home zones.
    Tl1(Tl1),
    /// A log of all sectors.
    Tl2(Tl2),
}

impl Layer {
    /// Starts it beside a volume. It ends when the volume closes.
    pub fn begin(self, rt: &Runtime, volume: &Volume) {
        match self {
            Self::Builtin => {}
            Self::Tl1(options) => rt.spawn_detached(tl1(rt.clone(), volume.control(), options)),
            Self::Tl2(options) => rt.spawn_detached(tl2(rt.clone(), volume.control(), options)),
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            Self::Tl1(options) => write!(f, "tl1:{}", options.policy.name()),
            Self::Tl2(options) => write!(f, "tl2:{}", options.policy.name()),
        }
    }
}

impl FromStr for Layer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (layer, policy) = match text.split_once(':') {
            Some((layer, policy)) => (layer, Some(policy)),
            None => (text, None),
        };
        match (layer, policy) {
            ("builtin", None) => Some(Self::Builtin),
            ("tl1", None) => Some(Self::Tl1(Tl1::default())),
            ("tl2", None) => Some(Self::Tl2(Tl2::default())),
            ("tl1", Some(wanted)) => {
                let policy = CachePolicy::ALL.into_iter().find(|policy| policy.name() == wanted);
                policy.map(|policy| Self::Tl1(Tl1 { policy, ..Tl1::default() }))
            }
            ("tl2", Some(wanted)) => {
                let policy = LogPolicy::ALL.into_iter().find(|policy| policy.name() == wanted);
                policy.map(|policy| Self::Tl2(Tl2 { policy, ..Tl2::default() }))
            }
            _ => None,
        }
        .ok_or_else(|| {
            let cache = CachePolicy::ALL.map(CachePolicy::name).join(", ");
            let log = LogPolicy::ALL.map(LogPolicy::name).join(", ");
            format!("there is no layer `{text}`: write builtin, tl1, tl2, tl1:POLICY ({cache}) or tl2:POLICY ({log})")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_read_as_it_is_written() {
        let defaults = [("builtin", "builtin"), ("tl1", "tl1:cheapest"), ("tl2", "tl2:cost_benefit")];
        let caches = CachePolicy::ALL.map(|policy| format!("tl1:{}", policy.name()));
        let logs = LogPolicy::ALL.map(|policy| format!("tl2:{}", policy.name()));
        let named = caches.iter().chain(&logs).map(|name| (name.as_str(), name.as_str()));
        for (text, layer) in defaults.into_iter().chain(named) {
            assert_eq!(text.parse::<Layer>().map(|layer| layer.to_string()).as_deref(), Ok(layer));
        }
    }

    #[test]
    fn an_unknown_layer_is_told_with_those_that_there_are() {
        for text in ["", "tl3", "tl1:", "tl1:greedy", "tl2:dense", "builtin:fifo", "tl2:fifo:fifo"] {
            let error = text.parse::<Layer>().unwrap_err();
            assert!(error.contains("min_assoc") && error.contains("greedy"), "{text}: {error}");
        }
    }
}
