//! Memory of a term about buffers: claims that were ordered for chunks, and the brake on orders that come to nothing. A successor
//! starts without it; the claims that its predecessor ordered are nodes on their way like all others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::placing::BufferPlan;
use crate::cluster_state::{ClaimEntry, NominationTarget, Snapshot};
use crate::lifecycle::ClaimStage;
use crate::pause::DoublingPause;

/// Pause of a buffer whose last node has come to nothing, or has no room for it.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(2), longest: Duration::from_secs(600) };
/// Longest time for which nodes for chunks wait while real pods wait, whose nodes may have room for the chunks.
const WAIT_FOR_PODS: Duration = Duration::from_secs(30);

/// Orders of a term that have not come to anything yet, and the pace of each buffer.
#[derive(Clone, Debug, Default)]
pub struct BufferMemory {
    paces: BTreeMap<String, Pace>,
    /// Time since which chunks have needed new nodes. Monotonic.
    needed: Option<Duration>,
}

/// Pace of one buffer's launches.
#[derive(Clone, Debug, Default)]
struct Pace {
    /// Claims that have been ordered and are not initialized yet, by name.
    ordered: BTreeSet<String>,
    failures: u32,
    /// Time until which no node is launched for it. Monotonic.
    until: Duration,
    why: &'static str,
}

impl BufferMemory {
    /// Notes a claim that is ordered for a buffer.
    pub fn note_ordered(&mut self, buffer: &str, claim: &str) {
        self.paces.entry(buffer.to_owned()).or_default().ordered.insert(claim.to_owned());
    }

    /// The reason for which no node is launched for a buffer now.
    #[must_use]
    pub fn paused(&self, buffer: &str, now: Duration) -> Option<&'static str> {
        self.paces.get(buffer).filter(|pace| now < pace.until).map(|pace| pace.why)
    }

    /// True if nodes for chunks wait, as real pods do; for a while only. `needs` is true if chunks need new nodes.
    pub fn waits_for_pods(&mut self, needs: bool, pods_wait: bool, now: Duration) -> bool {
        let since = *self.needed.get_or_insert(now);
        if !needs {
            self.needed = None;
        }
        needs && pods_wait && now.saturating_sub(since) < WAIT_FOR_PODS
    }

    /// Takes in the outcome of orders: a claim that is gone before it was initialized has come to nothing, and so has a node that
    /// holds neither a chunk of its buffer nor a pod.
    pub fn look_back(&mut self, snapshot: &Snapshot, plan: &BufferPlan, now: Duration) {
        let known = |key: &String| plan.buffers.contains_key(key);
        self.paces.retain(|key, _| known(key));
        for (key, pace) in &mut self.paces {
            let (mut good, mut failed) = (false, None);
            pace.ordered.retain(|name| match snapshot.claims.get(name) {
                None => {
                    failed = Some("its last node came to nothing, see the events of NodeClaims; it is tried again");
                    false
                }
                Some(entry) if entry.facts.stage == Some(ClaimStage::Initialized) => {
                    if is_used(snapshot, entry, plan, key) {
                        good = true;
                    } else {
                        failed = Some("its last node has no room for it; it is tried again");
                    }
                    false
                }
                Some(entry) => !entry.facts.deleting,
            });
            match failed {
                Some(why) if !good => pace.fail(why, now),
                _ if good => pace.failures = 0,
                _ => {}
            }
        }
    }
}

/// True if a node holds a chunk of that buffer, or a pod.
fn is_used(snapshot: &Snapshot, entry: &ClaimEntry, plan: &BufferPlan, buffer: &str) -> bool {
    let node = &entry.facts.node;
    let targets = [NominationTarget::Node(node.clone()), NominationTarget::Claim(entry.facts.name.clone())];
    let held = plan.buffers.get(buffer).is_some_and(|now| targets.iter().any(|target| now.on.contains(target)));
    held || snapshot.loads.get(node).is_some_and(|load| load.visitors > 0)
}

impl Pace {
    fn fail(&mut self, why: &'static str, now: Duration) {
        self.until = now + PAUSE.length_after(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.why = why;
    }
}
