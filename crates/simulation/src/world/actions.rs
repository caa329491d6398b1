//! Actions of a scenario's steps on the world.

mod replicas;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use dovetail_api::names::labels;
use dovetail_input::{Failure, Mistake};
use dovetail_sandbox::apiserver::{ApiServer, DeleteOptions};
use dovetail_sandbox::faults::{Direction, Service, glob_matches};
use dovetail_sandbox::log::Caller;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::kinds::{CLUSTER_WIDE, resource};
use super::{Odd, World, logged, objects};

/// Something that happens to the world, as a step of a scenario; the event log has it in this form too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// A workload gets another number of replicas.
    Scale {
        /// Deployment, ReplicaSet or StatefulSet.
        kind: String,
        /// `metadata.namespace` of the workload.
        namespace: String,
        /// `metadata.name` of the workload.
        name: String,
        /// Replicas that it has from then on.
        replicas: u32,
    },
    /// Running pods get other requests.
    Resize {
        /// A glob of their names.
        names: String,
        /// Requests of their first container.
        requests: BTreeMap<String, String>,
    },
    /// An object is deleted, as `kubectl delete` does.
    Delete {
        /// One of [`DELETABLE`](super::kinds::DELETABLE).
        kind: String,
        /// Its namespace, where it has one.
        namespace: String,
        /// `metadata.name` of the object.
        name: String,
    },
    /// Some objects of a kind are deleted, the first by name.
    DeleteSome {
        /// One of [`DELETABLE`](super::kinds::DELETABLE).
        kind: String,
        /// Most that are deleted; all without it.
        count: Option<usize>,
    },
    Apply {
        /// Manifest files or folders.
        files: Vec<String>,
    },
    /// A share of the running spot instances gets its warning.
    InterruptSpot {
        /// 0 to 1, rounded up.
        share: f64,
    },
    /// A node's spot instance gets its warning.
    InterruptNode {
        /// Name of the Node, which is its instance's hostname.
        node: String,
    },
    /// The instances of a spot pool get their warning, those that are being started among them.
    InterruptPool {
        /// Instance type and zone, `m5.large/us-east-1a`.
        pool: String,
        /// Time for which nothing is launched in the pool.
        #[serde(with = "logged::seconds")]
        duration: Duration,
    },
    /// A text comes into the interruption queue.
    Message {
        /// The text; `{instance}` stands for the first running spot instance.
        body: String,
    },
    Kill {
        replica: ReplicaRef,
        /// Restarted after that, or never.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
    },
    /// A replica stands still.
    Pause {
        replica: ReplicaRef,
        /// Time for which it lasts; none for ever.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
    },
    /// A replica is cut off.
    Partition {
        /// The replica that is cut off.
        replica: ReplicaRef,
        /// Services that it is cut off from.
        from: Vec<Service>,
        direction: Direction,
        /// Time for which it lasts; none for ever.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
    },
    /// The API server loses objects without a trace.
    Lose {
        kind: String,
        /// Most that are lost; all without it.
        count: Option<usize>,
    },
    /// Objects of a kind become odd: replicas cannot read them.
    Spoil {
        /// One of [`super::SPOILABLE`].
        kind: String,
        /// A glob of their names.
        names: String,
        /// Most that are spoilt, the first by name; all without it.
        count: Option<usize>,
        /// Oddity that they get.
        odd: Odd,
        /// Time for which it lasts; none for ever.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
    },
    /// Nodes of ours have a condition that is False.
    Unwell {
        /// The condition's type, `Ready`.
        condition: String,
        /// Most nodes that become unwell, the first by name; all without it.
        count: Option<usize>,
        /// Number of nodes, the first by name, that are left out.
        #[serde(default, skip_serializing_if = "logged::is_zero")]
        skip: usize,
        /// Time for which it lasts; none for ever.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
        /// The condition's reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// True if it ends when the node's machine restarts.
        #[serde(rename = "untilReboot", default, skip_serializing_if = "std::ops::Not::not")]
        until_reboot: bool,
    },
    /// EC2 lists no instances.
    EmptyLists {
        /// Time for which it lasts; none for ever.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
    },
    /// Instances of another cluster appear under this cluster's name.
    ForeignInstances {
        /// Instances that appear.
        count: u32,
    },
    /// The operator releases the brakes of the collection.
    AllowCollection {
        /// Time for which they are released.
        #[serde(with = "logged::seconds")]
        duration: Duration,
    },
    /// An operator looks after the collection, and releases its brakes where something waits for that.
    LookAfterCollection {
        /// Time for which they are released.
        #[serde(with = "logged::seconds")]
        duration: Duration,
    },
    /// The API server restarts: it refuses everybody, and every watch ends.
    Restart {
        /// Time for which it is down.
        #[serde(with = "logged::seconds")]
        duration: Duration,
    },
    /// Changes reach watches late.
    SlowWatches {
        /// Delay of each change.
        #[serde(with = "logged::seconds")]
        by: Duration,
        /// Time for which it lasts; none for ever.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
    },
    /// Holds a replica's writes on their way to the API server.
    HoldWrites {
        replica: ReplicaRef,
        /// Delay of each write.
        #[serde(with = "logged::seconds")]
        by: Duration,
        /// Time for which it lasts; none for ever.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
    },
    /// Somebody backs up what the API server has stored.
    Snapshot,
    /// The API server is put back to an older state, and is down meanwhile.
    Restore {
        /// Time at which that state was backed up.
        #[serde(with = "logged::seconds")]
        of: Duration,
        /// Time for which it is down.
        #[serde(with = "logged::seconds")]
        duration: Duration,
    },
    /// Others of the account want instances of a capacity reservation; they get each that is free.
    TakeReserved { id: String, count: u32 },
    /// The account gives a capacity reservation another number of instances; 0 cancels it.
    ResizeReserved { id: String, count: u32 },
    /// Others of the account run so many instances of a type in a zone from now on, on demand.
    Others {
        #[serde(rename = "instanceType")]
        instance_type: String,
        zone: String,
        count: u32,
    },
    ZoneDown {
        zone: String,
        /// Time for which it lasts; none for ever.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
    },
    /// The cluster is shifted away from a zone, and EKS cordons its nodes meanwhile.
    ZonalShift {
        zone: String,
        /// Time for which it lasts; none for an autoshift that AWS does not end.
        #[serde(with = "logged::perhaps_seconds")]
        duration: Option<Duration>,
    },
}

/// A replica, as a step names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplicaRef {
    /// By number, from 0.
    Number(u32),
    /// Whoever leads then, or else the next to.
    Leader,
}

impl World {
    /// Does it. What the world itself refuses (an object that is not there) comes back as a line for the operator.
    pub fn act(
        self: &Rc<Self>,
        action: &Action,
        read: &dyn Fn(&[String]) -> Result<Vec<dovetail_api::manifest::Manifest>, Vec<Mistake>>,
    ) -> Result<(), Failure> {
        self.log.append("step", &Caller::named("operator"), [("action", json!(action))]);
        self.timeline.step(&action.to_string());
        match action {
            Action::Scale { kind, namespace, name, replicas } => {
                let patch = json!({"spec": {"replicas": replicas}});
                let namespace = if CLUSTER_WIDE.contains(&kind.as_str()) { "" } else { namespace };
                self.report(self.api.patch(&resource(kind), namespace, name, &patch).map(drop), kind, name)?;
            }
            Action::Resize { names, requests } => self.resize(names, requests)?,
            Action::Delete { kind, namespace, name } => {
                let namespace = if CLUSTER_WIDE.contains(&kind.as_str()) { "" } else { namespace };
                let deleted = self.api.delete(&resource(kind), namespace, name, &DeleteOptions::default());
                self.report(deleted.map(drop), kind, name)?;
            }
            Action::DeleteSome { kind, count } => {
                for (name, namespace) in self.first_by_name(kind, *count) {
                    self.act(&Action::Delete { kind: kind.clone(), namespace, name }, read)?;
                }
            }
            Action::Apply { files } => self.apply(&read(files)?)?,
            Action::InterruptSpot { share } => self.interrupt_share(*share)?,
            Action::InterruptNode { node } => self.interrupt_node(node)?,
            Action::InterruptPool { pool, duration } => self.interrupt_pool(pool, *duration)?,
            Action::Message { body } => {
                let instance = self.running_spot().into_iter().next().unwrap_or_default();
                self.region.deliver(&body.replace("{instance}", &instance));
            }
            Action::Kill { replica, duration } => self.kill(*replica, *duration)?,
            Action::Pause { replica, duration } => self.pause(*replica, *duration)?,
            Action::Partition { replica, from, direction, duration } => {
                self.partition(*replica, from, *direction, *duration)?;
            }
            Action::Lose { kind, count } => self.lose(kind, *count),
            Action::Spoil { kind, names, count, odd, duration } => self.spoil(kind, names, *count, *odd, *duration),
            Action::Unwell { condition, count, skip, duration, reason, until_reboot } => {
                let reason = reason.as_deref().unwrap_or("Reported");
                self.unwell((condition, reason, *until_reboot), *skip, *count, *duration);
            }
            Action::EmptyLists { duration } => self.empty_lists(*duration),
            Action::ForeignInstances { count } => self.foreign_instances(*count)?,
            Action::AllowCollection { duration } => self.allow_collection(*duration)?,
            Action::LookAfterCollection { duration } if self.collection_waits() => {
                self.act(&Action::AllowCollection { duration: *duration }, read)?;
            }
            Action::LookAfterCollection { .. } => {}
            Action::Restart { duration } => self.restart(*duration),
            Action::SlowWatches { by, duration } => self.slow_watches(*by, *duration),
            Action::HoldWrites { replica, by, duration } => self.hold_writes(*replica, *by, *duration)?,
            Action::Snapshot => self.snapshots.borrow_mut().push((self.now(), self.api.snapshot())),
            Action::Restore { of, duration } => self.restore(*of, *duration)?,
            Action::TakeReserved { id, count } => self.region.take_reserved(id, *count),
            Action::ResizeReserved { id, count } => self.region.resize_reserved(id, *count),
            Action::Others { instance_type, zone, count } => self.others(instance_type, zone, *count)?,
            Action::ZoneDown { zone, duration } => self.zone_down(zone, *duration),
            Action::ZonalShift { zone, duration } => self.shift_zone(zone, *duration),
        }
        Ok(())
    }

    /// Gives pods other requests.
    fn resize(&self, names: &str, requests: &BTreeMap<String, String>) -> Result<(), Failure> {
        for (name, namespace) in self.first_by_name("Pod", None) {
            if glob_matches(names, &name) {
                self.report(self.api.resize_pod(&namespace, &name, &json!(requests)).map(drop), "Pod", &name)?;
            }
        }
        Ok(())
    }

    /// Names and namespaces of so many objects of a kind, the first by name.
    fn first_by_name(&self, kind: &str, count: Option<usize>) -> Vec<(String, String)> {
        let text =
            |object: &serde_json::Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let all = self.api.list(&resource(kind));
        let mut names: Vec<_> = all.iter().map(|one| (text(one, "name"), text(one, "namespace"))).collect();
        names.sort();
        names.truncate(count.unwrap_or(usize::MAX));
        names
    }

    fn zone_down(&self, zone: &str, duration: Option<Duration>) {
        self.region.set_zone_down(zone, true);
        let (region, zone) = (self.region.clone(), zone.to_owned());
        later(duration, move || region.set_zone_down(&zone, false));
    }

    fn shift_zone(&self, zone: &str, duration: Option<Duration>) {
        self.region.shift_zone(zone, duration);
        set_cordons(&self.api, zone, true);
        let (api, region, zone) = (self.api.clone(), self.region.clone(), zone.to_owned());
        later(duration, move || {
            region.end_shift(&zone);
            set_cordons(&api, &zone, false);
        });
    }

    /// Applies manifests; what of them the API server does not serve is named on standard error.
    pub fn apply(&self, manifests: &[dovetail_api::manifest::Manifest]) -> Result<(), Vec<Mistake>> {
        objects::apply(&self.api, manifests, self.config.alpha_as_written)?
            .lines()
            .iter()
            .for_each(|line| eprintln!("{line}"));
        Ok(())
    }

    fn report(
        &self,
        result: Result<(), dovetail_sandbox::apiserver::ApiError>,
        kind: &str,
        name: &str,
    ) -> Result<(), Failure> {
        result.map_err(|why| Failure::System(format!("{kind} {name}: {why}")))
    }
}

/// Does something after a time, or never.
/// Cordons the Nodes of a zone, or takes the cordons off, as EKS does while the cluster is shifted away from it.
fn set_cordons(api: &ApiServer, zone: &str, cordoned: bool) {
    let nodes = resource("Node");
    for node in api.list(&nodes) {
        if node["metadata"]["labels"][labels::ZONE] == *zone {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            // A Node that has gone meanwhile needs none.
            drop(api.patch(&nodes, "", name, &json!({"spec": {"unschedulable": cordoned}})));
        }
    }
}

pub(super) fn later(duration: Option<Duration>, then: impl FnOnce() + 'static) {
    if let Some(duration) = duration {
        tokio::task::spawn_local(async move {
            tokio::time::sleep(duration).await;
            then();
        });
    }
}
