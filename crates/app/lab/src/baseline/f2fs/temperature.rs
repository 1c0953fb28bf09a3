//! The logs, by the expected life of their blocks.

/// The six logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temperature {
    #[expect(dead_code, reason = "it takes nodes of directories, which are left out")]
    HotNode,
    WarmNode,
    ColdNode,
    HotData,
    ColdData,
    WarmData,
}

pub(crate) const LOGS: usize = 6;
