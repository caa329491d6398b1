#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};

use super::quota::{Charge, add, charge_of};
use super::*;

fn range(limits: Value) -> Policies {
    let range = LimitRange::from_json(&json!({"spec": {"limits": limits}}));
    let mut policies = Policies::default();
    policies.limit_ranges.insert("team".into(), BTreeMap::from([("range".into(), range)]));
    policies
}

fn admitted(policies: &Policies, spec: Value) -> Result<Value, String> {
    let mut pod = json!({"metadata": {"name": "a"}, "spec": spec});
    policies.admit("team", &mut pod).map_err(|why| why.to_string())?;
    Ok(pod["spec"].clone())
}

fn one(resources: Value) -> Value {
    json!({"containers": [{"name": "app", "resources": resources}]})
}

fn resources(policies: &Policies, own: Value) -> Value {
    admitted(policies, one(own)).unwrap()["containers"][0]["resources"].clone()
}

#[test]
fn a_limit_is_requested_where_nothing_else_is() {
    let none = Policies::default();
    assert_eq!(resources(&none, json!({"limits": {"cpu": 2}}))["requests"], json!({"cpu": "2"}));
    let both = resources(&none, json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}));
    assert_eq!(both["requests"], json!({"cpu": "1"}));
}

#[test]
fn a_limit_range_fills_in_resource_by_resource() {
    let policies = range(json!([{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"memory": "1Gi"},
        "max": {"memory": "4Gi", "cpu": "3"}, "min": {"ephemeral-storage": "1Gi"}}]));
    let filled = resources(&policies, json!({"requests": {"ephemeral-storage": "2Gi"}}));
    // A default limit where only a maximum is given; a default request from the default limit, and from the minimum.
    assert_eq!(filled["limits"], json!({"cpu": "2", "memory": "4Gi"}));
    assert_eq!(filled["requests"], json!({"cpu": "2", "memory": "1Gi", "ephemeral-storage": "2Gi"}));
    let other = admitted(&Policies { limit_ranges: BTreeMap::new(), ..policies.clone() }, one(json!({}))).unwrap();
    assert_eq!(other["containers"][0]["resources"], json!({}));
}

#[test]
fn own_limit_is_requested_before_the_range_default_request() {
    let policies = range(json!([{"type": "Container", "defaultRequest": {"cpu": "100m"}}]));
    assert_eq!(resources(&policies, json!({"limits": {"cpu": "1"}}))["requests"], json!({"cpu": "1"}));
}

#[test]
fn exceeding_a_limit_range_is_refused_in_api_server_words() {
    let policies = range(json!([{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"},
        "maxLimitRequestRatio": {"cpu": "2"}}]));
    let refused = |own: Value| admitted(&policies, one(own)).unwrap_err();
    let why = refused(json!({"requests": {"cpu": "3", "memory": "1Gi"}, "limits": {"cpu": "3"}}));
    assert_eq!(why, "maximum cpu usage per Container is 2, but limit is 3 (LimitRange range)");
    let why = refused(json!({"requests": {"cpu": "500m", "memory": "1Mi"}}));
    assert!(why.contains("minimum memory usage per Container is 1Gi, but request is 1Mi"), "{why}");
    assert!(why.contains("cpu max limit to request ratio per Container is 2, but provided ratio is 4"), "{why}");
    let whole = range(json!([{"type": "Pod", "max": {"cpu": "1"}}]));
    assert!(admitted(&whole, one(json!({}))).unwrap_err().contains("maximum cpu usage per Pod is 1.  No limit"));
    let two = json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "600m"}}},
        {"name": "b", "resources": {"limits": {"cpu": "600m"}}}]});
    assert!(admitted(&whole, two).unwrap_err().contains("but limit is 1200m"));
}

#[test]
fn pod_gets_priority_of_its_class_or_the_cluster_default() {
    let mut policies = Policies::default();
    let class =
        |value: i64, default: bool| PriorityClass::from_json(&json!({"value": value, "globalDefault": default}));
    policies.priority_classes.extend([("high".to_owned(), class(1000, false)), ("usual".to_owned(), class(500, true))]);
    let priority = |spec: Value| admitted(&policies, spec).map(|spec| spec["priority"].clone());
    assert_eq!(priority(json!({"priorityClassName": "high"})), Ok(json!(1000)));
    assert_eq!(priority(json!({})), Ok(json!(500)));
    assert_eq!(priority(json!({"priorityClassName": "system-node-critical"})), Ok(json!(2_000_001_000)));
    assert!(priority(json!({"priorityClassName": "none"})).unwrap_err().contains("no PriorityClass with name none"));
    assert!(priority(json!({"priority": 7})).unwrap_err().contains("integer value of priority (7)"));
    assert_eq!(admitted(&Policies::default(), json!({})).unwrap()["priority"], 0);
}

#[test]
fn a_runtime_class_adds_its_overhead_selector_and_tolerations() {
    let class = RuntimeClass::from_json(&json!({"overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": {
        "nodeSelector": {"sandbox": "gvisor"}, "tolerations": [{"key": "gvisor", "operator": "Exists"}]}}));
    let mut policies = Policies::default();
    policies.runtime_classes.insert("gvisor".into(), class);
    let spec = admitted(&policies, json!({"runtimeClassName": "gvisor", "nodeSelector": {"own": "x"}})).unwrap();
    assert_eq!(spec["overhead"], json!({"cpu": "250m"}));
    assert_eq!(spec["nodeSelector"], json!({"own": "x", "sandbox": "gvisor"}));
    assert!(spec["tolerations"].as_array().unwrap().contains(&json!({"key": "gvisor", "operator": "Exists"})));
    let refused = |spec: Value| admitted(&policies, spec).unwrap_err();
    let conflict = json!({"runtimeClassName": "gvisor", "nodeSelector": {"sandbox": "kata"}});
    assert!(refused(conflict).contains("conflict: runtimeClass.scheduling.nodeSelector[sandbox] = gvisor"));
    assert!(refused(json!({"runtimeClassName": "kata"})).contains("RuntimeClass \"kata\" not found"));
    assert!(refused(json!({"overhead": {"cpu": "1"}})).contains("Pod Overhead set without corresponding RuntimeClass"));
    let same = json!({"runtimeClassName": "gvisor", "overhead": {"cpu": "0.25"}});
    assert!(admitted(&policies, same).is_ok(), "the same amount in other words");
}

#[test]
fn container_ports_on_host_network_are_host_ports() {
    let ports = json!([{"containerPort": 9100}, {"containerPort": 80, "hostPort": 80}]);
    let spec = |network: bool| json!({"hostNetwork": network, "containers": [{"name": "a", "ports": ports}]});
    let none = Policies::default();
    let found = |network| admitted(&none, spec(network)).unwrap()["containers"][0]["ports"][0]["hostPort"].clone();
    assert_eq!((found(true), found(false)), (json!(9100), Value::Null));
}

#[test]
fn whoever_requests_a_device_tolerates_its_taint() {
    let spec = admitted(&Policies::default(), one(json!({"limits": {"nvidia.com/gpu": "1", "cpu": "1"}}))).unwrap();
    let tolerations = spec["tolerations"].as_array().unwrap();
    assert!(tolerations.contains(&json!({"key": "nvidia.com/gpu", "operator": "Exists"})));
    assert!(tolerations.iter().all(|one| one["key"] != "cpu"));
}

#[test]
fn pod_limits_become_requests_where_containers_have_none() {
    let spec = json!({"resources": {"limits": {"cpu": "4", "memory": "4Gi"}},
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m"}}}, {"name": "b"}]});
    let admitted = admitted(&Policies::default(), spec).unwrap();
    assert_eq!(admitted["resources"]["requests"], json!({"cpu": "500m", "memory": "4Gi"}));
}

fn quota(spec: Value) -> Quota {
    Quota::from_json(&json!({"metadata": {"name": "team"}, "spec": spec}))
}

#[test]
fn a_quota_admits_until_it_is_used_up_and_then_says_so() {
    let quota = quota(json!({"hard": {"pods": "2", "requests.cpu": "3", "services": "1"}}));
    let pod = json!({"spec": one(json!({"requests": {"cpu": "1500m"}}))});
    let (mut used, charge) = (Charge::new(), charge_of(&pod));
    for _ in 0..2 {
        assert_eq!(quota.admit(&used, &charge), Ok(()));
        add(&mut used, &charge);
    }
    let why = quota.admit(&used, &charge).unwrap_err();
    let said = "exceeded quota: team, requested: pods=1,requests.cpu=1500m, used: pods=2,requests.cpu=3, limited: pods=2,requests.cpu=3";
    assert_eq!(why, said);
}

#[test]
fn what_a_quota_bounds_has_to_be_said() {
    let quota = quota(json!({"hard": {"limits.memory": "1Gi", "requests.nvidia.com/gpu": "1"}}));
    let silent = charge_of(&json!({"spec": one(json!({}))}));
    assert_eq!(quota.admit(&Charge::new(), &silent).unwrap_err(), "failed quota: team: must specify limits.memory");
    let gpu = charge_of(&json!({"spec": one(json!({"limits": {"nvidia.com/gpu": "2", "memory": "1Mi"}}))}));
    let why = quota.admit(&Charge::new(), &gpu).unwrap_err();
    assert!(
        why.starts_with("exceeded quota: team, requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=0"),
        "{why}"
    );
}

#[test]
fn a_quota_counts_the_pods_of_its_scopes() {
    let by_class = quota(json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}));
    assert!(by_class.counts(&json!({"spec": {"priorityClassName": "high"}})));
    assert!(!by_class.counts(&json!({"spec": {}})));
    let best_effort = quota(json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}));
    assert!(best_effort.counts(&json!({"spec": one(json!({}))})));
    assert!(!best_effort.counts(&json!({"spec": one(json!({"limits": {"cpu": "1"}}))})));
    let terminating = quota(json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]}));
    assert!(terminating.counts(&json!({"spec": {"activeDeadlineSeconds": 5}})) && !terminating.counts(&json!({})));
}

#[test]
fn a_pod_that_has_ended_takes_nothing_of_a_quota_but_its_object() {
    let ended = json!({"spec": one(json!({"requests": {"cpu": "1"}})), "status": {"phase": "Succeeded"}});
    assert_eq!(charge_of(&ended), Charge::from([("count/pods".to_owned(), 1)]));
}

#[test]
fn admission_twice_is_admission_once() {
    let policies = range(json!([{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"memory": "1Gi"}}]));
    let spec = json!({"hostNetwork": true, "containers": [{"name": "a", "ports": [{"containerPort": 80}],
        "resources": {"limits": {"nvidia.com/gpu": 1}}}]});
    let once = admitted(&policies, spec).unwrap();
    assert_eq!(admitted(&policies, once.clone()).unwrap(), once);
}
