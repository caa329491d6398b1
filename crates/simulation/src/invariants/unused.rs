//! Launches that no pod uses, again and again: a pool is not launched for without end when plan and cluster disagree.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::history::{AmountsByName, Claim, ClusterRecord, PodRecord, accepted, seconds};

/// So many nodes an hour may go unused for each workload that waits, beside those launched before the first had ended.
const AN_HOUR: usize = 8;
/// The time that the bound is about.
const HOUR: f64 = 3600.0;
/// A node that has not been ready for so long says nothing: kube-scheduler had no time.
const READY: f64 = 15.0;

/// A NodeClaim's launch, and the pods that waited then.
struct Launch {
    pool: String,
    made: f64,
    requests: AmountsByName,
    /// The pods that waited when it was made.
    waited: Rc<Vec<String>>,
}

/// The use of an instance's node so far.
#[derive(Default)]
struct Served {
    ready: Option<f64>,
    /// True once a pod other than a DaemonSet's was ready on it.
    used: bool,
    /// Pods that are or were bound to it, but for those that have failed.
    bound: i64,
}

/// A node that was not used.
struct Unused {
    ended: f64,
    owners: BTreeSet<String>,
}

/// State of launches, by the claim's uid.
#[derive(Default)]
struct Launches {
    made: BTreeMap<String, Launch>,
    /// Claims' uids by instance.
    by_instance: BTreeMap<String, String>,
    /// By instance.
    served: BTreeMap<String, Served>,
    /// Nodes that were not used and were launched when another had not been before, by pool.
    again: BTreeMap<String, Vec<Unused>>,
    /// Seconds at which the first node of a pool that was not used had ended.
    first: BTreeMap<String, f64>,
    /// The pods that wait now; launches that are made one after another share the list of them.
    waiting: BTreeSet<String>,
    listed: Option<Rc<Vec<String>>>,
}

impl Checker {
    /// INV-18: in any hour no more nodes of a pool end unused than eight for each workload that waits all their life, those
    /// apart that were launched before the first of them had ended.
    pub(super) fn unused_launches(&mut self, entries: &[ActionEntry]) {
        let (mut state, mut launches) = (ClusterRecord::default(), Launches::default());
        for entry in entries {
            state.apply(entry);
            if let Some(pool) = launches.apply(entry, &state) {
                let lately = launches.again.get(&pool).map(Vec::as_slice).unwrap_or_default();
                let lately = || lately.iter().filter(|one| state.now - one.ended < HOUR);
                let owners: BTreeSet<&String> = lately().flat_map(|one| &one.owners).collect();
                let (unused, most) = (lately().count(), AN_HOUR * owners.len());
                self.expect("INV-18", state.now, unused <= most, || {
                    format!("{unused} nodes of pool {pool} within an hour were used by none of {} workload(s) that they were launched for, at most {most} may be", owners.len())
                });
            }
        }
    }
}

impl Launches {
    /// Applies an entry; returns the pool of a node that has ended unused, and that was launched again.
    fn apply(&mut self, entry: &ActionEntry, state: &ClusterRecord) -> Option<String> {
        match entry.kind.as_str() {
            "api" if entry.text("resource") == "nodeclaims" && accepted(entry) => {
                let uid = entry.text("uid");
                let claim = state.claims.get(uid)?;
                if entry.replica.is_some() && entry.text("verb") == "create" {
                    let waited = self.listed.get_or_insert_with(|| Rc::new(self.waiting.iter().cloned().collect()));
                    let launch = || Launch::from_claim(claim, state.now, waited.clone());
                    self.made.entry(uid.to_owned()).or_insert_with(launch);
                }
                if !claim.instance.is_empty() {
                    self.by_instance.insert(claim.instance.clone(), uid.to_owned());
                }
                None
            }
            "node" if entry.text("change") == "ready" => {
                self.on(entry.text("name"), state)?.ready.get_or_insert(seconds(entry));
                None
            }
            "pod" => {
                self.waits_or_not(entry.text("uid"), state);
                let pod = state.pods.get(entry.text("uid")).filter(|pod| !is_daemon(pod) && !pod.node.is_empty())?;
                let served = self.on(&pod.node, state)?;
                match entry.text("change") {
                    "bound" => served.bound += 1,
                    "failed" => served.bound -= 1,
                    "ready" | "succeeded" => served.used = true,
                    _ => {}
                }
                None
            }
            "instance" if entry.text("change") == "shutting-down" => self.ended(entry.text("id"), state),
            _ => None,
        }
    }

    fn waits_or_not(&mut self, uid: &str, state: &ClusterRecord) {
        let changed = match state.pods.get(uid) {
            Some(pod) if waits(pod) => self.waiting.insert(uid.to_owned()),
            _ => self.waiting.remove(uid),
        };
        if changed {
            self.listed = None;
        }
    }

    fn on(&mut self, node: &str, state: &ClusterRecord) -> Option<&mut Served> {
        Some(self.served.entry(state.nodes.get(node)?.instance.clone()).or_default())
    }

    fn ended(&mut self, instance: &str, state: &ClusterRecord) -> Option<String> {
        let uid = self.by_instance.get(instance)?;
        let (launch, claim) = (self.made.remove(uid)?, state.claims.get(uid)?);
        let warned = state.machines.get(instance).is_some_and(|machine| machine.warned);
        let served = self.served.remove(instance).unwrap_or_default();
        let was_ready = served.ready.is_some_and(|ready| state.now - ready >= READY);
        let expired = claim.expires.is_some_and(|expires| expires <= state.now);
        if served.used || served.bound > 0 || warned || !(was_ready || expired) {
            return None;
        }
        let for_it = |pod: &&PodRecord| waits(pod) && within(&pod.requests, &launch.requests);
        let left = launch.waited.iter().filter_map(|uid| state.pods.get(uid)).filter(for_it);
        let owners: BTreeSet<String> = left.map(owner).collect();
        if owners.is_empty() {
            return None;
        }
        let first = *self.first.entry(launch.pool.clone()).or_insert(state.now);
        if launch.made <= first {
            return None;
        }
        self.again.entry(launch.pool.clone()).or_default().push(Unused { ended: state.now, owners });
        Some(launch.pool)
    }
}

impl Launch {
    fn from_claim(claim: &Claim, made: f64, waited: Rc<Vec<String>>) -> Self {
        Self { pool: claim.pool.clone(), made, requests: claim.requests.clone(), waited }
    }
}

fn is_daemon(pod: &PodRecord) -> bool {
    pod.owner.starts_with("DaemonSet/")
}

fn waits(pod: &PodRecord) -> bool {
    pod.node.is_empty() && !pod.deleting && !is_daemon(pod)
}

/// The name by which pods are told apart: their controller's, or their own.
fn owner(pod: &PodRecord) -> String {
    let name = if pod.owner.is_empty() { &pod.name } else { &pod.owner };
    format!("{}/{name}", pod.namespace)
}

fn within(requests: &AmountsByName, most: &AmountsByName) -> bool {
    let least = |name: &str| requests.get(name).copied().unwrap_or(0) <= most.get(name).copied().unwrap_or(0);
    least("cpu") && least("memory")
}
