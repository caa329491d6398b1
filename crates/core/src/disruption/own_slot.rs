//! Terminate first: a node whose only place is its own instance of a capacity reservation, which is full. Nothing can be added
//! before it goes, so it is drained and ended, and its successor is ordered when EC2 counts the instance as free again.
//!
//! ```text
//! no place by packing ──► own_slot ──► ended first ──► its instance is gone ──► a successor is Initialized, its pods Ready ──► next
//!                            │ anything else fits, or may               └──► somebody else has the instance: said at the pool,
//!                            └──► it stays                                   and no other node of the pool is ended first
//! ```
//!
//! The pool's annotation `dovetail.dev/ended-first` names the node before it goes, so that a later leader knows of it too.
//!
//! A launch that failed never leads here: what EC2 refuses for now counts as a place. [`find_own_slot`] asks for a node,
//! whatever the reason for which it is to go; [`OwnSlots`] lets one node of a pool go at a time.

mod places;

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels::CAPACITY_RESERVATION_ID;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use self::places::is_usable;
pub(super) use self::places::{
    endless_drain, find_own_slot, full_reservations, is_wanted, movable, needs_slot, pods_of, reservation_of, stranded,
};
use super::look::{DisruptedClaim, Look, OffersByClass};
use crate::clock::later;
use crate::cluster_state::{ClaimEntry, PodEntry, Snapshot};
use crate::lifecycle::ClaimStage;

/// Time from an instance's end after which its place in the reservation counts as lost: EC2's count is read at once, and once
/// more ten seconds later.
const LOST_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// Time from an instance's end in which its pods show that they wait.
const SETTLED: SignedDuration = SignedDuration::from_secs(30);
/// Longest wait for a successor while an instance of the reservation is free, or until the pods on it are Ready: whatever waits
/// then waits for something else. The longest wait of repairs, too, where the instance is lost.
const AWAITED: SignedDuration = SignedDuration::from_secs(3600);
/// Time after which a node that was noted and has not been ordered away is not about to go.
const GIVEN_UP: SignedDuration = SignedDuration::from_secs(60);
/// Time until the next look while a successor is awaited.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// A node that is ended before its successor stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedFirst {
    pub disrupted: DisruptedClaim,
    /// Id of the capacity reservation that its successor comes from.
    pub reservation: String,
}

/// An instance of a reservation that a node has given up and somebody else has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSlot {
    /// The pool's name.
    pub pool: String,
    /// The pool's uid: another pool may have had the name before.
    pub uid: String,
    /// The Node that was ended.
    pub node: String,
    pub reservation: String,
    /// True if it has not been reported yet.
    pub news: bool,
}

/// A node that was ended first and whose successor does not stand yet.
#[derive(Clone, Debug)]
struct Ending {
    ended: EndedFirst,
    begun: Timestamp,
    /// Time since when its claim is gone.
    gone: Option<Timestamp>,
    /// Time since when an instance of the reservation is free.
    free: Option<Timestamp>,
    lost: bool,
    /// True once its removal has been ordered.
    ordered: bool,
}

/// The pool's annotation about it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    node: String,
    node_uid: String,
    claim: String,
    claim_uid: String,
    reservation: String,
    since: Timestamp,
}

/// Nodes that were ended first, by pool: one at a time.
#[derive(Clone, Debug, Default)]
pub struct OwnSlots {
    endings: BTreeMap<String, Ending>,
}

impl OwnSlots {
    /// Notes that a node is to be ended first.
    pub fn begin(&mut self, ended: &EndedFirst, now: Timestamp) {
        let known = self.endings.get(&ended.disrupted.pool);
        if known.is_none_or(|known| known.ended.disrupted.uid != ended.disrupted.uid) {
            let ending = Ending::new(ended.clone(), now);
            self.endings.insert(ended.disrupted.pool.clone(), ending);
        }
    }

    /// Notes that its removal is ordered; true if that is new.
    pub fn order(&mut self, pool: &str) -> bool {
        self.endings.get_mut(pool).is_some_and(|ending| !std::mem::replace(&mut ending.ordered, true))
    }

    /// The annotation of a pool with a node that is ended first.
    pub fn note(&self, pool: &str) -> Option<String> {
        let Ending { ended: EndedFirst { disrupted, reservation }, begun, .. } = self.endings.get(pool)?;
        let DisruptedClaim { claim, uid, node, node_uid, .. } = disrupted.clone();
        let note = Note { node, node_uid, claim, claim_uid: uid, reservation: reservation.clone(), since: *begun };
        serde_json::to_string(&note).ok()
    }

    /// Goes on with what an earlier term has noted at a pool. A claim that is there and stays was not ended after all.
    pub fn restore(&mut self, pool: &str, text: &str, snapshot: &Snapshot, now: Timestamp) {
        let Ok(Note { node, node_uid, claim, claim_uid: uid, reservation, since }) = serde_json::from_str(text) else {
            return;
        };
        let stays = |entry: &Arc<ClaimEntry>| entry.facts.uid == uid && !entry.facts.deleting;
        if snapshot.claims.get(&claim).is_some_and(stays) {
            return;
        }
        let disrupted = DisruptedClaim { claim, uid, pool: pool.to_owned(), node, node_uid, pods: 0 };
        let ending = Ending { ordered: true, ..Ending::new(EndedFirst { disrupted, reservation }, since.min(now)) };
        self.endings.insert(pool.to_owned(), ending);
    }

    /// Notes that a node stays after all.
    pub fn forget(&mut self, uid: &str) {
        self.endings.retain(|_, one| one.ended.disrupted.uid != uid);
    }

    /// The Node of a pool that was ended first and whose successor does not stand yet, but for this claim's.
    pub fn other_than(&self, pool: &str, uid: &str) -> Option<&str> {
        let ending = self.endings.get(pool).filter(|one| one.ended.disrupted.uid != uid);
        ending.map(|one| one.ended.disrupted.node.as_str())
    }

    /// The same for a repair, which does not wait longer than [`AWAITED`] from that node's end: the node and its reservation.
    pub fn before_repair(&self, pool: &str, uid: &str, now: Timestamp) -> Option<(&str, &str)> {
        let ending = self.endings.get(pool).filter(|one| one.ended.disrupted.uid != uid)?;
        let waits = ending.gone.is_none_or(|gone| now.duration_since(gone) < AWAITED);
        waits.then_some((ending.ended.disrupted.node.as_str(), ending.ended.reservation.as_str()))
    }

    /// Reservations, by id, of which an instance is kept for a successor.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.endings.values().map(|one| one.ended.reservation.as_str())
    }

    /// Goes on with what is under way; returns the places that are lost.
    fn follow(&mut self, snapshot: &Snapshot, offers: &OffersByClass, now: Timestamp) -> Vec<LostSlot> {
        let mut lost = Vec::new();
        self.endings.retain(|pool, ending| {
            let Some(of_pool) = snapshot.pools.get(pool) else { return false };
            // Something has come between the note and the order.
            if !ending.ordered && now.duration_since(ending.begun) >= GIVEN_UP {
                return false;
            }
            match ending.state(snapshot, offers, now) {
                State::Over => return false,
                State::UnderWay => {}
                State::Lost => {
                    let news = !std::mem::replace(&mut ending.lost, true);
                    let (node, reservation) = (ending.ended.disrupted.node.clone(), ending.ended.reservation.clone());
                    let uid = of_pool.metadata.uid.clone().unwrap_or_default();
                    lost.push(LostSlot { pool: pool.clone(), uid, node, reservation, news });
                }
            }
            true
        });
        lost
    }
}

enum State {
    UnderWay,
    /// A successor stands, or no pod waits for one.
    Over,
    /// Pods wait, and nothing is left of the reservation.
    Lost,
}

impl Ending {
    fn new(ended: EndedFirst, begun: Timestamp) -> Self {
        Self { ended, begun, gone: None, free: None, lost: false, ordered: false }
    }

    fn state(&mut self, snapshot: &Snapshot, offers: &OffersByClass, now: Timestamp) -> State {
        let DisruptedClaim { claim, uid, pool, .. } = &self.ended.disrupted;
        if snapshot.claims.get(claim).is_some_and(|entry| entry.facts.uid == *uid) {
            return State::UnderWay;
        }
        let gone = *self.gone.get_or_insert(now);
        let since = later(self.begun, -SignedDuration::from_secs(1));
        let is_successor = |entry: &&Arc<ClaimEntry>| {
            let facts = &entry.facts;
            facts.pool == *pool
                && facts.created.is_some_and(|created| created >= since)
                && is_in(entry, &self.ended.reservation)
        };
        let mut successors = snapshot.claims.values().filter(is_successor).peekable();
        let any = successors.peek().is_some();
        // Pods that waited before it went are not its own.
        let is_displaced =
            |pod: &Arc<PodEntry>| pod.waits_for_node() && pod.pod.created.is_none_or(|time| time >= since);
        let awaited = snapshot.unbound().any(is_displaced);
        if successors.any(|entry| serves(entry, snapshot, awaited)) {
            return State::Over;
        }
        let full = is_full(&self.ended.reservation, offers);
        self.free = if full { None } else { Some(self.free.unwrap_or(now)) };
        let waiting = any || awaited;
        match now.duration_since(gone) {
            passed if !waiting && passed >= SETTLED => State::Over,
            // Its successor is there, and something else keeps its pods from being Ready.
            passed if any && passed >= AWAITED => State::Over,
            _ if !any && self.free.is_some_and(|free| now.duration_since(free) >= AWAITED) => State::Over,
            passed if !any && full && passed >= LOST_AFTER => State::Lost,
            _ => State::UnderWay,
        }
    }
}

/// True if a claim has an instance of a reservation, or is to get one.
fn is_in(entry: &ClaimEntry, reservation: &str) -> bool {
    let own = entry.claim.metadata.labels.as_ref().and_then(|own| own.get(CAPACITY_RESERVATION_ID));
    let pins = entry.claim.spec.requirements.iter().filter(|one| one.key == CAPACITY_RESERVATION_ID);
    own.is_some_and(|own| own == reservation) || pins.flat_map(|pin| &pin.values).any(|id| id == reservation)
}

/// True if a claim's Node is ready for pods, and those on it are Ready. `awaited`: pods wait, so that some have to be there.
fn serves(entry: &ClaimEntry, snapshot: &Snapshot, awaited: bool) -> bool {
    let mut own = snapshot.loads.get(&entry.facts.node).into_iter().flat_map(|load| movable(load)).peekable();
    let any = own.peek().is_some() || !awaited;
    entry.facts.stage == Some(ClaimStage::Initialized) && any && own.all(|pod| pod.ready)
}

/// True if nothing is left of a reservation by EC2's last count.
fn is_full(reservation: &str, offers: &OffersByClass) -> bool {
    let all = offers.values().flat_map(|types| types.iter()).flat_map(|one| &one.offerings);
    let mut own = all.filter(|one| one.reservation() == Some(reservation) && is_usable(one));
    own.all(|one| one.reservation_capacity == Some(0))
}

/// Goes on with nodes that were ended first.
pub(super) fn follow_ended_first(look: &mut Look<'_>) {
    let lost = look.memory.own_slots.follow(look.snapshot, look.offers, look.now);
    look.out.drift.lost.extend(lost);
    if look.memory.own_slots.kept().next().is_some() {
        look.look_again(Some(later(look.now, AGAIN)));
    }
}
