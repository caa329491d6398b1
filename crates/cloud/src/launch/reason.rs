//! Reasons of a failed launch, as a NodeClaim's condition shows them (karpenter-aws 3.6), and what may be done next.

use super::OfferingRefusal;
use super::codes::reason_of;
use super::readiness::READINESS_UNKNOWN;
use super::unauthorized::Denied;
use crate::error::CloudError;
use crate::unavailable::QuotaGroup;

/// A launch that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct LaunchError {
    /// Kind of the failure: what may be done next.
    pub kind: LaunchErrorKind,
    /// Reason of the claim's `Launched` condition.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
    /// Every offering that EC2 refused.
    pub refusals: Vec<OfferingRefusal>,
}

/// Kind of a failed launch, by what it means for its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaunchErrorKind {
    /// None of the offerings can be had: the claim is given up and its pods are packed anew.
    InsufficientCapacity,
    /// The node class cannot be used now: the claim is given up.
    NodeClassNotReady,
    /// Nothing was launched; the same request may succeed later.
    Retryable,
    /// Nothing was launched, and the same request will fail again.
    Final,
    /// An instance may have been launched: look for the token before anything else is tried.
    MayHaveHappened,
    /// EC2 has answered with neither an instance nor an error: it may have launched one. It will answer this token so again.
    Unsaid,
    /// EC2 was asked for something else under the same token, and may have launched that: look for the token. This
    /// request will never be taken.
    TokenUsed,
}

/// Number of failures in a row at which pods are told that a call is repeated.
const FAILURES_REPORTED: u32 = 2;

impl LaunchError {
    /// True if it is reported to pods after so many failures in a row: one after which EC2 has certainly launched nothing, and
    /// that is not the wait for a class.
    pub fn is_reported_to_pods(&self, failures: u32) -> bool {
        use LaunchErrorKind::{
            Final, InsufficientCapacity, MayHaveHappened, NodeClassNotReady, Retryable, TokenUsed, Unsaid,
        };
        match self.kind {
            InsufficientCapacity | Final => true,
            Retryable => self.reason != READINESS_UNKNOWN && failures == FAILURES_REPORTED,
            NodeClassNotReady | MayHaveHappened | Unsaid | TokenUsed => false,
        }
    }
}

impl LaunchErrorKind {
    /// Value of a metric's label.
    pub fn metric_label(self) -> &'static str {
        match self {
            Self::InsufficientCapacity => "insufficient_capacity",
            Self::NodeClassNotReady => "node_class_not_ready",
            Self::Retryable => "retryable",
            Self::Final => "final",
            Self::MayHaveHappened => "may_have_happened",
            Self::TokenUsed => "token_used",
            Self::Unsaid => "unsaid",
        }
    }
}

/// A refusal for people. If capacity is not the cause, EC2's own words say which field is wrong.
fn words(refusal: &OfferingRefusal) -> String {
    let OfferingRefusal { capacity_type, instance_type, zone, code, message, .. } = refusal;
    let denied = Denied::from_message("CreateFleet", code, message).map(|denied| denied.words());
    let said = if refusal.is_capacity() { refusal.cause().unwrap_or_default() } else { message.as_str() };
    let parts = [code.as_str(), denied.as_deref().unwrap_or(said).trim()];
    // EC2 does not name everything.
    let what = [capacity_type, instance_type, zone].into_iter().filter(|part| !part.is_empty());
    let what = what.cloned().collect::<Vec<_>>().join(" ");
    let all = [what.as_str()].into_iter().chain(parts).filter(|part| !part.is_empty());
    all.collect::<Vec<_>>().join(": ")
}

impl LaunchError {
    /// No offering is left to be tried.
    pub fn insufficient_capacity(message: impl Into<String>, refusals: Vec<OfferingRefusal>) -> Self {
        let kind = LaunchErrorKind::InsufficientCapacity;
        Self { kind, reason: "InsufficientCapacity", message: message.into(), refusals }
    }

    /// The node class is not ready.
    pub fn node_class_not_ready(message: impl Into<String>) -> Self {
        let kind = LaunchErrorKind::NodeClassNotReady;
        Self { kind, reason: "NodeClassNotReady", message: message.into(), refusals: Vec::new() }
    }

    /// The request itself cannot be carried out.
    pub fn invalid(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: LaunchErrorKind::Final, reason, message: message.into(), refusals: Vec::new() }
    }

    /// EC2 answered with neither an instance nor an error. The same words for each attempt: what repeats is not said again.
    pub fn unsaid() -> Self {
        let message = "EC2 answered CreateFleet with neither an instance nor an error, so that it may have launched one: it is looked \
             for by its tag dovetail.dev/launch-token, whose value stands on the NodeClaim, before EC2 is asked again"
            .to_owned();
        Self { kind: LaunchErrorKind::Unsaid, reason: "LaunchUnknown", message, refusals: Vec::new() }
    }

    /// EC2 answered without an instance: for lack of capacity if every refusal says so.
    pub fn from_refusals(refusals: Vec<OfferingRefusal>) -> Self {
        let worst = refusals.iter().find(|r| !r.is_capacity());
        let message = match worst.or(refusals.first()) {
            None => "EC2 launched nothing and gave no reason".to_owned(),
            Some(first) => match refusals.len() {
                1 => words(first),
                2 => format!("{}; and 1 more refusal", words(first)),
                all => format!("{}; and {} more refusals", words(first), all - 1),
            },
        };
        if worst.is_none() {
            return Self::insufficient_capacity(message, refusals);
        }
        let reason = worst.map_or("LaunchFailed", |r| reason_of(&r.code, &r.message));
        Self { kind: LaunchErrorKind::Final, reason, message, refusals }
    }

    /// CreateFleet itself was refused for this capacity type and these instance types: for lack of a quota or of spot's role, as a
    /// fleet's offering is. Where all types share a quota, it is that one.
    pub fn from_fleet<'a>(error: &CloudError, capacity_type: &str, mut types: impl Iterator<Item = &'a str>) -> Self {
        let first = types.next().unwrap_or_default();
        let group = QuotaGroup::from_instance_type(first);
        let alike = types.all(|one| QuotaGroup::from_instance_type(one) == group);
        let refusal = OfferingRefusal {
            instance_type: if alike { first.to_owned() } else { String::new() },
            capacity_type: capacity_type.to_owned(),
            code: error.code().to_owned(),
            message: error.message().to_owned(),
            ..OfferingRefusal::default()
        };
        match error {
            CloudError::Final { .. } if refusal.is_account_wide() => {
                let reason = reason_of(&refusal.code, &refusal.message);
                let cause = refusal.cause().unwrap_or_default();
                let message = format!("{capacity_type} {}: {cause}", refusal.code);
                Self { reason, ..Self::insufficient_capacity(message, vec![refusal]) }
            }
            _ => Self::from_call(error),
        }
    }

    /// The reason with kind: a launch that failed before or while EC2 was asked.
    pub fn from_call(error: &CloudError) -> Self {
        let kind = match error {
            _ if error.is_token_used() => LaunchErrorKind::TokenUsed,
            CloudError::Retryable { .. } => LaunchErrorKind::Retryable,
            CloudError::Final { .. } => LaunchErrorKind::Final,
            CloudError::MayHaveHappened { .. } => LaunchErrorKind::MayHaveHappened,
        };
        let reason = reason_of(error.code(), error.message());
        let message = match Denied::from_message(error.call(), error.code(), error.message()) {
            Some(denied) => format!("{} failed ({}): {}", error.call(), error.code(), denied.words()),
            None => error.to_string(),
        };
        Self { kind, reason, message, refusals: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ec2_has_not_launched_is_reported_to_pods() {
        use LaunchErrorKind::{
            Final, InsufficientCapacity, MayHaveHappened, NodeClassNotReady, Retryable, TokenUsed, Unsaid,
        };
        let reported = |kind, reason, failures| {
            LaunchError { kind, reason, message: String::new(), refusals: Vec::new() }.is_reported_to_pods(failures)
        };
        assert!([InsufficientCapacity, Final].iter().all(|kind| reported(*kind, "LaunchFailed", 0)));
        let others = [NodeClassNotReady, MayHaveHappened, Unsaid, TokenUsed];
        assert!(!others.iter().any(|kind| reported(*kind, "LaunchFailed", FAILURES_REPORTED)));
        let again = [0, FAILURES_REPORTED, 9].map(|failures| reported(Retryable, "RequestLimitExceeded", failures));
        assert_eq!(again, [false, true, false]);
        assert!(!reported(Retryable, READINESS_UNKNOWN, FAILURES_REPORTED));
    }

    fn refusal(code: &str) -> OfferingRefusal {
        OfferingRefusal {
            code: code.into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            ..OfferingRefusal::default()
        }
    }

    #[test]
    fn only_capacity_refusals_make_an_insufficient_capacity() {
        let all = LaunchError::from_refusals(vec![
            refusal("InsufficientInstanceCapacity"),
            refusal("MaxSpotInstanceCountExceeded"),
        ]);
        assert_eq!((all.kind, all.refusals.len()), (LaunchErrorKind::InsufficientCapacity, 2));
        let mixed = LaunchError::from_refusals(vec![
            refusal("InsufficientInstanceCapacity"),
            refusal("InvalidAMIID.Malformed"),
        ]);
        assert_eq!((mixed.kind, mixed.reason), (LaunchErrorKind::Final, "InvalidAMIID"));
    }

    #[test]
    fn field_ec2_refuses_is_told_in_its_words_before_mere_shortage() {
        let wrong = OfferingRefusal {
            message: "Value (nope) for parameter iamInstanceProfile.name is invalid.".into(),
            ..refusal("InvalidParameterValue")
        };
        let message_of = |all: Vec<OfferingRefusal>| LaunchError::from_refusals(all).message;
        let all = message_of(vec![refusal("InsufficientInstanceCapacity"), wrong.clone(), wrong.clone()]);
        let own = "m5.large us-east-1a: InvalidParameterValue: Value (nope) for parameter iamInstanceProfile.name is invalid.";
        assert!(all.contains(own) && all.ends_with("; and 2 more refusals"), "{all}");
        assert!(message_of(vec![wrong.clone(), wrong.clone()]).ends_with("; and 1 more refusal"));
        assert!(message_of(vec![wrong]).ends_with("is invalid."));
    }

    #[test]
    fn answer_without_instance_or_error_is_lack_of_capacity() {
        assert_eq!(LaunchError::from_refusals(vec![]).kind, LaunchErrorKind::InsufficientCapacity);
    }

    #[test]
    fn call_refused_for_quota_or_spot_role_is_lack_of_all_it_covers() {
        let error = |code: &str| CloudError::invalid("CreateFleet", code, "no");
        for code in ["VcpuLimitExceeded", "MaxFleetCountExceeded", "AuthFailure.ServiceLinkedRoleCreationNotPermitted"]
        {
            let error = LaunchError::from_fleet(&error(code), "spot", ["m5.large", "g5.xlarge"].into_iter());
            assert_eq!((error.kind, error.refusals.len()), (LaunchErrorKind::InsufficientCapacity, 1), "{code}");
        }
        // It names no offering: nothing would be learnt, and the same be asked for at once.
        let nameless =
            LaunchError::from_fleet(&error("InsufficientInstanceCapacity"), "spot", ["m5.large"].into_iter());
        assert_eq!((nameless.kind, nameless.refusals.len()), (LaunchErrorKind::Final, 0));
    }

    #[test]
    fn quota_of_a_call_is_named_where_all_its_types_share_one() {
        let error = CloudError::invalid("CreateFleet", "VcpuLimitExceeded", "You have requested more vCPU capacity");
        let asked = |types: &[&str]| LaunchError::from_fleet(&error, "on-demand", types.iter().copied());
        let one = asked(&["g5.xlarge", "g4dn.xlarge"]);
        assert!(one.message.contains("L-DB2E81BA") && one.refusals[0].instance_type == "g5.xlarge", "{}", one.message);
        let several = asked(&["g5.xlarge", "m5.large"]);
        assert!(several.refusals[0].instance_type.is_empty(), "it may be either's");
        assert_eq!(several.message, "on-demand VcpuLimitExceeded: a vCPU quota of on-demand instances used up");
        let bare =
            OfferingRefusal { code: "VcpuLimitExceeded".into(), capacity_type: "spot".into(), ..Default::default() };
        let words = LaunchError::from_refusals(vec![bare]).message;
        assert_eq!(words, "spot: VcpuLimitExceeded: a vCPU quota of spot instances used up");
    }

    #[test]
    fn a_denied_call_names_the_action() {
        let message = "User: x is not authorized to perform: ec2:RunInstances on resource: y because z. Encoded authorization failure message: e";
        let error = LaunchError::from_call(&CloudError::invalid("CreateFleet", "UnauthorizedOperation", message));
        assert_eq!(error.reason, "Unauthorized");
        let begin = "CreateFleet failed (UnauthorizedOperation): the role may not ec2:RunInstances on y: z; ";
        assert!(error.message.starts_with(begin), "{}", error.message);
        let inside = OfferingRefusal { message: message.into(), ..refusal("UnauthorizedOperation") };
        let inside = LaunchError::from_refusals(vec![inside]);
        assert!(inside.message.contains("the role may not ec2:RunInstances on y"), "{}", inside.message);
    }
}
