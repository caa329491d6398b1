//! Pods compiled once: equal pods are one class with a count, so that work grows with classes and not with pods.

use std::cmp::{Ordering, Reverse};
use std::hash::{Hash, Hasher};
use std::io;

use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::ids::{ClassId, IndexVec, Interned, PodId, SetId, TierId};
use super::names::ResourceNames;
use super::numbers::count_of;
use crate::pack::filter::alternatives::{self, Alternative, GivenUp, alternatives, where_volumes_can_be};
use crate::pack::filter::capacity::off_spot;
use crate::pack::filter::shared::{Attached, Shared, SharedVolumes};
use crate::pack::filter::topology::groups::{Group, Reader, Stated};
use crate::pack::filter::topology::{self, Builder, Topology};
use crate::pack::rounds::steps::Steps;
use crate::pod::Pod;
use crate::problem::{PreferencePolicy, Problem};
use crate::requirements::Requirements;

/// Amounts of the resources that anything asks for, in the order of [`ResourceNames`].
pub(crate) type Amounts = SmallVec<[i64; 4]>;

/// An amount above any that can be asked for, and far from overflow.
pub(crate) const UNBOUNDED: i64 = i64::MAX / 4;

/// Pods that are equal as far as scheduling can see.
#[derive(Debug)]
pub(crate) struct Class {
    /// Their indices in the problem, by age, then uid, then name.
    pub pods: Vec<PodId>,
    pub requests: Amounts,
    /// Volumes that they use together with others, and the amounts that the first of them on a node takes.
    pub shared: Shared,
    pub first: Amounts,
    /// Ways in which its pods can be placed, tried in order.
    pub alternatives: IndexVec<TierId, ClassAlternative>,
    /// Alternatives that have nothing soft: where none of these has a place, no other has. Empty where all are such.
    pub hard: SmallVec<[TierId; 2]>,
    /// The reason why its pods can never be placed, as a sentence.
    pub refused: Option<String>,
    /// True if its pods ask for more of something than anything has: they get a reason and nothing else.
    pub hopeless: bool,
}

/// One way in which a class's pods can be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClassAlternative {
    /// Requirements on the node.
    pub set: SetId,
    /// True if `PreferNoSchedule` taints are tolerated.
    pub forgiving: bool,
}

impl Class {
    /// Number of its pods.
    pub fn count(&self) -> u32 {
        count_of(self.pods.len())
    }

    /// True if it is worth looking for places.
    pub fn can_be_placed(&self) -> bool {
        self.refused.is_none() && !self.hopeless
    }

    /// The pod that stands for all of the class.
    pub fn example<'a>(&self, problem: &'a Problem) -> &'a Pod {
        &problem.pods[self.pods[0]]
    }
}

/// The distinct requirement sets of all classes.
pub(crate) type RequirementSets = Interned<SetId, Requirements>;

/// Compiles the pods. Classes come in an order that does not depend on the order of the pods: more cpu first, then
/// more memory (spec core 3.3), then more of anything else, then by the first pod; pods still to come after all that
/// wait. It may end early when the steps are spent: its answer is worth nothing then.
pub(crate) fn compile(
    problem: &Problem,
    softly_capped: bool,
    names: &ResourceNames,
    volumes: &SharedVolumes,
    sets: &mut RequirementSets,
    steps: &Steps,
) -> (IndexVec<ClassId, Class>, Topology) {
    let forgiveness = problem.node_pools.iter().any(|pool| crate::pack::filter::taints::any_preferring(&pool.taints))
        || problem.existing_nodes.iter().any(|node| crate::pack::filter::taints::any_preferring(&node.taints));
    let mut classes = in_order(problem, names, volumes);
    let reader = Reader::new(problem);
    let mut topology = Builder::new(problem, softly_capped);
    for class in &mut classes {
        let example = &problem.pods[class.pods[0]];
        // Before the work: a pod with a thousand terms is paid for before it is read.
        if !steps.spend(names.0.len() + alternatives::work(example)) {
            break;
        }
        let (stated, wrong) = match stated(reader, example) {
            Ok(stated) => (stated, None),
            Err(wrong) => (Stated::default(), Some(wrong)),
        };
        let found = alternatives(example, problem.preferences_of(example), forgiveness, stated.soft());
        let found = match found.and_then(|found| where_volumes_can_be(found, example)) {
            Ok(found) => off_spot(found, example),
            Err(wrong) => {
                class.refused = Some(wrong);
                vec![]
            }
        };
        let with_daemons = names.daemon_affinities().filter(|(_, pod_affinity)| pod_affinity.is_for(class.pods[0]));
        let with_daemons: Vec<&Group> = with_daemons.map(|(_, pod_affinity)| &pod_affinity.group).collect();
        let unkept = topology.add(example, &stated, &found, &with_daemons);
        class.refused = class.refused.take().or(wrong).or(unkept).or_else(|| example.blocked.clone());
        if !example.expendable_below.is_unset() {
            class.refused.get_or_insert_default();
        }
        if found.iter().any(|one| !one.hard) {
            let tiers = found.iter().zip(TierId::all(found.len()));
            class.hard = tiers.filter(|(one, _)| one.hard).map(|(_, tier)| tier).collect();
        }
        let compiled =
            |one: Alternative| ClassAlternative { set: sets.insert(one.requirements), forgiving: one.forgiving };
        class.alternatives = found.into_iter().map(compiled).collect();
    }
    (classes, topology.finish(steps))
}

/// The classes in the order of [`compile`], before anything is known of their alternatives.
fn in_order(problem: &Problem, names: &ResourceNames, volumes: &SharedVolumes) -> IndexVec<ClassId, Class> {
    // Read once, as sorting looks at each pod many times.
    let ages: IndexVec<PodId, Age> =
        problem.pods.iter().zip(PodId::all(problem.pods.len())).map(|(pod, at)| Age::from_pod(pod, at)).collect();
    let oldest = |a: &PodId, b: &PodId| ages[*a].cmp_in(problem, &ages[*b]);
    let keyed = grouped(problem, topology::labels_matter(problem)).into_iter().map(|mut pods| {
        pods.sort_unstable_by(oldest);
        let example = &problem.pods[pods[0]];
        (example.to_come, Reverse(names.of_pod(problem, pods[0])), pods)
    });
    let mut keyed: Vec<(bool, Reverse<Amounts>, Vec<PodId>)> = keyed.collect();
    // Large pods first: small ones fill what these leave.
    keyed.sort_unstable_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)).then_with(|| oldest(&a.2[0], &b.2[0])));
    let class = |(_, Reverse(requests), pods): (bool, Reverse<Amounts>, Vec<PodId>)| {
        let shared = volumes.of_pod(names, &problem.pods[pods[0]]);
        let mut first = requests.clone();
        Attached::default().add_missing(&shared, &mut first);
        Class {
            pods,
            requests,
            shared,
            first,
            alternatives: IndexVec::new(),
            hard: SmallVec::new(),
            refused: None,
            hopeless: false,
        }
    };
    keyed.into_iter().map(class).collect()
}

/// The rules between pods that a pod states. Topology counts nodes by what it requires, preferences apart.
fn stated(reader: Reader<'_>, pod: &Pod) -> Result<Stated, String> {
    if !topology::states_any(pod) {
        return Ok(Stated::default());
    }
    let strict = alternatives(pod, PreferencePolicy::Ignore, false, GivenUp::default()).unwrap_or_default();
    reader.stated(pod, &strict.into_iter().map(|one| one.requirements).collect::<Vec<_>>())
}

/// Sort key of pods, mostly compared without a look at them: with very many, each costs a miss of the cache.
#[derive(Clone, Copy)]
struct Age {
    created: Option<jiff::Timestamp>,
    /// The first bytes of the uid.
    uid: [u8; 16],
    pod: PodId,
}

impl Age {
    fn from_pod(pod: &Pod, at: PodId) -> Self {
        let mut uid = [0; 16];
        let known = pod.uid.len().min(uid.len());
        uid[..known].copy_from_slice(&pod.uid.as_bytes()[..known]);
        Self { created: pod.created, uid, pod: at }
    }

    /// Older pods first, then by uid, namespace and name.
    fn cmp_in(&self, problem: &Problem, other: &Self) -> Ordering {
        let whole = |age: &Self| {
            let pod = &problem.pods[age.pod];
            (&pod.uid, &pod.namespace, &pod.name)
        };
        (self.created, self.uid).cmp(&(other.created, other.uid)).then_with(|| whole(self).cmp(&whole(other)))
    }
}

/// The pods in groups of equals, in order of first appearance.
fn grouped(problem: &Problem, labels_matter: bool) -> IndexVec<ClassId, Vec<PodId>> {
    // Groups come before classes are ordered: their ids are not those of classes.
    let mut groups: IndexVec<ClassId, Vec<PodId>> = IndexVec::new();
    let mut by_hash: FxHashMap<u64, SmallVec<[ClassId; 1]>> = FxHashMap::default();
    for (at, pod) in problem.pods.iter().enumerate() {
        let candidates = by_hash.entry(hash(pod, labels_matter)).or_default();
        // Equal hashes need not be equal pods.
        let known = candidates.iter().copied().find(|group| {
            let example = &problem.pods[groups[*group][0]];
            equal(pod, example, labels_matter)
        });
        match known {
            Some(group) => groups[group].push(PodId::from(at)),
            None => candidates.push(groups.push(vec![PodId::from(at)])),
        }
    }
    groups
}

pub(in crate::pack) fn equal(a: &Pod, b: &Pod, labels_matter: bool) -> bool {
    a.requests == b.requests
        && a.priority == b.priority
        && a.node_selector == b.node_selector
        && a.tolerations == b.tolerations
        && a.host_ports == b.host_ports
        && a.affinity == b.affinity
        && a.topology_spread_constraints == b.topology_spread_constraints
        && a.volume_topology == b.volume_topology
        && a.shared_volumes == b.shared_volumes
        && a.blocked == b.blocked
        && a.to_come == b.to_come
        && a.relaxed == b.relaxed
        && a.refused_nodes == b.refused_nodes
        && a.refused_as_of == b.refused_as_of
        && a.existing_only == b.existing_only
        && a.off_spot == b.off_spot
        && a.expendable_below == b.expendable_below
        && (!labels_matter || (a.namespace == b.namespace && a.labels == b.labels))
}

pub(in crate::pack) fn hash(pod: &Pod, labels_matter: bool) -> u64 {
    let mut hasher = FxHasher::default();
    pod.requests.hash(&mut hasher);
    pod.priority.hash(&mut hasher);
    pod.node_selector.hash(&mut hasher);
    pod.host_ports.hash(&mut hasher);
    (&pod.volume_topology, &pod.shared_volumes, &pod.blocked, pod.to_come, pod.relaxed).hash(&mut hasher);
    (&pod.refused_nodes, pod.refused_as_of, pod.existing_only, pod.off_spot, pod.expendable_below).hash(&mut hasher);
    if labels_matter {
        pod.namespace.hash(&mut hasher);
        pod.labels.hash(&mut hasher);
    }
    // The API's own types have no hash: their JSON has. Writing into a hasher cannot fail.
    if let Some(affinity) = &pod.affinity {
        let _ = serde_json::to_writer(Hashing(&mut hasher), affinity);
    }
    for spread in &pod.topology_spread_constraints {
        (&spread.topology_key, spread.max_skew, &spread.when_unsatisfiable, spread.min_domains).hash(&mut hasher);
        (&spread.match_label_keys, &spread.node_affinity_policy, &spread.node_taints_policy).hash(&mut hasher);
        let Some(selector) = &spread.label_selector else { continue };
        selector.match_labels.hash(&mut hasher);
        for one in selector.match_expressions.iter().flatten() {
            (&one.key, &one.operator, &one.values).hash(&mut hasher);
        }
    }
    // All of it: pods that differ only in a field that is left out would be compared one by one.
    for toleration in &pod.tolerations {
        (&toleration.key, &toleration.operator, &toleration.value, &toleration.effect).hash(&mut hasher);
        toleration.toleration_seconds.hash(&mut hasher);
    }
    hasher.finish()
}

struct Hashing<'a>(&'a mut FxHasher);

impl io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
