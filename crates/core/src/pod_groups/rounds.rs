//! Packing until every gang that has places has enough of them. What lacks some is left out, and tried again with all that is
//! settled, one gang at a time: two that share what is scarce would both lack some.
//!
//! ```text
//! all ─ none lacks ─► stands
//!  └─ some lack ─► without them, but for the first: enough ─► it stays ─┬─► the next … ─► stands
//!                                                   lacks ─► it is out ─┘
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::gangs::{GangTable, WaitingGang};
use super::trials::GangTrials;
use crate::pack::{Packing, Reason};
use crate::problem::Problem;

/// Most gangs of a packing that are tried by themselves: others wait for a later one.
const MOST_TRIES: usize = 4;
/// Most packings without those that lack places until all gangs are left out.
const MOST_SETTLINGS: usize = 4;
/// Characters of another reason within that of a gang.
const LONGEST_REASON: usize = 1_000;

/// The packings by which the gangs of a problem come to have enough places, or none.
#[derive(Clone, Debug)]
pub struct GangRounds {
    table: GangTable,
    /// The problem with all gangs.
    whole: Arc<Problem>,
    /// Gangs that are left out, with the reason.
    out: BTreeMap<usize, String>,
    /// Gangs that are yet to be tried, the last first.
    untried: Vec<usize>,
    /// The gang that is tried in the packing that is asked for.
    trying: Option<usize>,
    /// True until the packing with all gangs is known.
    is_first: bool,
    settlings: usize,
    /// Gangs that were tried by themselves and lack places.
    failed: Vec<usize>,
}

impl GangRounds {
    /// Rounds for a problem. `out` are gangs that are left out from the start, by key, with the reason.
    #[must_use]
    pub fn new(table: GangTable, whole: Arc<Problem>, out: &BTreeMap<String, String>) -> Self {
        let left_out = |(at, gang): (usize, &WaitingGang)| Some((at, out.get(&gang.key)?.clone()));
        Self {
            out: table.gangs.iter().enumerate().filter_map(left_out).collect(),
            table,
            whole,
            untried: Vec::new(),
            trying: None,
            is_first: true,
            settlings: 0,
            failed: Vec::new(),
        }
    }

    /// The problem to be packed now: pods of gangs that are left out are blocked.
    #[must_use]
    pub fn problem(&self) -> Arc<Problem> {
        if self.out.is_empty() {
            return self.whole.clone();
        }
        let mut problem = Problem::clone(&self.whole);
        for (at, why) in &self.out {
            for pod in &self.table.gangs[*at].waiting {
                problem.pods[*pod].blocked.get_or_insert_with(|| why.clone());
            }
        }
        Arc::new(problem)
    }

    /// Takes in a packing of [`GangRounds::problem`]. True if it stands; otherwise there is another one to be made.
    pub fn judge(&mut self, packing: &Packing, trials: &GangTrials) -> bool {
        let short = self.table.short_in(packing, self.whole.pods.len());
        let short: Vec<(usize, usize)> = short.into_iter().filter(|(at, _)| !self.out.contains_key(at)).collect();
        if self.is_first {
            self.is_first = false;
            return short.is_empty() || self.begin_tries(&short, packing, trials);
        }
        match self.trying.take() {
            Some(tried) if !short.is_empty() => {
                let placed = short.iter().find(|(at, _)| *at == tried).map(|(_, placed)| *placed);
                self.leave_out(tried, placed, packing);
                self.failed.extend(placed.map(|_| tried));
            }
            Some(_) if self.untried.is_empty() => return true,
            Some(_) => {}
            None if short.is_empty() => return true,
            None => self.settle(&short, packing),
        }
        self.try_next();
        false
    }

    /// Keys of the gangs that were tried by themselves and lack places.
    #[must_use]
    pub fn failed(&self) -> Vec<&str> {
        self.failed.iter().map(|at| self.table.gangs[*at].key.as_str()).collect()
    }

    /// Leaves all out that lack places, with those behind the first of them that have some, and tries the first.
    fn begin_tries(&mut self, short: &[(usize, usize)], packing: &Packing, trials: &GangTrials) -> bool {
        let rank = |at: usize| {
            let gang = &self.table.gangs[at];
            (trials.last_failure(&gang.key), Reverse(gang.priority), gang.created, gang.key.as_str())
        };
        let counts: BTreeMap<usize, usize> = short.iter().copied().collect();
        let first = short.iter().map(|(at, _)| rank(*at)).min();
        let is_behind = |at: &usize| {
            let may_yield = !self.table.gangs[*at].is_enough() && !self.out.contains_key(at);
            let is_later = may_yield && first < Some(rank(*at));
            counts.contains_key(at) || (is_later && self.table.has_places(*at, packing))
        };
        let mut order: Vec<usize> = (0..self.table.gangs.len()).filter(is_behind).collect();
        order.sort_by_key(|at| rank(*at));
        for at in &order {
            self.leave_out(*at, counts.get(at).copied(), packing);
        }
        if order.len() == 1 {
            // Nobody else is in its way: with all others it has been tried.
            self.failed = order;
            return false;
        }
        order.truncate(MOST_TRIES);
        order.reverse();
        self.untried = order;
        self.try_next();
        false
    }

    fn try_next(&mut self) {
        self.trying = self.untried.pop();
        if let Some(at) = self.trying {
            self.out.remove(&at);
        }
    }

    /// Gangs lack places though none is tried: they are left out too, and at last all that could.
    fn settle(&mut self, short: &[(usize, usize)], packing: &Packing) {
        self.settlings += 1;
        if self.settlings <= MOST_SETTLINGS {
            return short.iter().for_each(|(at, placed)| self.leave_out(*at, Some(*placed), packing));
        }
        for at in 0..self.table.gangs.len() {
            if !self.out.contains_key(&at) && !self.table.gangs[at].is_enough() {
                self.leave_out(at, None, packing);
            }
        }
    }

    fn leave_out(&mut self, at: usize, placed: Option<usize>, packing: &Packing) {
        let gang = &self.table.gangs[at];
        let text = match placed {
            Some(placed) => gang.too_few(placed, why_without_place(&gang.waiting, packing).as_deref()),
            None => format!("PodGroup {}: others would lack places for it; it is tried again", gang.key),
        };
        self.out.insert(at, text);
    }
}

/// The reason of the first of these pods that has no place.
fn why_without_place(pods: &[usize], packing: &Packing) -> Option<String> {
    let (_, reason) = packing.unscheduled.iter().find(|(pod, _)| pods.binary_search(pod).is_ok())?;
    Some(reason.to_string().chars().take(LONGEST_REASON).collect())
}

/// Packs a problem until the packing stands, and answers both. `pack` answers a packing with the problem as it was packed.
pub fn pack_gangs(
    table: &GangTable,
    problem: &Arc<Problem>,
    mut pack: impl FnMut(&Arc<Problem>) -> (Arc<Problem>, Packing),
) -> (Arc<Problem>, Packing) {
    if table.is_empty() {
        return pack(problem);
    }
    let mut rounds = GangRounds::new(table.clone(), problem.clone(), &BTreeMap::new());
    let trials = GangTrials::default();
    loop {
        let (problem, packing) = pack(&rounds.problem());
        if rounds.judge(&packing, &trials) {
            return (problem, packing);
        }
    }
}

/// Takes the pods of gangs that lack places by now, as nodes were taken out of a packing after it stood, out of it: they wait with
/// that reason, which `held` has by their uids. Nodes that nobody else is planned for go out, too.
pub fn take_out_short(
    table: &GangTable,
    problem: &Problem,
    held: &mut BTreeMap<String, String>,
    packing: &mut Packing,
) {
    if table.is_empty() {
        return;
    }
    let on_new = packing.claims.iter().flat_map(|claim| &claim.pods);
    let planned: BTreeSet<usize> =
        on_new.chain(packing.on_existing.iter().flat_map(|(_, pods)| pods)).copied().collect();
    let mut out: BTreeMap<usize, Arc<Reason>> = BTreeMap::new();
    for (at, placed) in table.short_in(packing, problem.pods.len()) {
        let gang = &table.gangs[at];
        let why = gang.too_few(placed, why_without_place(&gang.waiting, packing).as_deref());
        let reason = Arc::new(Reason::Invalid { problem: why.clone() });
        for pod in gang.waiting.iter().filter(|pod| planned.contains(pod)) {
            out.insert(*pod, reason.clone());
            held.insert(problem.pods[*pod].uid.clone(), why.clone());
        }
    }
    if out.is_empty() {
        return;
    }
    packing.claims.iter_mut().for_each(|claim| claim.pods.retain(|pod| !out.contains_key(pod)));
    packing.on_existing.iter_mut().for_each(|(_, pods)| pods.retain(|pod| !out.contains_key(pod)));
    packing.claims.retain(|claim| !claim.pods.is_empty());
    packing.on_existing.retain(|(_, pods)| !pods.is_empty());
    packing.unscheduled.extend(out);
    packing.sum_prices();
}
