//! Zones that the cluster is shifted away from, as ARC has them for its ARN (GetManagedResource; karpenter-aws 5.2).

use dovetail_core::zonal_shift::ZoneShift;
use jiff::Timestamp;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::services::{ManagedResource, ResourceShift};
use crate::error::CloudError;

/// Status of a shift that is in effect.
const APPLIED: &str = "APPLIED";
/// Code of a cluster whose ARN EKS does not say.
const NO_ARN: &str = "NoClusterArn";

impl Ec2Cloud {
    pub(super) async fn zone_shifts(&self) -> Result<Vec<ZoneShift>, CloudError> {
        let call = "GetManagedResource";
        if self.settings.isolated_vpc {
            return Err(CloudError::isolated(call));
        }
        let arn = self.cluster_facts().await?.arn;
        if arn.is_empty() {
            return Err(CloudError::invalid(call, NO_ARN, "EKS does not say the cluster's ARN, by which ARC knows it"));
        }
        let answer = self.clients.zonal_shift.get_managed_resource(&arn).await;
        let resource = answer.map_err(|error| classify(call, Effect::Repeatable, error))?;
        Ok(shifts_of(resource))
    }
}

/// The shifts that are in effect. One whose end cannot be read has none, and counts only as long as it is named.
fn shifts_of(resource: ManagedResource) -> Vec<ZoneShift> {
    let all = resource.zonal_shifts.into_iter().chain(resource.autoshifts).flatten();
    all.filter(|shift| shift.applied_status.as_deref() == Some(APPLIED)).filter_map(shift_of).collect()
}

fn shift_of(shift: ResourceShift) -> Option<ZoneShift> {
    let zone = shift.away_from.filter(|zone| !zone.is_empty())?;
    let seconds = shift.expiry_time.filter(|seconds| seconds.is_finite());
    #[allow(clippy::cast_possible_truncation)] // what is out of range saturates, and is no time
    let until = seconds.and_then(|seconds| Timestamp::from_second(seconds as i64).ok());
    Some(ZoneShift { zone, until })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Vec<(String, Option<i64>)> {
        let shifts = shifts_of(serde_json::from_str(text).unwrap());
        shifts.into_iter().map(|one| (one.zone, one.until.map(Timestamp::as_second))).collect()
    }

    #[test]
    fn shifts_that_are_applied_are_read_and_no_others() {
        let text = r#"{"arn": "a", "zonalShifts": [
            {"appliedStatus": "APPLIED", "awayFrom": "use1-az1", "expiryTime": 1767225600.25, "comment": "gray failure"},
            {"appliedStatus": "NOT_APPLIED", "awayFrom": "use1-az2", "expiryTime": 1767225600}],
            "autoshifts": [{"appliedStatus": "APPLIED", "awayFrom": "use1-az3", "startTime": 1}], "new": {}}"#;
        assert_eq!(read(text), [("use1-az1".to_owned(), Some(1_767_225_600)), ("use1-az3".to_owned(), None)]);
    }

    #[test]
    fn what_makes_no_sense_of_a_shift_is_left_out_alone() {
        for none in [
            "{}",
            r#"{"zonalShifts": null, "autoshifts": [{}]}"#,
            r#"{"zonalShifts": [{"appliedStatus": "APPLIED", "awayFrom": ""}, {"awayFrom": "use1-az1"}]}"#,
        ] {
            assert_eq!(read(none), [], "{none}");
        }
        let endless = r#"{"zonalShifts": [{"appliedStatus": "APPLIED", "awayFrom": "use1-az1", "expiryTime": 1e300}]}"#;
        assert_eq!(read(endless), [("use1-az1".to_owned(), None)]);
    }
}
