//! The scheduler's state: nodes, classes of pods, where each pod is, and counts of pods that selectors mean.
//!
//! Counts are kept up as pods come and go, so that a spread or affinity rule is judged in one pass over the nodes,
//! never over the pods.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};

use super::class::{Namespaces, PodClass, PodTerm, Spread};
use super::node::{NodeInfo, NodeObject};
use super::nominated::Nominated;
use super::resources::ResourceColumns;
use super::selector::{Labels, PodSelector};
use crate::cluster::cache::Key;

pub(crate) type ClassId = usize;
pub(crate) type Slot = usize;

/// Topology keys in use and the values that nodes have for each.
#[derive(Debug, Default)]
pub(crate) struct TopologyValues(IndexMap<String, IndexSet<String>>);

/// A count of pods by node that is kept up.
#[derive(Debug)]
struct Counter {
    what: CountedPods,
    by_slot: Vec<u32>,
    total: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CountedPods {
    /// All of these must mean the pod.
    pub terms: Vec<(PodSelector, Namespaces)>,
    /// Pods that are going are no longer counted (topology spread), or still are (pod affinity).
    pub skip_terminating: bool,
}

/// A class and where its pods are.
#[derive(Debug)]
pub(crate) struct ClassEntry {
    pub class: std::rc::Rc<PodClass>,
    pub by_slot: BTreeMap<Slot, u32>,
    /// Counters that count pods of this class; all counters below `seen` have been asked.
    counters: Vec<usize>,
    seen: usize,
    /// Static verdicts by slot, with the node's version that each was made for.
    pub verdicts: Vec<Option<(u64, super::filter::Static)>>,
    /// The state's version at which the class was last found to fit nowhere, and why.
    pub failed: Option<(u64, std::rc::Rc<str>)>,
}

/// A pod that is on a node, or about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedPod {
    pub class: ClassId,
    pub slot: Slot,
    pub terminating: bool,
}

#[derive(Debug)]
pub(crate) struct SchedulerState {
    pub names: ResourceColumns,
    pub nodes: Vec<Option<NodeInfo>>,
    pub by_name: BTreeMap<String, Slot>,
    pub topology: TopologyValues,
    pub classes: Vec<ClassEntry>,
    class_ids: BTreeMap<String, ClassId>,
    counters: Vec<Counter>,
    counter_ids: BTreeMap<CountedPods, usize>,
    pub placed: BTreeMap<Key, PlacedPod>,
    /// Pods for which room is kept.
    pub nominated: Nominated,
    /// Classes with terms about other pods, which may speak of a newcomer.
    pub opinionated: Vec<ClassId>,
    pub namespace_labels: BTreeMap<String, Labels>,
    /// Number of volumes that each node can attach.
    volume_limits: BTreeMap<String, usize>,
    /// Raised with whatever may change an answer.
    pub version: u64,
}

impl TopologyValues {
    /// The index of a key, added when new (then nodes' domains must be worked out again).
    fn key(&mut self, key: &str) -> (usize, bool) {
        match self.0.get_index_of(key) {
            Some(index) => (index, false),
            None => (self.0.insert_full(key.to_owned(), IndexSet::new()).0, true),
        }
    }

    fn domains_of(&mut self, labels: &Labels) -> Vec<Option<usize>> {
        let index = |(key, values): (&String, &mut IndexSet<String>)| {
            labels.get(key).map(|v| values.get_index_of(v).unwrap_or_else(|| values.insert_full(v.clone()).0))
        };
        self.0.iter_mut().map(index).collect()
    }

    /// Number of values that a key has had.
    pub(crate) fn size(&self, key: usize) -> usize {
        self.0.get_index(key).map_or(0, |(_, values)| values.len())
    }
}

impl Default for SchedulerState {
    fn default() -> Self {
        Self {
            names: ResourceColumns::new(),
            nodes: Vec::new(),
            by_name: BTreeMap::new(),
            topology: TopologyValues::default(),
            classes: Vec::new(),
            class_ids: BTreeMap::new(),
            counters: Vec::new(),
            counter_ids: BTreeMap::new(),
            placed: BTreeMap::new(),
            nominated: Nominated::default(),
            opinionated: Vec::new(),
            namespace_labels: BTreeMap::new(),
            volume_limits: BTreeMap::new(),
            version: 1,
        }
    }
}

impl SchedulerState {
    /// The class for a key, compiled by `compile` when it is new.
    pub(crate) fn class(&mut self, key: String, compile: impl FnOnce(&mut ResourceColumns) -> PodClass) -> ClassId {
        if let Some(id) = self.class_ids.get(&key) {
            return *id;
        }
        let class = compile(&mut self.names);
        let id = self.classes.len();
        if !(class.affinity.is_empty() && class.anti_affinity.is_empty() && class.preferred_pods.is_empty()) {
            self.opinionated.push(id);
        }
        self.classes.push(ClassEntry {
            class: class.into(),
            by_slot: BTreeMap::new(),
            counters: Vec::new(),
            seen: 0,
            verdicts: Vec::new(),
            failed: None,
        });
        self.class_ids.insert(key, id);
        id
    }

    /// Takes a node over; answers its slot if scheduling can see a change.
    pub(crate) fn put_node(&mut self, name: &str, object: NodeObject) -> Option<Slot> {
        self.version += 1;
        let slot = match self.by_name.get(name) {
            Some(slot) => *slot,
            None => self.new_slot(name),
        };
        let (version, topology) = (self.version, &mut self.topology);
        let node = self.nodes[slot].as_mut()?;
        if !node.update(object, version, &mut self.names) {
            return None;
        }
        node.domains = topology.domains_of(&node.labels);
        Some(slot)
    }

    fn new_slot(&mut self, name: &str) -> Slot {
        let free = self.nodes.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.nodes.len());
        if free.is_none() {
            self.nodes.push(None);
            self.counters.iter_mut().for_each(|c| c.by_slot.push(0));
        }
        let volume_limit = self.volume_limits.get(name).copied();
        self.nodes[slot] = Some(NodeInfo { volume_limit, ..NodeInfo::new(name) });
        self.by_name.insert(name.to_owned(), slot);
        slot
    }

    /// Notes how many volumes a node can attach.
    pub(crate) fn limit_volumes(&mut self, name: &str, limit: Option<usize>) {
        match limit {
            Some(limit) => self.volume_limits.insert(name.to_owned(), limit),
            None => self.volume_limits.remove(name),
        };
        let node = self.by_name.get(name).and_then(|slot| self.nodes[*slot].as_mut());
        if let Some(node) = node {
            node.volume_limit = limit;
        }
        self.version += 1;
    }

    /// Forgets a node and every pod on it.
    pub(crate) fn drop_node(&mut self, name: &str) {
        let Some(slot) = self.by_name.get(name).copied() else { return };
        let pods: Vec<Key> = self.placed.iter().filter(|(_, p)| p.slot == slot).map(|(k, _)| k.clone()).collect();
        pods.iter().for_each(|pod| self.remove(pod));
        self.by_name.remove(name);
        self.nodes[slot] = None;
        self.version += 1;
    }

    /// Puts a pod on a node, or notes that a pod there has begun to go. Says whether anything changed.
    pub(crate) fn place(&mut self, pod: &Key, place: PlacedPod) -> bool {
        match self.placed.get(pod) {
            Some(old) if *old == place => return false,
            Some(_) => self.remove(pod),
            None => {}
        }
        self.count(place, 1);
        self.placed.insert(pod.clone(), place);
        self.version += 1;
        true
    }

    /// Takes a pod off its node.
    pub(crate) fn remove(&mut self, pod: &Key) {
        if let Some(place) = self.placed.remove(pod) {
            self.count(place, -1);
            self.version += 1;
        }
    }

    fn count(&mut self, place: PlacedPod, by: i32) {
        self.catch_up(place.class);
        let entry = &mut self.classes[place.class];
        adjust(entry.by_slot.entry(place.slot).or_insert(0), by);
        entry.by_slot.retain(|_, n| *n > 0);
        for counter in &entry.counters {
            let counter = &mut self.counters[*counter];
            if !(counter.what.skip_terminating && place.terminating) {
                adjust(&mut counter.by_slot[place.slot], by);
                counter.total = counter.total.saturating_add_signed(i64::from(by));
            }
        }
        let class = entry.class.clone();
        let Some(node) = &mut self.nodes[place.slot] else { return };
        node.count_pod(&class, by);
    }

    /// Asks the counters that the class has not met whether they count its pods.
    fn catch_up(&mut self, id: ClassId) {
        let entry = &mut self.classes[id];
        for (index, counter) in self.counters.iter().enumerate().skip(entry.seen) {
            if counter.what.means(&entry.class) {
                entry.counters.push(index);
            }
        }
        entry.seen = self.counters.len();
    }

    /// The index of the counter for what is to be counted; a new one is filled from where the pods are.
    pub(crate) fn counter(&mut self, what: CountedPods) -> usize {
        if let Some(index) = self.counter_ids.get(&what) {
            return *index;
        }
        let index = self.counters.len();
        let (mut by_slot, mut total) = (vec![0; self.nodes.len()], 0);
        for place in self.placed.values() {
            if what.means(&self.classes[place.class].class) && !(what.skip_terminating && place.terminating) {
                by_slot[place.slot] += 1;
                total += 1;
            }
        }
        self.counters.push(Counter { what: what.clone(), by_slot, total });
        self.counter_ids.insert(what, index);
        index
    }

    /// Pods counted on a node.
    pub(crate) fn counted(&self, counter: usize, slot: Slot) -> u32 {
        self.counters[counter].by_slot[slot]
    }

    /// Pods counted anywhere.
    pub(crate) fn counted_in_all(&self, counter: usize) -> u64 {
        self.counters[counter].total
    }

    /// The index of a topology key.
    pub(crate) fn topology_key(&mut self, key: &str) -> usize {
        let (index, new) = self.topology.key(key);
        if new {
            for node in self.nodes.iter_mut().flatten() {
                node.domains = self.topology.domains_of(&node.labels);
            }
        }
        index
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (Slot, &NodeInfo)> {
        self.nodes.iter().enumerate().filter_map(|(slot, node)| node.as_ref().map(|n| (slot, n)))
    }
}

impl NodeInfo {
    /// Adds (or takes off, with -1) what a pod of the class takes.
    fn count_pod(&mut self, class: &PodClass, by: i32) {
        let sign = i64::from(by);
        if by > 0 {
            self.used.add(&class.requests);
            self.ports.extend(class.host_ports.iter().cloned());
        } else {
            self.used.subtract(&class.requests);
            for port in &class.host_ports {
                if let Some(at) = self.ports.iter().position(|p| p == port) {
                    self.ports.swap_remove(at);
                }
            }
        }
        for (used, asked) in self.used_nonzero.iter_mut().zip(class.nonzero) {
            *used += sign * asked;
        }
        for claim in &class.claims {
            adjust(self.claims.entry((class.namespace.clone(), claim.clone())).or_insert(0), by);
        }
        self.claims.retain(|_, users| *users > 0);
    }
}

impl CountedPods {
    /// Pods that a spread constraint of a pod in `namespace` counts.
    pub(crate) fn spread(spread: &Spread, namespace: &str) -> Self {
        let namespaces = Namespaces::These([namespace.to_owned()].into());
        Self { terms: vec![(spread.selector.clone(), namespaces)], skip_terminating: true }
    }

    /// Pods of which all of these terms speak.
    pub(crate) fn terms(terms: &[PodTerm]) -> Self {
        let terms = terms.iter().map(|t| (t.selector.clone(), t.namespaces.clone())).collect();
        Self { terms, skip_terminating: false }
    }

    fn means(&self, class: &PodClass) -> bool {
        self.terms.iter().all(|(s, n)| n.contain(&class.namespace) && s.matches(&class.labels))
    }
}

fn adjust(count: &mut u32, by: i32) {
    *count = count.saturating_add_signed(by);
}
