//! AWS JSON 1.1: Systems Manager and the Pricing API.

use aws_config::SdkConfig;
use aws_smithy_runtime::client::retries::RetryPartition;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::error::metadata::{Builder, ErrorMetadata};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::endpoints::{FipsHost, Host};
use super::{Call, Called, Service, ServiceClient};

const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

static SSM: Service = Service {
    id: "SSM",
    signing_name: "ssm",
    host: Host::Regional { prefix: "ssm", fips: FipsHost::NotInGov },
    error_of,
};
static PRICING: Service = Service {
    id: "Pricing",
    signing_name: "pricing",
    host: Host::Regional { prefix: "api.pricing", fips: FipsHost::Everywhere },
    error_of,
};

/// Systems Manager's parameters.
#[derive(Clone, Debug)]
pub(in crate::ec2) struct Ssm(ServiceClient);

impl Ssm {
    pub fn new(config: &SdkConfig, partition: RetryPartition) -> Self {
        Self(ServiceClient::new(&SSM, config, partition))
    }

    /// The value of a parameter.
    pub async fn get_parameter(&self, name: &str) -> Called<Option<String>> {
        let call = call("AmazonSSM", "GetParameter", &json!({"Name": name}));
        self.0.send(call, |body| Ok(output_of::<GotParameter>(body)?.parameter.and_then(|found| found.value))).await
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GotParameter {
    parameter: Option<Parameter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameter {
    value: Option<String>,
}

/// The price list.
#[derive(Clone, Debug)]
pub(in crate::ec2) struct Pricing(ServiceClient);

/// A page of products, each a JSON document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::ec2) struct PricingPage {
    /// Products as text.
    pub price_list: Option<Vec<String>>,
    /// The next page's name; absent or empty on the last.
    pub next_token: Option<String>,
}

impl Pricing {
    pub fn new(config: &SdkConfig, partition: RetryPartition) -> Self {
        Self(ServiceClient::new(&PRICING, config, partition))
    }

    /// A page of the products of EC2 whose attributes are these.
    pub async fn get_products(
        &self,
        attributes: &[(&str, &str)],
        page_size: u8,
        next_token: Option<&str>,
    ) -> Called<PricingPage> {
        let term = |(field, value): &(&str, &str)| json!({"Type": "TERM_MATCH", "Field": field, "Value": value});
        let filters: Vec<Value> = attributes.iter().map(term).collect();
        let mut body = json!({"ServiceCode": "AmazonEC2", "Filters": filters, "MaxResults": page_size});
        if let Some(token) = next_token {
            body["NextToken"] = token.into();
        }
        self.0.send(call("AWSPriceListService", "GetProducts", &body), output_of).await
    }
}

pub(super) fn call(shape: &str, operation: &'static str, body: &Value) -> Call {
    let headers = vec![("content-type", CONTENT_TYPE.to_owned()), ("x-amz-target", format!("{shape}.{operation}"))];
    Call { operation, method: http::Method::POST, path: "/".into(), headers, body: body.to_string() }
}

/// An answer without a body is one without members.
pub(super) fn output_of<O: DeserializeOwned>(body: &[u8]) -> Result<O, BoxError> {
    Ok(serde_json::from_slice(if body.is_empty() { b"{}" } else { body })?)
}

/// Code and message as JSON services name them: the header goes before the body, `code` before `__type`.
pub(super) fn error_of(response: &HttpResponse, body: &[u8]) -> Result<Builder, BoxError> {
    let members: Map<String, Value> = output_of(body)?;
    let text = |names: &[&str]| names.iter().find_map(|name| members.get(*name)?.as_str());
    let mut meta = ErrorMetadata::builder();
    if let Some(code) = response.headers().get("x-amzn-errortype").or_else(|| text(&["code", "__type"])) {
        meta = meta.code(bare_code(code));
    }
    if let Some(message) = text(&["message", "Message", "errorMessage"]) {
        meta = meta.message(message);
    }
    Ok(meta)
}

/// `ParameterNotFound` of `com.amazonaws.ssm#ParameterNotFound:http://…`.
fn bare_code(code: &str) -> &str {
    let code = code.split_once(':').map_or(code, |(code, _)| code);
    code.split_once('#').map_or(code, |(_, code)| code)
}
