//! Context of every part of the cluster: the API, the cache, the queue, time and chance.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use dovetail_core::clock::Clock;
use jiff::Timestamp;

use super::cache::{CachedObject, ClusterCache, Key};
use super::kind::Kind;
use super::kube::Kube;
use super::life_log::LifeLog;
use super::settings::ClusterSettings;
use super::work::WorkQueue;

/// A change of an object. `old` is absent for a new one, `new` for one that is gone.
#[derive(Debug)]
pub(crate) struct ClusterChange {
    pub kind: Kind,
    pub key: Key,
    pub old: Option<CachedObject>,
    pub new: Option<CachedObject>,
}

/// The common ground of controllers, scheduler and kubelets.
pub(crate) struct ClusterContext {
    pub kube: Kube,
    pub cache: ClusterCache,
    pub queue: WorkQueue,
    pub life_log: LifeLog,
    pub settings: ClusterSettings,
    pub clock: Arc<dyn Clock>,
    pub rng: fastrand::Rng,
}

impl ClusterContext {
    /// The wall time.
    pub(crate) fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    /// The wall time as objects carry it.
    pub(crate) fn now(&self) -> String {
        seconds(self.wall())
    }

    /// A duration from the range, in whole milliseconds, by the seed.
    pub(crate) fn draw(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let millis = |d: &Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let (least, most) = (millis(range.start()), millis(range.end()));
        Duration::from_millis(if most > least { self.rng.u64(least..=most) } else { least })
    }
}

/// A time in whole seconds, as objects carry it.
pub(crate) fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
