//! Settings that go together: those of the API server's client, of the log, of size, of the conversion webhook.

use std::time::Duration;

use dovetail_cloud::ec2::AccountLimits;
use serde::Serialize;

use super::KubernetesVersion;

/// Access to the API server: address and rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KubeAccess {
    /// `KUBECONFIG`; empty: where the cluster is follows from where we run.
    pub kubeconfig: String,
    /// `KUBE_CONTEXT`; empty: the kubeconfig's current one.
    pub context: String,
    /// `KUBE_CLIENT_QPS`: requests a second.
    pub qps: f64,
    /// `KUBE_CLIENT_BURST`: requests at once, after a pause.
    pub burst: u32,
    /// `KUBERNETES_MIN_VERSION`: the oldest version that is taken.
    pub oldest: KubernetesVersion,
    /// `STARTUP_TIMEOUT`: time that the API server and the cloud have at the start.
    pub startup_timeout: Duration,
}

impl Default for KubeAccess {
    fn default() -> Self {
        Self {
            kubeconfig: String::new(),
            context: String::new(),
            qps: 200.0,
            burst: 300,
            oldest: KubernetesVersion { major: 1, minor: 19 },
            startup_timeout: Duration::from_secs(30),
        }
    }
}

/// Settings of the log: level, format, outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogSettings {
    /// `LOG_LEVEL`: `debug`, `info` or `error`.
    pub level: String,
    /// `LOG_FORMAT`.
    pub format: LogFormat,
    /// `LOG_OUTPUT_PATHS`: `stdout`, `stderr` or files.
    pub outputs: Vec<String>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Auto, outputs: vec!["stdout".into()] }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum LogFormat {
    /// For a person on a terminal, for a machine elsewhere.
    #[default]
    Auto,
    /// For a person.
    Text,
    /// For a machine.
    Json,
}

/// Settings that depend on the size of the cluster and of the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScaleSettings {
    /// `EC2_LIMITS`: EC2's token buckets, where the account's are others than AWS publishes.
    pub ec2_limits: AccountLimits,
    /// `DISABLE_CLUSTER_STATE_OBSERVABILITY`.
    pub without_object_metrics: bool,
    /// `OBJECT_METRICS_MAX_NODES`.
    pub object_metrics_most: usize,
}

impl Default for ScaleSettings {
    fn default() -> Self {
        Self { ec2_limits: AccountLimits::default(), without_object_metrics: false, object_metrics_most: 2000 }
    }
}

/// The webhook that converts between v1beta1 and v1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WebhookSettings {
    /// `WEBHOOK_ENABLED`.
    pub enabled: bool,
    /// `WEBHOOK_PORT`.
    pub port: u16,
    /// `WEBHOOK_SECRET`: where certificates are kept.
    pub secret: String,
    /// `WEBHOOK_SERVICE`: by which an API server reaches the webhook.
    pub service: String,
    /// `WEBHOOK_URL`; empty: by the Service.
    pub url: String,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            port: 8443,
            secret: "dovetail-webhook".into(),
            service: "dovetail-webhook".into(),
            url: String::new(),
        }
    }
}
