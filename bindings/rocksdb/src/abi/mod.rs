//! The functions of `include/shingle/files.h`, under their names there.

mod drive;
mod names;
mod read;
mod status;
mod write;
