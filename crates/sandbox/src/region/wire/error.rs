//! The errors that the region answers with, and how each protocol writes them.

use std::fmt::Display;

use serde_json::json;

use crate::region::wire::xml::Xml;

/// A refusal, by AWS's code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct AwsError {
    pub status: u16,
    /// The error code as the service documents it.
    pub code: String,
    /// Sentence for people.
    pub message: String,
}

/// Format of a service's answers and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwsProtocol {
    /// EC2's own query protocol.
    Ec2,
    /// The query protocol of IAM and STS.
    Query,
    /// JSON with `X-Amz-Target`, version 1.0 (SQS) or 1.1.
    Json(&'static str),
    /// JSON over paths and methods.
    RestJson,
}

impl AwsError {
    /// A client's mistake (status 400).
    pub fn new(code: impl Into<String>, message: impl Display) -> Self {
        Self { status: 400, code: code.into(), message: message.to_string() }
    }

    /// The same with another status.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// A parameter that has to be there is not.
    pub fn missing(name: &str) -> Self {
        Self::new("MissingParameter", format_args!("The request must contain the parameter {name}"))
    }

    /// A parameter has a value that it cannot have.
    pub fn invalid(message: impl Display) -> Self {
        Self::new("InvalidParameterValue", message)
    }

    /// The answer to a dry run that would have worked.
    pub fn dry_run() -> Self {
        Self::new("DryRunOperation", "Request would have succeeded, but DryRun flag is set.").with_status(412)
    }

    /// The action is not known to the service.
    pub fn unknown_action(action: &str) -> Self {
        Self::new("InvalidAction", format_args!("The action {action} is not valid for this web service."))
    }

    /// A failure inside the service.
    pub fn internal(protocol: AwsProtocol) -> Self {
        let code = match protocol {
            AwsProtocol::Ec2 => "InternalError",
            AwsProtocol::Query => "ServiceFailure",
            AwsProtocol::Json(_) | AwsProtocol::RestJson => "InternalFailure",
        };
        Self::new(code, "An internal error has occurred").with_status(500)
    }

    /// A refusal for the rate of requests.
    pub fn throttled(protocol: AwsProtocol) -> Self {
        match protocol {
            AwsProtocol::Ec2 => Self::new("RequestLimitExceeded", "Request limit exceeded.").with_status(503),
            AwsProtocol::Query => Self::new("Throttling", "Rate exceeded"),
            AwsProtocol::Json(_) | AwsProtocol::RestJson => Self::new("ThrottlingException", "Rate exceeded"),
        }
    }

    pub fn body(&self, protocol: AwsProtocol, request_id: &str) -> String {
        match protocol {
            AwsProtocol::Ec2 => self.ec2_body(request_id),
            AwsProtocol::Query => self.query_body(request_id),
            AwsProtocol::Json("1.0") => {
                let kind = format!("com.amazonaws.sqs#{}", self.code);
                json!({"__type": kind, "message": self.message}).to_string()
            }
            AwsProtocol::Json(_) => json!({"__type": self.code, "message": self.message}).to_string(),
            AwsProtocol::RestJson => json!({"message": self.message}).to_string(),
        }
    }

    fn ec2_body(&self, request_id: &str) -> String {
        let mut xml = Xml::new();
        xml.node("Response", |xml| {
            xml.node("Errors", |xml| {
                xml.node("Error", |xml| {
                    xml.text("Code", &self.code).text("Message", &self.message);
                });
            });
            xml.text("RequestID", request_id);
        });
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", xml.as_str())
    }

    fn query_body(&self, request_id: &str) -> String {
        let mut xml = Xml::new();
        xml.node("ErrorResponse", |xml| {
            xml.node("Error", |xml| {
                let kind = if self.status < 500 { "Sender" } else { "Receiver" };
                xml.text("Type", kind).text("Code", &self.code).text("Message", &self.message);
            });
            xml.text("RequestId", request_id);
        });
        xml.as_str().to_owned()
    }
}
