//! Rules over zones or capacity types: each pod that one speaks of gets its domain before nodes are planned.

use std::collections::BTreeSet;

use super::groups::{Group, Kind};
use crate::labels;
use crate::pack::context::Context;
use crate::pack::offers::Mask;
use crate::problem::ExistingNode;
use crate::requirements::Requirements;

/// A way to be bought that rules tell apart: a zone, a capacity type, or both.
#[derive(Debug)]
pub(crate) struct Place {
    pub mask: Mask,
    /// Its value for each of [`KEYS`], where a rule asks for it.
    domains: [Option<u32>; 2],
}

/// The keys whose values are domains.
const KEYS: [&str; 2] = [labels::ZONE, labels::CAPACITY_TYPE];

/// Where pods are, as far as rules ask.
pub(crate) struct Domains<'c, 'a> {
    context: &'c Context<'a>,
    pub places: Vec<Place>,
    values: [Vec<String>; 2],
    /// For each group how many of its pods each domain has.
    counts: Vec<Vec<u32>>,
    /// For each group how many pods in each domain state it.
    stating: Vec<Vec<u32>>,
    /// For each class and each group that it states: the domains over which the least is taken.
    eligible: Vec<Vec<Vec<u32>>>,
}

impl<'c, 'a> Domains<'c, 'a> {
    pub fn new(context: &'c Context<'a>) -> Self {
        let groups = &context.topology.groups;
        let wide: Vec<&Group> = groups.iter().filter(|group| !group.by_node()).collect();
        let asked = [0, 1].map(|key| wide.iter().any(|group| group.key == KEYS[key]));
        // Reading every type's values is a good part of a small solve: only what a rule asks for.
        let values = [0, 1].map(|key| if asked[key] { universe(context, key) } else { Vec::new() });
        let sized = || groups.iter().map(|group| vec![0; values[key_of(group)].len()]).collect();
        let mut domains = Self { context, places: vec![], counts: sized(), stating: sized(), eligible: vec![], values };
        if !wide.is_empty() {
            domains.places = domains.find_places(asked);
            domains.eligible = (0..context.classes.len()).map(|class| domains.eligible_of(class)).collect();
            for node in &context.problem.existing_nodes {
                domains.count_bound(node);
            }
        }
        domains
    }

    fn find_places(&self, asked: [bool; 2]) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for (at, cell) in self.context.offers.cells.iter().enumerate() {
            let own = [&cell.zone, &cell.capacity_type];
            let domains = [0, 1].map(|key| if asked[key] { position(&self.values[key], own[key]) } else { None });
            match places.iter_mut().find(|place| place.domains == domains) {
                Some(place) => place.mask |= 1 << at,
                None => places.push(Place { mask: 1 << at, domains }),
            }
        }
        places.sort_by_key(|place| place.domains);
        places
    }

    /// The domains that count for a class's rules: those that its own node requirements allow, or all if it says so.
    fn eligible_of(&self, class: usize) -> Vec<Vec<u32>> {
        let context = self.context;
        let part = &context.topology.of_class[class];
        let of = |group: &u32| {
            let group = &context.topology.groups[*group as usize];
            let all = &self.values[key_of(group)];
            let nodes: &[Requirements] = match &group.kind {
                Kind::Spread { nodes, .. } => nodes,
                _ => &[],
            };
            let allowed = |value: &String| {
                nodes.is_empty() || nodes.iter().any(|one| one.get(&group.key).is_none_or(|wanted| wanted.has(value)))
            };
            (0..all.len() as u32).filter(|at| allowed(&all[*at as usize])).collect()
        };
        part.states.iter().map(of).collect()
    }

    /// The domains of an existing node.
    pub fn of_node(&self, node: &ExistingNode) -> [Option<u32>; 2] {
        [0, 1].map(|key| {
            let value = node.labels.iter().find(|(own, _)| labels::stable(own) == KEYS[key]).map(|(_, value)| value);
            value.and_then(|value| position(&self.values[key], value))
        })
    }

    fn count_bound(&mut self, node: &ExistingNode) {
        let domains = self.of_node(node);
        let groups = &self.context.topology.groups;
        for pod in &node.pods {
            let kept = super::groups::kept_by_bound(pod);
            for (at, group) in groups.iter().enumerate() {
                let Some(domain) = domains[key_of(group)] else { continue };
                if group.means(pod) && counts_on(group, node) {
                    self.counts[at][domain as usize] += 1;
                }
                if kept.contains(group) {
                    self.stating[at][domain as usize] += 1;
                }
            }
        }
    }

    /// Whether a pod of a class may be in these domains.
    fn allows(&self, class: usize, domains: [Option<u32>; 2]) -> bool {
        let part = &self.context.topology.of_class[class];
        let groups = &self.context.topology.groups;
        let stated = part.states.iter().enumerate().all(|(nth, at)| {
            let group = &groups[*at as usize];
            let counts = &self.counts[*at as usize];
            let Some(domain) = domains[key_of(group)] else { return group.kind == Kind::Distance };
            let held = counts[domain as usize];
            match &group.kind {
                Kind::Spread { skew, domains: least_domains, .. } => {
                    let eligible = &self.eligible[class][nth];
                    let least = eligible.iter().map(|at| counts[*at as usize]).min().unwrap_or(0);
                    let least = if eligible.len() < *least_domains as usize { 0 } else { least };
                    held + u32::from(part.meant.contains(at)) <= least + skew
                }
                Kind::Company => held > 0 || (part.meant.contains(at) && counts.iter().all(|count| *count == 0)),
                Kind::Distance => held == 0,
                Kind::Port(..) => true,
            }
        });
        stated
            && part.meant.iter().all(|at| {
                let group = &groups[*at as usize];
                group.kind != Kind::Distance
                    || domains[key_of(group)].is_none_or(|domain| self.stating[*at as usize][domain as usize] == 0)
            })
    }

    fn record(&mut self, class: usize, domains: [Option<u32>; 2]) {
        let part = &self.context.topology.of_class[class];
        let groups = &self.context.topology.groups;
        for (all, counts) in [(&part.meant, &mut self.counts), (&part.states, &mut self.stating)] {
            for at in all {
                if let Some(domain) = domains[key_of(&groups[*at as usize])] {
                    counts[*at as usize][domain as usize] += 1;
                }
            }
        }
    }

    /// Puts one pod of a class into an existing node's domains, if it may be there.
    pub fn take(&mut self, class: usize, domains: [Option<u32>; 2]) -> bool {
        let good = self.allows(class, domains);
        if good {
            self.record(class, domains);
        }
        good
    }

    /// Chooses one pod's place among those that it could get a node in, with what that would cost: where the fewest
    /// are that a spread counts, then the cheapest.
    pub fn choose(&mut self, class: usize, feasible: &[(u32, f64)]) -> Option<u32> {
        let part = &self.context.topology.of_class[class];
        let groups = &self.context.topology.groups;
        let spread: Vec<u32> = part
            .states
            .iter()
            .chain(&part.meant)
            .copied()
            .filter(|at| matches!(groups[*at as usize].kind, Kind::Spread { .. }))
            .collect();
        let crowd = |place: u32| -> u32 {
            let domains = self.places[place as usize].domains;
            let held = |at: &u32| {
                domains[key_of(&groups[*at as usize])].map_or(0, |domain| self.counts[*at as usize][domain as usize])
            };
            spread.iter().map(held).sum()
        };
        let open = feasible.iter().filter(|(place, _)| self.allows(class, self.places[*place as usize].domains));
        let best = open.min_by(|a, b| crowd(a.0).cmp(&crowd(b.0)).then(a.1.total_cmp(&b.1)).then(a.0.cmp(&b.0)));
        let place = best?.0;
        self.record(class, self.places[place as usize].domains);
        Some(place)
    }

    /// Why a pod of a class finds no domain.
    pub fn describe(&self, class: usize) -> String {
        let groups = &self.context.topology.groups;
        let part = &self.context.topology.of_class[class];
        let told = part.states.iter().map(|at| {
            let Group { kind, key, .. } = &groups[*at as usize];
            match kind {
                Kind::Spread { skew, .. } => format!("topology spread over {key} with maxSkew {skew}"),
                Kind::Company => format!("required pod affinity by {key}, which finds no pod to join"),
                _ => format!("required pod anti-affinity by {key}"),
            }
        });
        let told: Vec<String> = told.collect();
        match told.is_empty() {
            true => "other pods' required anti-affinity leaves it no domain".to_owned(),
            false => format!("no domain is left by {}", told.join(" and ")),
        }
    }
}

fn key_of(group: &Group) -> usize {
    usize::from(group.key == labels::CAPACITY_TYPE)
}

fn position(values: &[String], value: &str) -> Option<u32> {
    values.iter().position(|own| own == value).map(|at| at as u32)
}

/// Whether a pod on this node counts for a rule.
fn counts_on(group: &Group, node: &ExistingNode) -> bool {
    let Kind::Spread { nodes, .. } = &group.kind else { return true };
    let own = Requirements::from_labels(&node.labels);
    nodes.is_empty() || nodes.iter().any(|one| crate::pack::existing::satisfies(&own, one))
}

/// All domains of a key: those that any pool's types can be in, and those of existing nodes.
fn universe(context: &Context<'_>, key: usize) -> Vec<String> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    let column = context.columns.get(KEYS[key]);
    for pool in &context.pools {
        let cells = context.offers.cells.iter().enumerate().filter(|(at, _)| pool.cells >> at & 1 == 1);
        for (_, cell) in cells {
            all.insert(if key == 0 { &cell.zone } else { &cell.capacity_type }.clone());
        }
        let Some(column) = column.as_ref().filter(|_| key == 0) else { continue };
        let wanted = pool.requirements.get(KEYS[key]);
        let said = column.statements().filter(|said| !said.is_complement());
        all.extend(
            said.flat_map(|said| said.values())
                .filter(|value| wanted.is_none_or(|wanted| wanted.has(value)))
                .map(str::to_owned),
        );
    }
    for node in &context.problem.existing_nodes {
        all.extend(
            node.labels.iter().filter(|(own, _)| labels::stable(own) == KEYS[key]).map(|(_, value)| value.clone()),
        );
    }
    all.into_iter().collect()
}
