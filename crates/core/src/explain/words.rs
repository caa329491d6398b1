//! The words of a pod's reason, as its event, the log and `explain` have them.

use crate::cluster_state::Planning;
use crate::pack::Reason;
use crate::pod::Pod;

/// Reason why a pod is unschedulable: packing's words, each node that was left out for it, and why it may be on no spot node.
#[must_use]
pub fn why_not(pod: &Pod, reason: &Reason, planning: &Planning) -> String {
    let out = planning.refused_places.iter().filter(|place| place.pod == pod.uid);
    let mut parts = vec![reason.to_string()];
    parts.extend(out.map(|place| match place.node.as_str() {
        "" => place.why.clone(),
        node => format!("node {node}: {}", place.why),
    }));
    parts.extend(planning.spot_share.off_spot.get(&pod.uid).cloned());
    parts.join("; ")
}
