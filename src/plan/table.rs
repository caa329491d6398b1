//! The answer of `plan` for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use dovetail_core::commitments::PlanBill;
use dovetail_core::pack::{Packing, PlannedClaim};
use dovetail_core::resources::{CPU, MEMORY};
use dovetail_core::{MaxOptionPrice, Policy, Problem, Requirements};

use super::answer::{paid_for, pod_name, type_name, waiting};
use super::live::HOURS_OF_A_MONTH;
use crate::cli::{PlanArgs, PlanForm};

/// Most options that a line names; the rest is counted.
pub const OPTIONS_NAMED: usize = 5;
/// Most pods with the same reason that a line names; the rest is counted.
const PODS_NAMED: usize = 5;

/// The whole answer as text. It holds no times, so that equal input gives equal bytes.
pub fn render(problem: &Problem, packing: &Packing, args: &PlanArgs) -> String {
    let mut text = String::new();
    let wide = args.form() == PlanForm::Wide;
    let (most_options, most_pods) = if wide { (usize::MAX, usize::MAX) } else { (OPTIONS_NAMED, PODS_NAMED) };
    if !packing.claims.is_empty() {
        let _ = writeln!(text, "{}\n", nodes(problem, packing, most_options));
    }
    let on_existing: usize = packing.on_existing.iter().map(|(_, pods)| pods.len()).sum();
    let waiting = waiting(problem);
    let placed = waiting - packing.unscheduled.len();
    let on_new = match on_existing {
        0 => String::new(),
        _ => format!(", {on_existing} of them on existing nodes, {}", placed.saturating_sub(on_existing)),
    };
    let price: f64 = packing.claims.iter().map(|claim| claim.price).fold(0.0, |sum, price| sum + price);
    let _ = writeln!(
        text,
        "{placed} of {waiting} pods placed{on_new} on {} new node{}, ${price:.4} an hour, ${:.0} a month",
        packing.claims.len(),
        if packing.claims.len() == 1 { "" } else { "s" },
        price * HOURS_OF_A_MONTH,
    );
    if let Some(paid) = paid_for(problem, packing) {
        let _ = writeln!(text, "nodes in capacity reservations are paid for: ${paid:.4} an hour on demand");
    }
    let price_per_node = args.price_per_node;
    if problem.node_pools.iter().any(|pool| pool.policy == Policy::Cost) && !packing.claims.is_empty() {
        let _ = writeln!(
            text,
            "a node more is taken where it saves more than ${price_per_node} an hour (--price-per-node); 5% more are paid at most \
             so that no node holds more than half of ten pods or more of a kind"
        );
    }
    too_dear(&mut text, problem, packing, args.max_option_price.unwrap_or_default());
    pending(&mut text, problem, packing, most_pods);
    text
}

/// The plan's effect on the bill, as a line.
pub fn bill_line(bill: &PlanBill) -> String {
    let PlanBill { added, covered, unused } = bill;
    format!(
        "commitments cover ${covered:.4} an hour of these nodes' on-demand prices, ${unused:.4} an hour of them stay unused; \
         the bill rises by ${added:.4} an hour\n"
    )
}

/// Writes how many nodes name few types because others are too dear, by ceiling.
fn too_dear(text: &mut String, problem: &Problem, packing: &Packing, ceiling: MaxOptionPrice) {
    let mut by_ceiling: BTreeMap<String, usize> = BTreeMap::new();
    for claim in packing.claims.iter().filter(|claim| claim.too_dear > 0) {
        let cheapest = claim.cheapest_type().and_then(|at| problem.instance_types.get(at));
        *by_ceiling.entry(cheapest.map_or(0.0, |one| ceiling.factor_for(one)).to_string()).or_default() += 1;
    }
    for (times, nodes) in by_ceiling {
        let (s, verb) = if nodes == 1 { ("", "has") } else { ("s", "have") };
        let _ = writeln!(
            text,
            "{nodes} node{s} {verb} fewer options than variety asks for: others cost more than {times} times the cheapest, \
             or would make the mean cost more than {} times (--max-option-price)",
            ceiling.mean()
        );
    }
}

fn nodes(problem: &Problem, packing: &Packing, most_options: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "NODES",
        "POOL",
        "CHEAPEST TYPE",
        "ZONES",
        "CAPACITY",
        "PODS",
        "CPU",
        "MEMORY",
        "$/H EACH",
        "OPTIONS",
    ]);
    for column in [0, 5, 6, 7, 8] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (row, count) in rows(problem, packing, most_options) {
        let mut cells = vec![count.to_string()];
        cells.extend(row);
        table.add_row(cells);
    }
    table
}

/// Equal nodes are one row with a count, in the order in which they were planned.
pub fn rows(problem: &Problem, packing: &Packing, most_options: usize) -> Vec<(Vec<String>, usize)> {
    let mut rows: Vec<(Vec<String>, usize)> = Vec::new();
    for claim in &packing.claims {
        let row = row(problem, claim, most_options);
        match rows.iter_mut().find(|(known, _)| *known == row) {
            Some((_, count)) => *count += 1,
            None => rows.push((row, 1)),
        }
    }
    rows
}

fn row(problem: &Problem, claim: &PlannedClaim, most_options: usize) -> Vec<String> {
    let requests = &claim.requests;
    vec![
        problem.node_pools[claim.pool].name.clone(),
        type_name(problem, claim.cheapest_type()).to_owned(),
        values(claim, "topology.kubernetes.io/zone", &claim.cheapest_zone),
        values(claim, "karpenter.sh/capacity-type", &claim.cheapest_capacity_type),
        claim.pods.len().to_string(),
        format!("{:.2}", requests.get(CPU) as f64 / 1000.0),
        format!("{:.2}Gi", requests.get(MEMORY) as f64 / f64::from(1 << 30)),
        format!("{:.4}", claim.price),
        options(problem, claim, most_options),
    ]
}

/// The values that a claim allows for a key, the one of its cheapest offering first.
fn values(claim: &PlannedClaim, key: &str, cheapest: &str) -> String {
    let allowed = Requirements::from_written(&claim.requirements).ok();
    let mut names: Vec<String> = allowed
        .as_ref()
        .and_then(|all| all.get(key))
        .map(|one| one.values().map(str::to_owned).collect())
        .unwrap_or_default();
    names.retain(|name| name != cheapest);
    names.insert(0, cheapest.to_owned());
    names.join(",")
}

fn options(problem: &Problem, claim: &PlannedClaim, most: usize) -> String {
    let names = claim.options.iter().map(|option| &*problem.instance_types[option.instance_type].name);
    let mut text = names.take(most).collect::<Vec<_>>().join(", ");
    if claim.options.len() > most {
        let _ = write!(text, " and {} other(s)", claim.options.len() - most);
    }
    text
}

/// The pods left over, those with the same reason together.
fn pending(text: &mut String, problem: &Problem, packing: &Packing, most: usize) {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (pod, reason) in &packing.unscheduled {
        by_reason.entry(reason.to_string()).or_default().push(pod_name(problem, *pod));
    }
    for (reason, mut pods) in by_reason {
        pods.sort_unstable();
        let more = pods.len().saturating_sub(most);
        pods.truncate(most);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "pending: {}{rest}: {reason}", pods.join(", "));
    }
}
