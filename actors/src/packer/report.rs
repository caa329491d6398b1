//! Reports of a packing: log, events of pods and pools, metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::Pod;
use dovetail_core::cluster_state::Planning;
use dovetail_core::explain;
use dovetail_core::pack::{Options, Packing, Reason, Rule};
use dovetail_core::{Policy, Problem};
use kube::ResourceExt;

use super::{FAILURE_REPEAT_INTERVAL, NAMES_LISTED, Packer, Request, Solved};
use crate::context::plan::Plans;
use crate::context::solver::attempt;
use crate::context::traces;
use crate::messages::{Record, TraceContext};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};
use crate::telemetry::measure::Measure;

/// Minimum time between two DaemonSetNotCounted events of one DaemonSet.
const NOT_COUNTED_AGAIN: Duration = Duration::from_secs(60 * 60);

impl Packer {
    /// Now and then holds a packing against what Karpenter's way would cost, off the mailbox, for the metrics alone.
    pub(super) fn compare(&mut self, solved: &Solved, ctx: &mut Context<Self>) {
        const OTHER: Policy = Policy::FewestNodes;
        let Some(pause) = self.env.settings.packing_comparison else { return };
        let (now, problem) = (self.env.now(), &solved.planning.problem);
        let by_cost = solved.packing.claims.iter().all(|claim| problem.node_pools[claim.pool].policy == Policy::Cost);
        let early = self.compared.is_some_and(|last| now.saturating_sub(last) < pause);
        if early || solved.packing.claims.is_empty() || !by_cost {
            return;
        }
        self.compared = Some(now);
        let own = solved.packing.total_price;
        let options =
            Options { policy: Some(OTHER), price_per_node: self.env.settings.price_per_node, ..Options::default() };
        let env = self.env.clone();
        // Nobody's nodes hang on it: what goes wrong in there is told by the panic and ends nothing.
        let computing = attempt(self.solver.clone(), problem.clone(), options).into_actor(self);
        ctx.spawn(computing.map(move |other, _, _| {
            let (Ok(other), policy, dollars) = (other, Policy::Cost.name(), own) else { return };
            env.measure(&Measure::Compared { policy, dollars, other: OTHER.name(), other_dollars: other.total_price });
        }));
    }

    pub(super) fn tell_batch(&self, planning: &Planning, request: &Request) {
        let Some((batch, waited)) = &request.batch else { return };
        let pods = planning.problem.pods.iter().filter(|pod| batch.contains(&pod.uid));
        let names: Vec<_> = pods.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        if !names.is_empty() {
            let (pods, seconds) = (names.len(), waited.as_secs_f64());
            self.env.emit_in(LogEvent::Batched { pods, names: Names::first(5, names), seconds }, request.trace);
        }
    }

    pub(super) fn tell_skipped(&mut self, planning: &Planning, request: &Request) {
        let skipped: BTreeMap<_, _> =
            planning.skipped.iter().map(|skipped| (skipped.pool.clone(), skipped.why.clone())).collect();
        for (pool, why) in &skipped {
            let line = format!("pool {pool}: {why}");
            if self.skipped.get(pool) != Some(why) && self.repeats.are_reported([line], self.env.now()) {
                let log_event = LogEvent::PoolSkipped { node_pool: pool.clone(), why: why.clone() };
                self.env.emit_in(log_event, request.trace);
            }
        }
        self.skipped = skipped;
    }

    /// Reports pods that lost preferences, except those reported for the last packing.
    pub(super) fn tell_relaxed(&mut self, planning: &Planning, request: &Request) {
        let relaxed: Vec<&Pod> = planning.problem.pods.iter().filter(|pod| pod.relaxed && !pod.to_come).collect();
        let news: Vec<_> = relaxed.iter().filter(|pod| !self.relaxed.contains(&pod.uid)).collect();
        let names: Vec<_> = news.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        if !names.is_empty() {
            self.env.emit_in(
                LogEvent::Relaxed { pods: names.len(), names: Names::first(NAMES_LISTED, names) },
                request.trace,
            );
        }
        self.relaxed = relaxed.into_iter().map(|pod| pod.uid.clone()).collect();
    }

    /// The events and the lines have their quiet times.
    pub(super) fn tell_refused_places(&mut self, planning: &Planning, request: &Request) {
        let pods: BTreeMap<&str, &Pod> = planning.problem.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
        let (mut nodes, now) = (BTreeMap::<(&str, &str), Vec<(String, String)>>::new(), self.env.now());
        for place in &planning.refused_places {
            let Some(pod) = pods.get(place.pod.as_str()) else { continue };
            let name = format!("{}/{}", pod.namespace, pod.name);
            nodes.entry((&place.node, &place.why)).or_default().push((pod.uid.clone(), name));
            let event =
                Record::warning(object::pod(pod), "PlaceRefused", place.why.clone()).quiet_for(FAILURE_REPEAT_INTERVAL);
            self.env.post(&self.links.recorder, event);
        }
        for ((node, why), all) in nodes {
            if !self.repeats.are_reported(
                all.iter().map(|(uid, _)| format!("{uid} refused by {}", if node.is_empty() { "all" } else { "one" })),
                now,
            ) {
                continue;
            }
            let (node, why, pods) = (node.to_owned(), why.to_owned(), all.len());
            let names = all.into_iter().map(|(_, name)| name);
            self.env.emit_in(
                LogEvent::PlaceRefused { node, pods, names: Names::first(NAMES_LISTED, names), why },
                request.trace,
            );
        }
    }

    /// Reports that commitments do not count, ever more seldom as long as it is so.
    pub(super) fn tell_mistrust(&mut self, why: Option<String>, trace: TraceContext) {
        let Some(why) = why else { return };
        if self.repeats.are_reported(["commitments do not count".to_owned()], self.env.now()) {
            self.env.emit_in(LogEvent::CommitmentsNotCounted { why }, trace);
        }
    }

    /// Tells of the DaemonSets that do not count: ever more seldom as long as it is so.
    pub(super) fn tell_daemons(&mut self, problem: &Problem, packing: &Packing, trace: TraceContext) {
        for one in &packing.daemons_not_counted {
            let (pod, message) = (&problem.daemon_pods[one.daemon], one.sentence(problem));
            if self.repeats.are_reported([message.clone()], self.env.now()) {
                let event = Record::warning(object::daemon_set(pod), "DaemonSetNotCounted", message.clone());
                self.env.post(&self.links.recorder, event.quiet_for(NOT_COUNTED_AGAIN));
                let name = format!("{}/{}", pod.namespace, pod.name);
                self.env.emit_in(LogEvent::DaemonSetNotCounted { name, why: message }, trace);
            }
        }
    }

    /// One log line for all claims of a pool with the same options.
    pub(super) fn tell_packing(&mut self, planning: &Planning, packing: &Packing, request: &Request) {
        let mut alike: BTreeMap<(usize, Vec<usize>), (usize, usize, f64)> = BTreeMap::new();
        for claim in &packing.claims {
            let options = claim.options.iter().map(|option| option.instance_type).collect();
            let sum = alike.entry((claim.pool, options)).or_default();
            *sum = (sum.0 + 1, sum.1 + claim.pods.len(), sum.2 + claim.price);
        }
        for ((pool, options), (nodes, pods, price)) in alike {
            let types = options.iter().map(|index| planning.problem.instance_types[*index].name.clone());
            let instance_types = Names::first(NAMES_LISTED, types);
            let node_pool = planning.pools[pool].name_any();
            self.env
                .emit_in(LogEvent::PackingComputed { nodes, pods, node_pool, price, instance_types }, request.trace);
        }
        self.tell_fitting(planning, packing, request);
    }

    /// Tells that pods fit on nodes that are there or on their way: seldom of pods that are not bound there all the same.
    fn tell_fitting(&mut self, planning: &Planning, packing: &Packing, request: &Request) {
        let fitting: usize = packing.on_existing.iter().map(|(_, pods)| pods.len()).sum();
        let pods = packing.on_existing.iter().flat_map(|(_, pods)| pods);
        let uids = pods.map(|pod| format!("{} fits", planning.problem.pods[*pod].uid));
        if fitting > 0 && self.repeats.are_reported(uids, self.env.now()) {
            let nodes = packing.on_existing.iter().map(|(node, _)| planning.existing[*node].name.clone());
            let log_event = LogEvent::FitsExisting { pods: fitting, nodes: Names::first(NAMES_LISTED, nodes) };
            self.env.emit_in(log_event, request.trace);
        }
    }

    pub(super) fn tell_nominations(
        &self,
        plans: &Plans<'_>,
        packing: &Packing,
        orders: &[crate::messages::LaunchOrder],
    ) {
        let planning = plans.planning;
        let nominate = |pods: &[usize], on: String| {
            for pod in pods.iter().map(|pod| &planning.problem.pods[*pod]) {
                let who = if plans.snapshot.is_bound(&pod.uid) { "Its successor" } else { "Pod" };
                let message = format!("{who} should schedule on: {on}");
                self.env.post(&self.links.recorder, Record::normal(object::pod(pod), "Nominated", message));
            }
        };
        for (claim, order) in packing.claims.iter().zip(orders) {
            nominate(&claim.pods, format!("nodeclaim/{}", order.claim.name_any()));
        }
        for (node, pods) in &packing.on_existing {
            let node = &planning.existing[*node];
            let kind = if node.node_name().is_some() { "node" } else { "nodeclaim" };
            nominate(pods, format!("{kind}/{}", node.name));
        }
    }

    pub(super) fn tell_left_over(&mut self, plans: &Plans<'_>, packing: &Packing, request: &Request) {
        let (planning, mut alike) = (plans.planning, BTreeMap::<String, Vec<String>>::new());
        let mut left_over = BTreeMap::new();
        for (pod, reason) in &packing.unscheduled {
            let pod = &planning.problem.pods[*pod];
            let held = planning.held.get(&pod.uid).cloned();
            let error = held.unwrap_or_else(|| explain::why_not(pod, reason, planning));
            if self.left_over.get(&pod.uid) != Some(&error) {
                if left_over.len() < traces::MOST_UNPLACED {
                    traces::unplaced(&self.env, request.trace, pod, &error);
                }
                let remedy = if planning.held.contains_key(&pod.uid) { "" } else { reason.remedy() };
                let bound = plans.snapshot.is_bound(&pod.uid);
                self.tell_unplaced(pod, (&error, remedy), bound, request.trace);
                if !bound {
                    alike.entry(error.clone()).or_default().push(format!("{}/{}", pod.namespace, pod.name));
                }
            }
            left_over.insert(pod.uid.clone(), error);
        }
        self.left_over = left_over;
        self.tell_dollars_spent(planning, packing);
        // One line a cause, however many pods have it.
        for (error, all) in alike {
            if self.repeats.are_reported([format!("unschedulable: {error}")], self.env.now()) {
                let (pods, names) = (all.len(), Names::first(NAMES_LISTED, all));
                self.env.emit_in(LogEvent::Unschedulable { pods, names, error }, request.trace);
            }
        }
    }

    /// Tells a pool that pods wait as its nodes may cost no more.
    fn tell_dollars_spent(&self, planning: &Planning, packing: &Packing) {
        let mut pods: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        let reasons = packing.unscheduled.iter().map(|(_, reason)| reason.as_ref());
        for one in reasons.flat_map(Reason::pools).filter(|one| one.rule == Rule::MaxCost) {
            pods.entry(&one.pool).or_insert((0, &one.detail)).0 += 1;
        }
        for pool in &planning.pools {
            let Some((count, detail)) = pods.get(pool.name_any().as_str()) else { continue };
            let message = format!("{count} pod(s) wait for a node of NodePool {}: {detail}", pool.name_any());
            let event = Record::warning(object::pool(pool), "MaxCostReached", message);
            self.env.post(&self.links.recorder, event.quiet_for(FAILURE_REPEAT_INTERVAL));
        }
    }

    fn tell_unplaced(&self, pod: &Pod, (error, remedy): (&str, &str), bound: bool, trace: TraceContext) {
        let (name, error) = (format!("{}/{}", pod.namespace, pod.name), error.to_owned());
        if bound {
            return self.env.emit_in(LogEvent::NoPlace { pod: name, error }, trace);
        }
        let remedy = if remedy.is_empty() { String::new() } else { format!("; to end that, {remedy}") };
        let message = format!("Failed to schedule pod, {error}{remedy}");
        let event = Record::warning(object::pod(pod), "FailedScheduling", message).quiet_for(FAILURE_REPEAT_INTERVAL);
        self.env.emit_in(LogEvent::PodUnschedulable { pod: name, error }, trace);
        self.env.post(&self.links.recorder, event);
    }
}
