//! Recommendations that are known, by the workloads that they are for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::vertical::VerticalPodAutoscaler;
use jiff::Timestamp;

use crate::resources::{Resources, parse_amount};

/// Most autoscalers that count; those beyond it change nothing.
pub const MOST_RECOMMENDATIONS: usize = 20_000;
/// Most containers of a recommendation that count.
const MOST_CONTAINERS: usize = 100;
/// The mode in which nobody changes requests.
const MODE_OFF: &str = "Off";

/// Requests that pods of a workload get when they are created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recommendation {
    /// Time at which the autoscaler was created: of several for one workload the oldest counts.
    created: Option<Timestamp>,
    /// The workload, as [`crate::cluster_state::PodEntry::controller`] has it: `kind/namespace/name`.
    target: String,
    /// Requests by container; none in the mode `Off`.
    containers: BTreeMap<String, Resources>,
}

impl Recommendation {
    /// Reads an autoscaler; `None` if it says nothing that counts. An amount that cannot be read, or is less than nothing, is left
    /// out.
    fn of_autoscaler(vpa: &VerticalPodAutoscaler) -> Option<Self> {
        let target = vpa.spec.target_ref.as_ref()?;
        let mode = vpa.spec.update_policy.as_ref().and_then(|policy| policy.update_mode.as_deref());
        let recommended = vpa.status.as_ref().and_then(|status| status.recommendation.as_ref());
        let mut containers: BTreeMap<String, Resources> = BTreeMap::new();
        if mode != Some(MODE_OFF) {
            for one in recommended.iter().flat_map(|all| &all.container_recommendations).take(MOST_CONTAINERS) {
                let amounts = one.target.iter().filter_map(|(name, amount)| {
                    let amount = parse_amount(name, &amount.0).ok().filter(|amount| *amount >= 0)?;
                    Some((name.clone(), amount))
                });
                containers.insert(one.container_name.clone(), amounts.collect());
            }
        }
        containers.retain(|_, amounts| !amounts.is_empty());
        let namespace = vpa.metadata.namespace.as_deref().unwrap_or_default();
        let created = vpa.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Some(Self { created, target: format!("{}/{namespace}/{}", target.kind, target.name), containers })
    }

    /// Requests that the container gets.
    #[must_use]
    pub fn of_container(&self, name: &str) -> Option<&Resources> {
        self.containers.get(name)
    }
}

/// All recommendations. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Recommendations(Arc<Known>);

#[derive(Clone, Debug, Default)]
struct Known {
    /// By `namespace/name` of the autoscaler.
    all: BTreeMap<String, Recommendation>,
    /// Autoscalers by workload.
    by_target: BTreeMap<String, BTreeSet<String>>,
}

impl Recommendations {
    /// Takes in an autoscaler as it is now. Answers true if what it recommends is another thing.
    pub fn apply(&mut self, vpa: &VerticalPodAutoscaler) -> bool {
        let meta = &vpa.metadata;
        let name = meta.name.as_deref().unwrap_or_default();
        let key = format!("{}/{name}", meta.namespace.as_deref().unwrap_or_default());
        let Some(new) = Recommendation::of_autoscaler(vpa) else { return self.remove(&key) };
        let known = self.0.all.get(&key);
        if known == Some(&new) || (known.is_none() && self.0.all.len() >= MOST_RECOMMENDATIONS) {
            return false;
        }
        self.remove(&key);
        let known = Arc::make_mut(&mut self.0);
        known.by_target.entry(new.target.clone()).or_default().insert(key.clone());
        known.all.insert(key, new);
        true
    }

    /// Forgets an autoscaler, by `namespace/name`. Answers true if it was known.
    pub fn remove(&mut self, key: &str) -> bool {
        if !self.0.all.contains_key(key) {
            return false;
        }
        let known = Arc::make_mut(&mut self.0);
        if let Some(gone) = known.all.remove(key)
            && let Some(of_target) = known.by_target.get_mut(&gone.target)
        {
            of_target.remove(key);
            if of_target.is_empty() {
                known.by_target.remove(&gone.target);
            }
        }
        true
    }

    /// Forgets all autoscalers that a list has not shown. Answers true if there were any.
    pub fn retain_keys(&mut self, shown: impl Fn(&str) -> bool) -> bool {
        let gone: Vec<String> = self.0.all.keys().filter(|key| !shown(key)).cloned().collect();
        gone.iter().for_each(|key| {
            self.remove(key);
        });
        !gone.is_empty()
    }

    /// True if nothing is recommended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.all.is_empty()
    }

    /// The recommendation for a workload, by `kind/namespace/name`: that of the oldest autoscaler, as where pods are created.
    #[must_use]
    pub fn for_workload(&self, workload: &str) -> Option<&Recommendation> {
        let keys = self.0.by_target.get(workload)?;
        let all = keys.iter().filter_map(|key| Some((key, self.0.all.get(key)?)));
        let (_, oldest) = all.min_by_key(|(key, one)| (one.created.unwrap_or(Timestamp::MAX), *key))?;
        Some(oldest)
    }
}
