//! Messages between actors. Each says whether it is a fact, an order or a query: an order's name is an
//! imperative, a fact's name says what is or what has happened. A message that starts or continues work carries its
//! trace and, where a leader says it, the term; one of an older term is dropped. [`crate::wiring`] has who sends what to whom.

mod catalogue;
mod cluster;
mod events;
mod held;
mod instances;
mod launch;
mod ownership;
mod packing;
mod pods;
mod removal;
mod states;
mod trace;

pub use catalogue::{
    CatalogueAttach, CommitmentsKnown, CountedCommitments, FreedReserved, FullSubnets, InstanceTypesFor,
    LaunchedOffering, Refused, ReservationTakenBack, TookReserved, ZonesShifted,
};
pub use cluster::{
    Attach, Came, CannotUse, ClaimChanged, ClaimGone, ClaimSoldOut, ClassChanged, ClusterChanged, Detach,
    DevicesChanged, Forget, NodeChanged, NodeGone, NodeUnused, NotRead, PlanClaims, PodSeen, PoolChanged, TakeObserved,
    TakeSnapshot, TellNotSynced, WatchFailed, WatchRuns, Wrote,
};
pub use events::{Record, RecordedEvent, reference};
pub use held::{
    BookRoom, BufferState, BuffersState, DeletionCostsState, GangsState, HoldRoom, OverlaysState, QuotaState,
    QuotasState, RequestState, StaticPoolState, StaticPoolsState,
};
pub use instances::InstancesSeen;
pub use launch::{CameToNothing, ClosedPools, LaunchClaims, LaunchFails, LaunchOrder, NotRegistered};
pub use ownership::{ClaimRefused, InstanceKnown, LookUp};
pub use packing::{Batch, PackNow, Planned, WorldChanged};
pub use pods::{AttachPods, PODS, PodBound, PodGone, PodPending, WaitingPod};
pub use removal::{ClaimRef, DisruptionFacts, HoldClaims, Interrupted, MarkDeleting, Remove, Roll};
pub use states::{
    ActorState, BatcherState, CatalogueState, ClusterWatcherState, ControlPlaneState, Counts, DisruptorState,
    InterruptionState, JanitorState, LauncherState, LeaderState, NodeClassState, Observe, OwnerState, PackerState,
    PodWatcherState, RecorderState, RegistrarState, ReplicaState, TerminatorState, TranslatorState, UnclaimedInstances,
    UnreadableObject, WatchFailing, WebhookState,
};
pub use trace::TraceContext;

use serde::Serialize;

/// The leader's term: `leaseTransitions` of the Lease. 0 is no term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Term(pub u64);
