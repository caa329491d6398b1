//! A request as the region understands it: which service, which action, what parameters.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::percent::decode_form;
use crate::region::wire::error::AwsProtocol;
use crate::region::wire::form::{FormNode, FormStep};

/// The services that answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwsService {
    Ec2,
    Sqs,
    Ssm,
    Pricing,
    Iam,
    Eks,
    Sts,
    SavingsPlans,
    ZonalShift,
}

impl AwsService {
    /// By the name that SigV4 scopes carry.
    fn of_scope(name: &str) -> Option<Self> {
        let all = [Self::Ec2, Self::Sqs, Self::Ssm, Self::Pricing, Self::Iam, Self::Eks, Self::Sts];
        all.into_iter().chain([Self::SavingsPlans, Self::ZonalShift]).find(|api| api.name() == name)
    }

    /// The service's name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Sqs => "sqs",
            Self::Ssm => "ssm",
            Self::Pricing => "pricing",
            Self::Iam => "iam",
            Self::Eks => "eks",
            Self::Sts => "sts",
            Self::SavingsPlans => "savingsplans",
            Self::ZonalShift => "arc-zonal-shift",
        }
    }

    /// Protocol that the service speaks.
    pub fn protocol(self) -> AwsProtocol {
        match self {
            Self::Ec2 => AwsProtocol::Ec2,
            Self::Iam | Self::Sts => AwsProtocol::Query,
            Self::Sqs => AwsProtocol::Json("1.0"),
            Self::Ssm | Self::Pricing => AwsProtocol::Json("1.1"),
            Self::Eks | Self::SavingsPlans | Self::ZonalShift => AwsProtocol::RestJson,
        }
    }
}

/// Parameters of a request, by its protocol: a form, or JSON.
#[derive(Clone, Debug)]
pub(crate) enum Parameters {
    Form(FormNode),
    Json(Value),
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct AwsCall {
    pub api: AwsService,
    pub action: String,
    pub parameters: Parameters,
}

impl AwsCall {
    /// Number of instances that it asks for; one where it says nothing of that.
    pub fn instances(&self) -> u32 {
        let Parameters::Form(form) = &self.parameters else { return 1 };
        let target = form.get("TargetCapacitySpecification").text("TotalTargetCapacity");
        target.and_then(|count| count.parse().ok()).unwrap_or(1)
    }

    /// Reads a request: the service from the signature's scope, else from the target, the form's version or the path.
    /// Signatures are not verified: there is one account, and nobody is kept out of it. `None` if nothing tells which
    /// service is meant.
    pub fn from_request(request: &http::Request<Bytes>) -> Option<Self> {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let scope = header("authorization").and_then(scope_of).and_then(AwsService::of_scope);
        if let Some((target, action)) = header("x-amz-target").and_then(|target| target.split_once('.')) {
            let by_target = match target {
                "AmazonSQS" => Some(AwsService::Sqs),
                "AmazonSSM" => Some(AwsService::Ssm),
                "AWSPriceListService" => Some(AwsService::Pricing),
                _ => None,
            };
            let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
            return Some(Self {
                api: by_target.or(scope)?,
                action: action.to_owned(),
                parameters: Parameters::Json(body),
            });
        }
        if scope == Some(AwsService::Eks) || request.uri().path().starts_with("/clusters") {
            return Some(rest(request));
        }
        if let Some(arn) = request.uri().path().strip_prefix("/managedresources/") {
            let parameters = Parameters::Json(json!({"resource": decode_form(arn)}));
            return Some(Self { api: AwsService::ZonalShift, action: "GetManagedResource".to_owned(), parameters });
        }
        if scope == Some(AwsService::SavingsPlans) || request.uri().path().starts_with("/DescribeSavingsPlan") {
            let action = request.uri().path().trim_matches('/').to_owned();
            let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
            return Some(Self { api: AwsService::SavingsPlans, action, parameters: Parameters::Json(body) });
        }
        query(request, scope)
    }

    /// Summary of the parameters for the event log: enough to tell what was asked for, without user data and policies.
    pub fn brief(&self) -> Value {
        match &self.parameters {
            Parameters::Json(Value::Object(members)) => {
                Value::Object(members.iter().map(|(key, value)| (key.clone(), shorten(value))).collect())
            }
            Parameters::Json(_) => json!({}),
            Parameters::Form(form) if self.action == "CreateFleet" => fleet_brief(form),
            Parameters::Form(form) => {
                let mut brief = Map::new();
                brief_of(form, "", &mut brief);
                Value::Object(brief)
            }
        }
    }
}

fn scope_of(authorization: &str) -> Option<&str> {
    let credential = authorization.split_once("Credential=")?.1.split([',', ' ']).next()?;
    credential.rsplit('/').nth(1)
}

fn rest(request: &http::Request<Bytes>) -> AwsCall {
    let mut parts = request.uri().path().trim_matches('/').split('/');
    let (action, name) = match (request.method().as_str(), parts.next(), parts.next(), parts.next()) {
        ("GET", Some("clusters"), Some(name), None) => ("DescribeCluster", name),
        ("GET", Some("clusters"), None, None) => ("ListClusters", ""),
        _ => ("Unknown", ""),
    };
    let parameters = Parameters::Json(json!({"name": decode_form(name)}));
    AwsCall { api: AwsService::Eks, action: action.to_owned(), parameters }
}

fn query(request: &http::Request<Bytes>, scope: Option<AwsService>) -> Option<AwsCall> {
    let body = String::from_utf8_lossy(request.body());
    let form = FormNode::parse(if body.is_empty() { request.uri().query().unwrap_or("") } else { &body });
    let by_version = match form.text("Version") {
        Some("2016-11-15") => Some(AwsService::Ec2),
        Some("2010-05-08") => Some(AwsService::Iam),
        Some("2011-06-15") => Some(AwsService::Sts),
        _ => None,
    };
    let action = form.text("Action")?.to_owned();
    Some(AwsCall { api: scope.or(by_version)?, action, parameters: Parameters::Form(form) })
}

/// Long texts are cut: what a message says is in the event that sent it.
fn shorten(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > 120 => Value::from(text.chars().take(120).chain(['…']).collect::<String>()),
        Value::Array(items) => Value::Array(items.iter().map(shorten).collect()),
        other => other.clone(),
    }
}

/// Summary of a fleet: its token, numbers by capacity type, and the number of pools.
fn fleet_brief(form: &FormNode) -> Value {
    let target = form.get("TargetCapacitySpecification");
    let overrides: usize = form.list("LaunchTemplateConfigs").map(|config| config.list("Overrides").count()).sum();
    json!({
        "token": form.text("ClientToken"),
        "capacityType": target.text("DefaultTargetCapacityType").unwrap_or("on-demand"),
        "count": target.text("TotalTargetCapacity").and_then(|count| count.parse::<u32>().ok()),
        "overrides": overrides,
        "dryRun": form.flag("DryRun"),
    })
}

/// Lists of plain values become arrays; what is large and says little is left out.
fn brief_of(form: &FormNode, path: &str, into: &mut Map<String, Value>) {
    for (step, child) in form.children() {
        let step = match step {
            FormStep::Name(name) => name.clone(),
            FormStep::Index(number) => number.to_string(),
        };
        if matches!(step.as_str(), "Action" | "Version" | "UserData" | "LaunchTemplateConfigs" | "LaunchTemplateData") {
            continue;
        }
        let name = if path.is_empty() { step.clone() } else { format!("{path}.{step}") };
        let items: Vec<&FormNode> = form.list(&step).collect();
        if let Some(value) = child.value() {
            into.insert(name, shorten(&Value::from(value)));
        } else if !items.is_empty() && items.iter().all(|item| item.value().is_some()) {
            into.insert(name, items.iter().filter_map(|item| item.value()).collect());
        } else {
            brief_of(child, &name, into);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn request(path: &str, headers: &[(&str, &str)], body: &str) -> http::Request<Bytes> {
        let mut builder = http::Request::builder().method("POST").uri(path);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(Bytes::from(body.to_owned())).unwrap()
    }

    #[test]
    fn the_signature_s_scope_names_the_service() {
        let scope =
            "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0";
        let call =
            AwsCall::from_request(&request("/", &[("authorization", scope)], "Action=GetRole&RoleName=x")).unwrap();
        assert_eq!((call.api, call.action.as_str()), (AwsService::Iam, "GetRole"));
    }

    #[test]
    fn an_unsigned_request_is_told_by_version_target_or_path() {
        let api =
            |path, headers: &[(&str, &str)], body| AwsCall::from_request(&request(path, headers, body)).map(|c| c.api);
        assert_eq!(api("/", &[], "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"), Some(AwsService::Sts));
        assert_eq!(api("/", &[("x-amz-target", "AmazonSQS.ReceiveMessage")], "{}"), Some(AwsService::Sqs));
        assert_eq!(api("/clusters/demo", &[], ""), Some(AwsService::Eks));
        assert_eq!(api("/DescribeSavingsPlans", &[], "{}"), Some(AwsService::SavingsPlans));
        assert_eq!(api("/managedresources/arn%3Aaws%3Aeks", &[], ""), Some(AwsService::ZonalShift));
        assert_eq!(api("/", &[], "Action=Something"), None);
    }

    #[test]
    fn call_brief_keeps_lists_together_and_leaves_user_data_out() {
        let form = "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=tag-key&Filter.1.Value.1=a&Filter.1.Value.2=b&UserData=x";
        let call = AwsCall::from_request(&request("/", &[], form)).unwrap();
        assert_eq!(call.brief().to_string(), r#"{"Filter.1.Name":"tag-key","Filter.1.Value":["a","b"]}"#);
    }
}
