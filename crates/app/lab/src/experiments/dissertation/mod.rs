//! The dissertation's evaluation of RocksDB and BlueStore on zones. (Aghayev 2020, chapters 4 and 5.)

pub(crate) mod blue_read;
pub(crate) mod blue_write;
pub(crate) mod object_create;
mod object_drives;
mod objects;
pub(crate) mod rocksdb_hmsmr;
mod rocksdb_load;
mod rocksdb_rows;
mod rocksdb_systems;
pub(crate) mod rocksdb_zns;
