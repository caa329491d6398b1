//! Everybody whom the actor under test speaks to: notes each message, and answers what a test has said.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_actors::leadership::messages::{Deposed, Elected};
use dovetail_actors::messages::{
    Batch, BookRoom, CameToNothing, CannotUse, ClaimChanged, ClaimGone, ClaimRefused, ClaimSoldOut, ClassChanged,
    ClosedPools, ClusterChanged, CommitmentsKnown, CountedCommitments, DevicesChanged, FreedReserved, FullSubnets,
    HoldClaims, HoldRoom, InstanceKnown, InstanceTypesFor, InstancesSeen, Interrupted, LaunchClaims, LaunchedOffering,
    LookUp, MarkDeleting, NodeChanged, NodeGone, NodeUnused, NotRead, NotRegistered, PackNow, PlanClaims, Planned,
    PodBound, PodGone, PodPending, PodSeen, PoolChanged, Record, Refused, Remove, ReservationTakenBack, Roll,
    TakeObserved, TakeSnapshot, TellNotSynced, TookReserved, WatchFailed, WatchRuns, WorldChanged, Wrote,
};
use dovetail_core::InstanceType;
use dovetail_core::cluster_state::{ClusterState, Snapshot};

type Types = BTreeMap<String, Arc<Vec<Arc<InstanceType>>>>;

/// Messages received, and the answers to queries. Clones share it.
#[derive(Clone, Default)]
pub struct Heard(Rc<RefCell<State>>);

struct State {
    all: Vec<(&'static str, Rc<dyn Any>)>,
    cluster: ClusterState,
    known: bool,
    shown: bool,
    types: Option<Types>,
    asked_types: Vec<InstanceTypesFor>,
    full_subnets: BTreeSet<String>,
    uncertain: bool,
    written: bool,
    snapshots: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            cluster: ClusterState::new(),
            known: true,
            shown: true,
            types: Some(Types::new()),
            asked_types: Vec::new(),
            full_subnets: BTreeSet::new(),
            uncertain: false,
            written: true,
            snapshots: 0,
        }
    }
}

impl Heard {
    /// All messages of a kind, in their order.
    pub fn all<M: 'static>(&self) -> Vec<Rc<M>> {
        let all = &self.0.borrow().all;
        all.iter().filter_map(|(_, message)| message.clone().downcast::<M>().ok()).collect()
    }

    /// Number of messages of a kind.
    pub fn count<M: 'static>(&self) -> usize {
        self.all::<M>().len()
    }

    /// The last one of a kind.
    pub fn last<M: 'static>(&self) -> Rc<M> {
        let name = std::any::type_name::<M>();
        self.all::<M>().pop().unwrap_or_else(|| panic!("no {name} was heard, but {:?}", self.names()))
    }

    /// The kinds of all messages, in their order.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.borrow().all.iter().map(|(name, _)| *name).collect()
    }

    /// Forgets the messages received so far.
    pub fn forget(&self) {
        self.0.borrow_mut().all.clear();
    }

    /// Changes the cluster that snapshots show.
    pub fn cluster<T>(&self, change: impl FnOnce(&mut ClusterState) -> T) -> T {
        change(&mut self.0.borrow_mut().cluster)
    }

    /// Sets if the cluster is known, and if the watches show it.
    pub fn knows(&self, known: bool, shown: bool) {
        let mut state = self.0.borrow_mut();
        (state.known, state.shown) = (known, shown);
    }

    /// Number of snapshots asked for.
    pub fn snapshots(&self) -> usize {
        self.0.borrow().snapshots
    }

    /// The instance types of classes; `None` while the catalogue has not been read.
    pub fn offers(&self, types: Option<Types>) {
        self.0.borrow_mut().types = types;
    }

    /// Queries for instance types, in their order.
    pub fn asked_types(&self) -> Vec<InstanceTypesFor> {
        self.0.borrow().asked_types.clone()
    }

    /// Subnets that have no address left.
    pub fn full_subnets(&self, ids: &[&str]) {
        self.0.borrow_mut().full_subnets = ids.iter().map(|id| (*id).to_owned()).collect();
    }

    /// True if there may be commitments that are not known.
    pub fn is_uncertain(&self, uncertain: bool) {
        self.0.borrow_mut().uncertain = uncertain;
    }

    /// Sets the answer to `Interrupted`: true if the end of an interrupted claim is written down.
    pub fn writes_ends(&self, written: bool) {
        self.0.borrow_mut().written = written;
    }

    fn note<M: 'static>(&self, message: M) {
        let name = std::any::type_name::<M>().rsplit("::").next().unwrap_or_default();
        self.0.borrow_mut().all.push((name, Rc::new(message)));
    }
}

/// Recipient of all messages to other actors.
pub struct Ear(Heard);

impl Ear {
    /// One that notes there.
    pub fn new(heard: Heard) -> Self {
        Self(heard)
    }
}

impl Actor for Ear {
    type Context = Context<Self>;
}

macro_rules! hears {
    ($($message:ty),* $(,)?) => {$(
        impl Handler<$message> for Ear {
            type Result = ();

            fn handle(&mut self, message: $message, _: &mut Self::Context) {
                self.0.note(message);
            }
        }
    )*};
}

hears!(
    Deposed,
    Elected,
    Batch,
    CameToNothing,
    CannotUse,
    ClaimChanged,
    ClaimGone,
    ClaimRefused,
    ClassChanged,
    ClosedPools,
    ClusterChanged,
    DevicesChanged,
    HoldClaims,
    BookRoom,
    HoldRoom,
    InstanceKnown,
    InstancesSeen,
    LaunchClaims,
    LaunchedOffering,
    LookUp,
    MarkDeleting,
    NodeChanged,
    NodeGone,
    NodeUnused,
    NotRead,
    NotRegistered,
    PackNow,
    Planned,
    PodBound,
    PodGone,
    PodPending,
    PodSeen,
    PoolChanged,
    Record,
    FreedReserved,
    Refused,
    Remove,
    ReservationTakenBack,
    Roll,
    ClaimSoldOut,
    TellNotSynced,
    TookReserved,
    WatchFailed,
    WatchRuns,
    WorldChanged,
    Wrote,
);

impl Handler<PlanClaims> for Ear {
    type Result = ();

    /// From then on snapshots show it, as the watcher's do.
    fn handle(&mut self, plan: PlanClaims, _: &mut Self::Context) {
        self.0.cluster(|state| {
            for (claim, capacity) in &plan.claims {
                state.plan_claim(claim.clone(), capacity.clone());
            }
            for (pods, target) in &plan.expected {
                state.nominate(pods.iter().map(String::as_str), target, Duration::from_secs(1_000_000_000));
            }
        });
        self.0.note(plan);
    }
}

impl Handler<TakeSnapshot> for Ear {
    type Result = Option<Snapshot>;

    fn handle(&mut self, _: TakeSnapshot, _: &mut Self::Context) -> Self::Result {
        let mut state = self.0.0.borrow_mut();
        state.snapshots += 1;
        state.known.then(|| state.cluster.snapshot())
    }
}

impl Handler<TakeObserved> for Ear {
    type Result = Option<Snapshot>;

    fn handle(&mut self, _: TakeObserved, _: &mut Self::Context) -> Self::Result {
        let mut state = self.0.0.borrow_mut();
        state.snapshots += 1;
        (state.known && state.shown).then(|| state.cluster.snapshot())
    }
}

impl Handler<InstanceTypesFor> for Ear {
    type Result = MessageResult<InstanceTypesFor>;

    fn handle(&mut self, asked: InstanceTypesFor, _: &mut Self::Context) -> Self::Result {
        let mut state = self.0.0.borrow_mut();
        state.asked_types.push(asked);
        MessageResult(state.types.clone())
    }
}

impl Handler<CommitmentsKnown> for Ear {
    type Result = Option<CountedCommitments>;

    fn handle(&mut self, _: CommitmentsKnown, _: &mut Self::Context) -> Self::Result {
        let are_certain = !self.0.0.borrow().uncertain;
        Some(CountedCommitments { all: Arc::default(), are_certain })
    }
}

impl Handler<FullSubnets> for Ear {
    type Result = MessageResult<FullSubnets>;

    fn handle(&mut self, _: FullSubnets, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.0.0.borrow().full_subnets.clone())
    }
}

impl Handler<Interrupted> for Ear {
    type Result = bool;

    fn handle(&mut self, interrupted: Interrupted, _: &mut Self::Context) -> Self::Result {
        self.0.note(interrupted);
        self.0.0.borrow().written
    }
}
