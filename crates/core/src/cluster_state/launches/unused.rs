//! Nodes that are not used by the pods they were launched for, and pods that wait for the next try because of that. The
//! pauses are decided by [`crate::launch_limits::UnusedLaunches`] (docs/decisions/037).
//!
//! A node counts as not used only as a whole, and only while a pod that it was launched for still waits without a place: not
//! where those pods have gone, have found room elsewhere, or where other pods have come to it.

mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::observed::instance_type_of;
use crate::cluster_state::objects::load::with_itself;
use crate::cluster_state::{ClaimEntry, ClusterState, Moment, NodeEntry, PodEntry, Snapshot, objects::daemon};
use crate::daemons::fits_alone;
use crate::launch_limits::LaunchedFor;
use crate::pod::Pod;
use crate::resources::Resources;
pub(in crate::cluster_state) use uses::Uses;

/// Most workloads that a claim names.
pub(in crate::cluster_state) const MOST_NAMED: usize = 64;
/// Most pods that a report names.
const MOST_PODS: usize = 10;
/// kube-scheduler's turn is judged this long before it is over, as the pods are planned anew then.
const BEFORE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotUsedReason {
    /// It has less room than was foreseen, or DaemonSets have taken more of it.
    NoRoom,
    /// kube-scheduler has not bound them to it in its time.
    Scheduler,
    /// kubelet has not let them run.
    Kubelet,
    /// Its time was over before it was ready.
    Expired,
}

impl NotUsedReason {
    /// The reason's name, as a label of metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NoRoom => "no_room",
            Self::Scheduler => "scheduler",
            Self::Kubelet => "kubelet",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for NotUsedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "there is less room on it than was foreseen",
            Self::Scheduler => "kube-scheduler has not bound them to it",
            Self::Kubelet => "kubelet has not let them run",
            Self::Expired => "its time was over before it was ready",
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NotUsed {
    /// The claim of the node, as it is now.
    pub claim: Arc<ClaimEntry>,
    /// The Node's name, empty while there is none.
    pub node: String,
    pub reason: NotUsedReason,
    /// Taint or label of the node that keeps the pods off, if seen; kube-scheduler's words may be older than the node.
    pub seen: Option<String>,
    /// The message of kube-scheduler or kubelet.
    pub words: String,
    /// Up to `MOST_PODS` of the pods that still wait.
    pub pods: Vec<Arc<Pod>>,
    /// Nodes in a row not used by the workload that has to wait longest.
    pub failures: u32,
    /// Time that the next launch for this workload has to wait.
    pub pause: Duration,
}

/// The use of one claim's node so far.
#[derive(Debug, Default)]
struct Open {
    /// The pods that were planned on it here; empty if another leader has planned it.
    pods: Option<BTreeSet<String>>,
    /// Time from which its node is ready for pods, as far as was looked. Monotonic.
    ready: Option<Duration>,
    /// Time at which its node was first seen to wait for a taint of its first minutes. Monotonic.
    tainted: Option<Duration>,
    /// True once that wait has been reported.
    taint_reported: bool,
    judged: bool,
}

/// The workloads in a claim's annotation, each with the number of nodes that it had not used before.
#[must_use]
pub fn read_launched_for(written: &str) -> Vec<(String, u32)> {
    let one = |text: &str| match text.split_once(':') {
        Some((workload, failures)) => Some((workload.to_owned(), failures.parse().ok()?)),
        None => Some((text.to_owned(), 0)),
    };
    written.split(',').map(str::trim).filter(|text| !text.is_empty()).take(MOST_NAMED).filter_map(one).collect()
}

impl ClusterState {
    /// The node of a claim that was planned here has become ready for pods: kube-scheduler's turn begins.
    pub fn note_ready(&mut self, claim: &str, now: Duration) {
        if let Some(Open { pods: Some(_), ready, .. }) = self.uses.open.get_mut(claim) {
            ready.get_or_insert(now);
        }
    }

    /// Judges nodes that were launched for pods: a workload that uses one is trusted again, and nodes that are not used are
    /// answered, each once. `patience` is the time that kube-scheduler has to bind pods to a node that is ready. While the
    /// API server was not `seen` for that long, nothing is judged by it, and nodes that may have to be are noted: they are
    /// not removed as empty before. To be called before the next plan is decided.
    pub fn judge_launches(&mut self, patience: Duration, seen: bool, now: Moment) -> Vec<NotUsed> {
        self.learn(now.wall);
        if self.now.unused.has_old(now.wall) {
            Arc::make_mut(&mut self.now.unused).forget_old(now.wall);
        }
        let names: Vec<String> = self.uses.open.keys().cloned().collect();
        let (mut found, mut waiting, mut unplaced, mut unjudged) = (Vec::new(), None, None, BTreeSet::new());
        for name in names {
            let Some(entry) = self.now.claims.get(&name).cloned() else {
                self.uses.open.remove(&name);
                continue;
            };
            if self.was_used(&entry) {
                continue;
            }
            if self.now.awaited_taint(&entry, now.wall).is_some() {
                let waiting = waiting.get_or_insert_with(|| self.now.waiting(|_| true));
                if is_awaited(&entry, waiting) {
                    unjudged.insert(name.clone());
                }
                self.await_taint(&name, patience, now.monotonic);
                continue;
            }
            // If the taint was waited for in vain, kube-scheduler has had its turn.
            let in_vain = self.now.undeclared_taint(&entry).is_some();
            let Some(open) = self.uses.open.get_mut(&name) else { continue };
            if seen && entry.facts.initialized.is_some() {
                let since = open.tainted.filter(|_| in_vain).unwrap_or(now.monotonic);
                open.ready.get_or_insert(since);
            }
            let over = open.ready.is_some_and(|since| now.monotonic >= (since + patience).saturating_sub(BEFORE));
            // A case against the node is not known before kube-scheduler's turn has been seen.
            let over = over || !seen;
            let Some(case) = self.case(&entry, over, now) else { continue };
            // Most pods that wait have a place: whether they do is asked once, and not for each claim.
            let without_place = |pod: &PodEntry| self.now.expected_on(&pod.pod.uid, now).is_none();
            let unplaced = unplaced.get_or_insert_with(|| self.now.waiting(without_place));
            match self.judge(&entry, &case, unplaced, now) {
                Some(judged) if seen => found.push(judged),
                Some(_) => drop(unjudged.insert(name)),
                None => {}
            }
        }
        if *self.now.unjudged != unjudged {
            self.now.unjudged = Arc::new(unjudged);
        }
        found.into_iter().map(|judged| self.note_not_used(judged, now)).collect()
    }

    /// A claim's node waits for a taint of its first minutes: kube-scheduler's turn has not begun, and its pods are expected there.
    fn await_taint(&mut self, claim: &str, patience: Duration, now: Duration) {
        if let Some(open) = self.uses.open.get_mut(claim) {
            open.tainted.get_or_insert(now);
            open.ready = None;
        }
        self.expect_until(claim, now + patience);
    }

    /// Number of workloads that wait for the next try.
    #[must_use]
    pub fn held_back(&self) -> usize {
        self.now.unused.count()
    }

    /// True if a claim's node is used, or need not be looked at any more. Workloads that have a pod on it are trusted.
    fn was_used(&mut self, entry: &ClaimEntry) -> bool {
        let facts = &entry.facts;
        let class = &entry.claim.spec.node_class_ref.name;
        if let Some(started) = self.uses.started.get(&facts.node).cloned() {
            for (workload, after) in facts.launched_for.iter().filter(|(workload, _)| started.contains(workload)) {
                let key = LaunchedFor { pool: &facts.pool, class, workload };
                let news = self.uses.credit(&facts.name, workload);
                if news && self.now.unused.failures(key.pool, key.class, key.workload) > 0 {
                    Arc::make_mut(&mut self.now.unused).used(key, *after);
                }
            }
            let open = facts.launched_for.iter().any(|(workload, _)| !started.contains(workload));
            if !open || !self.now.unused.holds_any(&facts.pool) {
                self.uses.open.remove(&facts.name);
            }
            return true;
        }
        // Pods have come and gone without being seen.
        if facts.last_pod_event.is_some() && !self.uses.refused.contains_key(&facts.node) {
            self.uses.open.remove(&facts.name);
            return true;
        }
        self.uses.open.get(&facts.name).is_none_or(|open| open.judged)
    }

    /// The case for which a claim may be judged now.
    fn case(&self, entry: &ClaimEntry, over: bool, now: Moment) -> Option<Case> {
        let facts = &entry.facts;
        let leaves = self.now.deleting.claims.contains(&facts.name);
        if leaves {
            let expired = facts.expires.is_some_and(|at| at <= now.wall) && !over;
            return expired.then_some(Case::Expired);
        }
        facts.initialized?;
        let load = self.now.loads.get(&facts.node);
        // A bound pod may yet start, unless it is like those that kubelet has refused.
        let refused = self.uses.refused.get(&facts.node);
        let may_start = |pod: &Arc<PodEntry>| {
            !pod.belongs_to_node() && (pod.started || !refused.is_some_and(|all| all.contains_key(&pod.workload)))
        };
        if load.is_some_and(|load| load.visitors > 0 && load.pods.values().any(may_start)) {
            return None;
        }
        let node = self.now.nodes.get(&facts.node)?.clone();
        let used = load.map(|load| load.requests.clone()).unwrap_or_default();
        Some(Case::Stands { node, used, over })
    }

    fn judge(
        &self,
        entry: &Arc<ClaimEntry>,
        case: &Case,
        unplaced: &BTreeMap<String, Vec<Arc<PodEntry>>>,
        now: Moment,
    ) -> Option<Judged> {
        let facts = &entry.facts;
        let open = self.uses.open.get(&facts.name)?;
        let refused = self.uses.refused.get(&facts.node);
        let mut judged: Option<Judged> = None;
        for (workload, _) in &facts.launched_for {
            let pods = unplaced.get(workload).map(Vec::as_slice).unwrap_or_default();
            let words = refused.and_then(|all| all.get(workload));
            let here = |pod: &&Arc<PodEntry>| self.waits_for(pod, entry, open, case, now);
            let concerned: Vec<&Arc<PodEntry>> = pods.iter().filter(here).collect();
            let (reason, concerned) = match (case, words) {
                (Case::Stands { over: true, .. }, Some(_)) => (NotUsedReason::Kubelet, concerned),
                (Case::Expired, _) if !concerned.is_empty() => (NotUsedReason::Expired, concerned),
                (Case::Stands { node, used, over }, None) => {
                    let crowded: Vec<_> = concerned.iter().copied().filter(|pod| !has_room(node, used, pod)).collect();
                    match (crowded.is_empty(), *over) {
                        (false, _) => (NotUsedReason::NoRoom, crowded),
                        (true, true) if !concerned.is_empty() => (NotUsedReason::Scheduler, concerned),
                        _ => continue,
                    }
                }
                _ => continue,
            };
            let said = words.cloned().or_else(|| concerned.iter().find_map(|pod| pod.words.clone()));
            let on_node = |pod: &&Arc<PodEntry>| match case {
                Case::Stands { node, .. } => mismatch(node, &pod.pod).or_else(|| self.now.lacks(node, &pod.pod)),
                Case::Expired => None,
            };
            let judged = judged.get_or_insert_with(|| Judged {
                entry: entry.clone(),
                reason,
                seen: concerned.iter().find_map(on_node),
                words: said.unwrap_or_default(),
                pods: Vec::new(),
                workloads: Vec::new(),
            });
            judged.workloads.push(workload.clone());
            let more = MOST_PODS.saturating_sub(judged.pods.len());
            judged.pods.extend(concerned.into_iter().take(more).map(|pod| pod.pod.clone()));
        }
        judged
    }

    /// True if a waiting pod is one that the claim was launched for, has waited while its node was there, and has no place.
    fn waits_for(&self, pod: &PodEntry, entry: &ClaimEntry, open: &Open, case: &Case, now: Moment) -> bool {
        let since = entry.facts.created;
        let later = since.is_some_and(|since| pod.pod.created.is_some_and(|created| created > since));
        let planned = open.pods.as_ref().is_some_and(|pods| pods.contains(&pod.pod.uid));
        let ready = entry.facts.initialized.unwrap_or(Timestamp::MAX);
        let in_time = match case {
            Case::Expired => !later,
            Case::Stands { .. } => pod.pod.created.is_none_or(|created| created <= ready),
        };
        // If the pods that the claim was planned for are known, others of the workload have places of their own, except
        // successors.
        let own = planned || (in_time && (later || open.pods.is_none()));
        own && self.now.expected_on(&pod.pod.uid, now).is_none()
    }

    fn note_not_used(&mut self, judged: Judged, now: Moment) -> NotUsed {
        let Judged { entry, reason, seen, words, pods, workloads } = judged;
        let facts = &entry.facts;
        let class = entry.claim.spec.node_class_ref.name.clone();
        if let Some(open) = self.uses.open.get_mut(&facts.name) {
            open.judged = true;
        }
        let why = seen.iter().cloned().chain(Some(words.clone()).filter(|words| !words.is_empty()));
        let why = [reason.to_string()].into_iter().chain(why).collect::<Vec<_>>().join(": ");
        let more = if reason == NotUsedReason::NoRoom { self.now.taken_by_daemons(&entry) } else { None };
        let unused = Arc::make_mut(&mut self.now.unused);
        let (mut failures, mut pause) = (0, Duration::ZERO);
        for (workload, before) in facts.launched_for.iter().filter(|(one, _)| workloads.contains(one)) {
            let key = LaunchedFor { pool: &facts.pool, class: &class, workload };
            let longer = unused.not_used(key, *before, &why, now.wall).unwrap_or_default();
            pause = pause.max(longer);
            failures = failures.max(unused.failures(key.pool, key.class, key.workload));
        }
        if let Some((kind, more)) = more {
            unused.daemons_took(&facts.pool, &kind, more, now.wall);
        }
        let node = facts.node.clone();
        NotUsed { node, reason, seen, words, pods, failures, pause, claim: entry }
    }
}

/// The case for which a claim is judged.
enum Case {
    /// The node stands ready with no pod on it except those of DaemonSets, which request `used`; `over` is true if
    /// kube-scheduler has had its time.
    Stands { node: Arc<NodeEntry>, used: Resources, over: bool },
    /// The claim goes because its time is over, and was never ready for long.
    Expired,
}

/// A claim whose node is not used, with the workloads that do not use it.
struct Judged {
    entry: Arc<ClaimEntry>,
    reason: NotUsedReason,
    seen: Option<String>,
    words: String,
    pods: Vec<Arc<Pod>>,
    workloads: Vec<String>,
}

/// True if pods wait that a claim was launched for.
fn is_awaited(entry: &ClaimEntry, waiting: &BTreeMap<String, Vec<Arc<PodEntry>>>) -> bool {
    entry.facts.launched_for.iter().any(|(workload, _)| waiting.contains_key(workload))
}

/// The taint or label of a node that keeps a pod off it, for people.
fn mismatch(node: &NodeEntry, pod: &Pod) -> Option<String> {
    let hard = node.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
    if let Some(taint) = hard.into_iter().find(|taint| !pod.tolerates(taint)) {
        let value = taint.value.as_deref().filter(|value| !value.is_empty());
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        return Some(format!("taint {}{value}:{} is not tolerated", taint.key, taint.effect));
    }
    let missing = pod.node_selector.iter().find(|(key, value)| node.labels.get(*key) != Some(value))?;
    Some(format!("label {}={} is not on it", missing.0, missing.1))
}

fn has_room(node: &NodeEntry, used: &Resources, pod: &PodEntry) -> bool {
    let asked = with_itself(&pod.pod.requests);
    asked
        .iter()
        .all(|(name, amount)| amount <= 0 || used.get(name).saturating_add(amount) <= node.allocatable.get(name))
}

impl Snapshot {
    /// Those wanted of the pods that wait for a node, by workload.
    fn waiting(&self, wanted: impl Fn(&PodEntry) -> bool) -> BTreeMap<String, Vec<Arc<PodEntry>>> {
        let mut all: BTreeMap<String, Vec<Arc<PodEntry>>> = BTreeMap::new();
        for pod in self.unbound().filter(|pod| pod.waits_for_node() && wanted(pod)) {
            all.entry(pod.workload.clone()).or_default().push(pod.clone());
        }
        all
    }

    /// Resources that DaemonSets take of a claim's node beyond the plan for them, with the node's instance type.
    fn taken_by_daemons(&self, entry: &ClaimEntry) -> Option<(String, Resources)> {
        let facts = &entry.facts;
        let node = self.nodes.get(&facts.node)?;
        let mut more = Resources::new();
        for pod in self.loads.get(&facts.node)?.pods.values().filter(|pod| pod.daemon) {
            more.add(&with_itself(&pod.pod.requests));
        }
        let at_launch = entry.claim.metadata.labels.clone().unwrap_or_default();
        for pod in self.daemon_pods() {
            let fits = fits_alone(&pod, &node.allocatable);
            if fits && daemon::lands_on(&pod, &at_launch, &entry.claim.spec.taints) {
                more.sub(&with_itself(&pod.requests));
            }
        }
        let more = more.iter().filter(|(_, amount)| *amount > 0);
        let instance_type = instance_type_of(&entry.claim, Some(node))?.to_owned();
        Some((instance_type, more.map(|(name, by)| (name.to_owned(), by)).collect()))
    }
}
