//! Places for chunks: on nodes that are there or on their way, after all real pods; new nodes for the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use dovetail_api::names::annotations::LAUNCHED_FOR_ROOM;
use dovetail_api::v1::NodeClaim;

use super::demand::{Buffer, CHUNK_NAME};
use crate::cluster_state::{HeldRoom, NominationTarget, Planning, PlanningInput, Snapshot, take_in};
use crate::explain;
use crate::instance_type::Offering;
use crate::labels;
use crate::pack::{Packing, PlannedClaim};
use crate::pod::Pod;
use crate::problem::Problem;
use crate::resources::{CPU, MEMORY, Resources};

/// Most buffers that a claim's annotation names.
const MOST_NAMED: usize = 50;

/// Chunks of one buffer, by their places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunksNow {
    /// Number on nodes that are ready for pods.
    pub ready: usize,
    /// Number on nodes that are on their way.
    pub coming: usize,
    /// Number on nodes that are planned now.
    pub new: usize,
    /// Number of those that have no place.
    pub left_over: usize,
    /// The reason of the first that has none.
    pub why: Option<String>,
    /// Dollars an hour of the room: of each node the larger of the chunks' shares of CPU and memory.
    pub dollars: f64,
    /// Nodes and claims that hold some.
    pub on: BTreeSet<NominationTarget>,
}

/// A node that is planned for chunks alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewRoom {
    /// Its index among the packing's claims.
    pub claim: usize,
    pub chunks: Vec<Arc<Pod>>,
    /// Numbers of chunks by namespace and name of their buffers.
    pub buffers: BTreeMap<String, usize>,
}

/// The places of all chunks.
#[derive(Clone, Debug, Default)]
pub struct BufferPlan {
    /// Chunks by the node or claim that they are on.
    pub places: HeldRoom,
    /// By namespace and name of the buffer.
    pub buffers: BTreeMap<String, ChunksNow>,
    pub new: Vec<NewRoom>,
}

/// A problem with chunks after all pods.
#[derive(Clone, Debug, Default)]
pub struct ChunkProblem {
    pub planning: Planning,
    /// Namespace and name of each buffer.
    keys: Vec<String>,
    /// The index of the first chunk among the problem's pods.
    first: usize,
    /// The buffer of each chunk.
    owners: Vec<usize>,
    kept: Vec<KeptChunk>,
}

/// A chunk that has its place on a node on its way, and is not packed.
#[derive(Clone, Debug)]
struct KeptChunk {
    /// Index of the node among the problem's existing ones.
    node: usize,
    buffer: usize,
    chunk: Arc<Pod>,
}

/// The problem of all chunks, with the real pods that wait: these come first. Chunks for which a node is on its way are not
/// packed again: its labels may not be known yet. `paused` is true for a buffer, by its key, for which no node is launched now.
#[must_use]
pub fn plan_chunks(
    snapshot: &Snapshot,
    input: &PlanningInput,
    buffers: &[Buffer],
    paused: impl Fn(&str) -> bool,
) -> ChunkProblem {
    let waiting = snapshot.pending(input.now);
    let mut planning = snapshot.planning_for(&PlanningInput { only: None, ..input.clone() }, &waiting);
    let mut problem = Arc::unwrap_or_clone(std::mem::take(&mut planning.problem));
    let (mut kept, mut numbers) = (Vec::new(), vec![0; buffers.len()]);
    for (node, joined) in planning.existing.iter().enumerate().filter(|(_, joined)| !joined.initialized) {
        let Some(claim) = joined.claim_name().and_then(|name| snapshot.claims.get(name)) else { continue };
        let existing = &mut problem.existing_nodes[node];
        for (key, count) in promised_room(&claim.claim) {
            let Some(buffer) = buffers.iter().position(|one| one.key() == key) else { continue };
            for _ in 0..count.min(buffers[buffer].wanted() - numbers[buffer]) {
                let chunk = buffers[buffer].chunk(numbers[buffer]);
                if !take_in(existing, &chunk) {
                    break;
                }
                numbers[buffer] += 1;
                kept.push(KeptChunk { node, buffer, chunk: Arc::new(chunk) });
            }
        }
    }
    planning.problem = Arc::new(problem);
    let rest = |buffer: usize| numbers[buffer]..buffers[buffer].wanted();
    ChunkProblem { kept, ..pack_rest(planning, buffers, rest, paused) }
}

/// Adds all chunks to a problem.
#[must_use]
pub fn with_chunks(planning: Planning, buffers: &[Buffer]) -> ChunkProblem {
    pack_rest(planning, buffers, |buffer| 0..buffers[buffer].wanted(), |_| false)
}

fn pack_rest(
    mut planning: Planning,
    buffers: &[Buffer],
    numbers: impl Fn(usize) -> Range<usize>,
    paused: impl Fn(&str) -> bool,
) -> ChunkProblem {
    let mut problem = Arc::unwrap_or_clone(std::mem::take(&mut planning.problem));
    let (first, mut owners) = (problem.pods.len(), Vec::new());
    for (at, buffer) in buffers.iter().enumerate() {
        let existing_only = paused(&buffer.key());
        problem.pods.extend(numbers(at).map(|nth| Pod { existing_only, ..buffer.chunk(nth) }));
        owners.extend(std::iter::repeat_n(at, numbers(at).len()));
    }
    planning.problem = Arc::new(problem);
    ChunkProblem { planning, keys: buffers.iter().map(Buffer::key).collect(), first, owners, kept: Vec::new() }
}

/// Room for which a claim was launched: numbers of chunks by namespace and name of their buffers.
#[must_use]
pub fn promised_room(claim: &NodeClaim) -> BTreeMap<String, usize> {
    let written = claim.metadata.annotations.as_ref().and_then(|own| own.get(LAUNCHED_FOR_ROOM));
    let each = written.into_iter().flat_map(|text| text.split(',')).filter_map(|one| one.split_once('='));
    each.filter_map(|(key, number)| Some((key.to_owned(), number.parse().ok()?))).take(MOST_NAMED).collect()
}

/// The text by which [`promised_room`] knows the chunks among pods; `None` if there are none.
#[must_use]
pub fn write_room<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<String> {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for chunk in pods.into_iter().filter(|pod| pod.is_room()) {
        let name = chunk.name.strip_prefix(CHUNK_NAME).and_then(|rest| rest.rsplit_once('-'));
        let Some((name, _)) = name else { continue };
        *all.entry(format!("{}/{name}", chunk.namespace)).or_default() += 1;
    }
    let each = all.iter().take(MOST_NAMED).map(|(key, number)| format!("{key}={number}"));
    (!all.is_empty()).then(|| each.collect::<Vec<_>>().join(","))
}

impl ChunkProblem {
    /// The buffer of a pod of the problem, if it is a chunk.
    fn owner(&self, pod: usize) -> Option<&String> {
        self.keys.get(*self.owners.get(pod.checked_sub(self.first)?)?)
    }

    /// True if real pods wait with the chunks.
    #[must_use]
    pub fn pods_wait(&self) -> bool {
        self.first > 0
    }

    /// True if there is no chunk to be packed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}

impl BufferPlan {
    /// Reads the places of chunks off a packing.
    #[must_use]
    pub fn from_packing(buffers: &[Buffer], asked: &ChunkProblem, packing: &Packing) -> Self {
        let problem = &asked.planning.problem;
        let counts = buffers.iter().map(|buffer| (buffer.key(), ChunksNow::default())).collect();
        let mut plan = Self { buffers: counts, ..Self::default() };
        for one in &asked.kept {
            plan.take_existing(asked, one.node, &asked.keys[one.buffer], &one.chunk);
        }
        for (node, pods) in &packing.on_existing {
            for pod in pods {
                let Some(key) = asked.owner(*pod) else { continue };
                plan.take_existing(asked, *node, key, &Arc::new(problem.pods[*pod].clone()));
            }
        }
        for (at, claim) in packing.claims.iter().enumerate() {
            plan.take_new(asked, at, claim);
        }
        for (pod, reason) in &packing.unscheduled {
            let Some(now) = asked.owner(*pod).and_then(|key| plan.buffers.get_mut(key)) else { continue };
            now.left_over += 1;
            now.why.get_or_insert_with(|| explain::why_not(&problem.pods[*pod], reason, &asked.planning));
        }
        plan
    }

    fn take_existing(&mut self, asked: &ChunkProblem, node: usize, key: &str, chunk: &Arc<Pod>) {
        let problem = &asked.planning.problem;
        let (existing, Some(now)) = (&problem.existing_nodes[node], self.buffers.get_mut(key)) else { return };
        *(if existing.initialized { &mut now.ready } else { &mut now.coming }) += 1;
        now.dollars += price_of(problem, node) * share(chunk, &existing.allocatable);
        if let Some(target) = asked.planning.existing.get(node).map(|joined| joined.target()) {
            now.on.insert(target.clone());
            self.places.entry(target).or_default().push(chunk.clone());
        }
    }

    /// Takes in a claim. One that has real pods as well is the packer's, which plans it itself: its chunks are on their way.
    fn take_new(&mut self, asked: &ChunkProblem, at: usize, claim: &PlannedClaim) {
        let problem = &asked.planning.problem;
        let alone = claim.pods.iter().all(|pod| asked.owner(*pod).is_some());
        let kind = claim.cheapest_type().and_then(|at| problem.instance_types.get(at));
        let room = kind.map(|kind| kind.allocatable());
        let mut new = NewRoom { claim: at, ..NewRoom::default() };
        for pod in &claim.pods {
            let Some(key) = asked.owner(*pod) else { continue };
            let Some(now) = self.buffers.get_mut(key) else { continue };
            *(if alone { &mut now.new } else { &mut now.coming }) += 1;
            let chunk = &problem.pods[*pod];
            now.dollars += claim.price * room.as_ref().map_or(0.0, |room| share(chunk, room));
            *new.buffers.entry(key.clone()).or_default() += 1;
            new.chunks.push(Arc::new(chunk.clone()));
        }
        if alone && !new.chunks.is_empty() {
            self.new.push(new);
        }
    }
}

/// The larger of a pod's shares of CPU and memory.
fn share(pod: &Pod, allocatable: &Resources) -> f64 {
    let part = |name: &str| pod.requests.get(name) as f64 / allocatable.get(name).max(1) as f64;
    part(CPU).max(part(MEMORY)).clamp(0.0, 1.0)
}

/// Dollars an hour of an existing node, 0 where they are not known.
fn price_of(problem: &Problem, node: usize) -> f64 {
    let label = |key: &str| problem.existing_nodes[node].labels.get(key).map(String::as_str).unwrap_or_default();
    let own = problem.instance_types.iter().find(|one| one.name == label(labels::INSTANCE_TYPE));
    let bought = own.and_then(|own| own.offering(label(labels::ZONE), label(labels::CAPACITY_TYPE)));
    bought.map_or(0.0, Offering::billed_price).max(0.0)
}
