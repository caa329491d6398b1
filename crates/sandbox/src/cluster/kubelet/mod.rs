//! Kubelets: an instance that comes up joins as a Node, runs the pods that are bound to it, and takes them with it when
//! it ends.

mod devices;
mod machine;
mod node;
mod not_as_planned;
mod pods;
mod resizing;
pub(crate) mod user_data;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use self::user_data::NodeConfig;
use super::cache::Key;
use super::context::{ClusterChange, ClusterContext};
use super::controllers::nodes;
use super::kind::Kind;
use super::pod::{condition, set_condition};
use super::work::Work;
use crate::region::{InstanceEvent, InstanceState, Region, RegionInstance};

#[derive(Debug)]
struct Kubelet {
    node: String,
    address: Ipv4Addr,
    zone: String,
    /// Time from which it can run pods.
    ready_at: Option<Instant>,
    /// It answers: its instance runs and its zone is up.
    alive: bool,
    /// Its machine restarts.
    boots: bool,
}

/// Message of a condition that the Node loses when its machine restarts.
pub const MENDED_BY_REBOOT: &str = "a reboot mends it";

#[derive(Debug)]
pub(crate) struct Kubelets {
    region: Region,
    /// By instance id.
    kubelets: BTreeMap<String, Kubelet>,
    by_node: BTreeMap<String, String>,
    /// Pods that wait for their volumes to be attached, by node.
    waiting: BTreeMap<String, BTreeSet<(Key, String)>>,
    /// Times at which containers of pods have what is allocated to them, by the pod's uid.
    resizing: BTreeMap<String, Instant>,
    addresses: u32,
}

impl Kubelets {
    pub(crate) fn new(region: Region) -> Self {
        Self {
            region,
            kubelets: BTreeMap::new(),
            by_node: BTreeMap::new(),
            waiting: BTreeMap::new(),
            resizing: BTreeMap::new(),
            addresses: 0,
        }
    }

    pub(crate) fn instance_changed(&mut self, ctx: &mut ClusterContext, event: &InstanceEvent) {
        match event.state {
            _ if event.rebooted => self.restart(ctx, &event.id),
            InstanceState::Pending => {}
            InstanceState::Running if self.kubelets.contains_key(&event.id) => {}
            InstanceState::Running => {
                let Some(instance) = self.region.instance(&event.id) else { return };
                let range = ctx.settings.join.clone();
                let since = ctx.wall().duration_since(instance.launched).unsigned_abs();
                let wait = (ctx.draw(&range) + self.joins_late(&instance)).saturating_sub(since);
                ctx.queue.push_after(wait, Work::Join(event.id.clone()));
            }
            InstanceState::ShuttingDown | InstanceState::Terminated => self.instance_ended(ctx, &event.id),
        }
    }

    /// The instance's kubelet starts: its Node appears, and is ready a little later.
    pub(crate) fn join(&mut self, ctx: &mut ClusterContext, id: &str) {
        let Some(instance) = self.region.instance(id).filter(|i| i.state.is_alive()) else { return };
        if self.region.faults().zone_is_down(&instance.zone) {
            return ctx.queue.push_after(Duration::from_secs(5), Work::Join(id.to_owned()));
        }
        let config = NodeConfig::from_user_data(&instance.user_data);
        if config.cluster.as_deref() != Some(ctx.settings.cluster_name.as_str()) {
            ctx.life_log.never_joins(id, config.cluster.as_deref());
            return;
        }
        let range = ctx.settings.node_ready.clone();
        let delay = ctx.draw(&range);
        self.register(ctx, &instance, &config, delay);
    }

    /// Creates the Node, ready after `delay` (at once when it is zero).
    pub(crate) fn register(
        &mut self,
        ctx: &mut ClusterContext,
        instance: &RegionInstance,
        config: &NodeConfig,
        delay: Duration,
    ) {
        let Some((capacity, mut allocatable)) = machine::resources(&self.region, instance, config) else { return };
        let name = instance.hostname.clone();
        self.has_less(instance, &mut allocatable);
        let mut node = node::object(ctx, &self.region, instance, config, &capacity, &allocatable);
        self.joins_otherwise(instance, &mut node);
        let created = ctx.kube.create(Kind::Node, node);
        if let Err(error) = created {
            // A Node of that name is still there: the address has been used again before its Node was deleted.
            tracing::debug!(node = name, %error, "node not registered yet");
            return ctx.queue.push_after(Duration::from_secs(5), Work::Join(instance.id.clone()));
        }
        if ctx.settings.csi_node_plugin {
            node::add_csi(ctx, &name, &instance.id, machine::volume_limit(&self.region, instance));
        }
        let ready_at = Instant::now() + delay;
        let (address, zone) = (instance.private_ip, instance.zone.clone());
        let kubelet =
            Kubelet { node: name.clone(), address, zone, ready_at: Some(ready_at), alive: true, boots: false };
        self.kubelets.insert(instance.id.clone(), kubelet);
        self.by_node.insert(name.clone(), instance.id.clone());
        if delay.is_zero() {
            self.ready(ctx, &name);
        } else {
            ctx.queue.push_at(ready_at, Work::NodeReady(name));
        }
    }

    /// The kubelet says that its Node is ready.
    pub(crate) fn ready(&mut self, ctx: &mut ClusterContext, name: &str) {
        if !self.kubelet_of(name).is_some_and(|k| k.alive) {
            return;
        }
        let now = ctx.now();
        ctx.kube.modify_status(Kind::Node, &Key::new("", name), |node| {
            let pressures = [
                ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ];
            let changed = pressures.iter().fold(false, |changed, (kind, reason, message)| {
                set_condition(node, kind, "False", reason, message, &now) | changed
            });
            set_condition(node, "Ready", "True", "KubeletReady", "kubelet is posting ready status", &now) | changed
        });
        nodes::taint(ctx, name, &[]);
        if let Some(delay) = devices::delay(ctx) {
            ctx.queue.push_after(delay, Work::PublishDevices(name.to_owned()));
        }
        if let Some(after) = self.region.faults().nodes().taint_on_join.and_then(|taint| taint.taken_off) {
            ctx.queue.push_after(after, Work::TakeTaintOff(name.to_owned()));
        }
    }

    /// The drivers of a Node publish its devices.
    pub(crate) fn publish_devices(&self, ctx: &mut ClusterContext, name: &str) {
        let instance = self.by_node.get(name).and_then(|id| self.region.instance(id));
        if let Some(instance) = instance.filter(|_| !self.is_silent(name)) {
            devices::publish(ctx, &self.region, &instance, name);
        }
    }

    /// The machine restarts: its kubelet is silent until it has booted.
    fn restart(&mut self, ctx: &mut ClusterContext, id: &str) {
        let Some(kubelet) = self.kubelets.get_mut(id).filter(|k| k.alive) else { return };
        (kubelet.alive, kubelet.boots) = (false, true);
        let name = kubelet.node.clone();
        let (join, ready) = (ctx.settings.join.clone(), ctx.settings.node_ready.clone());
        let wait = ctx.draw(&join) + ctx.draw(&ready);
        ctx.queue.push_after(ctx.settings.node_monitor_grace, Work::Silent(name));
        ctx.queue.push_after(wait, Work::Booted(id.to_owned()));
    }

    /// The machine has restarted: its kubelet says so, and runs the node's pods again.
    pub(crate) fn booted(&mut self, ctx: &mut ClusterContext, id: &str) {
        let runs = self.region.instance(id).is_some_and(|one| one.state == InstanceState::Running);
        let Some(kubelet) = self.kubelets.get_mut(id).filter(|k| k.boots && runs) else { return };
        (kubelet.alive, kubelet.boots) = (true, false);
        let name = kubelet.node.clone();
        let (boot_id, now) = (node::draw_boot_id(ctx), ctx.now());
        ctx.queue.forget(&Work::Silent(name.clone()));
        ctx.kube.modify_status(Kind::Node, &Key::new("", &name), |node| {
            node["status"]["nodeInfo"]["bootID"] = Value::from(boot_id.clone());
            for one in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
                if one["message"] == MENDED_BY_REBOOT {
                    one["status"] = Value::from("True");
                    one["message"] = Value::from("");
                    one["lastTransitionTime"] = Value::from(now.clone());
                }
            }
            true
        });
        self.ready(ctx, &name);
        for pod in ctx.cache.pods_on(&name) {
            self.resume(ctx, &pod);
        }
    }

    /// The instance goes: its kubelet falls silent and its pods end.
    fn instance_ended(&mut self, ctx: &mut ClusterContext, id: &str) {
        let Some(kubelet) = self.kubelets.get_mut(id).filter(|k| k.alive || k.boots) else { return };
        (kubelet.alive, kubelet.boots) = (false, false);
        let name = kubelet.node.clone();
        self.waiting.remove(&name);
        for pod in ctx.cache.pods_on(&name).into_iter().filter(|p| !p.finished()) {
            if let Some(object) = ctx.cache.get(Kind::Pod, &pod.key) {
                ctx.life_log.lost(&pod.key, object, "the instance ended");
            }
        }
        if self.by_node.contains_key(&name) {
            ctx.queue.push_after(ctx.settings.node_monitor_grace, Work::Silent(name));
        } else {
            self.kubelets.remove(id);
        }
    }

    /// Silences the kubelets of zones that have gone down, and has those of zones that are back speak again.
    pub(crate) fn look_at_zones(&mut self, ctx: &mut ClusterContext) {
        let mut back = Vec::new();
        for (id, kubelet) in &mut self.kubelets {
            let down = self.region.faults().zone_is_down(&kubelet.zone);
            if down == kubelet.alive {
                let runs = self.region.instance(id).is_some_and(|i| i.state == InstanceState::Running);
                if down {
                    kubelet.alive = false;
                    ctx.queue.push_after(ctx.settings.node_monitor_grace, Work::Silent(kubelet.node.clone()));
                } else if runs && !kubelet.boots {
                    kubelet.alive = true;
                    back.push(kubelet.node.clone());
                }
            }
        }
        for node in back {
            ctx.queue.forget(&Work::Silent(node.clone()));
            self.ready(ctx, &node);
            for pod in ctx.cache.pods_on(&node) {
                self.resume(ctx, &pod);
            }
        }
    }

    /// True if no kubelet of the Node lives. One whose zone is down lives, and answers again later.
    pub(crate) fn is_silent(&self, node: &str) -> bool {
        self.kubelet_of(node).is_none_or(|k| !k.alive)
    }

    /// True if the instance of a Node no longer exists.
    pub(crate) fn instance_gone(&self, ctx: &ClusterContext, node: &str) -> bool {
        let provider =
            ctx.cache.named(Kind::Node, node).and_then(|n| n["spec"]["providerID"].as_str().map(str::to_owned));
        let id = provider.as_deref().and_then(|p| p.rsplit('/').next()).unwrap_or_default();
        self.region.instance(id).is_none_or(|i| i.state == InstanceState::Terminated)
    }

    /// Follows pods, and volumes that pods wait for.
    pub(crate) fn observe(&mut self, ctx: &mut ClusterContext, change: &ClusterChange) {
        match change.kind {
            Kind::Pod => self.pod_changed(ctx, change),
            Kind::VolumeAttachment => {
                let node = change.new.as_deref().map(|a| &a["spec"]["nodeName"]).and_then(Value::as_str);
                for (key, uid) in node.and_then(|n| self.waiting.remove(n)).unwrap_or_default() {
                    ctx.queue.push(Work::StartPod(key, uid));
                }
            }
            Kind::DeviceClass if change.old.is_none() => {
                let delay = devices::delay(ctx);
                for node in self.by_node.keys().filter(|_| delay.is_some()) {
                    ctx.queue.push_after(delay.unwrap_or_default(), Work::PublishDevices(node.clone()));
                }
            }
            Kind::Node if change.new.is_none() => {
                // Its instance may run on, with the pods, until somebody ends it: they are lost then, not now.
                if let Some(id) = self.by_node.remove(&change.key.name)
                    && self.kubelets.get(&id).is_some_and(|k| !k.alive)
                {
                    self.kubelets.remove(&id);
                }
                self.waiting.remove(&change.key.name);
                node::remove_csi(ctx, &change.key.name);
                devices::withdraw(ctx, &change.key.name);
            }
            Kind::Node => {
                self.node_came(ctx, change);
                self.take_label_off(ctx, change);
            }
            _ => {}
        }
    }

    /// A Node that a restored API server has again, or has as it was earlier: its kubelet says how it is. Where there is
    /// none, it falls silent.
    fn node_came(&mut self, ctx: &mut ClusterContext, change: &ClusterChange) {
        let (name, Some(node)) = (&change.key.name, change.new.as_deref()) else { return };
        let id = node["spec"]["providerID"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        if change.old.is_none()
            && !self.by_node.contains_key(name)
            && self.kubelets.get(id).is_some_and(|kubelet| kubelet.node == *name)
        {
            self.by_node.insert(name.clone(), id.to_owned());
        }
        if change.old.is_none() {
            self.take_over(ctx, name, id);
        }
        let due = |kubelet: &Kubelet| kubelet.alive && kubelet.ready_at.is_some_and(|at| at <= Instant::now());
        let is_ready = |node: &Value| condition(node, "Ready").is_some_and(|one| one["status"] == "True");
        let ready = is_ready(node);
        let news = change.old.as_deref().is_none_or(|old| ready && !is_ready(old));
        if news && !id.is_empty() && self.is_silent(name) {
            ctx.queue.push_after(ctx.settings.node_monitor_grace, Work::Silent(name.clone()));
        }
        if !ready && self.kubelet_of(name).is_some_and(due) {
            ctx.queue.push(Work::NodeReady(name.clone()));
        }
    }

    /// The Node of an instance that was taken over: its kubelet runs, and says that it is ready if it is not so yet.
    fn take_over(&mut self, ctx: &mut ClusterContext, name: &str, id: &str) {
        let running =
            |one: &RegionInstance| one.taken_over && one.state == InstanceState::Running && one.hostname == name;
        let Some(instance) = self.region.instance(id).filter(running) else { return };
        if self.kubelets.contains_key(id) {
            return;
        }
        if ctx.settings.csi_node_plugin {
            node::add_csi(ctx, name, id, machine::volume_limit(&self.region, &instance));
        }
        let (address, zone) = (instance.private_ip, instance.zone);
        let ready_at = Some(Instant::now());
        let kubelet = Kubelet { node: name.to_owned(), address, zone, ready_at, alive: true, boots: false };
        self.kubelets.insert(id.to_owned(), kubelet);
        self.by_node.insert(name.to_owned(), id.to_owned());
    }

    fn kubelet_of(&self, node: &str) -> Option<&Kubelet> {
        self.kubelets.get(self.by_node.get(node)?)
    }
}
