//! Addresses of actors by what they take. They lie below all actors: who sends a message knows the message and not the
//! actor, so that no two actors' folders import each other. [`crate::wiring`] makes them of the actors' own addresses.
//!
//! What an actor takes of a watcher's listeners is not here: `Attach` and `AttachPods` carry recipients of one message.

use std::rc::Rc;

use actix::dev::RecipientRequest;
use actix::prelude::*;

use crate::context::mailbox::Mailbox;
use crate::messages::{
    BookRoom, CameToNothing, ClaimRefused, ClaimSoldOut, ClosedPools, CommitmentsKnown, FreedReserved, FullSubnets,
    HoldClaims, HoldRoom, InstanceKnown, InstanceTypesFor, InstancesSeen, Interrupted, LaunchClaims, LaunchedOffering,
    LookUp, MarkDeleting, NotRead, NotRegistered, PackNow, PlanClaims, Planned, PodSeen, Record, Refused, Remove,
    ReservationTakenBack, Roll, TakeObserved, TakeSnapshot, TellNotSynced, TookReserved, WatchFailed, WatchRuns, Wrote,
};

/// An address of whatever takes the messages of `T`.
pub struct Link<T: ?Sized>(Rc<T>);

impl<T: ?Sized> Clone for Link<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> Link<T> {
    /// Sends a message; what it comes to is the answer, or that the actor has ended.
    pub fn send<M>(&self, message: M) -> RecipientRequest<M>
    where
        T: Mailbox<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        self.0.ask(message)
    }
}

impl<M, T> Mailbox<M> for Link<T>
where
    T: Mailbox<M> + ?Sized,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn offer(&self, message: M) -> Result<(), SendError<M>> {
        self.0.offer(message)
    }

    fn force(&self, message: M) {
        self.0.force(message);
    }

    fn ask(&self, message: M) -> RecipientRequest<M> {
        self.0.ask(message)
    }
}

/// A link, by what goes over it.
macro_rules! link {
    ($(#[$doc:meta])* $name:ident = $takes:ident: $($message:ident),+) => {
        /// Takes what goes over the link of that name.
        pub trait $takes: $(Mailbox<$message> +)+ {}

        impl<T: $(Mailbox<$message> +)+> $takes for T {}

        $(#[$doc])*
        pub type $name = Link<dyn $takes>;

        impl<A: Actor> From<Addr<A>> for $name
        where
            Addr<A>: $takes,
        {
            fn from(actor: Addr<A>) -> Self {
                Self(Rc::new(actor))
            }
        }
    };
}

link! {
    /// For snapshots, read-your-writes, and what is to be remembered of the cluster.
    ToClusterWatcher = TakesOfCluster: ClaimRefused, ClosedPools, HoldClaims, HoldRoom, BookRoom, MarkDeleting, NotRead, PlanClaims, PodSeen, Roll, ClaimSoldOut, TakeObserved,
        TakeSnapshot, TellNotSynced, WatchFailed, WatchRuns, Wrote
}
link! {
    /// For instance types, and what of them is refused or taken.
    ToCatalogue = TakesOfOffers: CommitmentsKnown, FreedReserved, FullSubnets, InstanceTypesFor, LaunchedOffering, Refused, ReservationTakenBack, TookReserved
}
link! {
    /// For pods that need a place.
    ToPacker = TakesOfPlaces: PackNow
}
link! {
    /// For nodes to be launched.
    ToLauncher = TakesOfLaunches: CameToNothing, LaunchClaims, NotRegistered
}
link! {
    /// For what is planned where.
    ToRegistrar = TakesOfPlans: Planned
}
link! {
    /// For nodes that are to go.
    ToTerminator = TakesOfEnds: Interrupted, Remove
}
link! {
    /// For whose an instance is.
    ToOwner = TakesOfInstances: InstanceKnown, LookUp
}
link! {
    /// For Kubernetes events.
    ToRecorder = TakesOfEvents: Record
}
link! {
    /// For what the instances of a region are like.
    ToDisruptor = TakesOfSeen: InstancesSeen
}
