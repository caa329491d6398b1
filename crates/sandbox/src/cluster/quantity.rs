//! Quantities as Kubernetes writes them, read as kube-scheduler counts them.

/// The amount meant by `text`: millicores for `cpu`, whole units for every other resource. None when it is no quantity.
pub(crate) fn parse(resource: &str, text: &str) -> Option<i64> {
    dovetail_core::resources::parse_amount(resource, text).ok()
}
