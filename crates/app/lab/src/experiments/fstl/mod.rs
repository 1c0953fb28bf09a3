//! FSTL's evaluation (section V): translation layers in the host beside one in the drive.

pub(super) mod cleaning;
mod cleaning_rows;
pub(super) mod filebench;
mod filebench_rows;
mod filled;
pub(super) mod heat;
mod keeping_up;
pub(super) mod map_size;
pub(super) mod replay;
mod rows;
mod systems;
mod traces;
