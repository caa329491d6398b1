//! The life of a pod from pending to bound, a folder an actor, in the order in which data flows:
//! [`pod_watcher`], [`cluster_watcher`], [`catalogue`], [`batcher`], [`packer`], [`launcher`], [`registrar`]; around them
//! [`node_class`], [`owner`], [`static_pools`], [`buffers`], [`gangs`], [`overlays`], [`quotas`], [`deletion_costs`], [`translator`], [`recorder`], [`webhook`]; and its way back: [`interruption`], [`disruptor`], [`janitor`], [`terminator`].
//! [`leadership`] starts and ends them, in a [`replica`] each; [`wiring`] says who sends to whom. What they share lies below them:
//! [`messages`], [`settings`], [`telemetry`], [`context`], [`reading`] (every object that comes from the API server, one by
//! one), and the ways to the API server and the cloud, `kube` and `cloud`.

pub mod batcher;
pub mod buffers;
pub mod catalogue;
pub mod cluster_watcher;
pub mod launcher;
pub mod overlays;
pub mod packer;
pub mod pod_watcher;
pub mod quotas;
pub mod registrar;
pub mod static_pools;

pub mod deletion_costs;
pub mod disruptor;
pub mod gangs;
pub mod interruption;
pub mod janitor;
pub mod owner;
pub mod terminator;
pub mod translator;

pub mod node_class;
pub mod recorder;
pub mod webhook;

pub mod leadership;
pub mod replica;
pub mod wiring;

pub mod context;
pub mod messages;
pub mod reading;
pub mod settings;
pub mod telemetry;

pub mod cloud;
pub mod kube;
pub mod links;

pub use context::cluster_clock::ClusterClock;
pub use context::solver::{InlineSolver, Solution, Solver};
pub use replica::{Exit, ReplicaHandle, ReplicaParts, start};
pub use settings::{KubernetesVersion, SettingError, Settings};
pub use telemetry::journal::{Journal, JournalEntry, LogJournal, MemoryJournal};
pub use telemetry::log_event::LogEvent;
pub use telemetry::measure::Measure;
pub use telemetry::span::Span;
