//! The cost of disruption (core spec 5.4).

/// The cost of a pod's eviction: 1, more with its deletion cost and its priority, from -10 to 10. A deletion cost that is no
/// number counts as none.
#[must_use]
pub fn eviction_cost(deletion_cost: Option<&String>, priority: i32) -> f64 {
    let deletion_cost = deletion_cost.and_then(|text| text.parse::<i32>().ok()).unwrap_or(0);
    let cost = 1.0 + f64::from(deletion_cost) / 2f64.powi(27) + f64::from(priority) / 2f64.powi(25);
    cost.clamp(-10.0, 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(deletion_cost: &str, priority: i32) -> f64 {
        eviction_cost(Some(&deletion_cost.to_owned()), priority)
    }

    #[test]
    fn eviction_cost_is_one_and_pod_moves_it_within_ten() {
        assert!((eviction_cost(None, 0) - 1.0).abs() < f64::EPSILON);
        assert!((cost("lots", 0) - 1.0).abs() < f64::EPSILON);
        assert!((cost("134217728", 0) - 2.0).abs() < f64::EPSILON);
        assert!((cost("0", 1 << 25) - 2.0).abs() < f64::EPSILON);
        assert!((cost("2147483647", i32::MAX) - 10.0).abs() < f64::EPSILON);
        assert!((cost("-2147483647", i32::MIN) + 10.0).abs() < f64::EPSILON);
        assert!(cost("-134217728", 0) <= 0.0, "such a pod keeps no node");
    }
}
