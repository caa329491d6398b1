//! The actors' counts and measurements, as the metrics of core spec 7.1.

use dovetail_actors::Measure;
use dovetail_api::names::PROVIDER;
use dovetail_observability::Metrics;
use dovetail_observability::metrics::Id;

/// Counts or observes a measure.
pub fn record_measure(metrics: &Metrics, measure: &Measure<'_>) {
    let count = |id, values: &[&str]| metrics.count(id, values, 1);
    let observe = |id, values: &[&str], seconds: f64| metrics.observe(id, values, seconds, None);
    match *measure {
        Measure::PodBound { seconds, trace } => metrics.observe(Id::PodsBound, &[], seconds, Some(trace)),
        Measure::PodStarted { seconds } => observe(Id::PodsStartup, &[], seconds),
        Measure::Scheduled { controller, seconds, trace } => {
            metrics.observe(Id::Scheduling, &[controller], seconds, Some(trace));
        }
        Measure::Compared { policy, dollars, other, other_dollars } => {
            observe(Id::Compared, &[policy], dollars);
            observe(Id::Compared, &[other], other_dollars);
        }
        Measure::PackingFailed { cause, outcome } => count(Id::PackingFailures, &[cause, outcome]),
        Measure::EvictionAnswered { code } => count(Id::EvictionRequests, &[&code.to_string()]),
        Measure::PodDrained { reason } => count(Id::PodsDrained, &[reason]),
        Measure::DisruptionLooked { seconds } => observe(Id::Evaluation, &[], seconds),
        Measure::DisruptionDecided { decision, reason, consolidation_type } => {
            count(Id::Decisions, &[decision, reason, consolidation_type]);
        }
        Measure::ValidationFailed { consolidation_type } => count(Id::FailedValidations, &[consolidation_type]),
        Measure::CommandFailed { decision, reason, consolidation_type } => {
            count(Id::QueueFailures, &[decision, reason, consolidation_type]);
        }
        Measure::EventWritten { reason, written } => {
            count(Id::KubernetesEvents, &[reason, if written { "written" } else { "dropped" }]);
        }
        Measure::DeletionCostWritten { result } => count(Id::DeletionCostWrites, &[result]),
        Measure::MailboxFull { sender, message } => count(Id::MailboxFull, &[sender, message]),
        Measure::ActorAnswered { actor, seconds } => observe(Id::ActorAnswer, &[actor], seconds),
        Measure::CloudAnswered { .. }
        | Measure::LaunchRefused { .. }
        | Measure::MessageReceived { .. }
        | Measure::MessagesDeleted { .. }
        | Measure::InstanceUnhealthy { .. } => of_cloud(metrics, measure),
        Measure::ClaimCreated { .. }
        | Measure::ClaimTerminated { .. }
        | Measure::ClaimDisrupted { .. }
        | Measure::ClaimUnhealthy { .. }
        | Measure::NodeCreated { .. }
        | Measure::NodeTerminated { .. }
        | Measure::NodeDrained { .. }
        | Measure::InstanceTerminated { .. }
        | Measure::ClaimEnded { .. }
        | Measure::DisruptionDecidedInPool { .. }
        | Measure::NodeRebooted { .. }
        | Measure::NodeUnused { .. } => of_node(metrics, measure),
    }
}

/// Records measures of calls to AWS, their refusals, and AWS' reports about instances.
fn of_cloud(metrics: &Metrics, measure: &Measure<'_>) {
    let count = |id, values: &[&str]| metrics.count(id, values, 1);
    let observe = |id, values: &[&str], seconds: f64| metrics.observe(id, values, seconds, None);
    match *measure {
        Measure::CloudAnswered { controller, method, seconds, error } => {
            observe(Id::CloudDuration, &[controller, method, PROVIDER], seconds);
            if let Some(error) = error {
                count(Id::CloudErrors, &[controller, method, PROVIDER, error]);
            }
        }
        Measure::LaunchRefused { zone, zone_id, capacity_type, reason } => {
            count(Id::LaunchFailures, &[zone, zone_id, capacity_type, reason]);
        }
        Measure::MessageReceived { kind, waited } => {
            count(Id::MessagesReceived, &[kind]);
            if let Some(seconds) = waited {
                observe(Id::MessageWait, &[], seconds);
            }
        }
        Measure::MessagesDeleted { count: so_many } => {
            metrics.count(Id::MessagesDeleted, &[], u64::try_from(so_many).unwrap_or(u64::MAX));
        }
        Measure::InstanceUnhealthy { category } => count(Id::StatusUnhealthy, &[category]),
        _ => {}
    }
}

/// Karpenter's word for the bound on a drain, which is given in seconds.
fn termination_mode(grace: Option<u64>) -> &'static str {
    match grace {
        None => "graceful",
        Some(0) => "forceful",
        Some(_) => "eventual",
    }
}

/// Records measures of a NodeClaim, its instance and its Node, and of the reasons for which a pool's nodes go.
fn of_node(metrics: &Metrics, measure: &Measure<'_>) {
    let count = |id, values: &[&str]| metrics.count(id, values, 1);
    let observe = |id, values: &[&str], seconds: f64| metrics.observe(id, values, seconds, None);
    match *measure {
        Measure::ClaimCreated { pool, reason, min_values_relaxed } => {
            count(Id::ClaimsCreated, &[reason, pool, if min_values_relaxed { "true" } else { "false" }]);
        }
        Measure::ClaimTerminated { pool, capacity_type, zone } => {
            count(Id::ClaimsTerminated, &[pool, capacity_type, zone]);
        }
        Measure::ClaimDisrupted { pool, capacity_type, reason, grace, facts } => {
            let labels = [reason, pool, capacity_type, facts.policy, termination_mode(grace)];
            count(Id::ClaimsDisrupted, &labels);
            metrics.count(Id::PodsDisruptionInitiated, &labels, facts.pods);
        }
        Measure::ClaimUnhealthy { condition, pool, capacity_type, image, grace } => {
            count(Id::ClaimsUnhealthy, &[condition, pool, capacity_type, image, termination_mode(grace)]);
        }
        Measure::NodeCreated { pool, zone } => count(Id::NodesCreated, &[pool, zone]),
        Measure::NodeTerminated { pool, zone, seconds, lifetime } => {
            count(Id::NodesTerminated, &[pool, zone]);
            if let Some(seconds) = seconds {
                observe(Id::NodeTermination, &[pool], seconds);
            }
            if let Some(seconds) = lifetime {
                observe(Id::NodeLifetime, &[pool], seconds);
            }
        }
        Measure::NodeDrained { pool } => count(Id::NodesDrained, &[pool]),
        Measure::InstanceTerminated { pool, seconds } => observe(Id::InstanceTermination, &[pool], seconds),
        Measure::ClaimEnded { pool, seconds } => observe(Id::ClaimTermination, &[pool], seconds),
        Measure::DisruptionDecidedInPool { pool, decision, reason, consolidation_type } => {
            count(Id::DecisionsByPool, &[pool, decision, reason, consolidation_type]);
        }
        Measure::NodeRebooted { pool, outcome, result } => {
            count(Id::NodeReboots, &[pool, outcome]);
            result.into_iter().for_each(|result| count(Id::RebootsDone, &[result]));
        }
        Measure::NodeUnused { pool, reason } => count(Id::NodesUnused, &[pool, reason]),
        // `record_measure` records all others.
        _ => {}
    }
}
