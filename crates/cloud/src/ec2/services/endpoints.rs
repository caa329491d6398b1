//! Hosts of services, by the partition of the region, FIPS and dual stack: the rules of the SDK's models. A test holds them
//! to a table of the SDK's own resolvers, and its partitions to the resolver of SQS.

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::endpoint::{EndpointFuture, EndpointResolverParams, ResolveEndpoint};
use aws_smithy_types::endpoint::{Endpoint, EndpointAuthScheme};
use aws_types::service_config::ServiceConfigKey;

use super::Service;

/// Host at which a service answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Host {
    /// `ssm.us-east-1.amazonaws.com`.
    Regional { prefix: &'static str, fips: FipsHost },
    /// One for a whole partition.
    Iam,
    /// One for the partition `aws` where FIPS is off, `savingsplans.REGION` and `savingsplans-fips.REGION` elsewhere.
    SavingsPlans,
}

/// The name of a regional host with FIPS, where dual stack is off.
#[derive(Clone, Copy, Debug)]
pub(super) enum FipsHost {
    /// `ssm-fips`, in each partition.
    Everywhere,
    /// `ssm-fips`; in GovCloud the plain host is one of FIPS.
    NotInGov,
    /// The same, with dual stack too.
    NeverInGov,
    /// As `NotInGov`, but `fips.eks` in the partition `aws`.
    Before,
}

/// Regions that share names of hosts.
#[derive(Debug)]
struct Partition {
    /// Begins the names of its regions; none for `aws`, which has all others.
    prefix: &'static str,
    suffix: &'static str,
    dual_stack_suffix: &'static str,
    /// IAM's region in signatures.
    iam_region: &'static str,
    /// IAM's hosts: plain, FIPS, dual stack, both.
    iam: [&'static str; 4],
}

/// The last one takes what no other does.
const PARTITIONS: [Partition; 8] = [
    Partition {
        prefix: "cn-",
        suffix: "amazonaws.com.cn",
        dual_stack_suffix: "api.amazonwebservices.com.cn",
        iam_region: "cn-north-1",
        iam: [
            "iam.cn-north-1.amazonaws.com.cn",
            "iam-fips.amazonaws.com.cn",
            "iam.global.api.amazonwebservices.com.cn",
            "iam-fips.api.amazonwebservices.com.cn",
        ],
    },
    Partition {
        prefix: GOV,
        suffix: "amazonaws.com",
        dual_stack_suffix: "api.aws",
        iam_region: "us-gov-west-1",
        iam: ["iam.us-gov.amazonaws.com", "iam.us-gov.amazonaws.com", "iam.us-gov.api.aws", "iam.us-gov.api.aws"],
    },
    Partition {
        prefix: "eusc-",
        suffix: "amazonaws.eu",
        dual_stack_suffix: "api.amazonwebservices.eu",
        iam_region: "eusc-de-east-1",
        iam: [
            "iam.eusc-de-east-1.amazonaws.eu",
            "iam-fips.amazonaws.eu",
            "iam.global.api.amazonwebservices.eu",
            "iam-fips.api.amazonwebservices.eu",
        ],
    },
    Partition {
        prefix: "us-iso-",
        suffix: "c2s.ic.gov",
        dual_stack_suffix: "api.aws.ic.gov",
        iam_region: "us-iso-east-1",
        iam: [
            "iam.us-iso-east-1.c2s.ic.gov",
            "iam-fips.us-iso-east-1.c2s.ic.gov",
            "iam.api.aws.ic.gov",
            "iam-fips.api.aws.ic.gov",
        ],
    },
    Partition {
        prefix: "us-isob-",
        suffix: "sc2s.sgov.gov",
        dual_stack_suffix: "api.aws.scloud",
        iam_region: "us-isob-east-1",
        iam: [
            "iam.us-isob-east-1.sc2s.sgov.gov",
            "iam-fips.us-isob-east-1.sc2s.sgov.gov",
            "iam.api.aws.scloud",
            "iam-fips.api.aws.scloud",
        ],
    },
    Partition {
        prefix: "eu-isoe-",
        suffix: "cloud.adc-e.uk",
        dual_stack_suffix: "api.cloud-aws.adc-e.uk",
        iam_region: "eu-isoe-west-1",
        iam: [
            "iam.eu-isoe-west-1.cloud.adc-e.uk",
            "iam-fips.cloud.adc-e.uk",
            "iam.api.cloud-aws.adc-e.uk",
            "iam-fips.api.cloud-aws.adc-e.uk",
        ],
    },
    Partition {
        prefix: "us-isof-",
        suffix: "csp.hci.ic.gov",
        dual_stack_suffix: "api.aws.hci.ic.gov",
        iam_region: "us-isof-south-1",
        iam: [
            "iam.us-isof-south-1.csp.hci.ic.gov",
            "iam-fips.csp.hci.ic.gov",
            "iam.api.aws.hci.ic.gov",
            "iam-fips.api.aws.hci.ic.gov",
        ],
    },
    Partition {
        prefix: AWS,
        suffix: "amazonaws.com",
        dual_stack_suffix: "api.aws",
        iam_region: "us-east-1",
        iam: ["iam.amazonaws.com", "iam-fips.amazonaws.com", "iam.global.api.aws", "iam-fips.global.api.aws"],
    },
];
/// Savings Plans' hosts for the partition `aws`: plain and dual stack; and their region in signatures.
const SAVINGS_PLANS: [&str; 2] = ["savingsplans.amazonaws.com", "savingsplans.global.api.aws"];
const SAVINGS_PLANS_REGION: &str = "us-east-1";
const AWS: &str = "";
const GOV: &str = "us-gov-";

/// Resolves the endpoint of one service.
#[derive(Debug)]
pub(super) struct Endpoints {
    pub host: Host,
    pub region: String,
    pub fips: bool,
    pub dual_stack: bool,
    /// The settings' own, for this service or for all.
    pub url: Option<String>,
}

impl Endpoints {
    pub fn new(service: &Service, config: &SdkConfig) -> Self {
        Self {
            host: service.host,
            region: config.region().map(ToString::to_string).unwrap_or_default(),
            fips: config.use_fips().unwrap_or_default(),
            dual_stack: config.use_dual_stack().unwrap_or_default(),
            url: own_url(service, config),
        }
    }

    pub fn resolve(&self) -> Result<Endpoint, &'static str> {
        match &self.url {
            Some(_) if self.fips => Err("Invalid Configuration: FIPS and custom endpoint are not supported"),
            Some(_) if self.dual_stack => Err("Invalid Configuration: Dualstack and custom endpoint are not supported"),
            Some(url) => Ok(Endpoint::builder().url(url.clone()).build()),
            None if !is_host_label(&self.region) => Err("Invalid Configuration: the region is no host label"),
            None => Ok(self.of_aws()),
        }
    }

    fn of_aws(&self) -> Endpoint {
        let Self { host, region, fips, dual_stack, .. } = self;
        let partition = PARTITIONS.iter().find(|partition| region.starts_with(partition.prefix));
        let Partition { prefix: partition, suffix, dual_stack_suffix, iam_region, iam } =
            partition.unwrap_or(&PARTITIONS[PARTITIONS.len() - 1]);
        let (prefix, fips_host) = match host {
            Host::Regional { prefix, fips } => (*prefix, fips),
            Host::Iam => return signed_for(iam_region, iam[usize::from(*fips) + 2 * usize::from(*dual_stack)]),
            Host::SavingsPlans if *partition == AWS && !fips => {
                return signed_for(SAVINGS_PLANS_REGION, SAVINGS_PLANS[usize::from(*dual_stack)]);
            }
            Host::SavingsPlans => ("savingsplans", &FipsHost::Everywhere),
        };
        let name = match fips_host {
            _ if !fips => prefix.to_owned(),
            FipsHost::NeverInGov if *partition == GOV => prefix.to_owned(),
            FipsHost::NotInGov | FipsHost::Before if !dual_stack && *partition == GOV => prefix.to_owned(),
            FipsHost::Before if !dual_stack && *partition == AWS => format!("fips.{prefix}"),
            _ => format!("{prefix}-fips"),
        };
        let suffix = if *dual_stack { dual_stack_suffix } else { suffix };
        Endpoint::builder().url(format!("https://{name}.{region}.{suffix}")).build()
    }
}

/// A host that requests are signed for in one region, whatever the region is.
fn signed_for(region: &'static str, host: &str) -> Endpoint {
    let signed = EndpointAuthScheme::with_capacity("sigv4", 1).put("signingRegion", region);
    Endpoint::builder().url(format!("https://{host}")).auth_scheme(signed).build()
}

impl ResolveEndpoint for Endpoints {
    fn resolve_endpoint<'a>(&'a self, _: &'a EndpointResolverParams) -> EndpointFuture<'a> {
        EndpointFuture::ready(self.resolve().map_err(Into::into))
    }
}

/// True for what may stand between two dots of a host.
fn is_host_label(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=63).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(allowed)
}

/// An endpoint of the settings, as each client of the SDK looks for it: that of this service (`AWS_ENDPOINT_URL_SSM`, a
/// profile's `services`) goes before that of all, unless the program itself has set one.
fn own_url(service: &Service, config: &SdkConfig) -> Option<String> {
    let of_all = || config.endpoint_url().map(str::to_owned);
    if config.get_origin("endpoint_url").is_client_config() {
        return of_all();
    }
    let key =
        ServiceConfigKey::builder().service_id(service.id).env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
    key.ok().and_then(|key| config.service_config()?.load_config(key)).or_else(of_all)
}
