//! Warnings for users although packing goes on.

use dovetail_api::names::labels;
use dovetail_api::names::provider::Provider;

use crate::pack::filter::taints;
use crate::pack::model::pools::requirements_of;
use crate::problem::{Pool, Problem};

/// Sentences about pools that may not do what their author expects.
#[must_use]
pub fn warnings(problem: &Problem) -> Vec<String> {
    let mut found = Vec::new();
    if problem.node_pools.is_empty() && problem.left_out.is_empty() {
        found.push("no NodePool exists: no pod can get a new node".to_owned());
    }
    for pool in &problem.node_pools {
        if let Err(error) = requirements_of(pool) {
            found.push(format!("pool {} is left out: {error}", pool.name));
        }
    }
    for (at, a) in problem.node_pools.iter().enumerate() {
        for b in &problem.node_pools[at + 1..] {
            if a.weight == b.weight && overlap(a, b) {
                let (first, second) = if a.name > b.name { (a, b) } else { (b, a) };
                found.push(format!(
                    "pools {} and {} have the same weight ({}) and can take the same pods: these go where they cost less; \
                     give the pools different weights or make them exclude each other",
                    first.name, second.name, first.weight
                ));
            }
        }
    }
    found
}

/// True if a pod could be meant for either: requirements that do not exclude each other, and the same taints.
pub(in crate::pack) fn overlap(a: &Pool, b: &Pool) -> bool {
    let same_taints = |a: &Pool, b: &Pool| {
        let hard = |pool: &Pool| {
            let mut named: Vec<String> = pool.taints.iter().map(taints::describe).collect();
            named.sort();
            named
        };
        hard(a) == hard(b)
    };
    let bare = |pool: &Pool| Pool { name: String::new(), node_class: None, ..pool.clone() };
    // Names of the pool and its class tell them apart without keeping any pod from either.
    let open = |pool: &Pool| {
        requirements_of(&bare(pool)).map(|mut requirements| {
            let classes = Provider::ALL.into_iter().map(|provider| provider.class().label);
            let names = classes.chain([labels::NODE_POOL, labels::PROVISIONER_NAME]);
            names.for_each(|key| requirements.remove(key));
            requirements
        })
    };
    match (open(a), open(b)) {
        (Ok(left), Ok(right)) => same_taints(a, b) && left.intersects(&right).is_ok(),
        _ => false,
    }
}
