//! From a service's answer to an operation's output, or to the error that it names.

use std::fmt;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::{Error, Output, OutputOrError};
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::ser_de::DeserializeResponse;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::error::metadata::{Builder, ErrorMetadata, ProvideErrorMetadata};
use aws_types::request_id::apply_request_id;

/// Reads code and message of an error, each protocol in its own way.
pub(super) type ErrorOf = fn(&HttpResponse, &[u8]) -> Result<Builder, BoxError>;

/// A service's refusal; without a code where the answer could not be read.
#[derive(Debug, Default)]
pub(in crate::ec2) struct ServiceFailure {
    meta: ErrorMetadata,
    source: Option<BoxError>,
}

impl ServiceFailure {
    fn unreadable(response: &HttpResponse, source: BoxError) -> Self {
        let meta = apply_request_id(ErrorMetadata::builder(), response.headers()).build();
        Self { meta, source: Some(source) }
    }
}

impl fmt::Display for ServiceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(_) => f.write_str("the answer could not be read"),
            None => self.meta.fmt(f),
        }
    }
}

impl std::error::Error for ServiceFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

impl ProvideErrorMetadata for ServiceFailure {
    fn meta(&self) -> &ErrorMetadata {
        &self.meta
    }
}

/// Reads the answers of one operation.
pub(super) struct Answer<O> {
    pub error_of: ErrorOf,
    pub output_of: fn(&[u8]) -> Result<O, BoxError>,
}

impl<O> fmt::Debug for Answer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

impl<O: fmt::Debug + Send + Sync + 'static> Answer<O> {
    fn read_response(&self, response: &HttpResponse) -> Result<O, ServiceFailure> {
        let body = response.body().bytes().unwrap_or_default();
        if response.status().is_success() {
            return (self.output_of)(body).map_err(|why| ServiceFailure::unreadable(response, why));
        }
        let meta = (self.error_of)(response, body).map_err(|why| ServiceFailure::unreadable(response, why))?;
        Err(ServiceFailure { meta: apply_request_id(meta, response.headers()).build(), source: None })
    }
}

impl<O: fmt::Debug + Send + Sync + 'static> DeserializeResponse for Answer<O> {
    fn deserialize_nonstreaming_with_config(&self, response: &HttpResponse, _: &ConfigBag) -> OutputOrError {
        let output = self.read_response(response).map(Output::erase);
        output.map_err(|failure| OrchestratorError::operation(Error::erase(failure)))
    }
}
