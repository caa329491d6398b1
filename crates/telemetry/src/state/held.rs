//! Capacity that is held whatever pods wait, and quotas on it. Written only where their actors run, behind their feature gates.

use dovetail_core::deletion_costs::LEAVING;
use dovetail_observability::metrics::MetricsPage;
use serde_json::{Value, json};

/// Writes the nodes of static pools, by what becomes of them.
pub fn static_pools(page: &mut MetricsPage, said: &Value) {
    let Some(pools) = said["pools"].as_object().filter(|pools| !pools.is_empty()) else { return };
    page.gauge("dovetail_nodepools_replicas", "Nodes of static pools: desired, ready, launching, deleting");
    for (name, pool) in pools {
        for state in ["desired", "ready", "launching", "deleting"] {
            let own = [("nodepool", name.as_str()), ("state", state)];
            page.sample("dovetail_nodepools_replicas", &own, pool[state].as_f64().unwrap_or_default());
        }
    }
}

/// Writes the room of capacity buffers, and its dollars an hour.
pub fn buffers(page: &mut MetricsPage, said: &Value) {
    let Some(buffers) = said["buffers"].as_object().filter(|buffers| !buffers.is_empty()) else { return };
    let each = || buffers.iter().filter_map(|(key, buffer)| Some((key.split_once('/')?, buffer)));
    page.gauge("dovetail_buffer_pods", "Pods that capacity buffers have room for: wanted, ready, coming, left_over");
    for ((namespace, name), buffer) in each() {
        for (state, field) in
            [("wanted", "wanted"), ("ready", "ready"), ("coming", "coming"), ("left_over", "leftOver")]
        {
            let own = [("namespace", namespace), ("buffer", name), ("state", state)];
            page.sample("dovetail_buffer_pods", &own, buffer[field].as_f64().unwrap_or_default());
        }
    }
    page.gauge(
        "dovetail_buffer_dollars_per_hour",
        "Cost of the room of capacity buffers: its share of the nodes' prices",
    );
    for ((namespace, name), buffer) in each() {
        let own = [("namespace", namespace), ("buffer", name)];
        page.sample("dovetail_buffer_dollars_per_hour", &own, buffer["dollarsPerHour"].as_f64().unwrap_or_default());
    }
}

/// Writes the pods of ProvisioningRequests, by where their room is.
pub fn requests(page: &mut MetricsPage, said: &Value) {
    let Some(requests) = said["requests"].as_object().filter(|requests| !requests.is_empty()) else { return };
    let name = "dovetail_provisioning_request_pods";
    page.gauge(
        name,
        "Pods of ProvisioningRequests, and those of them that have room and have not come: pods, ready, coming",
    );
    for (key, request) in requests {
        let Some((namespace, own)) = key.split_once('/') else { continue };
        for state in ["pods", "ready", "coming"] {
            let labels = [("namespace", namespace), ("request", own), ("state", state)];
            page.sample(name, &labels, request[state].as_f64().unwrap_or_default());
        }
    }
}

/// Writes limits of quotas, and what Nodes have of them.
pub fn quotas(page: &mut MetricsPage, said: &Value) {
    let Some(quotas) = said["quotas"].as_object().filter(|quotas| !quotas.is_empty()) else { return };
    for (metric, field, help) in [
        ("dovetail_capacity_quota_limit", "limits", "What a CapacityQuota allows its nodes together"),
        ("dovetail_capacity_quota_used", "used", "What the Nodes have together that a CapacityQuota selects"),
    ] {
        page.gauge(metric, help);
        for (name, quota) in quotas {
            for (resource, amount) in quota[field].as_object().into_iter().flatten() {
                let own = [("quota", name.as_str()), ("resource_type", resource.as_str())];
                page.sample(metric, &own, amount.as_f64().unwrap_or_default());
            }
        }
    }
}

/// Writes the number of nodes whose pods are to get another deletion cost.
pub fn deletion_costs(page: &mut MetricsPage, said: &Value) {
    let Some(pending) = said["pending"].as_object() else { return };
    let name = "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes";
    page.gauge(name, "Nodes with pods whose deletion cost was to be written at the last look");
    for (pool, nodes) in pending {
        page.sample(name, &[("nodepool", pool)], nodes.as_f64().unwrap_or_default());
    }
}

/// Lines of the console about what is held: name and sentence.
pub fn lines(actors: &Value) -> Vec<Value> {
    let pools = actors["static_pools"]["pools"].as_object().into_iter().flatten();
    let pools = pools.map(|(name, pool)| json!([format!("static pool {name}"), pool["says"]]));
    let buffers = actors["buffers"]["buffers"].as_object().into_iter().flatten();
    let buffers = buffers.map(|(name, buffer)| json!([format!("capacity buffer {name}"), line(buffer)]));
    let requests = actors["gangs"]["requests"].as_object().into_iter().flatten();
    let requests = requests.map(|(name, request)| json!([format!("provisioning request {name}"), request["says"]]));
    let quotas = actors["quotas"]["quotas"].as_object().into_iter().flatten();
    let quotas = quotas.map(|(name, quota)| json!([format!("capacity quota {name}"), of_quota(quota)]));
    let costs = actors["deletion_costs"]["values"].as_object().filter(|values| !values.is_empty());
    let costs = costs.map(|values| json!(["deletion costs", costs_line(values)]));
    pools.chain(buffers).chain(requests).chain(quotas).chain(costs).collect()
}

/// A quota's sentence, with what is used of it.
fn of_quota(quota: &Value) -> String {
    let limits = quota["limits"].as_object().into_iter().flatten();
    let used = |name: &str| quota["used"][name].as_f64().unwrap_or_default();
    let amounts = limits.map(|(name, limit)| format!("{name} {} of {limit}", used(name)));
    let says = quota["says"].as_str().unwrap_or_default();
    format!("{says} ({})", amounts.collect::<Vec<_>>().join(", "))
}

/// Nodes whose pods have a deletion cost, the first by name of those that scale-in empties first.
fn costs_line(values: &serde_json::Map<String, Value>) -> String {
    let ranked = || values.iter().filter_map(|(node, value)| Some((value.as_i64()?, node.as_str())));
    let leaving = ranked().filter(|(value, _)| *value == i64::from(LEAVING)).count();
    let first = ranked().filter(|(value, _)| *value != i64::from(LEAVING)).min();
    let next = first.map(|(value, node)| format!("; the next is {node} ({value})")).unwrap_or_default();
    format!("pods of {} nodes have one, {leaving} of them are being disrupted{next}", values.len())
}

/// A buffer's sentence, with its price.
fn line(buffer: &Value) -> String {
    let dollars = buffer["dollarsPerHour"].as_f64().unwrap_or_default();
    format!("{} (${dollars:.4} an hour)", buffer["says"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletion_costs_are_shown_with_the_node_that_is_next() {
        let said = json!({"values": {"a": -1024, "b": i32::MIN, "c": -2048}, "pending": {"default": 2}});
        let mut page = MetricsPage::default();
        deletion_costs(&mut page, &json!(null));
        assert_eq!(page.series(), 0, "nothing without the gate");
        deletion_costs(&mut page, &said);
        let line = "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes{nodepool=\"default\"} 2";
        assert!(page.text().lines().any(|one| one == line), "{}", page.text());
        let line = "pods of 3 nodes have one, 1 of them are being disrupted; the next is c (-2048)";
        assert_eq!(lines(&json!({"deletion_costs": said})), [json!(["deletion costs", line])]);
    }

    #[test]
    fn buffers_are_shown_with_their_dollars_an_hour() {
        let said = json!({"buffers": {"shop/spare": {"wanted": 3, "ready": 2, "leftOver": 1, "dollarsPerHour": 0.08344, "says": "room for 2 of 3 pods"}}});
        let mut page = MetricsPage::default();
        buffers(&mut page, &said);
        let metric = "dovetail_buffer_dollars_per_hour{namespace=\"shop\",buffer=\"spare\"} 0.08344";
        assert!(page.text().lines().any(|one| one == metric), "{}", page.text());
        let line = json!(["capacity buffer shop/spare", "room for 2 of 3 pods ($0.0834 an hour)"]);
        assert_eq!(lines(&json!({"buffers": said})), [line]);
    }

    #[test]
    fn requests_are_shown_with_their_pods() {
        let request = json!({"pods": 20, "ready": 8, "coming": 12, "says": "CapacityIsComing: soon"});
        let said = json!({"requests": {"ml/train": request}});
        let mut page = MetricsPage::default();
        requests(&mut page, &json!(null));
        assert_eq!(page.series(), 0, "nothing without the gate");
        requests(&mut page, &said);
        let metric = "dovetail_provisioning_request_pods{namespace=\"ml\",request=\"train\",state=\"coming\"} 12";
        assert!(page.text().lines().any(|one| one == metric), "{}", page.text());
        let line = json!(["provisioning request ml/train", "CapacityIsComing: soon"]);
        assert_eq!(lines(&json!({"gangs": said})), [line]);
    }

    #[test]
    fn quotas_are_shown_with_what_is_used_of_them() {
        let said = json!({"quotas": {"gpu": {"limits": {"cpu": 8.0, "nodes": 4.0}, "used": {"cpu": 6.5}, "says": "it is held"}}});
        let mut page = MetricsPage::default();
        quotas(&mut page, &json!({}));
        assert_eq!(page.series(), 0, "nothing without the gate");
        quotas(&mut page, &said);
        for line in [
            "dovetail_capacity_quota_limit{quota=\"gpu\",resource_type=\"nodes\"} 4",
            "dovetail_capacity_quota_used{quota=\"gpu\",resource_type=\"cpu\"} 6.5",
        ] {
            assert!(page.text().lines().any(|one| one == line), "{line} is not in {}", page.text());
        }
        let line = json!(["capacity quota gpu", "it is held (cpu 6.5 of 8.0, nodes 0 of 4.0)"]);
        assert_eq!(lines(&json!({"quotas": said})), [line]);
    }
}
