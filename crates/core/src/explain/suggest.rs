//! The smallest change that lets a pod run, found by trial: the problem is packed again with one thing changed, then with two,
//! then with three. Only what packing places is suggested.

use std::sync::Arc;

use dovetail_api::names::labels::KWOK_NODE_CLASS;
use dovetail_api::names::provider::Provider;

use super::ExplainInput;
use super::change::{Change, Suggestion, node_terms, same};
use super::outcome::Placement;
use crate::labels::{CAPACITY_TYPE, ZONE};
use crate::pack::{PoolReason, Reason, Rule};
use crate::pod::Pod;
use crate::problem::{Pool, Problem};
use crate::requirements::Operator;
use crate::resources::{CPU, DOLLARS, EPHEMERAL_STORAGE, MEMORY, NODES};

/// Most changes of one suggestion.
const MOST_CHANGES: usize = 3;
/// Most suggestions.
const MOST_SUGGESTIONS: usize = 3;
/// Most pools of a reason for which changes are tried, the nearest first.
const MOST_POOLS: usize = 4;
/// Most packings of one pod alone; with all other pods, which takes longer, fewer.
const MOST_TRIALS: usize = 160;
const MOST_TRIALS_WITH_OTHERS: usize = 12;
/// Most pods with which a pod is tried together.
const MOST_PODS: usize = 5_000;
/// Most states from which one more change is tried.
const MOST_STATES: usize = 12;
/// Steps in which requests are lowered: a tenth of a core, 64 MiB.
const CPU_STEP: i64 = 100;
const MEMORY_STEP: i64 = 64 << 20;
/// Fewest processors and bytes by which a limit is raised.
const WHOLE_CPU: i64 = 1000;
const WHOLE_MEMORY: i64 = 1 << 30;

/// Suggestions of equally many changes, those first that change what is nearest; none where no trial succeeds.
pub(super) fn suggest(input: &ExplainInput<'_>, problem: &Problem, pod: usize, reason: &Reason) -> Vec<Suggestion> {
    let Reason::NoPoolFits { pools } = reason else { return vec![] };
    let Some(mut trial) = Trial::new(input, problem, pod, pools) else { return vec![] };
    let mut states = vec![(Vec::new(), trial.pools.clone())];
    for _ in 0..MOST_CHANGES {
        let (found, next) = trial.one_more(&states);
        if !found.is_empty() {
            return found;
        }
        states = next;
        states.truncate(MOST_STATES);
    }
    vec![]
}

/// The problem as it is tried with changes.
struct Trial<'a> {
    input: &'a ExplainInput<'a>,
    problem: Problem,
    pod: usize,
    pools: Vec<PoolReason>,
    left: usize,
}

/// Outcome of a trial.
enum Tried {
    Placed(Placement),
    Not(Vec<PoolReason>),
    Nothing,
}

type State = (Vec<Change>, Vec<PoolReason>);

impl<'a> Trial<'a> {
    /// The pod by itself; with all others where by itself it has a place, as then it is they who leave it none.
    fn new(input: &'a ExplainInput<'a>, problem: &Problem, pod: usize, pools: &[PoolReason]) -> Option<Self> {
        let mut alone = Self {
            input,
            problem: Problem { pods: vec![problem.pods.get(pod)?.clone()], ..problem.clone() },
            pod: 0,
            pools: pools.to_vec(),
            left: MOST_TRIALS,
        };
        match alone.outcome(&[]) {
            Tried::Not(_) => Some(alone),
            Tried::Placed(_) if problem.pods.len() <= MOST_PODS => {
                Some(Self { problem: problem.clone(), pod, left: MOST_TRIALS_WITH_OTHERS, ..alone })
            }
            _ => None,
        }
    }

    /// Packs with these changes.
    fn outcome(&mut self, changes: &[Change]) -> Tried {
        if self.left == 0 {
            return Tried::Nothing;
        }
        self.left -= 1;
        let problem = self.changed(changes);
        let packing = (self.input.solve)(&problem, self.input.options);
        if let Some(placement) = Placement::for_pod(&problem, &packing, self.pod) {
            return Tried::Placed(placement);
        }
        match packing.unscheduled.iter().find(|(pod, _)| *pod == self.pod).map(|(_, reason)| reason.as_ref()) {
            Some(Reason::NoPoolFits { pools }) => Tried::Not(pools.clone()),
            _ => Tried::Nothing,
        }
    }

    fn changed(&self, changes: &[Change]) -> Arc<Problem> {
        let mut problem = self.problem.clone();
        changes.iter().for_each(|change| change.apply(&mut problem, self.pod));
        Arc::new(problem)
    }

    /// All suggestions with one more change than these states have, and the states that came a rule further.
    fn one_more(&mut self, states: &[State]) -> (Vec<Suggestion>, Vec<State>) {
        let (mut found, mut next): (Vec<Suggestion>, Vec<State>) = (vec![], vec![]);
        // Several pools may ask for the same change of the pod.
        let mut tried: Vec<Vec<Change>> = Vec::new();
        for (changes, pools) in states {
            for own in pools.iter().take(MOST_POOLS) {
                for change in self.candidates(changes, own) {
                    if changes.contains(&change) {
                        continue;
                    }
                    let all = [changes.as_slice(), &[change]].concat();
                    if tried.contains(&all) {
                        continue;
                    }
                    tried.push(all.clone());
                    match self.outcome(&all) {
                        Tried::Placed(then) => found.push(Suggestion::new(all, then)),
                        Tried::Not(after) => {
                            let further: Vec<PoolReason> =
                                after.into_iter().filter(|one| has_moved_on(pools, one)).collect();
                            if !further.is_empty() {
                                next.push((all, further));
                            }
                        }
                        Tried::Nothing => {}
                    }
                    if found.len() >= MOST_SUGGESTIONS {
                        return (found, next);
                    }
                }
            }
        }
        (found, next)
    }

    /// Changes that may help against the rule that keeps the pod off one pool, the likeliest first.
    fn candidates(&mut self, changes: &[Change], own: &PoolReason) -> Vec<Change> {
        let problem = self.changed(changes);
        let (Some(pod), Some(pool)) =
            (problem.pods.get(self.pod), problem.node_pools.iter().find(|one| one.name == own.pool))
        else {
            return vec![];
        };
        match own.rule {
            Rule::Pool | Rule::MaxCost | Rule::Quota => vec![],
            Rule::Taints => tolerations(pod, pool),
            Rule::UndefinedLabel | Rule::Requirements | Rule::InstanceTypes => {
                [selected(pod), opened(pod, pool)].concat()
            }
            Rule::Volumes => volume_zones(pod, pool),
            Rule::Offerings => [widened(pool), selected(pod), opened(pod, pool)].concat(),
            Rule::Resources => [self.requests(changes, pod), dropped(pool)].concat(),
            Rule::Limits => self.limits(changes, pool),
            Rule::MinValues => min_values(pool),
            Rule::Topology => topology(pod),
            Rule::Together => [topology(pod), selected(pod), opened(pod, pool), dropped(pool)].concat(),
        }
    }

    /// For each resource the largest amount with which the pod has a place, in steps.
    fn requests(&mut self, changes: &[Change], pod: &Pod) -> Vec<Change> {
        let asked: Vec<(String, i64)> = pod.requests.iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
        asked.into_iter().filter_map(|(name, amount)| self.largest(changes, &name, amount)).collect()
    }

    fn largest(&mut self, changes: &[Change], resource: &str, asked: i64) -> Option<Change> {
        let step = match resource {
            CPU => CPU_STEP,
            MEMORY | EPHEMERAL_STORAGE => MEMORY_STEP,
            _ => 1,
        };
        let lowered = |to: i64| Change::LowerRequest { resource: resource.to_owned(), to: to.saturating_mul(step) };
        let mut fits = |to: i64| matches!(self.outcome(&[changes, &[lowered(to)]].concat()), Tried::Placed(_));
        let (mut low, mut high) = (0, asked.saturating_add(step - 1) / step);
        if high <= 1 || !fits(low) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        (low > 0).then(|| lowered(low))
    }

    /// Limits that leave room for the nodes that are planned without any.
    fn limits(&mut self, changes: &[Change], pool: &Pool) -> Vec<Change> {
        let mut problem = Problem::clone(&self.changed(changes));
        let Some(own) = problem.node_pools.iter_mut().find(|one| one.name == pool.name) else { return vec![] };
        own.limits = crate::resources::Resources::new();
        self.left = self.left.saturating_sub(1);
        let packing = (self.input.solve)(&Arc::new(problem.clone()), self.input.options);
        let all = packing.claims.iter().filter(|claim| problem.node_pools[claim.pool].name == pool.name);
        let (mut needed, mut count) = (pool.usage.clone(), 0);
        for kind in all.filter_map(|claim| problem.instance_types.get(claim.cheapest_type()?)) {
            needed.add(&kind.capacity);
            count += 1;
        }
        needed.set(NODES, pool.usage.get(NODES).saturating_add(count));
        let limits = pool.limits.iter().filter(|(name, _)| *name != DOLLARS);
        let short = limits.filter(|(name, limit)| count > 0 && needed.get(name) > *limit);
        let raise = |(name, _): (&str, i64)| {
            let to = rounded_up(name, needed.get(name));
            Change::RaiseLimit { pool: pool.name.clone(), resource: name.to_owned(), to }
        };
        short.map(raise).collect()
    }
}

/// True if another rule keeps the pod off a pool than before, or the same one by something else.
fn has_moved_on(before: &[PoolReason], now: &PoolReason) -> bool {
    let differs = |one: &PoolReason| (one.rule, &one.detail) != (now.rule, &now.detail);
    before.iter().any(|one| one.pool == now.pool && differs(one))
}

/// An amount as somebody would write it into a limit.
fn rounded_up(resource: &str, amount: i64) -> i64 {
    let unit = match resource {
        CPU => WHOLE_CPU,
        MEMORY | EPHEMERAL_STORAGE => WHOLE_MEMORY,
        _ => 1,
    };
    amount.saturating_add(unit - 1) / unit * unit
}

fn tolerations(pod: &Pod, pool: &Pool) -> Vec<Change> {
    let untolerated = pool.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule" && !pod.tolerates(taint));
    untolerated.map(Change::tolerating).collect()
}

/// Keys that the pod selects nodes by, each left out.
fn selected(pod: &Pod) -> Vec<Change> {
    let selector = pod.node_selector.keys().map(|key| Change::DropNodeSelector { key: key.clone() });
    let mut all: Vec<Change> = selector.collect();
    for one in node_terms(pod).iter().flat_map(|term| term.match_expressions.iter().flatten()) {
        let change = Change::DropNodeAffinity { key: one.key.clone() };
        if !all.contains(&change) {
            all.push(change);
        }
    }
    all
}

/// Provider of the pool's class: a pool of EC2's names its class, any other has it as a label.
fn provider_of(pool: &Pool) -> Provider {
    let is_kwok = pool.node_class.is_none() && pool.labels.contains_key(KWOK_NODE_CLASS);
    if is_kwok { Provider::Kwok } else { Provider::Ec2 }
}

/// The pool opened to what the pod selects.
fn opened(pod: &Pod, pool: &Pool) -> Vec<Change> {
    let mut wanted: Vec<(String, Vec<String>)> =
        pod.node_selector.iter().map(|(key, value)| (key.clone(), vec![value.clone()])).collect();
    let terms = node_terms(pod).iter().flat_map(|term| term.match_expressions.iter().flatten());
    wanted.extend(
        terms.filter(|one| one.operator == "In").map(|one| (one.key.clone(), one.values.clone().unwrap_or_default())),
    );
    let provider = provider_of(pool);
    let change = |(key, values): (String, Vec<String>)| {
        let name = pool.name.clone();
        let listed = pool.requirements.iter().find(|one| same(&one.key, &key));
        match listed.map(|one| one.operator) {
            Some(Operator::In | Operator::NotIn) => Some(Change::AllowInPool { pool: name, key, values }),
            Some(_) => Some(Change::DropFromPool { pool: name, key }),
            None if provider.is_well_known(&key) => None,
            None => Some(Change::LabelPool { pool: name, key, value: values.into_iter().next()? }),
        }
    };
    wanted.into_iter().filter_map(change).collect()
}

/// The pool opened to the zones of the pod's volumes.
fn volume_zones(pod: &Pod, pool: &Pool) -> Vec<Change> {
    let zones = pod.volume_topology.iter().flatten().filter(|one| same(&one.key, ZONE));
    let values: Vec<String> = zones.flat_map(|one| one.values.iter().cloned()).collect();
    let limited = pool.requirements.iter().any(|one| same(&one.key, ZONE));
    let change = Change::AllowInPool { pool: pool.name.clone(), key: ZONE.to_owned(), values: values.clone() };
    if limited && !values.is_empty() { vec![change] } else { vec![] }
}

/// The pool opened to more capacity types, then without each of its requirements.
fn widened(pool: &Pool) -> Vec<Change> {
    let listed = pool.requirements.iter().find(|one| same(&one.key, CAPACITY_TYPE) && one.operator == Operator::In);
    let missing = listed.map(|one| {
        let all = [dovetail_api::names::labels::ON_DEMAND, dovetail_api::names::labels::SPOT];
        all.into_iter().filter(|kind| !one.values.iter().any(|own| own == kind)).map(str::to_owned).collect::<Vec<_>>()
    });
    let (name, key) = (pool.name.clone(), CAPACITY_TYPE.to_owned());
    let more =
        missing.filter(|values| !values.is_empty()).map(|values| Change::AllowInPool { pool: name, key, values });
    more.into_iter().chain(dropped(pool)).collect()
}

/// The pool without each of its requirements.
fn dropped(pool: &Pool) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    for one in &pool.requirements {
        let change = Change::DropFromPool { pool: pool.name.clone(), key: one.key.clone() };
        if !all.contains(&change) {
            all.push(change);
        }
    }
    all
}

/// Fewer values, one by one.
fn min_values(pool: &Pool) -> Vec<Change> {
    let asked = pool.requirements.iter().filter_map(|one| Some((one.key.clone(), one.min_values?)));
    let lower = |(key, least): (String, u32)| {
        let name = pool.name.clone();
        (0..least).rev().map(move |to| Change::LowerMinValues { pool: name.clone(), key: key.clone(), to })
    };
    asked.flat_map(lower).collect()
}

/// The pod's rules about other pods, each left out.
fn topology(pod: &Pod) -> Vec<Change> {
    let spread = pod.topology_spread_constraints.iter().filter(|one| one.when_unsatisfiable != "ScheduleAnyway");
    let mut all: Vec<Change> =
        spread.map(|one| Change::DropSpread { topology_key: one.topology_key.clone() }).collect();
    let affinity = pod.affinity.as_ref();
    let with = affinity.and_then(|one| one.pod_affinity.as_ref());
    let with = with.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_deref());
    all.extend(
        with.into_iter().flatten().map(|one| Change::DropPodAffinity { topology_key: one.topology_key.clone() }),
    );
    let off = affinity.and_then(|one| one.pod_anti_affinity.as_ref());
    let off = off.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_deref());
    all.extend(
        off.into_iter().flatten().map(|one| Change::DropPodAntiAffinity { topology_key: one.topology_key.clone() }),
    );
    all
}
