//! The server held to what kube's clients expect of it, on a paused clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod budgets;
mod conformance;
mod faults;
mod kubectl;
mod objects;
mod owners;
mod patches;
mod policies;
mod replay;
mod scale;
mod schemas;
mod socket;
mod versions;
mod watches;

use super::{ApiServer, ServerSettings};
use crate::clock::{DEFAULT_START, VirtualClock};
use crate::log::Caller;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;

/// A server with a short history.
fn server() -> ApiServer {
    ApiServer::with(
        Arc::new(VirtualClock::new(DEFAULT_START)),
        ServerSettings { history: 64, lag: 64, ..ServerSettings::default() },
    )
}

/// A server outside a runtime; its time stands still.
fn test_server() -> ApiServer {
    struct Still;
    impl dovetail_core::clock::Clock for Still {
        fn wall(&self) -> jiff::Timestamp {
            DEFAULT_START
        }
        fn monotonic(&self) -> std::time::Duration {
            std::time::Duration::ZERO
        }
    }
    ApiServer::new(Arc::new(Still))
}

fn client(server: &ApiServer) -> kube::Client {
    server.client(Caller::named("test"))
}

fn pods(server: &ApiServer) -> Api<Pod> {
    Api::namespaced(client(server), "default")
}

fn pod_value(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1", "resources": {"limits": {"cpu": "1"}}}]}})
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(pod_value(name)).unwrap()
}

async fn make(server: &ApiServer, name: &str) -> Pod {
    pods(server).create(&PostParams::default(), &pod(name)).await.unwrap()
}

/// The refusal of a request that was to fail.
fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> kube::core::Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
