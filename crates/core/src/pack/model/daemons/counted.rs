//! Requests of DaemonSets on each instance type of a pool: the most urgent first, and together no more than a share.
//!
//! Where a DaemonSet leaves most of its types enough room, it counts on the others too, as kube-scheduler will place its pods
//! there: small types are then no options. Where it would not, it counts only on types that have the room: nobody's pods take
//! all nodes from others.

use super::reach::{DaemonLeftOut, DaemonReach, RunsOn, may_have};
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::{Amounts, UNBOUNDED};
use crate::pack::model::columns::Columns;
use crate::pack::model::ids::{IndexVec, InstanceTypeId, PoolId};
use crate::pack::model::names::ResourceNames;
use crate::pack::model::offers::{Mask, Offers};
use crate::pack::model::pools::PoolView;
use crate::problem::Problem;
use crate::requirements::Requirements;
use crate::volumes::is_attachable;

/// A DaemonSet on a pool's nodes, with what its pod takes.
#[derive(Debug)]
struct Counted {
    runs: RunsOn,
    requests: Amounts,
}

/// The DaemonSets on a pool's nodes.
#[derive(Debug, Default)]
pub(crate) struct PoolDaemons {
    all: Vec<Counted>,
    /// Resources that stand for nodes with one of some DaemonSets, and these DaemonSets, by their places here.
    affinities: Vec<(usize, Vec<usize>)>,
    /// True if some run on some nodes only, whatever their types.
    any_partial: bool,
}

impl PoolDaemons {
    /// The DaemonSets of a pool whose types have the room `whole`, and those that are left out because they reach the share.
    pub fn new(
        (problem, pool, view): (&Problem, PoolId, &PoolView),
        reach: &DaemonReach,
        names: &ResourceNames,
        (columns, offers): (&Columns<'_>, &Offers),
        whole: &[i64],
    ) -> (Self, Vec<DaemonLeftOut>) {
        let mut share = Share::new(problem, names, whole);
        let (mut found, mut left_out) = (Self::default(), Vec::new());
        for runs in &reach.pools[pool] {
            let (mut runs, pod) = (runs.clone(), &problem.daemon_pods[runs.daemon]);
            let requests = names.of_daemon(runs.daemon, pod, |key| may_have(view, columns, offers, key));
            let meant = runs.types.count();
            share.count(&requests, &mut runs.types);
            if runs.types.count() < meant {
                let why = share.reached(runs.types.count(), meant);
                left_out.push(DaemonLeftOut { daemon: runs.daemon, pool: Some(pool), why });
            }
            if !runs.types.is_empty() {
                found.any_partial |= runs.is_partial();
                found.all.push(Counted { runs, requests });
            }
        }
        for (slot, affinity) in names.daemon_affinities() {
            let here = found.all.iter().enumerate().filter(|(_, one)| affinity.has_daemon(one.runs.daemon));
            let here = here.filter(|_| may_have(view, columns, offers, &affinity.group.key));
            found.affinities.push((slot, here.map(|(at, _)| at).collect()));
        }
        (found, left_out)
    }

    /// Requests of DaemonSets on each of the types, but for those that are absent; empty where there are none.
    pub fn taken(&self, absent: u64, types: &Bits, len: usize, nothing: &Amounts) -> IndexVec<InstanceTypeId, Amounts> {
        if self.all.is_empty() && self.affinities.is_empty() {
            return IndexVec::new();
        }
        let mut all = IndexVec::from_elem(nothing.clone(), len);
        for one in &self.all {
            for at in one.runs.types.iter().filter(|at| one.runs.counts(absent, *at)) {
                all[at].iter_mut().zip(&one.requests).for_each(|(sum, amount)| *sum = sum.saturating_add(*amount));
            }
        }
        for (slot, here) in &self.affinities {
            for at in types.iter().filter(|at| !here.iter().any(|one| self.all[*one].runs.counts(absent, *at))) {
                all[at][*slot] = UNBOUNDED;
            }
        }
        all
    }

    /// The DaemonSets, as bits, of which a node has no pod that has these requirements and is bought in these ways.
    pub fn absent(&self, view: &PoolView, wanted: &Requirements, offering_bits: Mask) -> u64 {
        if !self.any_partial {
            return 0;
        }
        let bits = self.all.iter().map(|one| one.runs.bit_if_absent(view, wanted, offering_bits));
        bits.fold(0, |absent, bit| absent | bit)
    }

    /// True if some run on some nodes only, whatever their types.
    pub fn are_partial(&self) -> bool {
        self.any_partial
    }

    /// The types on which each counts, by index among the problem's.
    pub fn types_by_daemon(&self) -> impl Iterator<Item = (usize, &Bits)> {
        self.all.iter().map(|one| (one.runs.daemon, &one.runs.types))
    }

    /// The DaemonSets on a node of a type, by index among the problem's, with their requests.
    pub fn on_type(&self, absent: u64, at: InstanceTypeId) -> impl Iterator<Item = (usize, &Amounts)> {
        let here = self.all.iter().filter(move |one| one.runs.counts(absent, at));
        here.map(|one| (one.runs.daemon, &one.requests))
    }
}

/// Requests of DaemonSets counted so far on each type, and the share that bounds them.
struct Share<'w> {
    share: crate::daemons::DaemonShare,
    whole: &'w [i64],
    width: usize,
    /// The resources of which nobody takes more than the share.
    bounded: Vec<usize>,
    taken: Vec<i64>,
}

impl<'w> Share<'w> {
    fn new(problem: &Problem, names: &ResourceNames, whole: &'w [i64]) -> Self {
        let named = names.named().iter().enumerate().filter(|(_, name)| !is_attachable(name));
        Self {
            share: problem.daemon_share,
            whole,
            width: names.0.len(),
            bounded: named.map(|(at, _)| at).collect(),
            taken: vec![0; whole.len()],
        }
    }

    /// Counts the requests of a DaemonSet on each of the types, and keeps of `types` those on which it counts.
    fn count(&mut self, requests: &Amounts, types: &mut Bits) {
        let mut over = types.clone();
        for at in types.iter() {
            let first = at.index() * self.width;
            let within = self.bounded.iter().filter(|name| requests[**name] > 0).all(|name| {
                let taken = self.taken[first + name].saturating_add(requests[*name]);
                self.share.has(taken, self.whole[first + name])
            });
            if within {
                over.remove(at);
            }
        }
        if over.count() * 2 > types.count() {
            types.without(&over);
        }
        for at in types.iter() {
            let first = at.index() * self.width;
            let taken = self.taken[first..first + self.width].iter_mut().zip(requests);
            taken.for_each(|(sum, amount)| *sum = sum.saturating_add(*amount));
        }
    }

    fn reached(&self, left: usize, meant: usize) -> String {
        let where_ = if left == 0 { String::new() } else { format!(" of {} of {meant} instance types", meant - left) };
        format!("with it DaemonSets would take more than {} percent{where_}", self.share.percent())
    }
}
