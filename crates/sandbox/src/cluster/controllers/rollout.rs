//! Numbers of pods that the old and the new ReplicaSets of a Deployment get next. Pure.

use serde_json::Value;

use super::template::{replicas, scaled};
use crate::cluster::cache::CachedObject;

/// New counts; `None` where nothing changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RolloutPlan {
    pub new: Option<i64>,
    /// In the order of the old sets.
    pub old: Vec<Option<i64>>,
}

impl RolloutPlan {
    /// True if nothing changes.
    pub(crate) fn is_idle(&self) -> bool {
        self.new.is_none() && self.old.iter().all(Option::is_none)
    }
}

/// `maxSurge` in pods.
pub(crate) fn surge(deployment: &Value) -> i64 {
    if recreates(deployment) {
        return 0;
    }
    let written = &deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"];
    let total = replicas(deployment);
    scaled(written, total, true).unwrap_or((total + 3) / 4)
}

/// `maxUnavailable` in pods; at least one when nothing may surge.
fn unavailable(deployment: &Value) -> i64 {
    let written = &deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"];
    let total = replicas(deployment);
    let count = scaled(written, total, false).unwrap_or(total / 4).min(total);
    if count == 0 && surge(deployment) == 0 { 1 } else { count }
}

fn recreates(deployment: &Value) -> bool {
    deployment["spec"]["strategy"]["type"] == "Recreate"
}

/// Number of pods that a new set starts with, the old ones having `old` in all.
pub(crate) fn first_count(deployment: &Value, old: i64) -> i64 {
    let wanted = replicas(deployment);
    if recreates(deployment) {
        return if old == 0 { wanted } else { 0 };
    }
    (wanted + surge(deployment) - old).clamp(0, wanted)
}

/// The next step.
pub(crate) fn plan(deployment: &Value, new: &Value, old: &[CachedObject]) -> RolloutPlan {
    let wanted = replicas(deployment);
    let have = replicas(new);
    let old_total: i64 = old.iter().map(|set| replicas(set)).sum();
    let mut plan = RolloutPlan { new: None, old: vec![None; old.len()] };
    let running: i64 = old.iter().map(|set| status(set, "replicas")).sum();
    if old_total == 0 && (!recreates(deployment) || running == 0) {
        plan.new = (have != wanted).then_some(wanted);
    } else if deployment["spec"]["paused"] == true {
        return plan;
    } else if recreates(deployment) {
        plan.old = old.iter().map(|set| (replicas(set) > 0).then_some(0)).collect();
    } else {
        let room = (wanted + surge(deployment) - old_total - have).max(0);
        let next = if have > wanted { wanted } else { (have + room).min(wanted) };
        plan.new = (next != have).then_some(next);
        plan.old = shrink(deployment, new, old, next);
    }
    plan
}

/// Takes pods off the old sets: those that are not available first, then as many as the new set makes up for.
fn shrink(deployment: &Value, new: &Value, old: &[CachedObject], new_count: i64) -> Vec<Option<i64>> {
    let least = replicas(deployment) - unavailable(deployment);
    let old_total: i64 = old.iter().map(|set| replicas(set)).sum();
    let new_unavailable = (new_count - status(new, "availableReplicas")).max(0);
    let mut budget = (old_total + new_count - least - new_unavailable).max(0);
    let mut counts: Vec<i64> = old.iter().map(|set| replicas(set)).collect();
    for (set, count) in old.iter().zip(&mut counts) {
        let sick = (*count - status(set, "availableReplicas")).clamp(0, budget);
        *count -= sick;
        budget -= sick;
    }
    let available: i64 = old.iter().chain([]).map(|set| status(set, "availableReplicas")).sum::<i64>()
        + status(new, "availableReplicas");
    let mut spare = (available - least).max(0);
    for count in &mut counts {
        let taken = (*count).min(spare);
        *count -= taken;
        spare -= taken;
    }
    old.iter().zip(counts).map(|(set, count)| (count != replicas(set)).then_some(count)).collect()
}

fn status(set: &Value, field: &str) -> i64 {
    set["status"][field].as_i64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn deployment(replicas: i64, surge: &str, unavailable: &str) -> Value {
        json!({"spec": {"replicas": replicas, "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}})
    }

    fn set(replicas: i64, available: i64) -> CachedObject {
        Arc::new(
            json!({"spec": {"replicas": replicas}, "status": {"replicas": replicas, "availableReplicas": available}}),
        )
    }

    #[test]
    fn scaling_without_a_rollout_goes_straight_to_the_new_count() {
        assert_eq!(plan(&deployment(400, "25%", "25%"), &set(10, 10), &[]).new, Some(400));
    }

    #[test]
    fn rollout_keeps_within_max_surge_and_max_unavailable() {
        let d = deployment(10, "30%", "20%");
        let (mut new, mut old) = (0, 10);
        for _ in 0..40 {
            // Each step all pods that are asked for have become available.
            let step = plan(&d, &set(new, new), &[set(old, old)]);
            let before = new + old;
            new = step.new.unwrap_or(new);
            let after_old = step.old.first().copied().flatten().unwrap_or(old);
            assert!(new + old <= 13, "surge: {new} + {old}");
            assert!(before - (old - after_old) >= 8 || old == after_old, "too few: {before} {old} {after_old}");
            old = after_old;
        }
        assert_eq!((new, old), (10, 0));
    }

    #[test]
    fn recreate_waits_for_the_old_pods_to_be_gone() {
        let mut d = deployment(3, "0", "0");
        d["spec"]["strategy"] = json!({"type": "Recreate"});
        assert_eq!(plan(&d, &set(0, 0), &[set(3, 3)]), RolloutPlan { new: None, old: vec![Some(0)] });
        let going: CachedObject = Arc::new(json!({"spec": {"replicas": 0}, "status": {"replicas": 2}}));
        assert!(plan(&d, &set(0, 0), &[going]).is_idle());
        assert_eq!(plan(&d, &set(0, 0), &[set(0, 0)]).new, Some(3));
    }
}
