//! Refusals for a missing policy: the action that is denied, and the way to read what IAM decided. Pure.

/// Before the action that is denied.
const ACTION: &str = "not authorized to perform: ";
/// Before the resource that it is denied on.
const RESOURCE: &str = "on resource: ";
/// Before IAM's decision in a form that only IAM reads.
const ENCODED: &str = "Encoded authorization failure message: ";

/// Before the command that says the rest. Its argument is another each time.
const DECIDED: &str = "; what IAM decided: ";

/// Words without the command that decodes what IAM decided: the same for the same refusal.
#[must_use]
pub fn without_decision(words: &str) -> &str {
    words.split_once(DECIDED).map_or(words, |(before, _)| before)
}

/// A denied call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The action of the policy that is missing, `ec2:RunInstances`.
    pub action: String,
    /// The resource that it is denied on; empty where EC2 does not say.
    pub resource: String,
    /// Reason, as far as EC2 says it: `no identity-based policy allows the ec2:RunInstances action`; empty where it does not.
    pub why: String,
    /// IAM's decision, for `sts:DecodeAuthorizationMessage`; empty where EC2 sends none.
    pub encoded: String,
}

impl Denied {
    /// The denial that a refusal speaks of. `None` where it is about something else. `call` is the call that was made, which EC2
    /// may have denied for what the call needs besides itself.
    #[must_use]
    pub fn from_message(call: &str, code: &str, message: &str) -> Option<Self> {
        if !code.contains("UnauthorizedOperation") && !message.contains(ACTION) {
            return None;
        }
        let (said, encoded) = message.split_once(ENCODED).unwrap_or((message, ""));
        let word = |after: &str| {
            let word = said.split_once(after)?.1.split([' ', ',']).next()?;
            Some(word.trim_end_matches('.').to_owned()).filter(|word| !word.is_empty())
        };
        let why = said.split_once(" because ").map_or("", |(_, why)| why).trim().trim_end_matches('.');
        Some(Self {
            action: word(ACTION).unwrap_or_else(|| format!("ec2:{call}")),
            resource: word(RESOURCE).unwrap_or_default(),
            why: why.to_owned(),
            encoded: encoded.split_whitespace().next().unwrap_or_default().to_owned(),
        })
    }

    /// For people: the action first, then the command that says the rest.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { action, resource, why, encoded } = self;
        let mut words = format!("the role may not {action}");
        if !resource.is_empty() {
            words.push_str(&format!(" on {resource}"));
        }
        if !why.is_empty() {
            words.push_str(&format!(": {why}"));
        }
        if !encoded.is_empty() {
            words.push_str(&format!(
                "{DECIDED}aws sts decode-authorization-message --query DecodedMessage --output text \
                 --encoded-message {encoded}"
            ));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MESSAGE: &str = "You are not authorized to perform this operation. User: arn:aws:sts::111122223333:assumed-role/KarpenterControllerRole/1 is not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:111122223333:instance/* because no identity-based policy allows the ec2:RunInstances action. Encoded authorization failure message: 4Q2Fwyo-abc_def";

    #[test]
    fn denied_action_comes_first_and_then_the_decoding_command() {
        let denied = Denied::from_message("CreateFleet", "UnauthorizedOperation", MESSAGE).unwrap();
        assert_eq!(denied.action, "ec2:RunInstances");
        assert_eq!(denied.resource, "arn:aws:ec2:us-east-1:111122223333:instance/*");
        let words = denied.words();
        let begin = "the role may not ec2:RunInstances on arn:aws:ec2:us-east-1:111122223333:instance/*: no identity-based policy allows the ec2:RunInstances action; what IAM decided: aws sts decode-authorization-message ";
        assert!(words.starts_with(begin) && words.ends_with("--encoded-message 4Q2Fwyo-abc_def"), "{words}");
        assert!(without_decision(&words).ends_with("allows the ec2:RunInstances action"), "the same each time");
    }

    #[test]
    fn where_ec2_names_no_action_it_is_the_calls_own() {
        let said = "You are not authorized to perform this operation. Encoded authorization failure message: x1";
        let denied = Denied::from_message("CreateFleet", "UnauthorizedOperation", said).unwrap();
        assert_eq!((denied.action.as_str(), denied.encoded.as_str()), ("ec2:CreateFleet", "x1"));
        let denied = Denied::from_message("CreateFleet", "UnauthorizedOperation", "").unwrap();
        assert_eq!(denied.words(), "the role may not ec2:CreateFleet");
    }

    #[test]
    fn other_refusals_are_none_of_it() {
        assert_eq!(Denied::from_message("CreateFleet", "InvalidParameterValue", "Value (x) is invalid"), None);
        assert_eq!(
            Denied::from_message("CreateFleet", "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "no"),
            None
        );
    }
}
