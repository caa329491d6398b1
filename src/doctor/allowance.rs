//! Leave to launch that the account gives: the service-linked role for spot, and quotas against the limits of NodePools.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_actors::catalogue::{KEY, UNAVAILABLE_OFFERINGS};
use dovetail_actors::reading::LenientApi;
use dovetail_api::names::labels;
use dovetail_api::v1::{NodePool, NodeSelectorOperator};
use dovetail_cloud::CloudError;
use dovetail_cloud::unavailable::QuotaGroup;
use dovetail_core::lifecycle::claim::{from_quantities, packing_requirements};
use dovetail_core::resources::CPU;
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::Value;
use tokio::time::timeout;

use super::account::NO_AWS;
use super::{ASKED_WITHIN, Finding, Installation};
use crate::run::connect::plainly;

/// The role by which EC2 buys spot capacity.
const SPOT_ROLE: &str = "AWSServiceRoleForEC2Spot";
const CREATE_SPOT_ROLE: &str = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com";
/// Quota in vCPUs that is small for NodePools without a limit: new accounts begin with less.
const FEW_VCPUS: f64 = 64.0;

/// Lines of the ConfigMap in which the leader keeps what EC2 has lately refused.
async fn refusals(installation: &Installation) -> Result<Vec<String>, String> {
    let namespace = &installation.settings.lease_namespace;
    let maps: LenientApi<ConfigMap> = LenientApi::namespaced(installation.connection.client.clone(), namespace);
    let map = maps.get_opt(UNAVAILABLE_OFFERINGS).await.map_err(|why| plainly(&why))?;
    let text = map.and_then(|map| map.data?.remove(KEY)).unwrap_or_default();
    let said = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some(format!("{} until {}", line["what"].as_str()?, line["until"].as_str()?))
    };
    Ok(text.lines().filter_map(said).collect())
}

/// Answer of AWS within the time of a question; an error as a sentence.
async fn asked<T>(question: impl Future<Output = Result<T, CloudError>>) -> Result<T, String> {
    let answer = timeout(ASKED_WITHIN, question).await;
    answer.map_or_else(|_| Err("AWS does not answer".to_owned()), |answer| answer.map_err(|why| why.to_string()))
}

pub(super) async fn spot_role(installation: &Installation) -> Finding {
    let uses_spot = installation.pools.iter().flatten().any(|pool| may_have(pool, labels::CAPACITY_TYPE, labels::SPOT));
    if installation.pools.is_ok() && !uses_spot {
        return Finding::green("no NodePool uses spot");
    }
    let refused = refusals(installation).await.unwrap_or_default();
    if let Some(line) = refused.iter().find(|line| line.starts_with("capacity-type spot")) {
        return Finding::red(format!("EC2 refuses spot altogether ({line})"), CREATE_SPOT_ROLE);
    }
    let look = format!("aws iam get-role --role-name {SPOT_ROLE}");
    let cloud = match &installation.cloud {
        Ok(cloud) => cloud,
        Err(why) => return Finding::unknown(format!("it cannot be asked for: {why}"), look),
    };
    match asked(cloud.has_role(SPOT_ROLE)).await {
        Ok(true) => Finding::green(format!("the account has {SPOT_ROLE}")),
        Ok(false) => Finding::red(format!("the account has no {SPOT_ROLE}: EC2 refuses spot"), CREATE_SPOT_ROLE),
        Err(why) => {
            Finding::unknown(format!("nothing was refused for lack of it lately; it cannot be asked for: {why}"), look)
        }
    }
}

/// Demand of NodePools on one quota.
#[derive(Debug, Default, PartialEq)]
struct Need {
    pools: Vec<String>,
    /// The CPUs that the limits of these pools allow together; none if one has no limit.
    vcpus: Option<f64>,
}

pub(super) async fn quotas(installation: &Installation) -> Finding {
    let used_up: Vec<String> = refusals(installation).await.unwrap_or_default();
    let used_up: Vec<&str> = used_up.iter().map(String::as_str).filter(|line| line.starts_with("quota ")).collect();
    if !used_up.is_empty() {
        return Finding::yellow(format!("used up: {}", used_up.join("; ")), "raise the quota in Service Quotas");
    }
    let look = "compare with the NodePools' limits: aws service-quotas list-service-quotas --service-code ec2";
    let pools = match &installation.pools {
        Ok(pools) => pools,
        Err(why) => return Finding::unknown(format!("NodePools cannot be listed: {why}"), "allow list on nodepools"),
    };
    let cloud = match &installation.cloud {
        Ok(cloud) => cloud,
        Err(why) => return Finding::unknown(format!("none is used up, as far as launches have shown: {why}"), NO_AWS),
    };
    let needs = needs(pools);
    let questions = needs.iter().map(|((capacity_type, group), need)| async move {
        let code = group.code(capacity_type)?;
        let answer = asked(cloud.vcpu_quota(code)).await;
        let answer = answer.and_then(|value| value.ok_or_else(|| format!("{code} has no value")));
        Some(answer.map(|value| too_small(&format!("{capacity_type} {group} ({code})"), value, need)))
    });
    let answers: Vec<Result<Option<String>, String>> = join_all(questions).await.into_iter().flatten().collect();
    let small: Vec<&str> = answers.iter().flatten().flatten().map(String::as_str).collect();
    let unknown = answers.iter().find_map(|answer| answer.as_ref().err());
    match (small.as_slice(), unknown) {
        ([], None) => Finding::green(format!("{} quotas are not below the NodePools' limits", answers.len())),
        ([], Some(why)) => {
            Finding::unknown(format!("none is used up, as far as launches have shown; Service Quotas: {why}"), look)
        }
        (small, _) => Finding::yellow(small.join("; "), "raise the quota in Service Quotas, or lower spec.limits.cpu"),
    }
}

/// The sentence about a quota that ends launches before the limits of NodePools do.
fn too_small(quota: &str, value: f64, need: &Need) -> Option<String> {
    let pools = need.pools.join(", ");
    match need.vcpus {
        Some(vcpus) if vcpus > value => {
            Some(format!("{quota} is {value} vCPUs, and limits of NodePools ({pools}) allow {vcpus}"))
        }
        None if value < FEW_VCPUS => {
            Some(format!("{quota} is {value} vCPUs, and NodePools ({pools}) have no limit of cpu"))
        }
        _ => None,
    }
}

/// The quotas that NodePools may use, and how far.
fn needs(pools: &[NodePool]) -> BTreeMap<(&'static str, QuotaGroup), Need> {
    let mut needs: BTreeMap<(&'static str, QuotaGroup), Need> = BTreeMap::new();
    for pool in pools {
        let limits = pool.spec.limits.as_ref().map(from_quantities);
        let limit = limits.and_then(|limits| limits.find(CPU)).map(|milli| milli as f64 / 1000.0);
        let types =
            [labels::SPOT, labels::ON_DEMAND].into_iter().filter(|one| may_have(pool, labels::CAPACITY_TYPE, one));
        for capacity_type in types {
            for group in groups(pool) {
                let need =
                    needs.entry((capacity_type, group)).or_insert_with(|| Need { vcpus: Some(0.0), ..Need::default() });
                need.pools.push(pool.name_any());
                need.vcpus = need.vcpus.zip(limit).map(|(all, own)| all + own);
            }
        }
    }
    needs
}

/// True if a NodePool's requirements leave this value of a label, or cannot be read.
fn may_have(pool: &NodePool, key: &str, value: &str) -> bool {
    let own = packing_requirements(&pool.spec.template.spec.requirements);
    own.map_or(true, |own| own.get(key).is_none_or(|one| one.has(value)))
}

/// The families' quotas that a NodePool may use, by what it names: types, families or categories; without any that of ordinary
/// families, which are the cheapest.
fn groups(pool: &NodePool) -> BTreeSet<QuotaGroup> {
    for (key, size) in
        [(labels::INSTANCE_TYPE, ""), (labels::INSTANCE_FAMILY, ".large"), (labels::INSTANCE_CATEGORY, "1.large")]
    {
        let own = pool.spec.template.spec.requirements.iter();
        let named = own.filter(|one| one.key == key && one.operator == NodeSelectorOperator::In);
        let values: BTreeSet<&String> =
            named.flat_map(|one| &one.values).filter(|one| may_have(pool, key, one)).collect();
        if !values.is_empty() {
            return values.into_iter().map(|one| QuotaGroup::from_instance_type(&format!("{one}{size}"))).collect();
        }
    }
    BTreeSet::from([QuotaGroup::Standard])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn pool(name: &str, limits: &Value, requirements: &Value) -> NodePool {
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"limits": limits, "template": {"spec": {"requirements": requirements,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}}}))
        .unwrap()
    }

    fn require(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"key": key, "operator": operator, "values": values})
    }

    #[test]
    fn values_that_requirements_leave_are_those_that_count() {
        let kinds = |operator: &str, values: &[&str]| {
            let one = pool("a", &json!({}), &json!([require(labels::CAPACITY_TYPE, operator, values)]));
            may_have(&one, labels::CAPACITY_TYPE, labels::SPOT)
        };
        assert!(kinds("In", &["spot", "on-demand"]) && !kinds("In", &["on-demand"]));
        assert!(kinds("NotIn", &["on-demand"]) && !kinds("NotIn", &["spot"]));
        assert!(may_have(&pool("a", &json!({}), &json!([])), labels::CAPACITY_TYPE, labels::SPOT));
    }

    #[test]
    fn quotas_are_those_of_the_families_that_pools_name() {
        let of = |key: &str, values: &[&str]| groups(&pool("a", &json!({}), &json!([require(key, "In", values)])));
        assert_eq!(
            of(labels::INSTANCE_TYPE, &["g5.xlarge", "m5.large"]),
            [QuotaGroup::Standard, QuotaGroup::GAndVt].into()
        );
        assert_eq!(of(labels::INSTANCE_FAMILY, &["inf2"]), [QuotaGroup::Inf].into());
        assert_eq!(of(labels::INSTANCE_CATEGORY, &["c", "m", "p"]), [QuotaGroup::Standard, QuotaGroup::P].into());
        assert_eq!(groups(&pool("a", &json!({}), &json!([]))), [QuotaGroup::Standard].into());
    }

    #[test]
    fn limits_of_pools_that_share_a_quota_add_up() {
        let spot = json!([require(labels::CAPACITY_TYPE, "In", &["spot"])]);
        let both = json!([]);
        let pools = [pool("a", &json!({"cpu": "500m"}), &spot), pool("b", &json!({"cpu": 100}), &both)];
        let found = needs(&pools);
        let of = |kind| &found[&(kind, QuotaGroup::Standard)];
        assert_eq!((found.len(), of(labels::SPOT).vcpus, of(labels::ON_DEMAND).vcpus), (2, Some(100.5), Some(100.0)));
        assert_eq!(of(labels::SPOT).pools, ["a", "b"]);
        let said = too_small("on-demand Standard (L-1)", 64.0, of(labels::ON_DEMAND)).unwrap();
        assert_eq!(said, "on-demand Standard (L-1) is 64 vCPUs, and limits of NodePools (b) allow 100");
        assert_eq!(too_small("q", 100.0, of(labels::ON_DEMAND)), None);
        let endless = &needs(&[pool("c", &json!({"memory": "1Ti"}), &both), pool("d", &json!({"cpu": 1}), &both)]);
        let endless = &endless[&(labels::SPOT, QuotaGroup::Standard)];
        assert_eq!((endless.vcpus, too_small("q", 64.0, endless)), (None, None));
        assert!(too_small("q", 5.0, endless).unwrap().ends_with("NodePools (c, d) have no limit of cpu"));
    }
}
