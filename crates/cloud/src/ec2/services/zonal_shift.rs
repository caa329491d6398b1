//! Zonal shifts of Amazon Application Recovery Controller, whose protocol is JSON over REST.

use aws_config::SdkConfig;
use aws_smithy_http::label::{EncodingStrategy, fmt_string};
use aws_smithy_runtime::client::retries::RetryPartition;
use aws_smithy_runtime_api::client::result::SdkError;
use serde::Deserialize;

use super::endpoints::{FipsHost, Host};
use super::json::{error_of, output_of};
use super::{Call, Called, Service, ServiceClient};

static ZONAL_SHIFT: Service = Service {
    id: "ARC Zonal Shift",
    signing_name: "arc-zonal-shift",
    host: Host::Regional { prefix: "arc-zonal-shift", fips: FipsHost::Everywhere },
    error_of,
};

/// Shifts of the resources that are registered with ARC.
#[derive(Clone, Debug)]
pub(in crate::ec2) struct ZonalShift(ServiceClient);

/// A registered resource, as far as it says which zones it is shifted away from.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::ec2) struct ManagedResource {
    /// Those that the account has started, and those of practice runs.
    pub zonal_shifts: Option<Vec<ResourceShift>>,
    /// Those that AWS has started.
    pub autoshifts: Option<Vec<ResourceShift>>,
}

/// A shift of a resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::ec2) struct ResourceShift {
    /// `APPLIED` for the one that is in effect, `NOT_APPLIED` for others.
    pub applied_status: Option<String>,
    /// Id of the zone, `use1-az1`.
    pub away_from: Option<String>,
    /// Seconds since 1970; none for an autoshift.
    pub expiry_time: Option<f64>,
}

impl ZonalShift {
    pub fn new(config: &SdkConfig, partition: RetryPartition) -> Self {
        Self(ServiceClient::new(&ZONAL_SHIFT, config, partition))
    }

    /// A registered resource by its ARN.
    pub async fn get_managed_resource(&self, arn: &str) -> Called<ManagedResource> {
        if arn.is_empty() {
            // Its path would be that of a listing.
            return Err(SdkError::construction_failure("the resource has no ARN"));
        }
        let path = format!("/managedresources/{}", fmt_string(arn, EncodingStrategy::Default));
        let (method, headers, body) = (http::Method::GET, Vec::new(), String::new());
        let call = Call { operation: "GetManagedResource", method, path, headers, body };
        self.0.send(call, output_of::<ManagedResource>).await
    }
}
