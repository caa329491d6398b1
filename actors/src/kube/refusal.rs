//! Meaning of a refusal by the fence against earlier leaders (deploy/helm/dovetail/files/fence.yaml).

/// Words of an API server's 403 before it has read its policies and the Leases that our fence goes by.
const STARTING: [&str; 2] = ["not yet synced to use for admission", "not yet ready to handle request"];

/// Meaning of a refusal by the fence for the writer of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceRefusal {
    /// A newer term has begun.
    Succeeded,
    /// The API server that was asked does not know of this term yet.
    NotKnownYet,
}

/// Returns the meaning of a refusal if the fence has made it.
pub fn refusal(message: &str) -> Option<FenceRefusal> {
    if message.contains("no params found for policy binding") && message.contains("nodeclaims.karpenter.sh") {
        return Some(FenceRefusal::NotKnownYet);
    }
    if STARTING.iter().any(|said| message.contains(said)) {
        return Some(FenceRefusal::NotKnownYet);
    }
    let (_, terms) = message.split_once("dovetail.dev/term is ")?;
    let (own, lease) = terms.split_once(", the Lease's is ")?;
    let digits: String = lease.chars().take_while(char::is_ascii_digit).collect();
    let (own, lease) = (own.parse::<u64>().ok()?, digits.parse::<u64>().ok()?);
    Some(if lease > own { FenceRefusal::Succeeded } else { FenceRefusal::NotKnownYet })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(why: &str) -> Option<FenceRefusal> {
        refusal(&format!(
            "nodeclaims.karpenter.sh \"default-x\" is forbidden: ValidatingAdmissionPolicy 'dovetail-fence' with binding \
             'dovetail-fence-create' denied request: {why}"
        ))
    }

    #[test]
    fn refusal_by_newer_term_is_told_from_lagging_server() {
        assert_eq!(denied("dovetail.dev/term is 3, the Lease's is 4"), Some(FenceRefusal::Succeeded));
        assert_eq!(denied("dovetail.dev/term is 10, the Lease's is 9"), Some(FenceRefusal::NotKnownYet));
        assert_eq!(denied("dovetail.dev/term is 10, the Lease's is 0"), Some(FenceRefusal::NotKnownYet));
        let missing =
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
        assert_eq!(denied(missing), Some(FenceRefusal::NotKnownYet));
        assert_eq!(denied("spec.requirements: too many"), None);
        // An API server that has just started (kubernetes/kubernetes#141367).
        let starting = "nodeclaims.karpenter.sh \"a\" is forbidden: ValidatingAdmissionPolicy 'dovetail' with binding 'dovetail' denied \
                        request: failed to configure binding: paramKind kind `coordination.k8s.io/v1, Kind=Lease` not yet synced to \
                        use for admission";
        assert_eq!(refusal(starting), Some(FenceRefusal::NotKnownYet));
        assert_eq!(
            refusal("nodeclaims is forbidden: not yet ready to handle request"),
            Some(FenceRefusal::NotKnownYet)
        );
        assert_eq!(refusal("no params found for policy binding, for pods"), None);
    }
}
