//! The shape of an example.

/// A subcommand, and ways to call it: the command, then its effect if that is not plain.
pub(super) type Example = (&'static str, &'static [(&'static str, &'static str)]);
