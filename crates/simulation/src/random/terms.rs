//! Limits that operators set in a drawn scenario: pools' limits and budgets, how long nodes live, how many pods have to stay; and
//! the objects that they delete. It has a chance of its own: what else a seed draws stays what it is.

use fastrand::Rng;

/// Limits, budgets and lifetime of a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolTerms {
    /// `limits`, a line of the pool's spec, or nothing.
    pub limits: String,
    /// `budgets`, what is to be added within `disruption`.
    pub budgets: String,
    /// `expireAfter` and what goes with it.
    pub lifetime: String,
}

/// Chance that is derived from a generator and leaves it as it is.
pub fn own(rng: &Rng) -> Rng {
    Rng::with_seed(rng.get_seed() ^ 0x0074_6572_6d73) // "terms"
}

/// Draws a pool's. Every pod can run on the first pool, mostly: one in twelve has limits too.
pub fn of_pool(number: u32, rng: &mut Rng) -> PoolTerms {
    let limited = rng.u32(0..if number == 0 { 12 } else { 2 }) == 0;
    let limits = match rng.u32(0..3) {
        _ if !limited => String::new(),
        0 => format!("  limits: {{nodes: {}}}\n", rng.u32(1..=4)),
        1 => format!("  limits: {{cpu: {}, memory: {}Gi}}\n", rng.u32(2..=24), rng.u32(8..=96)),
        _ => format!("  limits: {{cpu: {}}}\n", rng.u32(2..=32)),
    };
    let after = rng.u32(0..6);
    let budgets = match rng.u32(0..12) {
        0 => ", budgets: []".to_owned(),
        1 => ", budgets: [{nodes: \"1\"}]".to_owned(),
        2 => ", budgets: [{nodes: \"0\"}]".to_owned(),
        3 => ", budgets: [{nodes: 20%}]".to_owned(),
        4 => ", budgets: [{nodes: 50%}, {nodes: \"2\"}]".to_owned(),
        5 => format!(", budgets: [{{nodes: \"0\", schedule: \"{after} 0 * * *\", duration: {}m}}]", rng.u32(2..=15)),
        6 => format!(
            ", budgets: [{{nodes: \"1\"}}, {{nodes: \"0\", reasons: [Empty], schedule: \"{after} 0 * * *\", duration: 5m}}]"
        ),
        7 => ", budgets: [{nodes: \"0\", reasons: [Drifted]}, {nodes: 100%}]".to_owned(),
        _ => String::new(),
    };
    let mut lifetime = match rng.u32(0..8) {
        0 => format!("      expireAfter: {}m\n", rng.u32(7..=25)),
        _ => "      expireAfter: Never\n".to_owned(),
    };
    if rng.u32(0..10) == 0 {
        lifetime.push_str(&format!("      terminationGracePeriod: {}s\n", [20, 60, 180][rng.usize(0..3)]));
    }
    PoolTerms { limits, budgets, lifetime }
}

/// A PodDisruptionBudget's rule over a workload that has none yet.
pub fn of_pods(rng: &mut Rng) -> Option<String> {
    let rule = match rng.u32(0..12) {
        0 => "minAvailable: 1",
        1 => "minAvailable: 50%",
        2 => "maxUnavailable: 1",
        3 => "maxUnavailable: 34%",
        _ => return None,
    };
    Some(rule.to_owned())
}

/// Nodes or NodeClaims that operators delete, in milliseconds since the start.
pub fn removals(seed: u64, busy: u32) -> Vec<(u32, String)> {
    let mut rng = Rng::with_seed(seed ^ 0x7265_6d6f_7665); // "remove"
    if rng.u32(0..4) != 0 {
        return Vec::new();
    }
    let one = |rng: &mut Rng| {
        let kind = ["NodeClaim", "Node"][rng.usize(0..2)];
        (rng.u32(60_000..busy * 1000), format!("deleteSome: {{kind: {kind}, count: {}}}", rng.u32(1..=3)))
    };
    (0..rng.u32(1..=3)).map(|_| one(&mut rng)).collect()
}
