#![allow(clippy::unwrap_used)]
//! Requests as they leave, answers as they are read, and endpoints beside those of the SDK.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::Region;
use aws_sdk_sqs::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};
use bytes::Bytes;
use dovetail_core::clock::Clock;
use futures::FutureExt as _;

use super::endpoints::{Endpoints, FipsHost, Host};
use super::*;
use crate::ec2::adapt::{BrokenConnection, http_client};
use crate::ec2::classify::{Effect, classify};
use crate::ec2::sdk::{Clients, SdkParts};
use crate::error::CloudError;

/// Endpoints of the SDK's own resolvers: region, options, ssm, pricing, eks, iam, region of IAM's signatures, savingsplans, and
/// the region of its signatures where it is another. From aws-sdk-ssm 1.133, aws-sdk-pricing 1.123, aws-sdk-eks 1.160 and
/// aws-sdk-iam 1.133; the last two from the rules of botocore 1.43.
pub(super) const GOLDEN: &str = include_str!("endpoints.golden.txt");
const SSM_HOST: Host = Host::Regional { prefix: "ssm", fips: FipsHost::NotInGov };

/// 2026-05-28T20:26:40Z, and tokio's time.
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn wall(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_780_000_000).unwrap() + jiff::SignedDuration::try_from(self.monotonic()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Answers in line, the last of which stays, and the requests that came.
#[derive(Default)]
pub(super) struct Server {
    answers: Mutex<VecDeque<(u16, String)>>,
    requests: Mutex<Vec<http::Request<Bytes>>>,
}

impl Server {
    pub(super) fn new<const N: usize>(answers: [(u16, &str); N]) -> Arc<Self> {
        let answers = Mutex::new(answers.map(|(status, body)| (status, body.to_owned())).into());
        Arc::new(Self { answers, ..Self::default() })
    }

    fn answer(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, BrokenConnection> {
        self.requests.lock().unwrap().push(request);
        let mut answers = self.answers.lock().unwrap();
        let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        let (status, body) = next.ok_or(BrokenConnection)?;
        let response = http::Response::builder().status(status).header("x-amzn-requestid", "request-7");
        Ok(response.body(Bytes::from(body)).unwrap())
    }

    fn parts(self: &Arc<Self>, region: &str) -> SdkParts {
        let server = Arc::clone(self);
        let client = http_client(move |request| {
            let answer = server.answer(request);
            async move { answer }.boxed()
        });
        SdkParts::in_process(client, region, Arc::new(TokioClock(tokio::time::Instant::now())))
    }

    pub(super) fn clients(self: &Arc<Self>, region: &str) -> Clients {
        Clients::new(&self.parts(region), &crate::ec2::AccountLimits::default())
    }

    pub(super) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Method and URI of the last request, the named header of it, and its body.
    pub(super) fn last(&self, header: &str) -> (String, String, String) {
        let requests = self.requests.lock().unwrap();
        let request = requests.last().unwrap();
        let value = request.headers().get(header).map_or("", |value| value.to_str().unwrap());
        let body = String::from_utf8(request.body().to_vec()).unwrap();
        (format!("{} {}", request.method(), request.uri()), value.to_owned(), body)
    }
}

fn endpoints(host: Host, region: &str, options: &str) -> Endpoints {
    let (fips, dual_stack) = (options.contains("fips"), options.contains("dual"));
    Endpoints { host, region: region.to_owned(), fips, dual_stack, url: None }
}

pub(super) fn url(host: Host, region: &str, options: &str) -> String {
    endpoints(host, region, options).resolve().unwrap().url().to_owned()
}

#[test]
fn endpoints_are_those_of_the_sdk_in_every_partition() {
    for line in GOLDEN.lines() {
        let columns: Vec<&str> = line.split(' ').collect();
        let [region, options, ssm, pricing, eks, iam, signed, plans, signed_plans] = columns[..] else {
            unreachable!("{line}")
        };
        let pricing_host = Host::Regional { prefix: "api.pricing", fips: FipsHost::Everywhere };
        let eks_host = Host::Regional { prefix: "eks", fips: FipsHost::Before };
        for (host, wanted) in
            [(SSM_HOST, ssm), (pricing_host, pricing), (eks_host, eks), (Host::Iam, iam), (Host::SavingsPlans, plans)]
        {
            assert_eq!(url(host, region, options), format!("https://{wanted}"), "{line}");
        }
        let signed_for = |host| {
            let found = endpoints(host, region, options).resolve().unwrap();
            found.auth_schemes().first().map(|one| one.get("signingRegion").unwrap().as_string().unwrap().to_owned())
        };
        assert_eq!(signed_for(Host::Iam).as_deref(), Some(signed), "{line}");
        assert_eq!(signed_for(Host::SavingsPlans).as_deref().unwrap_or("-"), signed_plans, "{line}");
        assert!(endpoints(SSM_HOST, region, options).resolve().unwrap().auth_schemes().is_empty());
    }
    assert_eq!(GOLDEN.lines().count(), 14 * 4);
}

/// An update of the SDK that changes a partition fails here.
#[test]
fn partitions_are_those_of_the_sdk_that_is_linked() {
    for line in GOLDEN.lines() {
        let mut columns = line.split(' ');
        let (region, options) = (columns.next().unwrap(), columns.next().unwrap());
        let (fips, dual) = (options.contains("fips"), options.contains("dual"));
        let params = Params::builder().region(region).use_fips(fips).use_dual_stack(dual).build().unwrap();
        let resolver = DefaultResolver::new();
        let sqs = resolver.resolve_endpoint(&params).now_or_never().unwrap().unwrap();
        assert_eq!(sqs.url().replacen("://sqs", "://ssm", 1), url(SSM_HOST, region, options), "{line}");
    }
}

/// Settings with an endpoint for Systems Manager alone.
#[derive(Debug)]
struct OwnSsm;

impl LoadServiceConfig for OwnSsm {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        assert_eq!((key.env(), key.profile()), ("AWS_ENDPOINT_URL", "endpoint_url"));
        (key.service_id() == "SSM").then(|| "https://ssm.own".to_owned())
    }
}

#[test]
fn own_endpoints_go_first_and_exclude_fips_and_dual_stack() {
    let config = || SdkConfig::builder().region(Region::new("eu-west-1")).service_config(OwnSsm);
    let of = |config: SdkConfig, id: &'static str| {
        let service = Service { id, signing_name: "x", host: SSM_HOST, error_of: json::error_of };
        Endpoints::new(&service, &config).resolve().map(|found| found.url().to_owned())
    };
    assert_eq!(of(config().build(), "SSM"), Ok("https://ssm.own".into()));
    assert_eq!(of(config().build(), "EKS"), Ok("https://ssm.eu-west-1.amazonaws.com".into()));
    let for_all = || config().endpoint_url("https://all.own");
    assert_eq!(of(for_all().build(), "SSM"), Ok("https://ssm.own".into()));
    assert_eq!(of(for_all().build(), "EKS"), Ok("https://all.own".into()));
    let refused = "Invalid Configuration: FIPS and custom endpoint are not supported";
    assert_eq!(of(for_all().use_fips(true).build(), "EKS"), Err(refused));
    let refused = "Invalid Configuration: Dualstack and custom endpoint are not supported";
    assert_eq!(of(for_all().use_dual_stack(true).build(), "EKS"), Err(refused));
    assert_eq!(of(config().use_fips(true).build(), "EKS"), Ok("https://ssm-fips.eu-west-1.amazonaws.com".into()));
    let strange = SdkConfig::builder().region(Region::new("eu west")).build();
    assert!(of(strange, "EKS").is_err());
}

#[tokio::test(start_paused = true)]
async fn json_requests_are_signed_for_their_region() {
    let server = Server::new([(200, r#"{"Parameter": {"Name": "/a", "Value": "ami-1", "Version": 3}, "New": [1]}"#)]);
    let clients = server.clients("ap-northeast-1");
    assert_eq!(clients.ssm.get_parameter("/a").await.unwrap(), Some("ami-1".to_owned()));
    let (line, target, body) = server.last("x-amz-target");
    assert_eq!(line, "POST https://ssm.ap-northeast-1.amazonaws.com/");
    assert_eq!((target.as_str(), body.as_str()), ("AmazonSSM.GetParameter", r#"{"Name":"/a"}"#));
    assert_eq!(server.last("content-type").1, "application/x-amz-json-1.1");
    assert_eq!(server.last("content-length").1, body.len().to_string());
    let signed = server.last("authorization").1;
    assert!(signed.contains("Credential=in-process/20260528/ap-northeast-1/ssm/aws4_request"), "{signed}");
    assert!(server.last("x-amz-date").1.starts_with("20260528T2026"), "the clock's time");
    assert!(server.last("amz-sdk-request").1.contains("attempt=1"));
    let agent = server.last("x-amz-user-agent").1;
    assert!(agent.contains("api/ssm/") && agent.contains("app/dovetail-"), "{agent}");

    // Tokyo's prices are asked of Mumbai (`pricing_region`).
    let server = Server::new([(200, r#"{"PriceList": ["{}", "[]"], "NextToken": "t"}"#)]);
    let page = server.clients("ap-northeast-1").pricing.get_products(&[("tenancy", "Shared")], 100, Some("s")).await;
    let page = page.unwrap();
    assert_eq!(
        (page.price_list.unwrap(), page.next_token.unwrap()),
        (vec!["{}".to_owned(), "[]".to_owned()], "t".into())
    );
    let (line, target, body) = server.last("x-amz-target");
    assert_eq!(line, "POST https://api.pricing.ap-south-1.amazonaws.com/");
    assert_eq!(target, "AWSPriceListService.GetProducts");
    let filter = serde_json::json!({"Type": "TERM_MATCH", "Field": "tenancy", "Value": "Shared"});
    let wanted =
        serde_json::json!({"ServiceCode": "AmazonEC2", "Filters": [filter], "MaxResults": 100, "NextToken": "s"});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap(), wanted);
    assert!(server.last("authorization").1.contains("/ap-south-1/pricing/aws4_request"));
}

#[tokio::test(start_paused = true)]
async fn savings_plans_are_asked_at_their_one_host_page_by_page() {
    let plans = r#"{"savingsPlans": [{"savingsPlanId": "sp-1", "state": "active", "savingsPlanType": "EC2Instance",
        "ec2InstanceFamily": "m5", "region": "eu-west-1", "commitment": "1.5", "currency": "USD", "productTypes": ["EC2"],
        "start": "2026-01-01T00:00:00.000Z", "end": "2027-01-01T00:00:00.000Z", "new": {}}, {}], "nextToken": "t"}"#;
    let rates = r#"{"savingsPlanId": "sp-1", "searchResults": [{"rate": "0.06", "currency": "USD", "unit": "Hrs",
        "usageType": "EU-BoxUsage:m5.large", "properties": [{"name": "instanceType", "value": "m5.large"}]}, {}]}"#;
    let server = Server::new([(200, plans), (200, rates)]);
    let savingsplans = server.clients("eu-west-1").savingsplans;
    let (found, next) = savingsplans.describe_savings_plans(Some("s")).await.unwrap();
    let (line, kind, body) = server.last("content-type");
    assert_eq!(
        (line.as_str(), kind.as_str()),
        ("POST https://savingsplans.amazonaws.com/DescribeSavingsPlans", "application/json")
    );
    let wanted = serde_json::json!({"states": ["active", "queued"], "maxResults": 100, "nextToken": "s"});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap(), wanted);
    assert!(server.last("authorization").1.contains("/us-east-1/savingsplans/aws4_request"));
    assert_eq!((found[0].commitment.as_deref(), found[1].savings_plan_id.as_deref()), (Some("1.5"), None));
    assert_eq!(next.as_deref(), Some("t"));
    let (rates, next) = savingsplans.describe_savings_plan_rates("sp-1", "eu-west-1", None).await.unwrap();
    let (line, _, body) = server.last("");
    assert!(line.ends_with("/DescribeSavingsPlanRates") && body.contains(r#""savingsPlanId":"sp-1""#), "{line} {body}");
    assert_eq!((rates[0].property("instanceType"), rates[1].property("instanceType")), (Some("m5.large"), None));
    assert_eq!((rates[0].rate.as_deref(), next), (Some("0.06"), None));
}

#[tokio::test(start_paused = true)]
async fn zonal_shifts_are_asked_by_the_clusters_arn() {
    let shifted = r#"{"arn": "a", "name": "demo", "appliedWeights": {"use1-az1": 0.0}, "zonalShifts": [
        {"appliedStatus": "APPLIED", "awayFrom": "use1-az1", "expiryTime": 1767225600, "startTime": 1.5}], "autoshifts": []}"#;
    let server = Server::new([(200, shifted), (200, "{}")]);
    let zonal_shift = server.clients("us-east-1").zonal_shift;
    let arn = "arn:aws:eks:us-east-1:111122223333:cluster/demo";
    let found = zonal_shift.get_managed_resource(arn).await.unwrap().zonal_shifts.unwrap();
    let (line, authorization, _) = server.last("authorization");
    let path = "managedresources/arn%3Aaws%3Aeks%3Aus-east-1%3A111122223333%3Acluster%2Fdemo";
    assert_eq!(line, format!("GET https://arc-zonal-shift.us-east-1.amazonaws.com/{path}"));
    assert!(authorization.contains("/us-east-1/arc-zonal-shift/aws4_request"), "{authorization}");
    assert_eq!((found[0].away_from.as_deref(), found[0].expiry_time), (Some("use1-az1"), Some(1_767_225_600.0)));
    assert!(zonal_shift.get_managed_resource(arn).await.unwrap().autoshifts.is_none());
    assert!(zonal_shift.get_managed_resource("").await.is_err(), "that would list all resources");
}

#[tokio::test(start_paused = true)]
async fn rules_and_quotas_are_asked_in_json() {
    let names = r#"{"RuleNames": ["a"], "NextToken": "t"}"#;
    let rule = r#"{"Name": "a", "State": "ENABLED", "EventPattern": "{}", "Arn": "x"}"#;
    let quota = r#"{"Quota": {"QuotaCode": "L-1", "Value": 64.0, "Unit": "None"}}"#;
    let server = Server::new([(200, names), (200, rule), (200, quota), (200, "{}")]);
    let (events, quotas) = (server.clients("eu-west-1").events, server.clients("eu-west-1").service_quotas);
    let page = events.list_rule_names_by_target("arn:q", Some("s")).await.unwrap();
    assert_eq!((page.rule_names, page.next_token.as_deref()), (vec!["a".to_owned()], Some("t")));
    let (line, target, body) = server.last("x-amz-target");
    assert_eq!(
        (line.as_str(), target.as_str()),
        ("POST https://events.eu-west-1.amazonaws.com/", "AWSEvents.ListRuleNamesByTarget")
    );
    assert_eq!(body, r#"{"NextToken":"s","TargetArn":"arn:q"}"#);
    assert!(server.last("authorization").1.contains("/eu-west-1/events/aws4_request"));
    let rule = events.describe_rule("a").await.unwrap();
    assert_eq!((rule.state.as_deref(), rule.event_pattern.as_deref()), (Some("ENABLED"), Some("{}")));
    assert_eq!(quotas.get_service_quota("L-1").await.unwrap(), Some(64.0));
    let (line, target, body) = server.last("x-amz-target");
    assert_eq!(line, "POST https://servicequotas.eu-west-1.amazonaws.com/");
    assert_eq!(target, "ServiceQuotasV20190624.GetServiceQuota");
    assert_eq!(body, r#"{"QuotaCode":"L-1","ServiceCode":"ec2"}"#);
    assert!(server.last("authorization").1.contains("/eu-west-1/servicequotas/aws4_request"));
    assert_eq!(quotas.get_aws_default_service_quota("L-1").await.unwrap(), None);
    assert!(server.last("x-amz-target").1.ends_with(".GetAWSDefaultServiceQuota"));
}

/// By the rules of botocore 1.43.
#[test]
fn hosts_of_rules_and_quotas_have_their_own_names_with_fips() {
    let events = Host::Regional { prefix: "events", fips: FipsHost::NeverInGov };
    let quotas = Host::Regional { prefix: "servicequotas", fips: FipsHost::NotInGov };
    for (region, options, events_host, quotas_host) in [
        ("eu-west-1", "plain", "events.eu-west-1.amazonaws.com", "servicequotas.eu-west-1.amazonaws.com"),
        ("us-east-1", "fips", "events-fips.us-east-1.amazonaws.com", "servicequotas-fips.us-east-1.amazonaws.com"),
        ("us-east-1", "fips+dual", "events-fips.us-east-1.api.aws", "servicequotas-fips.us-east-1.api.aws"),
        ("us-gov-west-1", "fips", "events.us-gov-west-1.amazonaws.com", "servicequotas.us-gov-west-1.amazonaws.com"),
        ("us-gov-west-1", "fips+dual", "events.us-gov-west-1.api.aws", "servicequotas-fips.us-gov-west-1.api.aws"),
        (
            "cn-north-1",
            "dual",
            "events.cn-north-1.api.amazonwebservices.com.cn",
            "servicequotas.cn-north-1.api.amazonwebservices.com.cn",
        ),
    ] {
        assert_eq!(url(events, region, options), format!("https://{events_host}"));
        assert_eq!(url(quotas, region, options), format!("https://{quotas_host}"));
    }
}

const PROFILE: &str = "<Path>/karpenter/</Path><InstanceProfileName>a&amp;b</InstanceProfileName><Arn>arn</Arn>\
    <CreateDate>2026-01-01T00:00:00Z</CreateDate><Roles><member><Path>/</Path><RoleName>node</RoleName>\
    <AssumeRolePolicyDocument>%7B</AssumeRolePolicyDocument></member></Roles>\
    <Tags><member><Key>k</Key><Value/></member></Tags>";

#[tokio::test(start_paused = true)]
async fn iam_is_asked_in_forms_and_signed_for_its_partition() {
    let empty = "<CreateInstanceProfileResponse/>";
    let server = Server::new([(200, empty)]);
    let clients = server.clients("cn-northwest-1");
    let tags = [("a b".to_owned(), "=&".to_owned()), ("c".to_owned(), String::new())];
    clients.iam.create_instance_profile("p", "/karpenter/x/", &tags).await.unwrap();
    let (line, kind, body) = server.last("content-type");
    assert_eq!(line, "POST https://iam.cn-north-1.amazonaws.com.cn/");
    assert_eq!(kind, "application/x-www-form-urlencoded");
    let form: Vec<(String, String)> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let wanted = [
        ("Action", "CreateInstanceProfile"),
        ("Version", "2010-05-08"),
        ("InstanceProfileName", "p"),
        ("Path", "/karpenter/x/"),
        ("Tags.member.1.Key", "a b"),
        ("Tags.member.1.Value", "=&"),
        ("Tags.member.2.Key", "c"),
        ("Tags.member.2.Value", ""),
    ];
    assert_eq!(form, wanted.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert!(server.last("authorization").1.contains("/cn-north-1/iam/aws4_request"));
    clients.iam.add_role_to_instance_profile("p", "r").await.unwrap();
    assert!(
        server
            .last("")
            .2
            .ends_with("Action=AddRoleToInstanceProfile&Version=2010-05-08&InstanceProfileName=p&RoleName=r")
    );
    clients.iam.remove_role_from_instance_profile("p", "r").await.unwrap();
    assert!(server.last("").2.starts_with("Action=RemoveRoleFromInstanceProfile&"));
    clients.iam.delete_instance_profile("p").await.unwrap();
    assert!(server.last("").2.starts_with("Action=DeleteInstanceProfile&"));
}

#[tokio::test(start_paused = true)]
async fn profiles_are_read_one_at_a_time_and_in_pages() {
    let one = format!(
        "<GetInstanceProfileResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><GetInstanceProfileResult>\
         <InstanceProfile>{PROFILE}</InstanceProfile></GetInstanceProfileResult></GetInstanceProfileResponse>"
    );
    let page = format!(
        "<ListInstanceProfilesResponse><ListInstanceProfilesResult><InstanceProfiles><member>{PROFILE}</member>\
         <member><InstanceProfileName>bare</InstanceProfileName></member></InstanceProfiles><IsTruncated>true</IsTruncated>\
         <Marker>m</Marker></ListInstanceProfilesResult></ListInstanceProfilesResponse>"
    );
    let server = Server::new([(200, one.as_str()), (200, page.as_str()), (200, "<Other/>")]);
    let iam = server.clients("us-east-1").iam;
    let found = iam.get_instance_profile("a&b").await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.path.as_str(), found.roles[0].as_str()), ("a&b", "/karpenter/", "node"));
    assert_eq!((found.created.unwrap().secs(), found.tag("k"), found.tag("l")), (1_767_225_600, Some(""), None));
    let listed = iam.list_instance_profiles("/karpenter/", Some("before")).await.unwrap();
    assert!(server.last("").2.ends_with("&PathPrefix=%2Fkarpenter%2F&Marker=before"));
    assert_eq!((&listed.profiles[0], listed.marker.as_deref()), (&found, Some("m")));
    assert_eq!((listed.profiles[1].name.as_str(), listed.profiles[1].created), ("bare", None));
    // Carried out, by the status, but not readable: what was found is not known.
    let error = classify("GetInstanceProfile", Effect::Repeatable, iam.get_instance_profile("p").await.unwrap_err());
    assert!(matches!(&error, CloudError::Retryable { code, .. } if code == "AnswerNotUnderstood"), "{error:?}");
    assert!(error.to_string().contains("request-7"), "{error}");
}

#[test]
fn pages_end_with_the_last_or_one_that_names_itself() {
    let next = |asked, next: Option<&str>| next_page(asked, next.map(str::to_owned));
    assert_eq!(next(None, Some("a")), Some("a".into()));
    assert_eq!(next(Some("a"), Some("b")), Some("b".into()));
    assert_eq!([next(Some("a"), Some("a")), next(None, Some("")), next(None, None)], [None, None, None]);
}

#[tokio::test(start_paused = true)]
async fn clusters_are_asked_for_by_their_path() {
    let described = r#"{"cluster": {"name": "a", "version": "1.33", "status": null, "certificateAuthority": {"data": "Zg=="},
        "kubernetesNetworkConfig": {"serviceIpv6Cidr": "fd00::/108", "ipFamily": "ipv6"}}}"#;
    let server = Server::new([(200, described)]);
    let eks = server.clients("us-gov-west-1").eks;
    let found = eks.describe_cluster("a/b c").await.unwrap().unwrap();
    let (line, signed, body) = server.last("authorization");
    assert_eq!(line, "GET https://eks.us-gov-west-1.amazonaws.com/clusters/a%2Fb%20c");
    assert!(signed.contains("/us-gov-west-1/eks/aws4_request") && body.is_empty());
    let network = found.kubernetes_network_config.unwrap();
    assert_eq!((found.version.as_deref(), found.endpoint), (Some("1.33"), None));
    assert_eq!(
        (network.service_ipv6_cidr.as_deref(), network.ip_family.as_deref()),
        (Some("fd00::/108"), Some("ipv6"))
    );
    let unnamed = classify("DescribeCluster", Effect::Repeatable, eks.describe_cluster("").await.unwrap_err());
    assert_eq!((unnamed.code(), server.count()), ("NotSent", 1), "it would be a listing");
}

#[tokio::test(start_paused = true)]
async fn refusals_have_the_code_and_message_of_their_protocol() {
    let json = r#"{"__type": "com.amazonaws.ssm#ParameterNotFound:http://x", "message": "gone"}"#;
    let server = Server::new([(400, json)]);
    let refused = server.clients("us-east-1").ssm.get_parameter("/a").await.unwrap_err();
    let refused = classify("GetParameter", Effect::Repeatable, refused);
    assert!(refused.is_not_found() && refused.to_string().contains("gone"), "{refused:?}");
    let xml = "<ErrorResponse><Error><Type>Sender</Type><Code>NoSuchEntity</Code><Message>no p</Message></Error>\
        <RequestId>r</RequestId></ErrorResponse>";
    let server = Server::new([(404, xml)]);
    let refused = server.clients("us-east-1").iam.delete_instance_profile("p").await.unwrap_err();
    let refused = classify("DeleteInstanceProfile", Effect::Repeatable, refused);
    assert!(refused.is_not_found() && refused.to_string().contains("no p"), "{refused:?}");
    assert_eq!(server.count(), 1, "a refusal is not asked for again");
    let server = Server::new([(403, "<html>")]);
    let refused = server.clients("us-east-1").eks.describe_cluster("a").await.unwrap_err();
    let refused = classify("DescribeCluster", Effect::Repeatable, refused);
    assert!(matches!(&refused, CloudError::Final { code, .. } if code == "Unknown"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_are_retried_as_the_sdk_retries_its_own() {
    let there = r#"{"Parameter": {"Value": "v"}}"#;
    let throttled = r#"{"__type": "ThrottlingException", "message": "Rate exceeded"}"#;
    let server = Server::new([(503, ""), (400, throttled), (500, "{}"), (200, there)]);
    let clients = server.clients("us-east-1");
    let begun = tokio::time::Instant::now();
    assert_eq!(clients.ssm.get_parameter("/a").await.unwrap().as_deref(), Some("v"));
    assert_eq!(server.count(), 4);
    assert!(begun.elapsed() >= Duration::from_secs(1), "it waits between: {:?}", begun.elapsed());
    assert!(server.last("amz-sdk-request").1.contains("attempt=4"));
    let server = Server::new([(503, "busy")]);
    let failed = server.clients("us-east-1").pricing.get_products(&[], 100, None).await.unwrap_err();
    assert!(matches!(classify("GetProducts", Effect::Repeatable, failed), CloudError::Retryable { .. }));
    assert_eq!(server.count(), 4);
    // A connection that breaks, too.
    let server = Server::new([]);
    let failed = server.clients("us-east-1").iam.get_instance_profile("p").await.unwrap_err();
    assert_eq!(
        (classify("GetInstanceProfile", Effect::Repeatable, failed).code(), server.count()),
        ("ConnectionLost", 4)
    );
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_given_up_after_its_time() {
    let client = http_client(|_| std::future::pending().boxed());
    let parts = SdkParts::in_process(client, "us-east-1", Arc::new(TokioClock(tokio::time::Instant::now())));
    let begun = tokio::time::Instant::now();
    let failed = Clients::new(&parts, &crate::ec2::AccountLimits::default()).ssm.get_parameter("/a").await.unwrap_err();
    assert_eq!(classify("GetParameter", Effect::Repeatable, failed).code(), "TimedOut");
    assert!((80..90).contains(&begun.elapsed().as_secs()), "four times twenty seconds: {:?}", begun.elapsed());
}
