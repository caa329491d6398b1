//! Rights that the chart's roles give, asked of the API server: of the account of the pod that leads where that may be asked
//! (SubjectAccessReview), else of the account that asks (SelfSubjectAccessReview).

use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Api;
use kube::api::PostParams;

use super::{Finding, Installation};
use crate::run::connect::plainly;

/// Rights of the chart's roles, a line each.
const ROLE: &str = include_str!("role.txt");
/// Questions that are on their way at once.
const AT_ONCE: usize = 16;
/// Most rights that are named.
const MOST_NAMED: usize = 8;

/// A right: group, resource with its subresource, verb; and for one in a namespace which that is, with the object's name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Right {
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    verb: &'static str,
    place: Option<Place>,
    name: &'static str,
}

/// A namespace in which the chart gives rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The Lease's.
    Lease,
    /// That of the cluster's DNS.
    Dns,
}

fn rights() -> Vec<Right> {
    let lines = ROLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let right = |line: &'static str| {
        let mut parts = line.split(' ');
        let (group, resource, verb) = (parts.next()?, parts.next()?, parts.next()?);
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let place = match parts.next() {
            None => None,
            Some("lease") => Some(Place::Lease),
            Some("dns") => Some(Place::Dns),
            Some(_) => return None,
        };
        let name = parts.next().unwrap_or_default();
        Some(Right { group: if group == "core" { "" } else { group }, resource, subresource, verb, place, name })
    };
    lines.filter_map(right).collect()
}

/// The group of CRDs, which only the webhook writes.
const CRDS: &str = "apiextensions.k8s.io";

/// Rights that the installation needs with its settings.
fn needed(installation: &Installation) -> Vec<Right> {
    let webhook = installation.settings.webhook.enabled;
    rights().into_iter().filter(|right| webhook || right.group != CRDS).collect()
}

/// Account whose rights are asked for.
enum Account {
    /// The account that asks.
    Own,
    /// A user, by name.
    User(String),
}

pub(super) async fn reviewed(installation: &Installation) -> Finding {
    let all = needed(installation).len();
    let account = installation.pod.as_ref().and_then(|pod| {
        let namespace = pod.metadata.namespace.as_deref()?;
        let name = pod.spec.as_ref()?.service_account_name.as_deref().unwrap_or("default");
        Some(format!("system:serviceaccount:{namespace}:{name}"))
    });
    if let Some(user) = account {
        let account = Account::User(user.clone());
        if let Ok(denied) = denied(installation, &account).await {
            return judge(&denied, all, &format!("the account of the pod that leads, {user},"));
        }
    }
    match denied(installation, &Account::Own).await {
        Ok(denied) => judge(&denied, all, "the account that asks"),
        Err(why) => {
            Finding::unknown(format!("rights cannot be asked: {why}"), "allow create on selfsubjectaccessreviews")
        }
    }
}

fn judge(denied: &[Right], all: usize, whose: &str) -> Finding {
    if denied.is_empty() {
        return Finding::green(format!("{whose} has all {all} rights of the chart's roles"));
    }
    let name = |right: &Right| {
        let slash = if right.subresource.is_empty() { "" } else { "/" };
        let of = if right.name.is_empty() { "" } else { " " };
        let place = match right.place {
            None => "",
            Some(Place::Lease) => " in the Lease's namespace",
            Some(Place::Dns) => " in kube-system",
        };
        format!("{} {}{slash}{}{of}{}{place}", right.verb, right.resource, right.subresource, right.name)
    };
    let named: Vec<String> = denied.iter().take(MOST_NAMED).map(name).collect();
    let more = denied.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let what = format!("{whose} may not {}{more}", named.join(", "));
    Finding::red(what, "upgrade the chart, or bind its roles to the account")
}

/// The rights that an account does not have.
async fn denied(installation: &Installation, account: &Account) -> Result<Vec<Right>, String> {
    let answers: Vec<Result<Option<Right>, String>> = stream::iter(needed(installation))
        .map(|right| async move {
            let allowed = is_allowed(installation, account, &right).await?;
            Ok((!allowed).then_some(right))
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    answers.into_iter().filter_map(Result::transpose).collect()
}

async fn is_allowed(installation: &Installation, account: &Account, right: &Right) -> Result<bool, String> {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let asked = ResourceAttributes {
        group: Some(right.group.to_owned()),
        resource: text(right.resource),
        subresource: text(right.subresource),
        verb: text(right.verb),
        name: named(installation, right),
        namespace: right.place.map(|place| match place {
            Place::Lease => installation.settings.lease_namespace.clone(),
            Place::Dns => "kube-system".to_owned(),
        }),
        ..ResourceAttributes::default()
    };
    let (client, params) = (installation.connection.client.clone(), PostParams::default());
    let answer: Result<Option<SubjectAccessReviewStatus>, kube::Error> = match account {
        Account::Own => {
            let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(asked), ..Default::default() };
            let review = SelfSubjectAccessReview { spec, ..Default::default() };
            Api::all(client).create(&params, &review).await.map(|review| review.status)
        }
        Account::User(user) => {
            let groups = ["system:serviceaccounts", "system:authenticated"].map(str::to_owned).to_vec();
            let spec = SubjectAccessReviewSpec {
                resource_attributes: Some(asked),
                user: Some(user.clone()),
                groups: Some(groups),
                ..Default::default()
            };
            let review = SubjectAccessReview { spec, ..Default::default() };
            Api::all(client).create(&params, &review).await.map(|review| review.status)
        }
    };
    answer.map(|status| status.is_some_and(|status| status.allowed)).map_err(|why| plainly(&why))
}

/// The object that the chart's role names, where it names one.
fn named(installation: &Installation, right: &Right) -> Option<String> {
    match right.group {
        "admissionregistration.k8s.io" => Some(installation.settings.fence_name.clone()),
        CRDS => Some("nodepools.karpenter.sh".to_owned()),
        _ => Some(right.name.to_owned()).filter(|name| !name.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_role_is_a_right() {
        let lines = ROLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count();
        assert!(lines > 60 && rights().len() == lines);
        let eviction = rights().into_iter().find(|right| right.subresource == "eviction");
        let cluster_wide =
            Right { group: "", resource: "pods", subresource: "eviction", verb: "create", place: None, name: "" };
        assert_eq!(eviction, Some(cluster_wide));
    }

    #[test]
    fn rights_that_are_missing_are_red_and_named() {
        let missing: Vec<Right> = rights().into_iter().take(10).collect();
        let found = judge(&missing, 74, "somebody");
        assert!(found.what.starts_with("somebody may not get validatingadmissionpolicies, "), "{}", found.what);
        assert!(found.what.ends_with(" and 2 more") && !found.remedy.is_empty());
        assert!(judge(&[], 74, "somebody").remedy.is_empty());
        let renewal = rights().into_iter().find(|right| right.verb == "update" && right.resource == "leases");
        let found = judge(renewal.as_slice(), 74, "somebody");
        assert_eq!(found.what, "somebody may not update leases karpenter-leader-election in the Lease's namespace");
    }
}
