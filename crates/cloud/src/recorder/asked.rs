//! A request as it is written down, and what makes two of one kind.

use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use serde_json::Value;

use super::known::RequestContext;
use crate::hash::fnv_parts;

/// Parameters that no condition looks at, and that are others each time.
const IGNORED: [&str; 9] = [
    "ClientToken",
    "MaxResults",
    "NextToken",
    "UserData",
    "LaunchTemplateData.UserData",
    "SpotPrice",
    "Context",
    "Version",
    "MaxItems",
];
/// Tags whose values name one thing of many.
const NAMES: [&str; 6] = [
    "Name",
    "dovetail.dev/cluster-uid",
    "dovetail.dev/launch-token",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.sh/nodeclaim",
    "karpenter.sh/nodepool",
];

/// A request to AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordedRequest {
    /// `ec2`, as its signature says.
    pub service: String,
    /// The region of its signature.
    pub region: String,
    /// `CreateFleet`.
    pub operation: String,
    /// A form without user data, JSON, or the path where that says it.
    pub body: String,
}

impl RecordedRequest {
    /// Reads it off a signed request; none where there is no signature to read.
    pub fn from_request(request: &HttpRequest) -> Option<Self> {
        let scope = request.headers().get("authorization")?.split_once("Credential=")?.1;
        let mut scope = scope.split([',', ' ']).next()?.split('/').skip(2);
        let (region, service) = (scope.next()?.to_owned(), scope.next()?.to_owned());
        let body = std::str::from_utf8(request.body().bytes().unwrap_or_default()).ok()?;
        if let Some((_, operation)) = request.headers().get("x-amz-target").and_then(|target| target.split_once('.')) {
            return Some(Self { service, region, operation: operation.to_owned(), body: body.to_owned() });
        }
        if service == "eks" {
            let path = request.uri().split_once("/clusters").map_or("", |(_, path)| path);
            return Some(Self {
                service,
                region,
                operation: "DescribeCluster".into(),
                body: format!("/clusters{path}"),
            });
        }
        if service == "arc-zonal-shift" {
            let path = request.uri().split_once("/managedresources").map_or("", |(_, path)| path);
            let (operation, body) = ("GetManagedResource".into(), format!("/managedresources{path}"));
            return Some(Self { service, region, operation, body });
        }
        if service == "savingsplans" {
            let operation = request.uri().rsplit('/').next().unwrap_or_default().to_owned();
            return Some(Self { service, region, operation, body: body.to_owned() });
        }
        let operation = body.split('&').find_map(|pair| pair.strip_prefix("Action="))?.to_owned();
        let kept: Vec<&str> = body.split('&').filter(|pair| !pair.contains("UserData=")).collect();
        Some(Self { service, region, operation, body: kept.join("&") })
    }

    /// Its parameters, where it is a form.
    pub fn form(&self) -> Vec<(String, String)> {
        form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }

    /// True if its answer says something that conditions look at.
    pub fn teaches(&self) -> bool {
        matches!(self.operation.as_str(), "CreateFleet" | "DescribeInstances" | "GetInstanceProfile")
    }

    /// The values of a numbered parameter, `InstanceId.1`.
    pub fn numbered(&self, name: &str) -> Vec<String> {
        let is_of = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        self.form().into_iter().filter(|(key, _)| is_of(key)).map(|(_, value)| value).collect()
    }

    /// One for all requests that conditions cannot tell apart, nearly: what they have in common hashed.
    pub fn kind(&self, about: &RequestContext) -> u64 {
        let what = format!("{}.{} {}", self.service, self.operation, self.region);
        if self.operation.starts_with("Describe") && self.service == "ec2"
            || matches!(self.service.as_str(), "pricing" | "savingsplans")
        {
            return fnv_parts(&[&what]);
        }
        if self.body.starts_with('{') {
            return fnv_parts(&[&what, &json_kind(&self.body)]);
        }
        let mut parts: Vec<String> = form_kind(&self.form());
        parts.extend(
            about
                .templates
                .values()
                .flat_map(|body| form_kind(&form_urlencoded::parse(body.as_bytes()).into_owned().collect::<Vec<_>>())),
        );
        for tags in about.before.values() {
            parts.extend(tags.as_object().into_iter().flatten().map(|(key, value)| match value {
                Value::String(value) if !NAMES.contains(&key.as_str()) => format!("before {key}={}", plain(value)),
                Value::String(_) => format!("before {key}"),
                other => format!("before {key}={}", plain(&other.to_string())),
            }));
        }
        parts.sort_unstable();
        parts.dedup();
        fnv_parts(&[&what, &parts.join("\n")])
    }
}

/// The names of resources in a JSON request.
fn json_kind(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let named = ["QueueName", "QueueUrl", "Name"].map(|key| body[key].as_str().map(plain).unwrap_or_default());
    named.join(" ")
}

/// Each parameter, without its numbers and with what is like in all of its kind; a tag with its key.
fn form_kind(form: &[(String, String)]) -> Vec<String> {
    let key_of = |name: &str| {
        let key = format!("{}.Key", name.strip_suffix(".Value")?);
        form.iter().find(|(other, _)| *other == key).map(|(_, value)| value.as_str())
    };
    let one = |(name, value): &(String, String)| {
        let path: Vec<&str> = name.split('.').filter(|step| step.parse::<u32>().is_err()).collect();
        let path = path.join(".");
        if IGNORED.contains(&path.as_str()) || path.ends_with(".Priority") || path.ends_with("InstanceType") {
            return None;
        }
        Some(match key_of(name) {
            Some(key) if NAMES.contains(&key) => format!("{path} {key}"),
            Some(key) => format!("{path} {key}={}", plain(value)),
            None => format!("{path}={}", plain(value)),
        })
    };
    form.iter().filter_map(one).collect()
}

/// A text whose digits, and the letters of hexadecimal beside them, are all the same: ids of a kind are one.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let end = word.chars().last().filter(|c| !c.is_ascii_alphanumeric());
        let own = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if own.bytes().any(|b| b.is_ascii_digit()) {
            out.push('0')
        } else {
            out.push_str(own)
        }
        out.extend(end);
    }
    out
}
