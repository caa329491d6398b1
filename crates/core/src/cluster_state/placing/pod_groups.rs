//! Pods of PodGroups in plans (docs/decisions/094): a gang is planned with all its members that wait, or not at all.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::cluster_state::{ClusterState, Moment, NominationTarget, PlanningInput, PodEntry, Snapshot};
use crate::pod::Pod;
use crate::pod_groups::{GangTable, PodGroupBook, PodGroupRef, PodGroupRule, WaitingGang, groups_of};

/// Time for which members of a gang are expected on nodes that are ready while others of it wait for theirs: kube-scheduler binds
/// none of them before.
const AWAITS_MATES: Duration = Duration::from_secs(600);

/// The group of a pod: its namespace, and the reference there.
pub(in crate::cluster_state) type GroupOf<'e> = (&'e str, &'e PodGroupRef);

/// The members of a group that are there.
#[derive(Clone, Copy, Default)]
struct Members {
    all: usize,
    /// Those on a node, or expected on one.
    held: usize,
}

/// The order in which pods are packed: by namespace, name and uid.
pub(in crate::cluster_state) fn by_name(a: &&Arc<PodEntry>, b: &&Arc<PodEntry>) -> Ordering {
    (&a.pod.namespace, &a.pod.name, &a.pod.uid).cmp(&(&b.pod.namespace, &b.pod.name, &b.pod.uid))
}

fn group_of(entry: &PodEntry) -> Option<GroupOf<'_>> {
    entry.group.as_ref().map(|own| (entry.pod.namespace.as_str(), &own.group))
}

fn full_name((namespace, group): GroupOf<'_>) -> String {
    format!("{namespace}/{}", group.name)
}

impl ClusterState {
    /// PodGroups that are followed.
    pub fn pod_groups_mut(&mut self) -> &mut PodGroupBook {
        &mut self.now.pod_groups
    }

    /// A place has become ready for pods, or pods are expected at one that is, until `until`. While others of their gangs wait for
    /// their nodes, kube-scheduler binds none: its time is counted from the last of them.
    pub(in crate::cluster_state) fn await_mates(&mut self, at: &NominationTarget, until: Duration) {
        if self.now.pod_groups.is_empty() {
            return;
        }
        let pods = self.now.pods.clone();
        let waiting = |uid: &String| pods.get(uid).filter(|pod| pod.node_name.is_empty());
        let here = self.now.nominations.pods_at(at).filter_map(waiting).filter_map(|pod| group_of(pod));
        let mut gangs: BTreeMap<GroupOf<'_>, Vec<String>> = here.map(|group| (group, Vec::new())).collect();
        gangs.retain(|group, _| self.now.least_members(*group).is_some());
        if gangs.is_empty() {
            return;
        }
        for uid in self.now.nominations.keys() {
            let group = waiting(uid).and_then(|pod| group_of(pod));
            if let Some(mates) = group.and_then(|group| gangs.get_mut(&group)) {
                mates.push(uid.clone());
            }
        }
        for uids in gangs.into_values() {
            let targets = uids.iter().filter_map(|uid| self.now.nominations.get(uid)).map(|one| &one.target);
            let waits = targets.into_iter().any(|target| !self.is_ready(target));
            let until = if waits { until + AWAITS_MATES } else { until };
            let (heard, nominations) = (self.heard, Arc::make_mut(&mut self.now.nominations));
            uids.iter().for_each(|uid| nominations.renew_pod(uid, until, heard));
        }
    }
}

impl Snapshot {
    /// The pods that a packing is about. A pod that kube-scheduler has not marked is only packed if `only` names it,
    /// or where others of its gang are.
    #[must_use]
    pub fn to_pack(&self, input: &PlanningInput) -> Vec<&Arc<PodEntry>> {
        let mut all = self.without_a_place(input.now, |entry| match &input.only {
            None => entry.provisionable,
            Some(only) => (entry.provisionable || entry.unmarked) && only.contains(&entry.pod.uid),
        });
        if input.whole_gangs {
            self.add_mates(&mut all, input.now);
        }
        all
    }

    /// Number of members that a gang has to have; `None` for what is no gang that is followed.
    fn least_members(&self, (namespace, group): GroupOf<'_>) -> Option<usize> {
        self.pod_groups.find_rule(namespace, group)?.ok()?
    }

    /// The gang of a pod of a problem, where it is followed.
    pub(in crate::cluster_state) fn gang_of_pod(&self, pod: &Pod) -> Option<GroupOf<'_>> {
        let group = group_of(self.pods.get(pod.base_uid())?)?;
        self.least_members(group).map(|_| group)
    }

    /// Namespace and name of the PodGroup that a pod is in, where it is followed.
    #[must_use]
    pub fn pod_group_of(&self, entry: &PodEntry) -> Option<String> {
        let (namespace, group) = group_of(entry)?;
        self.pod_groups.find_rule(namespace, group).map(|_| full_name((namespace, group)))
    }

    /// Claims that were launched for a gang and on which no other pod is or is expected, name and uid.
    #[must_use]
    pub fn claims_to_return(&self, key: &str, now: Moment) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (name, entry) in self.claims.iter().filter(|(_, entry)| !entry.facts.deleting && !entry.is_planned()) {
            if !groups_of(&entry.claim).contains(key) || self.deleting.claims.contains(name) {
                continue;
            }
            let node = &entry.facts.node;
            let targets = [NominationTarget::Claim(name.clone()), NominationTarget::Node(node.clone())];
            let of_others = |target: &NominationTarget| {
                let expected = self.expected_at(target).filter(|pod| self.expected_on(&pod.pod.uid, now).is_some());
                expected.into_iter().any(|pod| self.pod_group_of(pod).as_deref() != Some(key))
            };
            let is_used = self.loads.get(node).is_some_and(|load| load.visitors > 0);
            if let Some(uid) = entry.claim.metadata.uid.clone().filter(|_| !is_used && !targets.iter().any(of_others)) {
                all.push((name.clone(), uid));
            }
        }
        all
    }

    /// Adds to pods that are to be packed those of their gangs that wait, too: kube-scheduler may have marked some and hold others.
    fn add_mates<'s>(&'s self, to_pack: &mut Vec<&'s Arc<PodEntry>>, now: Moment) {
        if self.pod_groups.is_empty() {
            return;
        }
        let waiting = to_pack.iter().filter(|pod| pod.node_name.is_empty());
        let mut gangs: BTreeSet<GroupOf<'_>> = waiting.filter_map(|pod| group_of(pod)).collect();
        gangs.retain(|group| self.least_members(*group).is_some());
        if gangs.is_empty() {
            return;
        }
        let there: BTreeSet<&str> = to_pack.iter().map(|pod| pod.pod.uid.as_str()).collect();
        let waits = |entry: &&Arc<PodEntry>| {
            group_of(entry).is_some_and(|group| gangs.contains(&group))
                && entry.group.as_ref().is_some_and(|own| own.may_wait)
                && !entry.expendable
                && !there.contains(entry.pod.uid.as_str())
                && !self.is_made_room_for(entry)
                && self.expected_on(&entry.pod.uid, now).is_none()
        };
        let mates: Vec<_> = self.unbound().filter(waits).collect();
        to_pack.extend(mates);
        to_pack.sort_by(by_name);
    }

    /// Blocks pods of gangs that cannot have enough places whatever is launched. The others are the gangs of the problem, where they
    /// are planned; where they are not, they are blocked, too.
    pub(in crate::cluster_state) fn hold_gangs(&self, pods: &mut [Pod], input: &PlanningInput) -> GangTable {
        let mut table = GangTable::default();
        if self.pod_groups.is_empty() {
            return table;
        }
        let mut groups: BTreeMap<GroupOf<'_>, Vec<usize>> = BTreeMap::new();
        for (at, pod) in pods.iter().enumerate().filter(|(_, pod)| !pod.to_come) {
            let entry = self.pods.get(&pod.uid).filter(|entry| entry.node_name.is_empty());
            if let Some(group) = entry.and_then(|entry| group_of(entry)) {
                groups.entry(group).or_default().push(at);
            }
        }
        let members = self.members(&groups, pods, input.now);
        for (group, waiting) in groups {
            let Some(rule) = self.pod_groups.find_rule(group.0, group.1) else { continue };
            let there = members.get(&group).copied().unwrap_or_default();
            match gang_of(&full_name(group), rule, there, input.whole_gangs) {
                Ok(None) => {}
                Ok(Some(gang)) => {
                    let priority = waiting.iter().map(|at| pods[*at].priority).max().unwrap_or_default();
                    let created = waiting.iter().filter_map(|at| pods[*at].created).min();
                    table.gangs.push(WaitingGang { waiting, priority, created, ..gang });
                }
                Err(why) => waiting.iter().for_each(|at| {
                    pods[*at].blocked.get_or_insert_with(|| why.clone());
                }),
            }
        }
        table
    }

    /// Members of these groups, of which some are pods of the problem.
    fn members<'s>(
        &'s self,
        groups: &BTreeMap<GroupOf<'s>, Vec<usize>>,
        pods: &[Pod],
        now: Moment,
    ) -> BTreeMap<GroupOf<'s>, Members> {
        let mut all: BTreeMap<GroupOf<'_>, Members> = BTreeMap::new();
        if groups.is_empty() {
            return all;
        }
        let packed: BTreeSet<&str> = pods.iter().map(Pod::base_uid).collect();
        for (uid, entry) in self.pods.iter().filter(|(_, entry)| entry.is_active()) {
            let Some(group) = group_of(entry).filter(|group| groups.contains_key(group)) else { continue };
            let expected = || !packed.contains(uid.as_str()) && self.expected_on(uid, now).is_some();
            let members = all.entry(group).or_default();
            members.all += 1;
            members.held += usize::from(!entry.node_name.is_empty() || expected());
        }
        all
    }
}

/// The gang of a problem, its waiting pods left out; `None` if each pod is placed for itself.
///
/// # Errors
/// The reason that it gets no places.
fn gang_of(key: &str, rule: PodGroupRule, there: Members, is_planned: bool) -> Result<Option<WaitingGang>, String> {
    let Some(min_count) = rule.map_err(|why| format!("PodGroup {key}: {why}"))? else { return Ok(None) };
    if there.all < min_count {
        return Err(format!("PodGroup {key} waits for members: {} of minCount {min_count} exist", there.all));
    }
    if !is_planned {
        return Err(format!("PodGroup {key}: its members are planned together"));
    }
    let (members, held) = (there.all, there.held);
    Ok(Some(WaitingGang { key: key.to_owned(), min_count, members, held, ..WaitingGang::default() }))
}
