//! Steps about replicas of the control plane: killed, paused, cut off, slowed.

use std::rc::Rc;
use std::time::Duration;

use dovetail_input::Failure;
use dovetail_sandbox::faults::{Direction, Service};

use super::super::replica::Replica;
use super::super::{Broken, World};
use super::{ReplicaRef, later};
use crate::world::kinds::resource;

impl World {
    pub(super) fn kill(self: &Rc<Self>, which: ReplicaRef, duration: Option<Duration>) -> Result<(), Failure> {
        let replica = self.find(which)?;
        replica.process().kill();
        let world = self.clone();
        later(duration, move || {
            // The same settings have started it before.
            let _ = world.start_replica(&replica);
        });
        Ok(())
    }

    pub(super) fn pause(&self, which: ReplicaRef, duration: Option<Duration>) -> Result<(), Failure> {
        let replica = self.find(which)?;
        replica.process().pause();
        let clock_sleeps = self.config.broken == Some(Broken::NoDeadline);
        later(duration, move || {
            if let Some(time) = duration.filter(|_| clock_sleeps) {
                replica.sleeps(time);
            }
            replica.process().resume();
        });
        Ok(())
    }

    pub(super) fn partition(
        &self,
        which: ReplicaRef,
        from: &[Service],
        direction: Direction,
        duration: Option<Duration>,
    ) -> Result<(), Failure> {
        let number = self.find(which)?.number();
        self.faults.partition(number, from, direction);
        let (faults, from) = (self.faults.clone(), from.to_vec());
        later(duration, move || faults.heal(number, &from));
        Ok(())
    }

    pub(super) fn hold_writes(
        &self,
        which: ReplicaRef,
        by: Duration,
        duration: Option<Duration>,
    ) -> Result<(), Failure> {
        let number = self.find(which)?.number();
        self.faults.hold_writes(number, by, duration);
        Ok(())
    }

    pub(in crate::world) fn find(&self, which: ReplicaRef) -> Result<Rc<Replica>, Failure> {
        let number = match which {
            ReplicaRef::Number(number) => number,
            ReplicaRef::Leader => self.leader(),
        };
        let found = self.replicas.iter().find(|replica| replica.number() == number);
        found.cloned().ok_or_else(|| Failure::System(format!("there is no replica {number}")))
    }

    /// The replica that holds the Lease now, or else the first that lives.
    pub(super) fn leader(&self) -> u32 {
        let lease = self.api.get(&resource("Lease"), "kube-system", "karpenter-leader-election");
        let holder = lease.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        let by_lease =
            self.replicas.iter().find(|replica| holder.is_some_and(|holder| holder.starts_with(&replica.identity())));
        let alive = || self.replicas.iter().find(|replica| replica.process().alive());
        by_lease.or_else(alive).map_or(0, |replica| replica.number())
    }
}
