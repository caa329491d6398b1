//! Failures of a call to a cloud, told apart by what may be done next.

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// Nothing was changed; the same call may succeed later (throttling, a fault of the service, no connection).
    #[error("{call} failed for now ({code}): {message}")]
    Retryable {
        /// The call, `DescribeSubnets`.
        call: &'static str,
        /// The service's code, or ours for what went wrong on the way.
        code: String,
        /// The service's message.
        message: String,
    },
    /// Nothing was changed, and the same call will fail again.
    #[error("{call} failed ({code}): {message}")]
    Final {
        /// Operation that was called: `CreateFleet`.
        call: &'static str,
        /// The service's code, or ours.
        code: String,
        /// The service's message.
        message: String,
    },
    /// The answer did not arrive: it may have been done or not.
    #[error("{call} may have happened ({code}): {message}")]
    MayHaveHappened {
        /// Operation that was called: `CreateFleet`.
        call: &'static str,
        /// Ours: `TimedOut`, `ConnectionLost`, or the service's `InternalError`.
        code: String,
        /// A sentence about what is known.
        message: String,
    },
}

/// The code by which EC2 says that it was asked for something else under this client token before.
pub(crate) const TOKEN_USED: &str = "IdempotentParameterMismatch";

/// Codes by which AWS says that something is not there (karpenter-aws 3.6).
const NOT_FOUND: [&str; 10] = [
    "InvalidCapacityReservationId.NotFound",
    "InvalidInstanceID.NotFound",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidLaunchTemplateId.NotFound",
    "InvalidLaunchTemplateId.NotFoundException",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
    "NoSuchEntity",
    "ParameterNotFound",
    "ResourceNotFoundException",
];

/// Codes by which AWS says that we may not ask: that does not change by itself.
const DENIED: [&str; 3] = ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException"];
/// Our own code for a service to which an isolated VPC has no way.
const ISOLATED: &str = "IsolatedVpc";

/// Prefix of each code of SQS's older protocol.
const OF_SQS: &str = "AWS.SimpleQueueService.";
/// No service has a longer code.
const LONGEST_NAME: usize = 80;

impl CloudError {
    /// An error of our own making that no repetition helps.
    pub fn invalid(call: &'static str, code: &str, message: impl Into<String>) -> Self {
        Self::Final { call, code: code.to_owned(), message: message.into() }
    }

    /// A service that is not asked, as there is no way to it from an isolated VPC.
    pub fn isolated(call: &'static str) -> Self {
        Self::invalid(call, ISOLATED, "it is not asked, as there is no way to it from an isolated VPC")
    }

    /// The call that failed.
    pub fn call(&self) -> &'static str {
        match self {
            Self::Retryable { call, .. } | Self::Final { call, .. } | Self::MayHaveHappened { call, .. } => call,
        }
    }

    /// The service's code.
    pub fn code(&self) -> &str {
        match self {
            Self::Retryable { code, .. } | Self::Final { code, .. } | Self::MayHaveHappened { code, .. } => code,
        }
    }

    /// The code as a metric's label or a condition's reason has it: the service's own name for it, without what stands before each
    /// of SQS's. Never empty.
    pub fn name(&self) -> &str {
        let code = self.code();
        let name = code.strip_prefix(OF_SQS).unwrap_or(code);
        let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '_' || letter == '-';
        if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(named) { name } else { "Unknown" }
    }

    /// The service's message.
    pub fn message(&self) -> &str {
        match self {
            Self::Retryable { message, .. } | Self::Final { message, .. } | Self::MayHaveHappened { message, .. } => {
                message
            }
        }
    }

    /// True if the service says that the resource is not there.
    pub fn is_not_found(&self) -> bool {
        NOT_FOUND.contains(&self.code())
    }

    /// True if the service says that the role may not make the call.
    pub fn is_denied(&self) -> bool {
        DENIED.contains(&self.code())
    }

    /// True if the service was not asked, as there is no way to it from an isolated VPC.
    pub fn is_isolated(&self) -> bool {
        self.code() == ISOLATED
    }

    /// Something else was asked for under the same client token.
    pub fn is_token_used(&self) -> bool {
        self.code() == TOKEN_USED
    }

    /// The same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Final { .. })
    }

    /// Value of a metric's label: few, and stable.
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::Retryable { .. } => "retryable",
            Self::Final { .. } => "final",
            Self::MayHaveHappened { .. } => "may_have_happened",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_named_as_its_service_names_it_and_never_empty() {
        let long = "a".repeat(81);
        for (code, name) in [
            ("AWS.SimpleQueueService.NonExistentQueue", "NonExistentQueue"),
            ("AccessDenied", "AccessDenied"),
            ("KMS.AccessDeniedException", "KMS.AccessDeniedException"),
            ("InvalidInstanceID.NotFound", "InvalidInstanceID.NotFound"),
            ("", "Unknown"),
            ("AWS.SimpleQueueService.", "Unknown"),
            ("a \"b\"\n", "Unknown"),
            (&long, "Unknown"),
        ] {
            assert_eq!(CloudError::invalid("ReceiveMessage", code, "").name(), name, "{code:?}");
        }
    }
}
