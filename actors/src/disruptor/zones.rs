//! Events at the pools whose nodes a shift away from a zone keeps where they are (karpenter-aws 5.2).

use dovetail_core::cluster_state::Snapshot;
use dovetail_core::disruption::pools_in_zone;
use dovetail_core::zonal_shift::{Shifted, ShiftedZones};
use k8s_openapi::api::core::v1::ObjectReference;

use super::Disruptor;
use crate::messages::Record;
use crate::recorder::object;

impl Disruptor {
    /// Reports shifts that have begun or ended since the last look, at each pool that may have nodes there.
    pub(super) fn report_shifts(&mut self, snapshot: &Snapshot) {
        if self.shifted == snapshot.shifted_zones {
            return;
        }
        let before = std::mem::replace(&mut self.shifted, snapshot.shifted_zones.clone());
        for (id, zone) in news(&self.shifted, &before) {
            let said = format!(
                "Zonal shift: nothing is launched in zone {} ({id}), and no node there is disrupted: {zone}",
                zone.name
            );
            self.report_at_pools(snapshot, zone, |object| Record::warning(object, "ZonalShiftActive", said.clone()));
        }
        for (id, zone) in news(&before, &self.shifted) {
            let said =
                format!("Zonal shift is over: nodes are launched and disrupted again in zone {} ({id})", zone.name);
            self.report_at_pools(snapshot, zone, |object| Record::normal(object, "ZonalShiftCleared", said.clone()));
        }
    }

    fn report_at_pools(&self, snapshot: &Snapshot, zone: &Shifted, record: impl Fn(ObjectReference) -> Record) {
        for pool in pools_in_zone(snapshot, &zone.name) {
            self.env.post(&self.links.recorder, record(object::pool(pool)));
        }
    }
}

/// Zones of the one that the other has not.
fn news<'a>(one: &'a ShiftedZones, other: &'a ShiftedZones) -> impl Iterator<Item = (&'a str, &'a Shifted)> {
    one.iter().filter(|(id, _)| other.of_zone(id).is_none())
}
