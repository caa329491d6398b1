//! Refusals of CreateFleet, a row for each code or words: the reason of the claim's condition, the extent of what is closed, and
//! advice (karpenter-aws 3.6). A new code is a row here.

/// Extent of what a refusal closes for the next minutes. All but `Nothing` are for lack of capacity: another offering may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closes {
    /// The request itself is wrong, or not allowed.
    Nothing,
    /// The offering that EC2 names.
    Offering,
    /// The subnet that EC2 names has no address left.
    Subnet,
    /// All types of a group at a capacity type: a quota of vCPUs.
    VcpuQuota,
    /// Everything: nothing is launched without a fleet.
    Fleets,
    /// All of spot: the account may not use it.
    Spot,
}

/// A code, or words of a message.
struct Row {
    /// A code, or words. A code counts as a whole where it closes something.
    sign: &'static str,
    reason: &'static str,
    closes: Closes,
    /// Empty where nobody can do anything, or EC2's words say it.
    advice: &'static str,
}

/// Reason of a refusal that no row knows.
const UNKNOWN: &str = "LaunchFailed";

const POLICY: &str = "allow the action in the controller's policy; the stack of this version allows all that it needs";
const QUOTA: &str = "raise the quota in Service Quotas";
const IMAGES: &str = "correct the EC2NodeClass's amiSelectorTerms";
const SPOT_ROLE: &str = "create that role, or allow on-demand capacity in the NodePool";
const PROFILE: &str = "correct the EC2NodeClass's role or instanceProfile";

/// The first that fits counts.
const ROWS: [Row; 27] = {
    use Closes::{Fleets, Nothing, Offering, Spot, Subnet, VcpuQuota};
    [
        row("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "SpotSLRCreationFailed", Spot, SPOT_ROLE),
        row("ServiceLinkedRoleCreationNotPermitted", "SpotSLRCreationFailed", Nothing, SPOT_ROLE),
        row("not authorized for images", "AMIAuthorizationFailure", Nothing, IMAGES),
        row("UnauthorizedOperation", "Unauthorized", Nothing, POLICY),
        row("not authorized to perform", "Unauthorized", Nothing, POLICY),
        row("AuthFailure", "Unauthorized", Nothing, POLICY),
        row(
            "belong to different networks",
            "SecurityGroupSubnetVPCMismatch",
            Nothing,
            "let the EC2NodeClass select subnets and security groups of one VPC",
        ),
        row("iamInstanceProfile.name is invalid", "InstanceProfileNameInvalid", Nothing, PROFILE),
        row("Invalid IAM Instance Profile", "InstanceProfileNameInvalid", Nothing, PROFILE),
        row("InvalidLaunchTemplate", "LaunchTemplateNotFound", Nothing, ""),
        row("User data is limited", "UserDataSizeLimitExceeded", Nothing, "shorten the EC2NodeClass's userData"),
        row("InvalidAMIID.NotFound", "AMINotFound", Nothing, IMAGES),
        row("InvalidAMIID", "InvalidAMIID", Nothing, IMAGES),
        row("RequestLimitExceeded", "RequestLimitExceeded", Nothing, ""),
        row("InternalError", "InternalError", Nothing, ""),
        row("not eligible for Free Tier", "FreeTierIneligible", Nothing, ""),
        row("MaxFleetCountExceeded", "FleetQuotaExceeded", Fleets, QUOTA),
        row("PendingVerification", "AccountPendingVerification", Nothing, ""),
        row("MaxSpotInstanceCountExceeded", "SpotQuotaExceeded", VcpuQuota, QUOTA),
        row("VcpuLimitExceeded", "VCPULimitExceeded", VcpuQuota, QUOTA),
        row(
            "InsufficientFreeAddressesInSubnet",
            "InsufficientFreeAddressesInSubnet",
            Subnet,
            "give the EC2NodeClass more subnets, or free addresses",
        ),
        row(
            "InsufficientInstanceCapacity",
            "InsufficientCapacity",
            Offering,
            "allow more instance types, zones or capacity types in the NodePool",
        ),
        row("UnfulfillableCapacity", UNKNOWN, Offering, ""),
        row("Unsupported", UNKNOWN, Offering, ""),
        row("ReservationCapacityExceeded", UNKNOWN, Offering, ""),
        // Not a refusal of a launch: EC2 takes back what it gave (karpenter-aws 5).
        row("SpotInterrupted", UNKNOWN, Offering, ""),
        // As many instances in a zone as a spread placement group may have there (seven).
        row("limit of instances in this spread placement group", UNKNOWN, Offering, ""),
    ]
};

const fn row(sign: &'static str, reason: &'static str, closes: Closes, advice: &'static str) -> Row {
    Row { sign, reason, closes, advice }
}

impl Closes {
    /// The extent of what a refusal closes, by its code; by its message only where words in it say more than the code.
    pub(super) fn from_refusal(code: &str, message: &str) -> Self {
        let fits = |row: &&Row| code == row.sign || (row.sign.contains(' ') && message.contains(row.sign));
        ROWS.iter().filter(|row| row.closes != Self::Nothing).find(fits).map_or(Self::Nothing, |row| row.closes)
    }
}

/// The reason that a code and a message stand for.
pub fn reason_of(code: &str, message: &str) -> &'static str {
    let fits = |row: &&Row| code.contains(row.sign) || message.contains(row.sign);
    ROWS.iter().find(fits).map_or(UNKNOWN, |row| row.reason)
}

/// Advice on a reason; empty where nobody can do anything, or EC2's words say it.
pub fn remedy(reason: &str) -> &'static str {
    ROWS.iter().find(|row| row.reason == reason).map_or("", |row| row.advice)
}

/// Codes, and not words, that close so much.
#[cfg(test)]
pub(super) fn codes_that_close(closes: Closes) -> impl Iterator<Item = &'static str> {
    ROWS.iter().filter(move |row| row.closes == closes && !row.sign.contains(' ')).map(|row| row.sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_those_of_the_specification() {
        assert_eq!(reason_of("UnauthorizedOperation", "You are not authorized"), "Unauthorized");
        assert_eq!(reason_of("AuthFailure.ServiceLinkedRoleCreationNotPermitted", ""), "SpotSLRCreationFailed");
        assert_eq!(reason_of("InvalidLaunchTemplateName.NotFoundException", ""), "LaunchTemplateNotFound");
        assert_eq!(reason_of("InvalidAMIID.NotFound", ""), "AMINotFound");
        assert_eq!(
            reason_of("InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid"),
            "InstanceProfileNameInvalid"
        );
        assert_eq!(reason_of("Whatever", ""), "LaunchFailed");
    }

    #[test]
    fn message_that_merely_names_a_code_closes_nothing() {
        let message = "Value (VcpuLimitExceeded) for parameter name is invalid: MaxFleetCountExceeded";
        assert_eq!(Closes::from_refusal("InvalidParameterValue", message), Closes::Nothing);
        assert_eq!(Closes::from_refusal("AuthFailure.ServiceLinkedRoleCreationNotPermitted", ""), Closes::Spot);
        assert_eq!(Closes::from_refusal("AuthFailure", "not allowed"), Closes::Nothing);
        assert_eq!(
            Closes::from_refusal("InvalidParameter.Unsupported", ""),
            Closes::Nothing,
            "the end of another code"
        );
    }

    #[test]
    fn rows_of_one_reason_give_the_same_advice() {
        for row in &ROWS {
            assert_eq!(remedy(row.reason), row.advice, "{}", row.sign);
        }
    }
}
