//! Meaning of a scenario's steps.

use std::time::Duration;

use dovetail_api::manifest::MAX_PODS;
use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_core::resources::parse_amount;
use dovetail_sandbox::faults::{Direction, Service};
use serde_saphyr::Spanned;

use super::check::{Checker, MOST_NODES};
use crate::scenario::{self, Step, duration};
use crate::world::{Action, Odd, ReplicaRef, SPOILABLE};

/// Kinds that a restored API server may have lost.
const LOSABLE: &[&str] = &["NodeClaim", "Node", "NodePool", "EC2NodeClass", "Lease"];

/// Conditions that the agent for node health of EKS reports.
const CONDITIONS: &[&str] =
    &["AcceleratedHardwareReady", "StorageReady", "NetworkingReady", "KernelReady", "ContainerRuntimeReady"];

/// Something that happens at a time.
#[derive(Debug)]
pub struct Timed {
    /// Time of the step, since time 0.
    pub at: Duration,
    /// Action that is carried out then.
    pub action: Action,
    pub step: usize,
}

impl Checker<'_> {
    pub(super) fn steps(&mut self, steps: &[Step], until: Duration, catalogue: Option<&RegionCatalogue>) -> Vec<Timed> {
        let mut before = Duration::ZERO;
        let mut checked = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let field = format!("steps[{index}]");
            if let Some(at) = self.collect(duration(self.path, &format!("{field}.at"), &step.at)) {
                if at < before {
                    let what =
                        format!("{} is in the past: the step before is at {}s", step.at.value, before.as_secs_f64());
                    self.mistake(format!("{field}.at"), &step.at, what, "steps in the order of their times");
                } else if at > until {
                    let what = format!("{} comes after the end of the run", step.at.value);
                    self.mistake(format!("{field}.at"), &step.at, what, "a time before `until`");
                }
                before = before.max(at);
                let restored = step.restore.as_ref().map(|restore| self.restore(&field, restore, at));
                let own = self.action(&field, step, catalogue).map(|action| (at, action));
                let all = own.into_iter().chain(restored.into_iter().flatten());
                checked.extend(all.map(|(at, action)| Timed { at, action, step: index }));
            }
        }
        // A state that is restored is backed up before; at one time, after all else that happens then.
        checked.sort_by_key(|one| one.at);
        checked
    }

    /// A restored state: when it is backed up, and when it is put back.
    fn restore(&mut self, field: &str, restore: &scenario::Restore, at: Duration) -> Vec<(Duration, Action)> {
        let age = self.collect(duration(self.path, &format!("{field}.restore.age"), &restore.age));
        let down = self.collect(duration(self.path, &format!("{field}.restore.for"), &restore.duration));
        let (Some(age), Some(down)) = (age, down) else { return Vec::new() };
        match at.checked_sub(age) {
            Some(of) if !age.is_zero() => vec![(of, Action::Snapshot), (at, Action::Restore { of, duration: down })],
            _ => {
                let what =
                    format!("{} before {}s is no moment of the run before it", restore.age.value, at.as_secs_f64());
                self.mistake(format!("{field}.restore.age"), &restore.age, what, "more than 0, not more than `at`");
                Vec::new()
            }
        }
    }

    fn action(&mut self, field: &str, step: &Step, catalogue: Option<&RegionCatalogue>) -> Option<Action> {
        let mut found = Vec::new();
        let before = self.mistakes.len();
        if let Some(scale) = &step.scale {
            found.push(self.scale(field, scale));
        }
        if let Some(resize) = &step.resize {
            found.push(self.resize(field, resize));
        }
        if let Some(target) = &step.delete {
            found.push(self.delete(field, target));
        }
        if let Some(some) = &step.delete_some {
            self.kind(field, "deleteSome", &some.kind, crate::world::DELETABLE);
            self.some(&format!("{field}.deleteSome.count"), &some.kind, some.count);
            found.push(Action::DeleteSome { kind: some.kind.value.clone(), count: some.count });
        }
        if let Some(files) = &step.apply {
            found.push(self.apply(field, step, files));
        }
        if let Some(which) = &step.interrupt {
            found.extend(self.interrupt(field, step, which, catalogue));
        }
        if let Some(body) = &step.message {
            found.push(Action::Message { body: body.clone() });
        }
        if let Some(outage) = &step.kill {
            let field = format!("{field}.kill");
            let (replica, duration) = self.outage(&field, &outage.replica, outage.duration.as_ref())?;
            found.push(Action::Kill { replica, duration });
        }
        if let Some(outage) = &step.pause {
            let field = format!("{field}.pause");
            let (replica, duration) = self.outage(&field, &outage.replica, outage.duration.as_ref())?;
            found.push(Action::Pause { replica, duration });
        }
        if let Some(cut) = &step.partition {
            found.push(self.partition(field, cut)?);
        }
        if let Some(down) = &step.zone_down {
            let (zone, duration) = self.zone_of(&format!("{field}.zoneDown"), down, catalogue);
            found.push(Action::ZoneDown { zone, duration });
        }
        if let Some(shift) = &step.zonal_shift {
            let (zone, duration) = self.zone_of(&format!("{field}.zonalShift"), shift, catalogue);
            found.push(Action::ZonalShift { zone, duration });
        }
        found.extend(self.account_steps(field, step, catalogue));
        found.extend(self.fault(field, step));
        // Its mistakes have been named, or are named together with the field that it lacks.
        if found.is_empty() && (self.mistakes.len() > before || step.restore.is_some()) {
            return None;
        }
        if found.len() != 1 || step.restore.is_some() {
            let count = found.len() + usize::from(step.restore.is_some());
            let what = format!("{count} things to do in one step");
            let allowed = "exactly one of scale, resize, delete, deleteSome, apply, interrupt, message, kill, pause, partition, zoneDown, zonalShift, takeReserved, resizeReserved, others, lose, spoil, \
                           restart, slowWatches, holdWrites, restore, unwell, emptyLists, foreignInstances, allowCollection, lookAfterCollection";
            self.mistake(field, &step.at, what, allowed);
            return None;
        }
        found.pop()
    }

    fn scale(&mut self, field: &str, scale: &scenario::Scale) -> Action {
        self.kind(field, "scale", &scale.kind, &["Deployment", "NodePool", "ReplicaSet", "StatefulSet"]);
        if u64::from(scale.replicas) > MAX_PODS {
            let (what, most) = (format!("{} pods", scale.replicas), format!("{MAX_PODS} at most"));
            self.mistake(format!("{field}.scale.replicas"), &scale.kind, what, most);
        }
        Action::Scale {
            kind: scale.kind.value.clone(),
            namespace: scale.namespace.clone(),
            name: scale.name.value.clone(),
            replicas: scale.replicas,
        }
    }

    fn resize(&mut self, field: &str, resize: &scenario::Resize) -> Action {
        let is_known = |(name, text): (&String, &String)| {
            ["cpu", "memory"].contains(&name.as_str()) && parse_amount(name, text).is_ok()
        };
        if resize.requests.is_empty() || !resize.requests.iter().all(is_known) {
            let what = format!("{:?} are no requests of cpu and memory", resize.requests);
            self.mistake(format!("{field}.resize.requests"), &resize.names, what, "such as {cpu: 200m, memory: 1Gi}");
        }
        Action::Resize { names: resize.names.value.clone(), requests: resize.requests.clone() }
    }

    fn delete(&mut self, field: &str, target: &scenario::Target) -> Action {
        self.kind(field, "delete", &target.kind, crate::world::DELETABLE);
        Action::Delete {
            kind: target.kind.value.clone(),
            namespace: target.namespace.clone(),
            name: target.name.value.clone(),
        }
    }

    fn apply(&mut self, field: &str, step: &Step, files: &[Spanned<String>]) -> Action {
        if files.is_empty() {
            self.mistake(format!("{field}.apply"), &step.at, "names no file", "a list of manifest files or folders");
        }
        let files = files.iter().filter_map(|file| self.file(&format!("{field}.apply"), file)).collect();
        Action::Apply { files }
    }

    /// A zone of the cluster, and the time for which something is the matter with it.
    fn zone_of(
        &mut self,
        field: &str,
        of: &scenario::ZoneDown,
        catalogue: Option<&RegionCatalogue>,
    ) -> (String, Option<Duration>) {
        if let Some(catalogue) = catalogue {
            self.zone_of_cluster(&format!("{field}.zone"), &of.zone, catalogue);
        }
        let duration = of.duration.as_ref().map(|text| duration(self.path, &format!("{field}.for"), text));
        (of.zone.value.clone(), duration.and_then(|result| self.collect(result)))
    }

    /// The action of a step that tries the brakes.
    fn fault(&mut self, field: &str, step: &Step) -> Option<Action> {
        if let Some(lost) = &step.lose {
            self.kind(field, "lose", &lost.kind, LOSABLE);
            self.some(&format!("{field}.lose.count"), &lost.kind, lost.count);
            return Some(Action::Lose { kind: lost.kind.value.clone(), count: lost.count });
        }
        if let Some(spoil) = &step.spoil {
            return self.spoil(&format!("{field}.spoil"), field, spoil);
        }
        if let Some(restart) = &step.restart {
            let time = self.collect(duration(self.path, &format!("{field}.restart.for"), &restart.duration))?;
            return Some(Action::Restart { duration: time });
        }
        if let Some(slow) = &step.slow_watches {
            let by = self.collect(duration(self.path, &format!("{field}.slowWatches.by"), &slow.by));
            let time = self.time(&format!("{field}.slowWatches.for"), slow.duration.as_ref())?;
            return Some(Action::SlowWatches { by: by?, duration: time });
        }
        if let Some(hold) = &step.hold_writes {
            let by = self.collect(duration(self.path, &format!("{field}.holdWrites.by"), &hold.by));
            let (replica, time) = self.outage(&format!("{field}.holdWrites"), &hold.replica, hold.duration.as_ref())?;
            return Some(Action::HoldWrites { replica, by: by?, duration: time });
        }
        if let Some(unwell) = &step.unwell {
            return self.unwell(&format!("{field}.unwell"), unwell);
        }
        if let Some(empty) = &step.empty_lists {
            let time = self.time(&format!("{field}.emptyLists.for"), empty.duration.as_ref())?;
            return Some(Action::EmptyLists { duration: time });
        }
        if let Some(release) = &step.allow_collection {
            let time = self.collect(duration(self.path, &format!("{field}.allowCollection.for"), &release.duration))?;
            return Some(Action::AllowCollection { duration: time });
        }
        if let Some(release) = &step.look_after_collection {
            let field = format!("{field}.lookAfterCollection.for");
            let time = self.collect(duration(self.path, &field, &release.duration))?;
            return Some(Action::LookAfterCollection { duration: time });
        }
        let count = step.foreign_instances?;
        self.some(&format!("{field}.foreignInstances"), &step.at, Some(count as usize));
        if count > MOST_NODES {
            let (what, most) = (format!("{count} instances"), format!("{MOST_NODES} at most"));
            self.mistake(format!("{field}.foreignInstances"), &step.at, what, most);
        }
        Some(Action::ForeignInstances { count })
    }

    fn spoil(&mut self, own: &str, field: &str, spoil: &scenario::Spoil) -> Option<Action> {
        self.kind(field, "spoil", &spoil.kind, SPOILABLE);
        self.some(&format!("{own}.count"), &spoil.kind, spoil.count);
        let found = |how: &Spanned<String>| Odd::WORDS.iter().find(|(word, _)| *word == how.value);
        let odd = match &spoil.how {
            None => Odd::WORDS[0].1,
            Some(how) => match found(how) {
                Some((_, odd)) => *odd,
                None => {
                    let allowed: Vec<&str> = Odd::WORDS.iter().map(|(word, _)| *word).collect();
                    let what = format!("{:?} is no way to be odd", how.value);
                    self.mistake(format!("{own}.how"), how, what, allowed.join(", "));
                    return None;
                }
            },
        };
        let duration = self.time(&format!("{own}.for"), spoil.duration.as_ref())?;
        let names = spoil.names.clone().unwrap_or_else(|| "*".to_owned());
        Some(Action::Spoil { kind: spoil.kind.value.clone(), names, count: spoil.count, odd, duration })
    }

    fn unwell(&mut self, own: &str, unwell: &scenario::Unwell) -> Option<Action> {
        let condition = &unwell.condition;
        if !CONDITIONS.contains(&condition.value.as_str()) {
            let what = format!("nothing reports a condition {:?} of nodes", condition.value);
            self.mistake(format!("{own}.condition"), condition, what, CONDITIONS.join(", "));
        }
        self.some(&format!("{own}.count"), condition, unwell.count);
        let duration = self.time(&format!("{own}.for"), unwell.duration.as_ref())?;
        let (condition, count, skip) = (condition.value.clone(), unwell.count, unwell.skip);
        let (reason, until_reboot) = (unwell.reason.clone(), unwell.until_reboot);
        Some(Action::Unwell { condition, count, skip, duration, reason, until_reboot })
    }

    /// A time that may be left out; nothing where it makes no sense.
    pub(super) fn time(&mut self, field: &str, time: Option<&Spanned<String>>) -> Option<Option<Duration>> {
        match time {
            Some(text) => Some(Some(self.collect(duration(self.path, field, text))?)),
            None => Some(None),
        }
    }

    /// A step about none is a slip.
    fn some(&mut self, field: &str, place: &Spanned<String>, count: Option<usize>) {
        if count == Some(0) {
            self.mistake(field, place, "0 are none: nothing would happen", "1 or more");
        }
    }

    fn kind(&mut self, field: &str, verb: &str, kind: &Spanned<String>, allowed: &[&str]) {
        if !allowed.contains(&kind.value.as_str()) {
            let what = format!("cannot {verb} a {:?}", kind.value);
            self.mistake(format!("{field}.{verb}.kind"), kind, what, allowed.join(", "));
        }
    }

    fn interrupt(
        &mut self,
        field: &str,
        step: &Step,
        which: &scenario::Interrupt,
        catalogue: Option<&RegionCatalogue>,
    ) -> Option<Action> {
        match (&which.spot, &which.node, &which.pool) {
            (None, None, Some(_)) => self.interrupt_pool(field, step, which, catalogue),
            _ if which.duration.is_some() => {
                let what = "only a pool is sold out for a while";
                self.mistake(format!("{field}.interrupt.for"), &step.at, what, "pool: TYPE/ZONE beside it");
                None
            }
            (Some(share), None, None) => {
                let number = share.value.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
                let Some(share_of_all) = number.filter(|number| (0.0..=100.0).contains(number)) else {
                    let what = format!("{:?} is no percentage", share.value);
                    self.mistake(format!("{field}.interrupt.spot"), share, what, "0% to 100%");
                    return None;
                };
                Some(Action::InterruptSpot { share: share_of_all / 100.0 })
            }
            (None, Some(node), None) => Some(Action::InterruptNode { node: node.value.clone() }),
            _ => {
                self.mistake(
                    format!("{field}.interrupt"),
                    &step.at,
                    "says not which",
                    "one of spot: 25%, node: NAME, pool: TYPE/ZONE",
                );
                None
            }
        }
    }

    fn outage(
        &mut self,
        field: &str,
        replica: &Spanned<String>,
        time: Option<&Spanned<String>>,
    ) -> Option<(ReplicaRef, Option<Duration>)> {
        let which = match replica.value.as_str() {
            "leader" => ReplicaRef::Leader,
            text => match text.parse() {
                Ok(number) if number < self.replicas => ReplicaRef::Number(number),
                Ok(number) => {
                    let what = format!("there is no replica {number}: the scenario has {}", self.replicas);
                    let allowed = format!("0 to {}, or leader", self.replicas - 1);
                    self.mistake(format!("{field}.replica"), replica, what, allowed);
                    return None;
                }
                Err(_) => {
                    let what = format!("unknown replica {text:?}");
                    self.mistake(format!("{field}.replica"), replica, what, "a number from 0, or leader");
                    return None;
                }
            },
        };
        Some((which, self.time(&format!("{field}.for"), time)?))
    }

    fn partition(&mut self, field: &str, cut: &scenario::Partition) -> Option<Action> {
        let (replica, duration) = self.outage(&format!("{field}.partition"), &cut.replica, cut.duration.as_ref())?;
        let mut from = Vec::new();
        for name in &cut.from {
            match name.value.as_str() {
                "apiServer" => from.push(Service::ApiServer),
                "ec2" => from.push(Service::Ec2),
                "sqs" => from.push(Service::Sqs),
                other => {
                    self.mistake(
                        format!("{field}.partition.from"),
                        name,
                        format!("unknown service {other:?}"),
                        "apiServer, ec2, sqs",
                    );
                }
            }
        }
        if cut.from.is_empty() {
            from = vec![Service::ApiServer, Service::Ec2, Service::Sqs];
        }
        let direction = match cut.direction.as_ref().map(|text| (text, text.value.as_str())) {
            None | Some((_, "both")) => Direction::Both,
            Some((_, "in")) => Direction::In,
            Some((_, "out")) => Direction::Out,
            Some((text, other)) => {
                self.mistake(
                    format!("{field}.partition.direction"),
                    text,
                    format!("unknown direction {other:?}"),
                    "in, out, both",
                );
                Direction::Both
            }
        };
        Some(Action::Partition { replica, from, direction, duration })
    }
}
