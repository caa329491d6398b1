//! What DaemonSets take of a pool's new nodes (spec core 3.9).

use super::alternatives::GivenUp;
use super::bits::Bits;
use super::classes::{Amounts, ResourceNames};
use super::columns::Columns;
use super::offers::Offers;
use super::pools::PoolView;
use super::{alternatives, taints};
use crate::problem::{Pool, PreferencePolicy, Problem};
use crate::requirements::Requirements;

/// For each instance type what daemons take of it; empty when no daemon runs on the pool's nodes. A daemon counts
/// where its node selector and any term of its node affinity can be met; taints that only prefer do not keep it off.
pub(crate) fn overhead(
    problem: &Problem,
    pool: &Pool,
    view: &PoolView,
    names: &ResourceNames,
    columns: &Columns<'_>,
    offers: &Offers,
) -> Vec<Amounts> {
    let count = problem.instance_types.len();
    let mut all = Vec::new();
    for daemon in &problem.daemon_pods {
        if taints::untolerated(&pool.taints, &daemon.tolerations, true).is_some() {
            continue;
        }
        let Ok(terms) = alternatives::alternatives(daemon, PreferencePolicy::Ignore, false, GivenUp::default()) else {
            continue;
        };
        let mut types = Bits::empty(count);
        for term in terms {
            types.or(&reached(&term.requirements, view, columns, offers));
        }
        if types.is_empty() {
            continue;
        }
        if all.is_empty() {
            all = vec![Amounts::from_elem(0, names.0.len()); count];
        }
        let requests = names.of_pod(daemon);
        for at in types.iter() {
            all[at].iter_mut().zip(&requests).for_each(|(sum, amount)| *sum = sum.saturating_add(*amount));
        }
    }
    all
}

fn reached(wanted: &Requirements, view: &PoolView, columns: &Columns<'_>, offers: &Offers) -> Bits {
    let mut types = view.types.clone();
    let mut out = false;
    for (key, requirement) in wanted.iter() {
        if let Some(own) = view.requirements.get(key) {
            out |= !(own.intersects(requirement) || own.allows_absence() && requirement.allows_absence());
        }
        match columns.get(key) {
            _ if offers.keys.contains(key) || view.labels.contains(key) => {}
            Some(column) => types.and(&column.select(requirement)),
            // `registered` and `initialized` are true on every node by the time a daemon asks.
            None if key == "karpenter.sh/registered" || key == "karpenter.sh/initialized" => {}
            None => out |= view.requirements.get(key).is_none() && !requirement.allows_absence(),
        }
    }
    if out || view.cells & offers.select(wanted) == 0 {
        types.clear();
    }
    types
}
