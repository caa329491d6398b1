//! Reports of pods whose annotations about spot nodes count as nothing or cannot be met (docs/decisions/092).

use std::collections::{BTreeMap, BTreeSet};

use dovetail_core::cluster_state::Planning;

use super::{FAILURE_REPEAT_INTERVAL, Packer};
use crate::messages::Record;
use crate::recorder::object;

/// Most pods that get the event in a packing: those of one workload have the same message.
const MOST_REPORTED: usize = 20;

impl Packer {
    /// Emits the event at one pod of each message.
    pub(super) fn report_unmet_shares(&self, planning: &Planning) {
        let unmet = &planning.spot_share.unmet;
        if unmet.is_empty() {
            return;
        }
        let pods: BTreeMap<&str, _> = planning.problem.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
        let mut reported = BTreeSet::new();
        for one in unmet.iter().filter(|one| reported.insert(one.message.as_str())).take(MOST_REPORTED) {
            let Some(pod) = pods.get(one.pod.as_str()) else { continue };
            let event = Record::warning(object::pod(pod), one.reason, one.message.clone());
            self.env.post(&self.links.recorder, event.quiet_for(FAILURE_REPEAT_INTERVAL));
        }
    }
}
