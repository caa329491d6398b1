//! Checks of the cluster: versions, clock, Lease, fence, CRDs, webhook, other provisioners, NodePools.

use std::cell::RefCell;
use std::time::Duration;

use dovetail_actors::reading::LenientApi;
use dovetail_api::names::annotations;
use dovetail_api::names::conditions::{READY, TRUE};
use dovetail_api::v1::condition;
use dovetail_core::clock::Clock as _;
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::ResourceExt as _;

use super::{Finding, Installation};
use crate::live::{describe, find_lease};
use crate::run::connect::plainly;
use crate::run::preflight::{self, older_crds};

/// Skew of the clock that is reported, and that ends requests to AWS.
const SKEW_SAID: SignedDuration = SignedDuration::from_secs(30);
const SKEW_BORNE: SignedDuration = SignedDuration::from_mins(5);
/// The time that a Lease without one lasts.
const LEASE_LASTS: i64 = 15;
const INSTALL_CRDS: &str = "dovetail crds | kubectl apply --server-side -f -";

pub(super) async fn version(installation: &Installation) -> Finding {
    let version = &installation.connection.facts.version;
    match preflight::new_enough(version, installation.settings.kube_access.oldest) {
        Ok(()) => Finding::green(format!("{} answers, Kubernetes {version}", installation.connection.target.server())),
        Err(why) => Finding::red(describe(&why), "upgrade Kubernetes, or lower KUBERNETES_MIN_VERSION"),
    }
}

pub(super) async fn clock(installation: &Installation) -> Finding {
    let ahead = installation.connection.clock.skew().ahead;
    let by = Duration::from_secs(ahead.unsigned_abs().as_secs());
    let side = if ahead.is_negative() { "behind" } else { "ahead of" };
    let what = format!("the clock of this machine is {by:?} {side} the API server's");
    let remedy = "set the time of this machine, for example by chrony";
    if ahead.abs() < SKEW_SAID {
        return Finding::green(format!("the clock of this machine agrees with the API server's ({by:?})"));
    }
    if ahead.abs() < SKEW_BORNE { Finding::yellow(what, remedy) } else { Finding::red(what, remedy) }
}

pub(super) async fn lease(installation: &Installation) -> Finding {
    let namespace = installation.leader.as_ref().ok().map(|leader| leader.namespace.clone());
    let lease = match find_lease(&installation.connection, namespace.as_deref()).await {
        Ok(lease) => lease,
        Err(why) if why.starts_with("there is no Lease") => {
            return Finding::yellow(why, "install the chart, or start dovetail run: a replica makes the Lease");
        }
        Err(why) => return Finding::unknown(why, "allow get and list on leases"),
    };
    let (place, spec) = (lease.namespace().unwrap_or_default(), lease.spec.unwrap_or_default());
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let (Some(holder), Some(renewed)) = (holder, spec.renew_time) else {
        return Finding::yellow(
            format!("the Lease in {place} has no holder"),
            "see that a replica runs: kubectl get pods",
        );
    };
    let lasts = SignedDuration::from_secs(spec.lease_duration_seconds.map_or(LEASE_LASTS, i64::from));
    let age = installation.connection.clock.wall().duration_since(renewed.0);
    let term = spec.lease_transitions.unwrap_or(0);
    if age > lasts {
        let what = format!("{holder} held the Lease in {place} and has not renewed it for {} s", age.as_secs());
        return Finding::red(
            what,
            "see that a replica runs, and its log: kubectl logs -l app.kubernetes.io/name=dovetail",
        );
    }
    Finding::green(format!("{holder} leads, term {term}, by the Lease in {place}"))
}

pub(super) async fn fence(installation: &Installation) -> Finding {
    let (client, name) = (installation.connection.client.clone(), installation.settings.fence_name.clone());
    let policies: LenientApi<ValidatingAdmissionPolicy> = LenientApi::all(client.clone());
    let bindings: LenientApi<ValidatingAdmissionPolicyBinding> = LenientApi::all(client);
    let (policy, binding) = futures::join!(policies.get_opt(&name), bindings.get_opt(&name));
    match (policy, binding) {
        (Ok(Some(_)), Ok(Some(_))) => Finding::green(format!("the API server rejects writes of old leaders ({name})")),
        (Ok(_), Ok(_)) => Finding::yellow(
            format!("the API server does not reject writes of old leaders: policy or binding {name} is not there"),
            "install the chart with fence.enabled, on Kubernetes 1.30 or newer",
        ),
        (Err(why), _) | (_, Err(why)) => Finding::unknown(
            format!("the fence cannot be seen: {}", plainly(&why)),
            "allow get on validatingadmissionpolicies and their bindings",
        ),
    }
}

pub(super) async fn crds(installation: &Installation) -> Finding {
    let (asker, client) = (installation.connection.asker.afresh(), &installation.connection.client);
    if let Err(why) = preflight::crds(&asker, client).await {
        return Finding::red(describe(&why), INSTALL_CRDS);
    }
    let said = RefCell::new(Vec::new());
    older_crds::warn_of(&asker, client, |text| said.borrow_mut().push(text.to_owned())).await;
    match said.into_inner().into_iter().next() {
        None => Finding::green("they are there, with every field of this version"),
        Some(why) if why.contains("cannot be seen") => Finding::unknown(why, "allow GET on /openapi/v3"),
        Some(why) => Finding::yellow(why, INSTALL_CRDS),
    }
}

pub(super) async fn older_kinds(installation: &Installation) -> Finding {
    let (asker, client) = (installation.connection.asker.afresh(), &installation.connection.client);
    let said = RefCell::new(Vec::new());
    let warn = |text: &str| said.borrow_mut().push(text.to_owned());
    let looked = preflight::older_kinds(&asker, client, installation.settings.webhook.enabled, warn).await;
    match (looked, said.into_inner().into_iter().next()) {
        (Err(why), _) => Finding::unknown(describe(&why), "allow GET on /apis"),
        (Ok(()), None) => Finding::green("no older version is served that nothing converts"),
        (Ok(()), Some(why)) => Finding::yellow(why, "set WEBHOOK_ENABLED (the chart: webhook.enabled)"),
    }
}

/// The conversion webhook, by a request that the API server can only answer through it.
pub(super) async fn webhook(installation: &Installation) -> Finding {
    if !installation.settings.webhook.enabled {
        return Finding::green("it is off: v1beta1 is not converted");
    }
    let path = "/apis/karpenter.sh/v1beta1/nodepools?limit=1";
    let request = http::Request::get(path).header("accept", "application/json").body(Vec::new());
    let request = match request {
        Ok(request) => request,
        Err(why) => return Finding::unknown(why.to_string(), ""),
    };
    match installation.connection.client.request_text(request).await {
        Ok(_) => Finding::green("the API server is answered, and takes its certificate"),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let remedy = "wait for the leader to write it into the CRDs; then see the log for webhook";
            Finding::yellow("v1beta1 is not served: the CRDs do not name the webhook yet", remedy)
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Finding::unknown(format!("it cannot be asked: {}", status.message), "allow list on nodepools")
        }
        Err(why) => {
            let (what, remedy) = (
                plainly(&why),
                "see networkPolicy.webhookFrom, the Service, and delete the webhook's Secret to renew it",
            );
            Finding::red(format!("the API server cannot convert v1beta1: {what}"), remedy)
        }
    }
}

pub(super) async fn rivals(installation: &Installation) -> Finding {
    let said = RefCell::new(Vec::new());
    let warn = |text: &str| said.borrow_mut().push(text.to_owned());
    let (asker, now) = (installation.connection.asker.afresh(), installation.connection.clock.wall());
    preflight::find_rivals(&asker, &installation.connection.client, &installation.settings, now, warn).await;
    // A Lease that Dovetail leads by is shared with nobody else by its holder, whether that one's pod can be read or not.
    let namespace = installation.leader.as_ref().ok().map(|leader| leader.namespace.clone());
    let lease = find_lease(&installation.connection, namespace.as_deref()).await;
    let ours = lease.is_ok_and(|lease| lease.annotations().contains_key(annotations::LEASE));
    let is_own = |text: &String| ours && text.starts_with("Lease ") && text.contains("it shares our Lease");
    let said: Vec<String> = said.into_inner().into_iter().filter(|text| !is_own(text)).collect();
    let unseen = said.iter().find(|text| text.contains("cannot be seen in full")).cloned();
    let found: Vec<String> = said.into_iter().filter(|text| !text.contains("cannot be seen in full")).collect();
    match (found.is_empty(), unseen) {
        (false, _) => {
            Finding::yellow(found.join("; "), "scale the other provisioner to 0, or see docs/guide/migrating.md")
        }
        (true, Some(why)) => Finding::unknown(why, "allow list on deployments and leases"),
        (true, None) => Finding::green("nothing here looks like another provisioner"),
    }
}

pub(super) async fn pools(installation: &Installation) -> Finding {
    let pools = match &installation.pools {
        Ok(pools) => pools,
        Err(why) => return Finding::unknown(format!("they cannot be listed: {why}"), "allow list on nodepools"),
    };
    if pools.is_empty() {
        return Finding::yellow("no NodePool exists: no pod gets a node", "create a NodePool (docs/pools.md)");
    }
    let bad = pools.iter().filter_map(|pool| {
        let conditions = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let ready = condition(conditions, READY).filter(|one| one.status == TRUE);
        let why = condition(conditions, READY).map(|one| one.message.clone()).unwrap_or_default();
        ready.is_none().then(|| format!("{} is not Ready {why}", pool.name_any()).trim_end().to_owned())
    });
    let bad: Vec<String> = bad.collect();
    match bad.len() {
        0 => Finding::green(format!("all {} are Ready", pools.len())),
        count if count < pools.len() => Finding::yellow(bad.join("; "), "dovetail explain nodepool NAME says why"),
        _ => Finding::red(bad.join("; "), "dovetail explain nodepool NAME says why"),
    }
}
