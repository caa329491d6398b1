//! Resources of pods that are resized in place: what a node has set aside for a pod, beside what its spec asks for.

use serde_json::{Value, json};

use super::pod::condition;
use super::quantity;

/// Condition of a pod whose resize waits for room, or never gets it.
pub(crate) const PENDING: &str = "PodResizePending";
/// Reason of [`PENDING`]: the node as a whole is too small.
pub(crate) const INFEASIBLE: &str = "Infeasible";

/// Containers and sidecars of a pod, and the lists of their statuses.
const LISTS: [(&str, &str); 2] = [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")];

/// The pod as its node counts it: of each container the largest of its request, what is allocated to it and what it runs with;
/// a request that the node never meets does not count. None for a pod that was never resized.
pub(crate) fn counted_on_node(pod: &Value) -> Option<Value> {
    let infeasible = condition(pod, PENDING).is_some_and(|one| one["reason"] == INFEASIBLE);
    let mut counted = None;
    for (list, statuses) in LISTS {
        for (at, container) in pod["spec"][list].as_array().into_iter().flatten().enumerate() {
            let Some(status) = status_of(pod, statuses, &container["name"]) else { continue };
            let Some(allocated) = status["allocatedResources"].as_object() else { continue };
            let running = status["resources"]["requests"].as_object();
            let requests = counted.get_or_insert_with(|| pod.clone())["spec"][list][at]["resources"]
                .as_object_mut()
                .map(|resources| resources.entry("requests").or_insert_with(|| json!({})));
            let Some(requests) = requests.and_then(Value::as_object_mut) else { continue };
            if infeasible {
                requests.clear();
            }
            for (name, amount) in allocated.iter().chain(running.into_iter().flatten()) {
                let is_less =
                    requests.get(name).is_none_or(|known| read_amount(name, known) < read_amount(name, amount));
                if is_less {
                    requests.insert(name.clone(), amount.clone());
                }
            }
        }
    }
    counted
}

/// The pod with what its node has set aside for its containers, in the place of what they ask for. None for a pod that was never
/// resized: it has what it asks for.
pub(crate) fn allocated(pod: &Value) -> Option<Value> {
    let mut counted = None;
    for (list, statuses) in LISTS {
        for (at, container) in pod["spec"][list].as_array().into_iter().flatten().enumerate() {
            let status = status_of(pod, statuses, &container["name"]);
            if let Some(allocated) = status.and_then(|status| status.get("allocatedResources")) {
                let counted = counted.get_or_insert_with(|| pod.clone());
                counted["spec"][list][at]["resources"]["requests"] = allocated.clone();
            }
        }
    }
    counted
}

fn status_of<'a>(pod: &'a Value, statuses: &str, name: &Value) -> Option<&'a Value> {
    pod["status"][statuses].as_array()?.iter().find(|status| status["name"] == *name)
}

/// Millicores, or bytes; 0 where it is no quantity.
fn read_amount(name: &str, amount: &Value) -> i64 {
    quantity::parse(name, amount.as_str().unwrap_or_default()).unwrap_or(0)
}

/// CPU and memory that the containers and sidecars of a pod ask for: in millicores and bytes.
pub(crate) fn requests(pod: &Value) -> [i64; 2] {
    let stays = |list: &str, container: &Value| list == "containers" || container["restartPolicy"] == "Always";
    let all = LISTS.iter().flat_map(|(list, _)| {
        pod["spec"][*list].as_array().into_iter().flatten().filter(move |container| stays(list, container))
    });
    all.fold([0, 0], |[cpu, memory], container| {
        let asked = &container["resources"]["requests"];
        [cpu + read_amount("cpu", &asked["cpu"]), memory + read_amount("memory", &asked["memory"])]
    })
}

/// CPU and memory that a Node has for pods.
pub(crate) fn allocatable(node: &Value) -> [i64; 2] {
    ["cpu", "memory"].map(|name| read_amount(name, &node["status"]["allocatable"][name]))
}

/// True if a list of statuses lags behind the spec: `what` is `allocatedResources`, or `resources` for what runs.
pub(crate) fn lags(pod: &Value, what: &str) -> bool {
    LISTS.iter().any(|(list, statuses)| {
        pod["spec"][*list].as_array().into_iter().flatten().any(|container| {
            let known =
                status_of(pod, statuses, &container["name"]).filter(|one| one.get("allocatedResources").is_some());
            known.is_some_and(|status| status[what] != part_of(container, what))
        })
    })
}

/// Brings the statuses into line with the spec.
pub(crate) fn follow(pod: &mut Value, what: &str) {
    for (list, statuses) in LISTS {
        let containers = pod["spec"][list].as_array().cloned().unwrap_or_default();
        for status in pod["status"][statuses].as_array_mut().into_iter().flatten() {
            let own = containers.iter().find(|container| container["name"] == status["name"]);
            if let Some(container) = own.filter(|_| status.get("allocatedResources").is_some()) {
                status[what] = part_of(container, what);
            }
        }
    }
}

fn part_of(container: &Value, what: &str) -> Value {
    if what == "resources" { container["resources"].clone() } else { container["resources"]["requests"].clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod that asks for these CPUs and has been given those.
    fn pod(asked: &str, allocated: &str, running: &str, conditions: &Value) -> Value {
        json!({
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": asked}}}]},
            "status": {"conditions": conditions, "containerStatuses": [{"name": "app",
                "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": running}}}]},
        })
    }

    #[test]
    fn pod_counts_as_what_it_has_until_its_kubelet_takes_it_back() {
        let none = json!([]);
        let infeasible = json!([{"type": PENDING, "status": "True", "reason": INFEASIBLE}]);
        let deferred = json!([{"type": PENDING, "status": "True", "reason": "Deferred"}]);
        for (asked, allocated, running, conditions, expected) in [
            ("1", "4", "4", &none, 4000),
            ("1", "1", "4", &none, 4000),
            ("1", "1", "1", &none, 1000),
            ("4", "1", "1", &none, 4000),
            ("4", "1", "1", &deferred, 4000),
            ("400", "1", "2", &infeasible, 2000),
        ] {
            let counted = counted_on_node(&pod(asked, allocated, running, conditions));
            assert_eq!(counted.as_ref().map(requests), Some([expected, 0]), "{asked} {allocated} {running}");
        }
        assert_eq!(allocated(&pod("4", "1", "2", &deferred)).as_ref().map(requests), Some([1000, 0]));
        let never =
            json!({"spec": {"containers": [{"name": "app"}]}, "status": {"containerStatuses": [{"name": "app"}]}});
        assert_eq!((counted_on_node(&never), allocated(&never)), (None, None));
    }

    #[test]
    fn status_follows_allocation_first_and_running_after_it() {
        let mut resized = pod("1", "4", "4", &json!([]));
        assert!(lags(&resized, "allocatedResources") && lags(&resized, "resources"));
        follow(&mut resized, "allocatedResources");
        assert!(!lags(&resized, "allocatedResources") && lags(&resized, "resources"));
        follow(&mut resized, "resources");
        assert!(!lags(&resized, "resources"));
        assert_eq!(requests(&resized), [1000, 0]);
    }
}
