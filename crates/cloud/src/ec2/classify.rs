//! From the SDK's errors to ours: what may be done next depends on whether the call changes anything.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::display::DisplayErrorContext;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::error::{CloudError, TOKEN_USED};

/// Effect of a call that is carried out twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It only reads, or doing it twice is doing it once.
    Repeatable,
    /// Doing it twice costs money.
    Once,
}

/// Codes by which AWS says that it was asked too often. Nothing was done.
const THROTTLED: [&str; 8] = [
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "EC2ThrottledException",
];
/// Status of a server that did not take the request on.
const UNAVAILABLE: u16 = 503;

/// The meaning of an error of the SDK.
pub(super) fn classify<E>(call: &'static str, effect: Effect, error: SdkError<E, HttpResponse>) -> CloudError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let retryable = |code: &str, message: String| CloudError::Retryable { call, code: code.into(), message };
    let unsure = |code: &str, message: String| match effect {
        Effect::Repeatable => CloudError::Retryable { call, code: code.into(), message },
        Effect::Once => CloudError::MayHaveHappened { call, code: code.into(), message },
    };
    match &error {
        SdkError::ConstructionFailure(_) => CloudError::invalid(call, "NotSent", text(&error)),
        SdkError::TimeoutError(_) => unsure("TimedOut", text(&error)),
        SdkError::DispatchFailure(failure) if failure.is_user() => CloudError::invalid(call, "NotSent", text(&error)),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => unsure("TimedOut", text(&error)),
        SdkError::DispatchFailure(_) => unsure("ConnectionLost", text(&error)),
        SdkError::ResponseError(_) => unsure("AnswerNotUnderstood", text(&error)),
        SdkError::ServiceError(service) => {
            let status = service.raw().status().as_u16();
            let code = service.err().code().unwrap_or("Unknown").to_owned();
            let message = service.err().message().unwrap_or_default().to_owned();
            match status {
                _ if THROTTLED.contains(&code.as_str()) => retryable(&code, message),
                UNAVAILABLE | 429 => retryable(&code, message),
                // Something else was asked for under this token, and may well have been carried out.
                _ if effect == Effect::Once && code == TOKEN_USED => unsure(&code, message),
                // Carried out, by the status; what came of it stands in a body that cannot be read.
                ..400 => unsure("AnswerNotUnderstood", text(&error)),
                500.. => unsure(&code, message),
                _ => CloudError::Final { call, code, message },
            }
        }
        _ => unsure("Unknown", text(&error)),
    }
}

fn text<E: std::error::Error + 'static>(error: &SdkError<E, HttpResponse>) -> String {
    DisplayErrorContext(error).to_string()
}
