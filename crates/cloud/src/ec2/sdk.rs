//! The SDK's clients, made from parts that a simulation can replace: network, time, sleep, randomness.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sdk_ec2::config::StalledStreamProtectionConfig;
use aws_sdk_ec2::config::retry::{RetryPartition, TokenBucket};
use aws_smithy_async::rt::sleep::{SharedAsyncSleep, TokioSleep};
use aws_smithy_async::time::{SharedTimeSource, TimeSource};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use dovetail_core::clock::Clock;

use super::bounded::bounded;
use super::rate::{AccountLimits, Limiter, limited};
use super::services::{Eks, EventBridge, Iam, Pricing, RegionLists, SavingsPlans, ServiceQuotas, Ssm, ZonalShift};

/// Timeout of one attempt of a call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of a CreateFleet: EC2 answers an instant fleet only when it is launched.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(45);
/// Timeout of a call to the queue: it waits for messages for twenty seconds.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of making a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most attempts of a call.
const ATTEMPTS: u32 = 4;

/// Our name in the user agent that AWS sees.
const APP_NAME: &str = concat!("dovetail-", env!("CARGO_PKG_VERSION"));

/// Parts that the SDK is made of.
#[derive(Clone)]
pub struct SdkParts {
    /// Further settings of the environment and the profile: FIPS, dual stack, endpoints of single services.
    pub base: Option<SdkConfig>,
    /// Client that carries requests: the SDK's own, or one with faults in tests.
    pub http_client: SharedHttpClient,
    /// `us-east-1`.
    pub region: String,
    /// Credentials that requests are signed with.
    pub credentials: SharedCredentialsProvider,
    /// One endpoint for every service, instead of AWS's own.
    pub endpoint_url: Option<String>,
    /// Wall time for signatures.
    pub time_source: SharedTimeSource,
    /// Sleep between retries.
    pub sleep_impl: SharedAsyncSleep,
    /// Number of retries, and the pauses between them.
    pub retry: RetryConfig,
    /// Our own time, for caches.
    pub clock: Arc<dyn Clock>,
    /// Spreads the repetitions of one replica away from another's.
    pub seed: u64,
}

impl SdkParts {
    /// Parts that speak to a server in this process, with the clock's time, tokio's sleep and no jitter.
    pub fn in_process(http_client: SharedHttpClient, region: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        let credentials = Credentials::new("in-process", "in-process", None, None, "in-process");
        Self {
            base: None,
            http_client,
            region: region.into(),
            credentials: SharedCredentialsProvider::new(credentials),
            endpoint_url: None,
            time_source: SharedTimeSource::new(ClockTime(Arc::clone(&clock))),
            sleep_impl: SharedAsyncSleep::new(TokioSleep::new()),
            retry: RetryConfig::standard().with_max_attempts(ATTEMPTS).with_use_static_exponential_base(true),
            clock,
            seed: 0,
        }
    }

    /// Parts for AWS: the default chain of credentials and region (environment, profile, IRSA, pod identity, IMDS) and
    /// HTTPS on rustls with ring. `region` overrides the chain's.
    ///
    /// # Errors
    /// No region or no credentials are found.
    pub async fn from_environment(clock: Arc<dyn Clock>, region: Option<String>) -> Result<Self, NoAws> {
        let http_client = bounded(https_client());
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http_client.clone());
        if let Some(region) = region {
            loader = loader.region(Region::new(region));
        }
        let config = loader.load().await;
        let region = config.region().ok_or(NoAws::Region)?.to_string();
        let credentials = config.credentials_provider().ok_or_else(|| NoAws::Credentials("no provider".into()))?;
        if let Err(why) = credentials.provide_credentials().await {
            return Err(NoAws::Credentials(on_one_line(&why)));
        }
        Ok(Self {
            http_client,
            region,
            credentials,
            endpoint_url: config.endpoint_url().map(str::to_owned),
            base: Some(config),
            time_source: SharedTimeSource::new(ClockTime(Arc::clone(&clock))),
            sleep_impl: SharedAsyncSleep::new(TokioSleep::new()),
            retry: RetryConfig::standard().with_max_attempts(ATTEMPTS),
            clock,
            seed: 0,
        })
    }

    /// `attempt` is how long an attempt may take; none where the HTTP client sees to it.
    fn config(&self, region: &str, retry: RetryConfig, attempt: Option<Duration>) -> SdkConfig {
        let mut timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT);
        timeouts.set_operation_attempt_timeout(attempt);
        let config = self.base.as_ref().map_or_else(SdkConfig::builder, SdkConfig::to_builder);
        let mut config = config
            .behavior_version(BehaviorVersion::latest())
            .http_client(self.http_client.clone())
            .region(Region::new(region.to_owned()))
            .credentials_provider(self.credentials.clone())
            .time_source(self.time_source.clone())
            .retry_config(retry)
            .timeout_config(timeouts.build())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        config.set_sleep_impl(Some(self.sleep_impl.clone()));
        config.set_app_name(AppName::new(APP_NAME).ok());
        config.set_endpoint_url(self.endpoint_url.clone());
        config.build()
    }
}

/// An error with what it came from: the chain's says, a line each, what became of every place that was asked.
fn on_one_line(error: &dyn std::error::Error) -> String {
    let mut said = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        said.push(cause.to_string());
        source = cause.source();
    }
    let lines: Vec<&str> = said.iter().flat_map(|text| text.lines()).map(str::trim).collect();
    lines.join("; ")
}

/// The environment does not say how to reach AWS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAws {
    /// No region.
    #[error("the AWS region is unknown: set AWS_REGION (--aws-region)")]
    Region,
    /// No credentials; with what each place said that was asked.
    #[error(
        "there are no AWS credentials: give the service account a role (IRSA or pod identity), or set a profile or keys \
         in the environment: {0}"
    )]
    Credentials(String),
}

/// One client a service, each with a retry budget of its own.
#[derive(Clone)]
pub(super) struct Clients {
    pub ec2: aws_sdk_ec2::Client,
    /// For calls that the SDK must not repeat.
    pub ec2_once: aws_sdk_ec2::Client,
    pub region_lists: RegionLists,
    pub ssm: Ssm,
    pub iam: Iam,
    pub eks: Eks,
    pub pricing: Pricing,
    /// Named as its requests are signed.
    pub savingsplans: SavingsPlans,
    pub zonal_shift: ZonalShift,
    pub events: EventBridge,
    pub service_quotas: ServiceQuotas,
    pub sqs: aws_sdk_sqs::Client,
    /// By which requests to EC2 wait for their tokens.
    pub limiter: Limiter,
}

macro_rules! client {
    ($service:ident, $config:expr) => {
        $service::Client::from_conf($service::config::Builder::from($config).retry_partition(partition()).build())
    };
}

impl Clients {
    pub fn new(parts: &SdkParts, limits: &AccountLimits) -> Self {
        let parts = &SdkParts { http_client: bounded(parts.http_client.clone()), ..parts.clone() };
        // Only EC2 has these buckets, and counts in them what we send again, too.
        let limiter = Limiter::new(limits, Arc::clone(&parts.clock));
        let in_bounds = |retry, attempt| {
            let http_client = limited(parts.http_client.clone(), &limiter, attempt);
            SdkParts { http_client, ..parts.clone() }.config(&parts.region, retry, None)
        };
        let ec2 = in_bounds(parts.retry.clone(), ATTEMPT_TIMEOUT);
        let once = in_bounds(RetryConfig::disabled(), LAUNCH_TIMEOUT);
        let config = parts.config(&parts.region, parts.retry.clone(), Some(ATTEMPT_TIMEOUT));
        let queue = parts.config(&parts.region, parts.retry.clone(), Some(QUEUE_TIMEOUT));
        let pricing = parts.config(pricing_region(&parts.region), parts.retry.clone(), Some(ATTEMPT_TIMEOUT));
        Self {
            ec2: client!(aws_sdk_ec2, &ec2),
            ec2_once: client!(aws_sdk_ec2, &once),
            region_lists: RegionLists::new(&ec2, partition()),
            ssm: Ssm::new(&config, partition()),
            iam: Iam::new(&config, partition()),
            eks: Eks::new(&config, partition()),
            pricing: Pricing::new(&pricing, partition()),
            savingsplans: SavingsPlans::new(&config, partition()),
            zonal_shift: ZonalShift::new(&config, partition()),
            events: EventBridge::new(&config, partition()),
            service_quotas: ServiceQuotas::new(&config, partition()),
            sqs: client!(aws_sdk_sqs, &queue),
            limiter,
        }
    }
}

/// A retry budget that belongs to one client: by default the SDK shares one over the whole process, also between the
/// replicas of a simulation.
fn partition() -> RetryPartition {
    RetryPartition::custom("dovetail").token_bucket(TokenBucket::default()).build()
}

/// Region whose Pricing API answers for a region (karpenter-aws 3.5).
fn pricing_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

/// The clock as the SDK asks for it.
struct ClockTime(Arc<dyn Clock>);

impl fmt::Debug for ClockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClockTime")
    }
}

impl TimeSource for ClockTime {
    fn now(&self) -> SystemTime {
        SystemTime::from(self.0.wall())
    }
}

/// HTTPS on rustls with ring, by the proxy that the environment names (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
fn https_client() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector = Connector::builder().proxy_config(ProxyConfig::from_env());
        connector.set_connector_settings(settings.cloned());
        if let Some(components) = components {
            connector.set_sleep_impl(components.sleep_impl());
        }
        connector.tls_provider(Provider::Rustls(CryptoMode::Ring)).build()
    })
}
