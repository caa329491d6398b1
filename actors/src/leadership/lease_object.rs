//! The Lease at the API server, read field by field: one that somebody has written nonsense into (`managedFields` or a
//! `renewTime` at the end of time) is still a Lease, and has to be taken over in the end.

use std::time::Duration;

use dovetail_api::names::annotations;
use dovetail_core::lease::{AHEAD, LeaseSettings, LeaseView, LeaseWrite, TermOrigin};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{GetParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Client, Error, Resource};
use serde_json::{Value, json};

use crate::reading::without_managed_fields;

/// The one Lease of an election.
#[derive(Clone)]
pub struct LeaseObject {
    client: Client,
    requests: Request,
    name: String,
}

impl LeaseObject {
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        let requests = Request::new(Lease::url_path(&(), Some(namespace)));
        Self { client, requests, name: name.to_owned() }
    }

    /// Reads the Lease; `None` if there is none.
    ///
    /// # Errors
    /// The API server's refusal, or none answers.
    pub async fn get(&self) -> kube::Result<Option<Value>> {
        let request = self.requests.get(&self.name, &GetParams::default()).map_err(Error::BuildRequest)?;
        match self.client.request_text(request).await {
            Ok(answer) => parse_lease(&answer).map(Some),
            Err(Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates it, or changes it where it is still of the version that the order rests on. What is there afterwards.
    ///
    /// # Errors
    /// The API server's refusal, or none answers; a term that the field cannot hold.
    pub async fn write(&self, order: &LeaseWrite, body: &Value) -> kube::Result<Value> {
        let request = match order.resource_version {
            None => self.requests.create(&PostParams::default(), bytes(body)?),
            Some(_) => self.requests.patch(&self.name, &PatchParams::default(), &Patch::Merge(body)),
        };
        parse_lease(&self.client.request_text(request.map_err(Error::BuildRequest)?).await?)
    }

    /// Takes the holder's name off the Lease as it was read.
    ///
    /// # Errors
    /// It has changed meanwhile, the API server refuses, or none answers.
    pub async fn release(&self, mut lease: Value) -> kube::Result<()> {
        lease["spec"]["holderIdentity"] = json!("");
        let request = self.requests.replace(&self.name, &PostParams::default(), bytes(&lease)?);
        self.client.request_text(request.map_err(Error::BuildRequest)?).await.map(drop)
    }
}

/// A Lease from the text of an answer. `managedFields`, which may be nested deeper than parsers go, are cut off before.
fn parse_lease(answer: &str) -> kube::Result<Value> {
    serde_json::from_str(&without_managed_fields(answer)).map_err(Error::SerdeError)
}

fn bytes(body: &Value) -> kube::Result<Vec<u8>> {
    serde_json::to_vec(body).map_err(Error::SerdeError)
}

/// JSON of a Lease write, as an object or a merge patch.
pub fn body(order: &LeaseWrite, name: &str, identity: &str, settings: &LeaseSettings, now: Timestamp) -> Value {
    let mark = if order.origin() == TermOrigin::Vacant { annotations::LEASE_VACANT } else { annotations::LEASE_LED };
    let now = format!("{now:.6}");
    let mut metadata = json!({"name": name, "annotations": {annotations::LEASE: mark}});
    let mut spec = json!({
        "holderIdentity": identity, "leaseTransitions": order.term,
        "leaseDurationSeconds": settings.duration.as_secs(), "renewTime": now,
    });
    if let Some(version) = &order.resource_version {
        metadata["resourceVersion"] = version.as_str().into();
    }
    // A renewal leaves the time of acquisition as it is.
    if order.acquires {
        spec["acquireTime"] = now.into();
    }
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
}

/// Holder of the Lease; empty when it was released.
pub fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// View of the Lease for the election.
pub fn view(lease: &Value, settings: &LeaseSettings, now: Timestamp) -> LeaseView {
    let spec = &lease["spec"];
    let whole = |field: &str| spec[field].as_u64().unwrap_or(0);
    let term = whole("leaseTransitions");
    let origin = match lease["metadata"]["annotations"][annotations::LEASE].as_str() {
        // client-go takes what has run out and leaves the mark.
        Some(annotations::LEASE_VACANT) if term == 0 => TermOrigin::Vacant,
        Some(annotations::LEASE_LED) => TermOrigin::Led,
        _ => TermOrigin::Foreign,
    };
    LeaseView {
        holder: holder(lease).to_owned(),
        term,
        duration: Duration::from_secs(whole("leaseDurationSeconds").max(1)),
        resource_version: lease["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned(),
        origin,
        stale: spec["renewTime"].as_str().is_some_and(|text| is_stale(text, settings.duration, now)),
    }
}

/// True if the renewal time shows an old Lease, or shows nothing: it lies ahead, or is no time.
fn is_stale(renewed: &str, longest: Duration, now: Timestamp) -> bool {
    let Ok(renewed) = renewed.parse::<Timestamp>() else { return true };
    let signed = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    let age = now.duration_since(renewed);
    age > signed(longest) || age < -signed(AHEAD)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_lease_whose_managed_fields_no_parser_can_read_is_read() {
        for depth in [1, 130, 100_000] {
            let deep = format!("{}{{}}{}", "{\"f:a\":".repeat(depth), "}".repeat(depth));
            let text = format!(
                "{{\"metadata\":{{\"resourceVersion\":\"7\",\"managedFields\":[{{\"time\":\"9999-12-31T23:59:59Z\",\"fieldsV1\":{deep}}}]}},\"spec\":{{\"holderIdentity\":\"a\"}}}}"
            );
            assert_eq!(holder(&super::parse_lease(&text).unwrap()), "a", "nested {depth} deep");
        }
    }

    fn read(spec: &Value) -> LeaseView {
        let lease = json!({"metadata": {"resourceVersion": "7", "annotations": {annotations::LEASE: "led"},
            "managedFields": [{"time": "9999-12-31T23:59:59Z"}]}, "spec": spec});
        view(&lease, &LeaseSettings::default(), "2026-01-01T00:00:20Z".parse().unwrap())
    }

    #[test]
    fn a_lease_with_nonsense_in_it_is_read_as_far_as_it_makes_sense() {
        let known = read(&json!({"holderIdentity": "a", "leaseTransitions": 3, "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:10.000000Z"}));
        assert_eq!((known.holder.as_str(), known.term, known.origin, known.stale), ("a", 3, TermOrigin::Led, false));
        for renewed in ["9999-12-31T23:59:59.000000Z", "-0001-01-01T00:00:00Z", "soon", "2025-12-31T23:59:59Z"] {
            assert!(read(&json!({"renewTime": renewed})).stale, "{renewed}");
        }
        let odd = read(&json!({"leaseTransitions": -1, "leaseDurationSeconds": "x", "holderIdentity": 5}));
        assert_eq!((odd.term, odd.duration, odd.holder.as_str(), odd.stale), (0, Duration::from_secs(1), "", false));
        assert_eq!(view(&Value::Null, &LeaseSettings::default(), Timestamp::UNIX_EPOCH).origin, TermOrigin::Foreign);
    }
}
