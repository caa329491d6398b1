//! PodDisruptionBudgets, as far as they say where pods may go.

use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::cluster_state::Snapshot;
use crate::pack::Selector;
use crate::pod::Pod;

/// A budget, with its selector read.
#[derive(Clone, Debug)]
pub struct BudgetEntry {
    /// The object as the API server has it, with its status.
    pub budget: Arc<PodDisruptionBudget>,
    /// True if it never lets a pod go, however many there are.
    pub blocks_fully: bool,
    selector: Selector,
}

impl BudgetEntry {
    /// Reads a budget. One whose selector makes no sense covers no pod: the API server does not evict by it either.
    #[must_use]
    pub fn new(budget: PodDisruptionBudget) -> Self {
        let spec = budget.spec.as_ref();
        let percent = |value: &IntOrString, all: &str| matches!(value, IntOrString::String(text) if text == all);
        let blocks_fully = spec.is_some_and(|spec| {
            spec.max_unavailable.as_ref().is_some_and(|most| *most == IntOrString::Int(0) || percent(most, "0%"))
                || spec.min_available.as_ref().is_some_and(|least| percent(least, "100%"))
        });
        let selector =
            Selector::parse(spec.and_then(|spec| spec.selector.as_ref())).unwrap_or_else(|_| Selector::none());
        Self { budget: Arc::new(budget), blocks_fully, selector }
    }

    /// A budget that cannot be read lets nothing go: it is not known what it asks for.
    #[must_use]
    pub fn unreadable(budget: PodDisruptionBudget) -> Self {
        Self { blocks_fully: true, ..Self::new(budget) }
    }

    #[must_use]
    pub fn covers(&self, pod: &Pod) -> bool {
        self.budget.metadata.namespace.as_deref().unwrap_or("default") == pod.namespace
            && self.selector.matches(&pod.labels)
    }

    /// True if it asks for all existing pods, such as a budget of one replica that has to be there.
    #[must_use]
    pub fn asks_for_all(&self) -> bool {
        let status = self.budget.status.as_ref();
        self.allowed() == 0
            && status.is_some_and(|status| status.expected_pods > 0 && status.desired_healthy >= status.expected_pods)
    }

    /// True if it refuses the eviction of one of its pods now. A pod that is not Ready may go all the same where the budget
    /// says so.
    #[must_use]
    pub fn refuses_now(&self, ready: bool) -> bool {
        let spec = self.budget.spec.as_ref();
        let policy = spec.and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
        (self.blocks_fully || self.allowed() <= 0) && (ready || policy != Some("AlwaysAllow"))
    }

    /// Namespace and name, with a slash between.
    #[must_use]
    pub fn name(&self) -> String {
        let meta = &self.budget.metadata;
        format!("{}/{}", meta.namespace.as_deref().unwrap_or("default"), meta.name.as_deref().unwrap_or_default())
    }

    /// Number of its pods that may go now.
    #[must_use]
    pub fn allowed(&self) -> i32 {
        self.budget.status.as_ref().map_or(0, |status| status.disruptions_allowed)
    }
}

impl Snapshot {
    /// The budgets that a pod is under, by name; the room of a capacity buffer is under none.
    pub fn budgets_of<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a Arc<BudgetEntry>> {
        self.budgets.values().filter(|entry| !pod.is_room() && entry.covers(pod))
    }

    /// True if budgets never let a pod go: one blocks fully, or there is more than one, which the API server refuses.
    #[must_use]
    pub fn budgets_forbid(&self, pod: &Pod) -> bool {
        let mut covering = self.budgets_of(pod);
        covering.next().is_some_and(|first| first.blocks_fully || covering.next().is_some())
    }

    /// True if the eviction of a Ready pod is refused for as long as its budget and workload stay as they are:
    /// [`Snapshot::budgets_forbid`], or the budget asks for all existing pods.
    #[must_use]
    pub fn budgets_hold(&self, pod: &Pod) -> bool {
        self.budgets_forbid(pod) || self.budgets_of(pod).any(|budget| budget.asks_for_all())
    }
}
