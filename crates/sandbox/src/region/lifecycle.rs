//! Changes of instances that happen by themselves, and their log.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::config::ACCOUNT;
use super::instance::{CapacityType, InstanceEvent, InstanceState};
use super::state::Due;
use super::{Cx, Region, RegionError, ec2_itself, services::interruption};

/// From the launch to `running`.
const BOOT: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(9));
/// From `shutting-down` to `terminated`.
const SHUTDOWN: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(45));
/// Time for which EC2 describes terminated instances.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Reason for an instance's end, as EC2 words it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndReason {
    /// `stateReason.code`.
    pub code: &'static str,
    /// `stateReason.message`.
    pub message: &'static str,
}

/// Somebody called TerminateInstances.
pub(crate) const BY_USER: EndReason = EndReason {
    code: "Client.UserInitiatedShutdown",
    message: "Client.UserInitiatedShutdown: User initiated shutdown",
};
/// EC2 takes spot capacity back.
const BY_SPOT: EndReason = EndReason {
    code: "Server.SpotInstanceTermination",
    message: "Server.SpotInstanceTermination: Spot instance termination",
};
/// A capacity block is about to end.
const BY_BLOCK: EndReason = EndReason {
    code: "Server.ScheduledStop",
    message: "Server.ScheduledStop: The Capacity Block that the instance runs in is about to end",
};

impl Region {
    /// Announces to a spot instance that EC2 takes it back after `notice` (EC2 gives two minutes): the warning goes
    /// into the queue at once, after a rebalance recommendation if `recommend`; the end comes by itself.
    ///
    /// # Errors
    /// When the instance is not there, already going, or not a spot instance.
    pub fn interrupt(&self, id: &str, notice: Duration, recommend: bool) -> Result<(), RegionError> {
        self.with(|cx| {
            let instance = cx.state.instances.get_mut(id).filter(|i| i.state.is_alive());
            let instance = instance.ok_or_else(|| RegionError::NoSuchInstance(id.to_owned()))?;
            if instance.capacity_type != CapacityType::Spot {
                return Err(RegionError::NotSpot(id.to_owned()));
            }
            let at = cx.now + notice;
            instance.interrupted_at = Some(at);
            if recommend {
                interruption::announce(cx, id, interruption::REBALANCE, json!({"instance-id": id}));
            }
            let detail = json!({"instance-id": id, "instance-action": "terminate"});
            interruption::announce(cx, id, interruption::SPOT_WARNING, detail);
            cx.state.plan(at, Due::Reclaimed(id.to_owned()));
            cx.log_instance(id, "interrupted", &[("noticeSeconds", Value::from(notice.as_secs_f64()))]);
            Ok(())
        })
    }

    /// Recommends to rebalance a spot instance, without an interruption.
    ///
    /// # Errors
    /// When the instance is not there or already going.
    pub fn recommend_rebalance(&self, id: &str) -> Result<(), RegionError> {
        self.with(|cx| {
            let alive = cx.state.instances.get(id).is_some_and(|i| i.state.is_alive());
            if alive {
                interruption::announce(cx, id, interruption::REBALANCE, json!({"instance-id": id}));
            }
            alive.then_some(()).ok_or_else(|| RegionError::NoSuchInstance(id.to_owned()))
        })
    }

    /// Puts a text into the cluster's interruption queue, as whoever may write to it could.
    pub fn deliver(&self, body: &str) {
        self.with(|cx| interruption::deliver(cx, body));
    }

    /// Terminates an instance as somebody at the console would.
    ///
    /// # Errors
    /// When the instance is not there or already going.
    pub fn terminate(&self, id: &str) -> Result<(), RegionError> {
        self.with(|cx| {
            let alive = cx.state.instances.get(id).is_some_and(|i| i.state.is_alive());
            if alive {
                cx.shut_down(id, BY_USER);
            }
            alive.then_some(()).ok_or_else(|| RegionError::NoSuchInstance(id.to_owned()))
        })
    }

    /// Reboots an instance as somebody at the console would.
    ///
    /// # Errors
    /// When the instance is not there or does not run.
    pub fn reboot(&self, id: &str) -> Result<(), RegionError> {
        self.with(|cx| {
            let runs = cx.state.instances.get(id).is_some_and(|i| i.state == InstanceState::Running);
            if runs {
                cx.reboot(id);
            }
            runs.then_some(()).ok_or_else(|| RegionError::NoSuchInstance(id.to_owned()))
        })
    }

    /// Others of the account want that many instances of a capacity reservation: they get each that is free, now or later.
    pub fn take_reserved(&self, id: &str, count: u32) {
        self.with(|cx| _ = cx.state.reserved_by_others.insert(id.to_owned(), count));
    }

    /// The account gives a capacity reservation another number of instances; 0 cancels it. What runs in it runs on.
    pub fn resize_reserved(&self, id: &str, count: u32) {
        self.with(|cx| _ = cx.state.resized_reservations.insert(id.to_owned(), count));
    }

    /// Takes a zone down or brings it back, for launches and (through [`crate::faults::FaultsInForce::zone_is_down`])
    /// kubelets.
    pub fn set_zone_down(&self, zone: &str, down: bool) {
        self.faults().set_zone_down(zone, down);
        self.with(|cx| match down {
            true => drop(cx.state.zones_down_since.insert(zone.to_owned(), cx.wall)),
            false => drop(cx.state.zones_down_since.remove(zone)),
        });
        let state = if down { "down" } else { "up" };
        let fields = [("zone", Value::from(zone)), ("state", Value::from(state))];
        self.shared.log.append("zone", &ec2_itself(), fields);
    }

    /// Shifts the cluster away from a zone of it for so long, or as AWS does without saying for how long; a zone of which it has no
    /// subnet is left as it is.
    pub fn shift_zone(&self, zone: &str, lasts: Option<std::time::Duration>) {
        self.with(|cx| {
            let Some(id) = cx.zone_id(zone) else { return };
            let lasts = lasts.map(|lasts| jiff::SignedDuration::try_from(lasts).unwrap_or(jiff::SignedDuration::MAX));
            let until = lasts.map(|lasts| cx.wall.saturating_add(lasts).unwrap_or(jiff::Timestamp::MAX));
            cx.state.shifts.insert(id, until);
        });
    }

    /// Ends the shift away from a zone, if there is one.
    pub fn end_shift(&self, zone: &str) {
        self.with(|cx| {
            if let Some(id) = cx.zone_id(zone) {
                cx.state.shifts.remove(&id);
            }
        });
    }
}

impl Cx<'_> {
    /// Id of a zone in which the cluster has a subnet.
    fn zone_id(&self, zone: &str) -> Option<String> {
        self.state.network.subnets.values().find(|subnet| subnet.zone == zone).map(|subnet| subnet.zone_id.clone())
    }
}

impl Cx<'_> {
    /// Lets happen what is due, each at its own time: what follows from it is planned from then on.
    pub fn settle(&mut self) {
        let (now, wall) = (self.now, self.wall);
        while let Some((at, due)) = self.state.next_due(now) {
            let ago = SignedDuration::try_from(now.saturating_sub(at)).unwrap_or(SignedDuration::ZERO);
            self.now = at;
            self.wall = wall.saturating_sub(ago).unwrap_or(wall);
            self.happen(due);
        }
        (self.now, self.wall) = (now, wall);
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Runs(id) => self.come_up(&id),
            Due::Terminates(id) => self.terminated(&id),
            Due::Forgotten(id) => {
                if let Some(instance) = self.state.instances.remove(&id) {
                    self.state.forgotten.insert(id, instance);
                }
            }
            Due::Reclaimed(id) => self.reclaim(&id, BY_SPOT),
            Due::BlockEnds(id) => self.reclaim(&id, BY_BLOCK),
            Due::Tagged(resource, key, value) => self.apply_tag(&resource, &key, value),
        }
    }

    /// Plans the boot of an instance that was just launched, and tells of it.
    pub fn launched(&mut self, id: &str) {
        let boot = self.state.delay(BOOT.0, BOOT.1);
        self.state.plan(self.now + boot, Due::Runs(id.to_owned()));
        self.tell_state(id);
    }

    /// Brings a pending instance up.
    pub fn come_up(&mut self, id: &str) {
        if self.state.instances.get(id).is_some_and(|i| i.state == InstanceState::Pending) {
            self.enter(id, InstanceState::Running);
        }
    }

    fn reclaim(&mut self, id: &str, reason: EndReason) {
        if self.state.instances.get(id).is_some_and(|i| i.state.is_alive()) {
            self.shut_down(id, reason);
        }
    }

    /// Starts an instance's end.
    pub fn shut_down(&mut self, id: &str, reason: EndReason) {
        if let Some(instance) = self.state.instances.get_mut(id) {
            instance.state_reason = Some(reason);
        }
        self.enter(id, InstanceState::ShuttingDown);
        let takes = self.state.delay(SHUTDOWN.0, SHUTDOWN.1);
        self.state.plan(self.now + takes, Due::Terminates(id.to_owned()));
    }

    fn terminated(&mut self, id: &str) {
        self.enter(id, InstanceState::Terminated);
        let Some(instance) = self.state.instances.get(id) else { return };
        if let Some(subnet) = self.state.network.subnets.get_mut(&instance.subnet_id) {
            subnet.give_back(instance.private_ip);
        }
        self.state.plan(self.now + REMEMBERED, Due::Forgotten(id.to_owned()));
    }

    /// Restarts an instance's machine: it keeps its id, its address and its state.
    pub fn reboot(&mut self, id: &str) {
        let Some(state) = self.state.instances.get(id).map(|instance| instance.state) else { return };
        self.log_instance(id, "rebooted", &[]);
        self.state.publish(&InstanceEvent { id: id.to_owned(), state, rebooted: true });
    }

    fn enter(&mut self, id: &str, state: InstanceState) {
        if let Some(instance) = self.state.instances.get_mut(id) {
            instance.state = state;
            if !state.is_alive() && instance.ended.is_none() {
                instance.ended = Some(self.wall);
            }
            self.tell_state(id);
        }
    }

    /// Tells log, subscribers and the interruption queue of an instance's present state.
    fn tell_state(&mut self, id: &str) {
        let Some(instance) = self.state.instances.get(id) else { return };
        let state = instance.state;
        self.log_instance(id, state.name(), &[]);
        self.state.publish(&InstanceEvent { id: id.to_owned(), state, rebooted: false });
        let detail = json!({"instance-id": id, "state": state.name()});
        interruption::announce(self, id, interruption::STATE_CHANGE, detail);
    }

    /// Writes a change of an instance into the event log.
    pub fn log_instance(&self, id: &str, state: &str, more: &[(&'static str, Value)]) {
        let Some(i) = self.state.instances.get(id) else { return };
        let mut fields = vec![
            ("id", Value::from(id)),
            ("change", Value::from(state)),
            ("instanceType", Value::from(&*i.instance_type)),
            ("zone", Value::from(&*i.zone)),
            ("capacityType", Value::from(i.capacity_name())),
            ("pricePerHour", Value::from(i.price)),
            ("hostname", Value::from(&*i.hostname)),
            ("beforehand", Value::from(i.beforehand)),
            ("synthetic", Value::from(i.capacity_type == CapacityType::Spot)),
            ("token", i.client_token.clone().map_or(Value::Null, Value::from)),
        ];
        if let Some(id) = &i.capacity_reservation {
            fields.push(("reservation", Value::from(id.as_str())));
        }
        if let Some(reason) = i.state_reason {
            fields.push(("reason", Value::from(reason.code)));
        }
        fields.extend(more.iter().cloned());
        self.log.append("instance", &ec2_itself(), fields);
    }

    /// The ARN of something of EC2's in this account and region.
    pub fn arn(&self, kind: &str, id: &str) -> String {
        format!("arn:{}:ec2:{}:{ACCOUNT}:{kind}/{id}", self.config.partition(), self.config.region)
    }
}
