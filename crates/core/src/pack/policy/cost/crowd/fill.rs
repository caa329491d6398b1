//! Filling one node with pods, large ones first, so that all that it has runs out together.

use smallvec::SmallVec;

use super::super::Aims;
use super::super::candidates::{TypeCandidate, TypeCandidates};
use super::OpenTypes;
use super::bundles::{Bundles, differs_by_pod};
use super::meant::{Meant, Whose};
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::BundleId;
use crate::pack::model::item::Item;
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::numbers::{count_of_amount, float, rounded_down, scaled};
use crate::pack::model::options::varied_enough;
use crate::pack::place::planned_node::PlannedNode;

/// The parts of a node that are tried where the whole leaves it too few types to choose from.
const PARTS: [f64; 12] = [1.0, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2];

/// Pods of one class are taken as many at a time as fill this part of a node.
const AT_A_TIME: f64 = 0.125;

/// Largest number of pods that do not fit which are passed over in looking for one of a bundle that does.
const MOST_PASSED: usize = 48;

/// Exponent of a pod's size in its score: below 1 larger pods win over smaller ones of the same proportion.
const PROPORTION_COUNTS: f64 = 0.8;

/// Number of looks at pods that are one step of work.
const LOOKS_A_STEP: usize = 16;

/// A node with pods, and what these are worth.
#[derive(Debug)]
pub(super) struct Filled {
    pub planned: PlannedNode,
    pub value: f64,
    taken: Vec<Taken>,
}

/// Pods of an entry that a filling took.
#[derive(Debug, Clone, Copy)]
struct Taken {
    entry: usize,
    bundle: BundleId,
    count: u32,
}

/// Amounts up to which a candidate may be filled so that a node which may be spot keeps enough types to choose from.
pub(super) fn varied_room(
    context: &Context<'_>,
    kind: NodeKind,
    candidate: &TypeCandidate,
    aims: Aims,
    bundles: &Bundles<'_>,
) -> Amounts {
    let room = context.room(kind, candidate.at);
    let whole = Amounts::from_slice(room);
    let offering_bits = candidate.offering_bits;
    // Only types on which all bundles may be that may be on this one: whatever fills it, the node may become any of
    // these.
    let Some(alike) = bundles.types_like(candidate.at).filter(|_| aims.varied) else { return whole };
    let mut alike = alike;
    alike.and(&context.bought(offering_bits).types);
    // Even an empty node has too few types to choose from: then nothing is lost by filling it.
    if !varied_enough(context, &alike, offering_bits) {
        return whole;
    }
    for part in PARTS {
        // A resource of which others have much less is not what this type is for.
        let asked: Amounts =
            room.iter().enumerate().map(|(at, have)| if at == 2 { 0 } else { scaled(*have, part) }).collect();
        let mut types = alike.clone();
        context.fitting(kind, &asked, &mut types);
        if varied_enough(context, &types, offering_bits) {
            return room.iter().map(|have| scaled(*have, part)).collect();
        }
    }
    whole
}

/// A node that is being filled.
struct Filling {
    filled: Filled,
    /// Amounts that it has left, and those that it had.
    room: Amounts,
    whole: Amounts,
    cursors: Vec<Cursor>,
    whose: Whose,
    /// Number of looks at pods for which no step has been spent yet.
    looks: usize,
}

/// Place in a bundle from which its next pod is looked for.
struct Cursor {
    bundle: BundleId,
    /// Its place among the bundle's entries; those before it fit no more.
    at: usize,
    /// The entry last looked at, and its parts of the node.
    known: Option<(usize, Fit)>,
}

/// Parts of a whole node that one pod takes, by resource, and the size that counts against it.
struct Fit {
    parts: SmallVec<[f64; 4]>,
    size: f64,
}

impl Fit {
    fn for_requests(requests: &Amounts, whole: &Amounts) -> Self {
        let part = |(at, (asked, whole)): (usize, (&i64, &i64))| {
            if differs_by_pod(at) && *whole > 0 && *asked > 0 { float(*asked) / float(*whole) } else { 0.0 }
        };
        let parts: SmallVec<[f64; 4]> = requests.iter().zip(whole).enumerate().map(part).collect();
        let size = parts.iter().sum::<f64>().max(f64::MIN_POSITIVE).powf(PROPORTION_COUNTS);
        Self { parts, size }
    }

    /// Score of the pod for the parts of the node that are left: high for much of what is plentiful, and for large pods.
    fn score(&self, left: &[f64]) -> f64 {
        self.parts.iter().zip(left).map(|(part, left)| part * left).sum::<f64>() / self.size
    }
}

/// Fills nodes, and keeps count of the pods that are left.
pub(super) struct BundleFiller<'f, 'c, 'a> {
    context: &'c Context<'a>,
    kind: NodeKind,
    open: &'f Bits,
    candidates: &'f TypeCandidates,
    rooms: &'f [Amounts],
    items: Vec<Item<'c>>,
    bundles: Bundles<'c>,
}

impl<'f, 'c, 'a> BundleFiller<'f, 'c, 'a> {
    pub fn new(
        context: &'c Context<'a>,
        open: OpenTypes<'f>,
        candidates: &'f TypeCandidates,
        rooms: &'f [Amounts],
        items: &[Item<'c>],
        bundles: Bundles<'c>,
    ) -> Self {
        let items = bundles.entries.iter().map(|entry| items[entry.item].clone()).collect();
        Self { context, kind: open.kind, open: open.types, candidates, rooms, items, bundles }
    }

    /// Numbers of pods of each item that have got a node.
    pub fn taken(&self) -> impl Iterator<Item = (usize, u32)> {
        self.bundles.entries.iter().map(|entry| (entry.item, entry.count - entry.left))
    }

    /// A node of a candidate's size with pods, of those meant for it first; none if it would have none.
    pub fn fill(&mut self, candidate: usize, mut meant: Option<&mut Meant>) -> Option<Filled> {
        // The part that was computed from amounts may still leave too few types. 0 stands for a single pod, which
        // is always right.
        for part in [1.0, 0.75, 0.5, 0.25, 0.0] {
            let room = self.rooms[candidate].iter().map(|have| scaled(*have, part)).collect();
            let before = meant.as_deref().cloned();
            let filled = self.filled(candidate, room, part == 0.0, meant.as_deref_mut());
            let one = matches!(filled.taken.as_slice(), [Taken { count: 1, .. }]);
            // Nothing fits into the whole, so nothing fits into less.
            if filled.taken.is_empty() && part == 1.0 {
                return None;
            }
            let varied = || varied_enough(self.context, &filled.planned.types, filled.planned.offering_bits);
            if !filled.taken.is_empty()
                && (one || !self.candidates.aims.varied || varied() || !self.may_be_varied(&filled))
            {
                return Some(filled);
            }
            self.put_back(filled);
            // The parts meant for it are restored.
            if let (Some(meant), Some(before)) = (meant.as_deref_mut(), before) {
                *meant = before;
            }
        }
        None
    }

    /// True if its pods have enough types to choose from one by one.
    fn may_be_varied(&self, filled: &Filled) -> bool {
        let planned = &filled.planned;
        let mut types = self.open.clone();
        let mut largest = self.context.nothing();
        for Taken { entry, .. } in &filled.taken {
            types.and(&self.items[*entry].selection.types);
            largest
                .iter_mut()
                .zip(self.bundles.entries[*entry].requests)
                .for_each(|(most, asked)| *most = (*most).max(*asked));
        }
        types.and(&self.context.bought(planned.offering_bits).types);
        self.context.fitting(self.kind, &largest, &mut types);
        varied_enough(self.context, &types, planned.offering_bits)
    }

    fn filled(&mut self, candidate: usize, mut room: Amounts, one: bool, mut meant: Option<&mut Meant>) -> Filled {
        let whole = Amounts::from_slice(&self.rooms[candidate]);
        if one {
            room.clone_from(&whole);
        }
        let planned = PlannedNode::new(self.context, self.kind.pool, self.open.clone());
        let filled = Filled { planned, value: 0.0, taken: vec![] };
        let shapes = &self.candidates.all[candidate].shapes;
        let bundles = shapes.iter().map(|shape| BundleId::of_shape(*shape));
        let some = bundles.filter(|bundle| !self.bundles.all[*bundle].entries.is_empty());
        let cursors = some.map(|bundle| Cursor { bundle, at: 0, known: None }).collect();
        // Nodes of the program take what is meant for them before they take what is not.
        let whose = if meant.is_some() { Whose::ItsCrowded } else { Whose::Anybodys };
        let mut filling = Filling { filled, room, whole, cursors, whose, looks: 0 };
        while let Some(nth) = self.choose(&mut filling, meant.as_deref()) {
            if self.put(&mut filling, nth, one, meant.as_deref_mut()) && one {
                break;
            }
        }
        filling.filled
    }

    /// The cursor whose next pod is put in, among those of the current turn. `None` when no pod fits, or the work is spent.
    fn choose(&self, filling: &mut Filling, meant: Option<&Meant>) -> Option<usize> {
        loop {
            let best = self.best(filling, meant);
            if filling.looks >= LOOKS_A_STEP {
                if !self.context.work(filling.looks / LOOKS_A_STEP) {
                    return None;
                }
                filling.looks %= LOOKS_A_STEP;
            }
            if best.is_some() {
                return best;
            }
            // Nobody whose turn it is has a pod that fits: the turn of others comes.
            filling.whose = filling.whose.next()?;
        }
    }

    /// The cursor whose next pod goes best with what the node has left.
    fn best(&self, filling: &mut Filling, meant: Option<&Meant>) -> Option<usize> {
        let Filling { room, whole, cursors, whose, looks, .. } = filling;
        let mut best: Option<(f64, usize)> = None;
        let left_of = |(have, whole): (&i64, &i64)| if *whole > 0 { float(*have) / float(*whole) } else { 0.0 };
        let parts_left: SmallVec<[f64; 4]> = room.iter().zip(&*whole).map(left_of).collect();
        for (nth, cursor) in cursors.iter_mut().enumerate() {
            let crowded = self.bundles.all[cursor.bundle].most.is_some();
            let left = meant.map_or(1.0, |meant| meant.left(*whose, cursor.bundle, crowded));
            if left <= 0.0 {
                continue;
            }
            *looks += 1;
            let Some(entry) = next(&self.bundles, cursor, room, looks) else { continue };
            // Parts of the whole node stay the same while the node fills, so they are computed once.
            if cursor.known.as_ref().is_none_or(|(known, _)| *known != entry) {
                cursor.known = Some((entry, Fit::for_requests(self.bundles.entries[entry].requests, whole)));
            }
            let score = cursor.known.as_ref().map_or(0.0, |(_, fit)| fit.score(&parts_left));
            // The first of equals: cursors come in the order of bundles.
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, nth));
            }
        }
        best.map(|(_, nth)| nth)
    }

    /// Puts pods of a cursor's entry on the node, no more than are meant for it; true if any was put.
    fn put(&mut self, filling: &mut Filling, nth: usize, one: bool, meant: Option<&mut Meant>) -> bool {
        let Filling { filled, room, whole, cursors, whose, .. } = filling;
        let cursor = &mut cursors[nth];
        let bundle = cursor.bundle;
        let entry = self.bundles.all[bundle].entries[cursor.at];
        let crowded = self.bundles.all[bundle].most.is_some();
        let left = meant.as_ref().map_or(f64::INFINITY, |meant| meant.left(*whose, bundle, crowded));
        // The part that one pod is of its bundle. If a tenth of the bundle is left for this node, and a pod is a fortieth of
        // it, four are taken.
        let each = self.bundles.entries[entry].weight / self.bundles.all[bundle].weight;
        let most = if one { 1 } else { rounded_down((left / each).ceil()).max(1) };
        let taken = self.fill_from(entry, most, filled, room, whole);
        if taken == 0 {
            cursor.at += 1;
            return false;
        }
        let own = &mut self.bundles.entries[entry];
        own.left -= taken;
        let part = each * f64::from(taken);
        filled.value += self.bundles.all[bundle].value * part;
        if let Some(meant) = meant {
            meant.node[bundle] -= part;
            meant.all[bundle] -= part;
        }
        room.iter_mut().zip(own.requests).for_each(|(have, asked)| *have -= asked * i64::from(taken));
        filled.taken.push(Taken { entry, bundle, count: taken });
        // A crowded pod may be no more on this node: the next look is at another workload.
        if own.left == 0 || (crowded && own.cap <= taken) {
            cursor.at += 1;
        }
        true
    }

    /// Puts pods of an entry on a node, an eighth of the node at a time; returns their number.
    fn fill_from(&self, entry: usize, most: u32, filled: &mut Filled, room: &Amounts, whole: &Amounts) -> u32 {
        let own = &self.bundles.entries[entry];
        let mut count = i64::from(own.left.min(most));
        let mut at_a_time = count;
        for ((asked, have), whole) in own.requests.iter().zip(room).zip(whole).filter(|((asked, _), _)| **asked > 0) {
            count = count.min(have / asked);
            // An eighth of the node at a time: after that another bundle may go better with what is left.
            at_a_time = at_a_time.min(scaled(*whole, AT_A_TIME) / asked);
        }
        let mut count = count_of_amount(count.min(at_a_time.max(1)));
        let there: u32 = filled.taken.iter().filter(|one| one.entry == entry).map(|one| one.count).sum();
        count = count.min(own.half.saturating_sub(there));
        let item = &self.items[entry];
        count = filled.planned.tally.allows(self.context.node_rules(item.class), count);
        filled.planned.add_most(self.context, item, count)
    }

    /// Undoes a filling: its pods are left again.
    pub fn put_back(&mut self, filled: Filled) {
        filled.taken.into_iter().for_each(|one| self.bundles.entries[one.entry].left += one.count);
    }

    /// Accepts a filling; returns its node.
    pub fn accept(&mut self, filled: Filled) -> PlannedNode {
        let mut touched: SmallVec<[BundleId; 16]> = SmallVec::new();
        for Taken { entry, bundle, .. } in &filled.taken {
            // Entries of crowded bundles are ordered by the nodes that they need, which each filling changes.
            let changed = self.bundles.entries[*entry].left == 0 || self.bundles.all[*bundle].most.is_some();
            if changed && !touched.contains(bundle) {
                touched.push(*bundle);
            }
        }
        for at in touched {
            let Bundles { entries, all } = &mut self.bundles;
            all[at].order(entries);
        }
        filled.planned
    }
}

/// The next entry of a bundle that has pods and fits.
fn next(bundles: &Bundles<'_>, cursor: &mut Cursor, room: &Amounts, looks: &mut usize) -> Option<usize> {
    let bundle = &bundles.all[cursor.bundle];
    let mut passed = 0;
    while let Some(at) = bundle.entries.get(cursor.at) {
        *looks += 1;
        let entry = &bundles.entries[*at];
        if entry.left > 0 && entry.requests.iter().zip(room).all(|(asked, have)| asked <= have) {
            return Some(*at);
        }
        // No pod that weighs more than this can fit.
        let most = bundle.least.iter().zip(room).filter(|(least, _)| **least > 0.0);
        let most = most.map(|(least, have)| float(*have) / least).fold(f64::INFINITY, f64::min) * (1.0 + 1e-9);
        cursor.at += 1;
        let rest = &bundle.entries[cursor.at..];
        if entry.weight > most && bundle.most.is_none() {
            cursor.at += rest.partition_point(|at| bundles.entries[*at].weight > most);
            continue;
        }
        passed += 1;
        if passed > MOST_PASSED {
            cursor.at = bundle.entries.len();
        }
    }
    None
}
