//! Cleaning: which set is emptied, by whom, and where what lives in it goes. (SMORE, sections III-E and IV-C.)

pub(crate) mod choice;
pub(crate) mod cleaners;
pub(crate) mod collect;
pub(crate) mod moving;
pub(crate) mod stuck;
pub(crate) mod unreset;
