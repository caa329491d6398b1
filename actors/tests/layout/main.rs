//! Promises of the crate's layout, read from its source: rooms (the folders of src/) import each other in one direction, and the
//! table of `wiring` names every message with whoever sends and takes it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod circles;
mod source;
mod table;
mod wiring;
