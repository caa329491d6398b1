//! The life of a pod from pending to bound, one actor a file, in the order in which data flows:
//! [`pod_watcher`], [`cluster_watcher`], [`catalogue`], [`batcher`], [`packer`], [`launcher`], [`registrar`]; around them
//! [`node_class`], [`owner`], [`recorder`], [`leader`](leadership::leader), [`control_plane`](leadership::control_plane); and its way back: [`interruption`], [`disruptor`], [`janitor`],
//! [`terminator`]. Who sends to whom is in [`wiring`].

pub mod batcher;
pub mod catalogue;
pub mod cluster_watcher;
pub mod launcher;
pub mod packer;
pub mod pod_watcher;
pub mod registrar;

pub mod disruptor;
pub mod interruption;
pub mod janitor;
pub mod owner;
pub mod terminator;

pub mod node_class;
pub mod recorder;

pub mod context;
pub mod leadership;
pub mod messages;
pub mod telemetry;
pub mod wiring;

pub mod reading;

pub mod replica;
pub mod settings;

mod cloud;
mod kube;

pub use context::solver::{InlineSolver, Solution, Solver};
pub use replica::{Exit, ReplicaHandle, ReplicaParts, start};
pub use settings::{SettingError, Settings};
pub use telemetry::journal::{Entry, Journal, LogJournal, MemoryJournal};
pub use telemetry::measure::Measure;
pub use telemetry::span::Span;
pub use telemetry::story::Story;
