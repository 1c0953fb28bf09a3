//! Records on zones: framing, slices, superblock, metadata log
