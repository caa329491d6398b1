//! The place of one pod with claims: an existing node first, then a bin of a new one.

use std::collections::BTreeSet;

use super::bins::{Bin, TypeAt, is_choosy, least_price, of_one, price_in, terms_of, with_daemons};
use super::stage::{Asked, Located, NO_TYPE, Stage, keep_to};
use crate::labels::NODE_NAME_FIELD;
use crate::pod::Pod;
use crate::problem::ExistingNode;
use crate::requirements::{Requirement, Requirements};

/// Most bins that may be joined at a time: the latest.
const MOST_OPEN_BINS: usize = 64;

impl<'a> Stage<'a, '_> {
    /// Decides the place of a pod; `guided` is the pod as packing will see it.
    pub(super) fn place_pod(&mut self, at: usize, guided: &mut Pod) -> Result<(), String> {
        let pod = &self.problem.pods[at];
        let asked = self.asked(pod)?;
        for terms in &asked.terms {
            let rules: Vec<_> = terms.iter().map(Requirements::to_written).collect();
            keep_to(guided, &rules)?;
        }
        let kind = self.kind_of(at, &asked);
        match asked.at {
            None if asked.wishes.is_empty() => Ok(()),
            Some(Located::On(node)) => self.place_on(at, guided, (&asked, None), node),
            Some(Located::In(bin)) => self.place_in(at, guided, &asked, bin),
            None => {
                let mut nearest = None;
                for node in 0..self.existing.len() {
                    if self.existing[node].is_none() || kind.is_some_and(|kind| self.refused.contains(&(kind, node))) {
                        continue;
                    }
                    match self.place_on(at, guided, (&asked, kind), node) {
                        Ok(()) => return Ok(()),
                        Err(why) => drop(nearest.get_or_insert(why)),
                    }
                }
                if guided.existing_only {
                    // Its like tries a new node: until then no other node will do, and packing says so.
                    let all = self.problem.existing_nodes.iter().map(|node| node.name.clone());
                    guided.refused_nodes.extend(all);
                    return Ok(());
                }
                self.place_new(at, guided, &asked, kind).map_err(|why| match nearest {
                    Some(on_node) if why == NO_TYPE => format!("{why}; on existing nodes: {on_node}"),
                    _ => why,
                })
            }
        }
    }

    /// Places a pod on an existing node.
    fn place_on(
        &mut self,
        at: usize,
        guided: &mut Pod,
        (asked, kind): (&Asked<'a>, Option<usize>),
        node: usize,
    ) -> Result<(), String> {
        let pod = &self.problem.pods[at];
        let existing = &self.problem.existing_nodes[node];
        if self.misfits.on_nodes.contains(&(at, node)) || !self.fits_on(guided, node) {
            return Err(format!("node {} does not suit it", existing.name));
        }
        let Some(mut place) = self.existing[node].clone() else {
            return Err(format!("the devices of node {} are not known", existing.name));
        };
        if let Err(why) = self.take_devices(pod, &asked.wishes, &mut place) {
            if let Some(kind) = kind {
                self.refused.insert((kind, node));
            }
            return Err(format!("node {}: {why}", existing.name));
        }
        self.existing[node] = Some(place);
        self.added[node].add(&of_one(pod));
        self.locate(&asked.wishes, Located::On(node));
        self.pinned.insert(at, node);
        let others = self.problem.existing_nodes.iter().filter(|one| one.name != existing.name);
        guided.refused_nodes.extend(others.map(|one| one.name.clone()));
        guided.existing_only = true;
        Ok(())
    }

    /// True if a pod would fit on a node, as far as that is seen without the rules between pods.
    fn fits_on(&self, pod: &Pod, node: usize) -> bool {
        let existing = &self.problem.existing_nodes[node];
        let mut all = existing.used.clone();
        [&self.added[node], &existing.daemon_requests, &of_one(pod)].into_iter().for_each(|more| all.add(more));
        all.fits_in(&existing.allocatable)
            && !pod.refused_nodes.contains(&existing.name)
            && pod.refused_as_of.is_none_or(|as_of| existing.changed > as_of)
            && tolerates_all(pod, &existing.taints)
            && meets_terms(pod, existing)
    }

    /// Instance types of pools on which a pod alone would have its devices.
    fn types_for(&mut self, pod: &'a Pod, guided: &Pod, asked: &Asked<'a>) -> Result<Vec<TypeAt>, String> {
        let problem = self.problem;
        let terms = terms_of(guided);
        let all = with_daemons(problem, &of_one(pod));
        let (mut types, mut why, mut known, mut roomy) = (Vec::new(), None, false, BTreeSet::new());
        for (at, pool) in problem.node_pools.iter().enumerate().filter(|(_, pool)| tolerates_all(guided, &pool.taints))
        {
            let kinds = pool.instance_types.clone().unwrap_or_else(|| (0..problem.instance_types.len()).collect());
            for kind in kinds {
                let Some(mut place) = self.places.of_type(kind, self.search.selectors) else { continue };
                known = true;
                let instance_type = &problem.instance_types[kind];
                let price = price_in(instance_type, &self.pools[at], &terms, &self.allowed_undefined);
                let Some(price) = price else { continue };
                match self.take_devices(pod, &asked.wishes, &mut place) {
                    Ok(_) if all.fits_in(&instance_type.allocatable()) => {
                        roomy.insert((at, kind));
                        types.push(TypeAt { pool: at, kind, place, price });
                    }
                    Ok(_) => types.push(TypeAt { pool: at, kind, place, price }),
                    Err(text) => drop(why.get_or_insert(format!("{}: {text}", instance_type.name))),
                }
            }
        }
        if !roomy.is_empty() {
            types.retain(|one| roomy.contains(&(one.pool, one.kind)));
        }
        match (types.is_empty(), why, known) {
            (false, ..) => Ok(types),
            (true, Some(why), _) => Err(format!("no instance type has the devices that it asks for; {why}")),
            (true, None, true) => Err("no instance type that has devices can be had for it".into()),
            (true, None, false) => Err(NO_TYPE.into()),
        }
    }

    /// Places a pod in a bin of a new node: in one that is there, if that costs no more than another one.
    fn place_new(&mut self, at: usize, guided: &Pod, asked: &Asked<'a>, kind: Option<usize>) -> Result<(), String> {
        let pod = &self.problem.pods[at];
        let known = kind.and_then(|kind| self.kinds[kind].1.clone());
        let fresh = known.unwrap_or_else(|| self.types_for(pod, guided, asked));
        if let Some(kind) = kind {
            self.kinds[kind].1 = Some(fresh.clone());
        }
        let fresh = fresh?;
        let closed = is_choosy(guided) || self.misfits.alone.contains(&at);
        let mut best: Option<(f64, usize, Vec<TypeAt>)> = None;
        let first = if closed { self.bins.len() } else { self.bins.len().saturating_sub(MOST_OPEN_BINS) };
        for bin in first..self.bins.len() {
            let own = &self.bins[bin];
            if own.closed || kind.is_some_and(|kind| own.refuses.contains(&kind)) {
                continue;
            }
            let before = least_price(&own.types);
            let types = self.types_with(bin, pod, asked, &fresh);
            let more = least_price(&types) - before;
            if types.is_empty() {
                self.bins[bin].refuses.extend(kind);
            } else if more <= least_price(&fresh) && best.as_ref().is_none_or(|(least, ..)| more < *least) {
                best = Some((more, bin, types));
            }
        }
        let (bin, types) = match best {
            Some((_, bin, types)) => (bin, types),
            None => {
                self.bins.push(Bin { closed, ..Bin::default() });
                (self.bins.len() - 1, fresh)
            }
        };
        self.join(at, asked, bin, types);
        Ok(())
    }

    /// Places a pod in the bin in which claims of it are.
    fn place_in(&mut self, at: usize, guided: &Pod, asked: &Asked<'a>, bin: usize) -> Result<(), String> {
        let pod = &self.problem.pods[at];
        let fresh = self.types_for(pod, guided, asked)?;
        let types = self.types_with(bin, pod, asked, &fresh);
        if types.is_empty() {
            return Err("the node that gets the devices of its ResourceClaims has no room for it".into());
        }
        self.join(at, asked, bin, types);
        Ok(())
    }

    /// Types that a bin can still be with another pod.
    fn types_with(&mut self, bin: usize, pod: &'a Pod, asked: &Asked<'a>, fresh: &[TypeAt]) -> Vec<TypeAt> {
        let mut requests = self.bins[bin].requests.clone();
        requests.add(&of_one(pod));
        let all = with_daemons(self.problem, &requests);
        let mut types = Vec::new();
        for one in self.bins[bin].types.clone() {
            let suits = fresh.iter().any(|own| (own.pool, own.kind) == (one.pool, one.kind));
            let mut place = one.place.clone();
            if suits
                && all.fits_in(&self.problem.instance_types[one.kind].allocatable())
                && self.take_devices(pod, &asked.wishes, &mut place).is_ok()
            {
                types.push(TypeAt { place, ..one });
            }
        }
        types
    }

    fn join(&mut self, at: usize, asked: &Asked<'a>, bin: usize, types: Vec<TypeAt>) {
        let drivers = types.iter().flat_map(|one| one.place.drivers_in_use());
        let own = &mut self.bins[bin];
        own.drivers = drivers.map(str::to_owned).collect();
        own.pods.push(at);
        own.requests.add(&of_one(&self.problem.pods[at]));
        own.types = types;
        self.locate(&asked.wishes, Located::In(bin));
    }
}

/// True if a pod may be on a node with these taints.
fn tolerates_all(pod: &Pod, taints: &[k8s_openapi::api::core::v1::Taint]) -> bool {
    taints.iter().filter(|taint| taint.effect != "PreferNoSchedule").all(|taint| pod.tolerates(taint))
}

/// True if a node meets one of the terms of a pod.
fn meets_terms(pod: &Pod, node: &ExistingNode) -> bool {
    let mut own = Requirements::from_labels(&node.labels);
    own.add(NODE_NAME_FIELD, Requirement::one_of([node.name.as_str()]));
    terms_of(pod).iter().any(|term| own.compatible(term, &BTreeSet::new()).is_ok())
}
