//! Pools whose launches are refused: packing leaves them out for a while (docs/decisions/038). Zones that are left alone
//! (docs/decisions/088).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::NodePool;

use crate::cluster_state::{ClusterState, Moment, Snapshot};
use crate::zonal_shift::ShiftedZones;

/// A pool that packing leaves out, as its launches are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedPool {
    /// End of the closure. Monotonic.
    pub until: Duration,
    /// The pool's generation that was refused: a later one is tried at once.
    pub generation: Option<i64>,
    /// The reason, for people; it does not change while the cause is the same.
    pub why: String,
}

impl ClusterState {
    /// These pools are left out by packing, and no others.
    pub fn close_pools(&mut self, closed: BTreeMap<String, ClosedPool>) {
        self.now.closed_pools = Arc::new(closed);
    }

    /// The cluster is shifted away from these zones, and from no others.
    pub fn shift_zones(&mut self, zones: ShiftedZones) {
        self.now.shifted_zones = zones;
    }
}

impl Snapshot {
    /// The reason that a pool is left out now because its launches are refused; `None` if it is not.
    pub(in crate::cluster_state) fn is_closed(&self, name: &str, pool: &NodePool, now: Moment) -> Option<String> {
        let closed = self.closed_pools.get(name)?;
        let holds = now.monotonic < closed.until && closed.generation == pool.metadata.generation;
        holds.then(|| closed.why.clone())
    }
}
