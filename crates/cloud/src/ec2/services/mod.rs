//! Eight services of which seventeen operations are called, on the runtime that the EC2 SDK brings: a crate for each is a tenth
//! of the first build. So are EC2's three long lists. Signatures, retries, timeouts, clock skew and the user agent are the
//! runtime's (decision 051); this folder has endpoints, requests and answers.

mod account;
mod answer;
mod eks;
mod endpoints;
mod instance_type;
mod json;
#[cfg(test)]
mod lists_tests;
mod query;
mod region_lists;
mod savings_plans;
#[cfg(test)]
mod sdk_oracle;
#[cfg(test)]
mod tests;
mod xml;
mod zonal_shift;

use aws_config::SdkConfig;
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::invocation_id::InvocationIdInterceptor;
use aws_runtime::recursion_detection::RecursionDetectionInterceptor;
use aws_runtime::request_info::RequestInfoInterceptor;
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_runtime::service_clock_skew::{
    DisableClockSkewCorrection, ServiceClockSkewClassifier, ServiceClockSkewInterceptor,
};
use aws_runtime::user_agent::{ApiMetadata, UserAgentInterceptor};
use aws_smithy_runtime::client::defaults::{DefaultPluginParams, default_plugins};
use aws_smithy_runtime::client::http::connection_poisoning::ConnectionPoisoningInterceptor;
use aws_smithy_runtime::client::orchestrator::invoke;
use aws_smithy_runtime::client::retries::RetryPartition;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{AuthSchemeOptionResolverParams, SharedAuthSchemeOptionResolver};
use aws_smithy_runtime_api::client::endpoint::{EndpointResolverParams, SharedEndpointResolver};
use aws_smithy_runtime_api::client::interceptors::context::{Error, Input};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, Metadata, SensitiveOutput};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::{RuntimePlugins, StaticRuntimePlugin};
use aws_smithy_runtime_api::client::ser_de::{SerializeRequest, SharedRequestSerializer, SharedResponseDeserializer};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::{ConfigBag, Layer};
use aws_types::SigningName;
use aws_types::region::SigningRegion;
use tracing::Instrument as _;

use answer::{Answer, ErrorOf};
use endpoints::{Endpoints, Host};

pub(super) use account::{EventBridge, ServiceQuotas};
pub(super) use answer::ServiceFailure;
pub(super) use eks::{Cluster, Eks};
pub(super) use json::{Pricing, Ssm};
pub(super) use query::{Iam, InstanceProfile};
pub(super) use region_lists::RegionLists;
pub(super) use savings_plans::{PlanRate, SavingsPlan, SavingsPlans};
pub(super) use zonal_shift::{ManagedResource, ResourceShift, ZonalShift};

/// A call's result, with the SDK's own error around the service's.
pub(super) type Called<O> = Result<O, SdkError<ServiceFailure, HttpResponse>>;

/// A service as the SDK's model of it says.
#[derive(Debug)]
struct Service {
    /// `SSM`: the name in logs, and the one under which settings have an endpoint for this service alone.
    id: &'static str,
    /// `ssm`: the name in signatures and in the user agent.
    signing_name: &'static str,
    host: Host,
    error_of: ErrorOf,
}

/// One service's client. Cheap to clone.
#[derive(Clone, Debug)]
struct ServiceClient {
    service: &'static Service,
    plugins: RuntimePlugins,
}

/// A request without its endpoint, signature and user agent.
#[derive(Debug)]
struct Call {
    /// `GetParameter`.
    operation: &'static str,
    method: http::Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl ServiceClient {
    fn new(service: &'static Service, config: &SdkConfig, partition: RetryPartition) -> Self {
        let mut defaults = DefaultPluginParams::new().with_retry_partition_name(service.signing_name);
        if let Some(version) = config.behavior_version() {
            defaults = defaults.with_behavior_version(version);
        }
        let ours = StaticRuntimePlugin::new()
            .with_config(settings(service, config, partition).freeze())
            .with_runtime_components(components(service, config));
        let plugins = RuntimePlugins::new()
            .with_client_plugins(default_plugins(defaults.with_is_aws_sdk(true)))
            .with_client_plugin(ours);
        Self { service, plugins }
    }

    /// Sends a request, and again as the settings for retries say.
    async fn send<O>(&self, call: Call, output_of: fn(&[u8]) -> Result<O, BoxError>) -> Called<O>
    where
        O: std::fmt::Debug + Send + Sync + 'static,
    {
        let operation = call.operation;
        let mut layer = Layer::new(operation);
        layer.store_put(Metadata::new(operation, self.service.id));
        layer.store_put(SharedResponseDeserializer::new(Answer { error_of: self.service.error_of, output_of }));
        let plugin = StaticRuntimePlugin::new().with_config(layer.freeze());
        let plugins = self.plugins.clone().with_operation_plugin(plugin);
        let span = tracing::debug_span!(
            "aws_call",
            "rpc.system" = "aws-api",
            "rpc.service" = self.service.id,
            "rpc.method" = operation
        );
        let done = invoke(self.service.id, operation, Input::erase(call), &plugins).instrument(span).await;
        let output = done.map_err(|error| error.map_service_error(failure_of))?;
        let other = || SdkError::construction_failure("the runtime returned the output of another operation");
        output.downcast::<O>().map_err(|_| other())
    }
}

/// The next page's name after an answer; none where that was the last, or where a page names itself.
pub(super) fn next_page(asked: Option<&str>, next: Option<String>) -> Option<String> {
    next.filter(|next| !next.is_empty() && asked != Some(next.as_str()))
}

/// Every error that [`Answer`] makes is one of these.
fn failure_of(error: Error) -> ServiceFailure {
    error.downcast::<ServiceFailure>().unwrap_or_default()
}

/// Settings as an SDK's client takes them from the shared ones.
fn settings(service: &'static Service, config: &SdkConfig, partition: RetryPartition) -> Layer {
    let mut layer = Layer::new(service.id);
    layer.store_put(ApiMetadata::new(service.signing_name, env!("CARGO_PKG_VERSION")));
    layer.store_put(SigningName::from_static(service.signing_name));
    layer.store_or_unset(config.region().cloned());
    layer.store_or_unset(config.region().cloned().map(SigningRegion::from));
    layer.store_or_unset(config.app_name().cloned());
    for framework in config.framework_metadata() {
        layer.store_append(framework.clone());
    }
    layer.store_or_unset(config.disable_clock_skew_correction().map(DisableClockSkewCorrection::from));
    layer.store_or_unset(config.auth_scheme_preference().cloned());
    layer.store_or_unset(config.stalled_stream_protection());
    layer.store_or_unset(config.retry_config().cloned());
    layer.store_or_unset(config.timeout_config().cloned());
    layer.store_put(partition);
    layer.store_put(SharedRequestSerializer::new(RequestWriter));
    layer.store_put(SigV4OperationSigningConfig::default());
    layer.store_put(AuthSchemeOptionResolverParams::new(()));
    layer.store_put(EndpointResolverParams::new(()));
    layer.store_put(SensitiveOutput);
    layer
}

/// Parts of the runtime as an SDK's client is made of them.
fn components(service: &'static Service, config: &SdkConfig) -> RuntimeComponentsBuilder {
    let mut components = RuntimeComponentsBuilder::new(service.id)
        .with_http_client(config.http_client())
        .with_time_source(config.time_source())
        .with_sleep_impl(config.sleep_impl())
        .with_endpoint_resolver(Some(SharedEndpointResolver::new(Endpoints::new(service, config))))
        .with_auth_scheme_option_resolver(Some(SharedAuthSchemeOptionResolver::new(
            StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]),
        )))
        .with_auth_scheme(SigV4AuthScheme::new())
        .with_interceptor(ConnectionPoisoningInterceptor::new())
        .with_interceptor(ServiceClockSkewInterceptor::new())
        .with_interceptor(RequestInfoInterceptor::new())
        .with_interceptor(UserAgentInterceptor::new())
        .with_interceptor(InvocationIdInterceptor::new())
        .with_interceptor(RecursionDetectionInterceptor::new())
        .with_retry_classifier(HttpStatusCodeClassifier::default())
        .with_retry_classifier(TransientErrorClassifier::<ServiceFailure>::new())
        .with_retry_classifier(AwsErrorCodeClassifier::<ServiceFailure>::new())
        .with_retry_classifier(ServiceClockSkewClassifier::<ServiceFailure>::new());
    if let Some(credentials) = config.credentials_provider() {
        components.set_identity_resolver(SCHEME_ID, credentials);
    }
    if let Some(cache) = config.identity_cache() {
        components.set_identity_cache(Some(cache));
    }
    components
}

/// Turns a [`Call`] into the request that the runtime signs.
#[derive(Debug)]
struct RequestWriter;

impl SerializeRequest for RequestWriter {
    fn serialize_input(&self, input: Input, _: &mut ConfigBag) -> Result<HttpRequest, BoxError> {
        let call = input.downcast::<Call>().map_err(|_| "the runtime passed the input of another operation")?;
        let mut request = http::Request::builder().method(call.method).uri(call.path);
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        if !call.body.is_empty() {
            request = request.header(http::header::CONTENT_LENGTH, call.body.len());
        }
        Ok(HttpRequest::try_from(request.body(SdkBody::from(call.body))?)?)
    }
}
