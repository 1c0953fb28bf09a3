//! The store of metadata: a model, power cuts at every command, damage. One program, so that it links once.

mod kv;
