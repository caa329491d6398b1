//! Answers on the wire.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::Value;

use crate::region::wire::call::{AwsCall, AwsService};
use crate::region::wire::error::{AwsError, AwsProtocol};
use crate::region::wire::xml::Xml;

/// Marks a response, by its extensions, that never arrives: who carries it breaks the connection instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLost;

/// Body of an action's answer.
#[derive(Clone, Debug)]
pub(crate) enum AwsAnswer {
    Xml(Xml),
    Json(Value),
}

/// The response that stands for a broken connection.
pub(crate) fn lost() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = http::StatusCode::BAD_GATEWAY;
    response.extensions_mut().insert(ConnectionLost);
    response
}

/// A request that no service knows.
pub(crate) fn not_understood() -> Response<Bytes> {
    let error = AwsError::new("UnknownOperationException", "nothing in the request tells which service it is for");
    response(404, "application/x-amz-json-1.1", error.body(AwsProtocol::Json("1.1"), ""), "")
}

pub(crate) fn render(call: &AwsCall, result: &Result<AwsAnswer, AwsError>, request_id: &str) -> Response<Bytes> {
    let protocol = call.api.protocol();
    let media_type = match protocol {
        AwsProtocol::Ec2 => "text/xml;charset=UTF-8",
        AwsProtocol::Query => "text/xml",
        AwsProtocol::Json("1.0") => "application/x-amz-json-1.0",
        AwsProtocol::Json(_) => "application/x-amz-json-1.1",
        AwsProtocol::RestJson => "application/json",
    };
    match result {
        Ok(AwsAnswer::Json(value)) => response(200, media_type, value.to_string(), request_id),
        Ok(AwsAnswer::Xml(xml)) => response(200, media_type, envelope(call, xml, request_id), request_id),
        Err(error) => {
            let mut refused = response(error.status, media_type, error.body(protocol, request_id), request_id);
            name_error(&mut refused, call.api, error);
            refused
        }
    }
}

/// JSON services repeat the code in a header; SQS adds the code of its query protocol (awsQueryCompatible).
fn name_error(response: &mut Response<Bytes>, api: AwsService, error: &AwsError) {
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    };
    if matches!(api.protocol(), AwsProtocol::Json(_) | AwsProtocol::RestJson) {
        set("x-amzn-errortype", &error.code);
    }
    if api == AwsService::Sqs {
        let code = match error.code.as_str() {
            "QueueDoesNotExist" => "AWS.SimpleQueueService.NonExistentQueue",
            "BatchEntryIdsNotDistinct" => "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
            "EmptyBatchRequest" => "AWS.SimpleQueueService.EmptyBatchRequest",
            "TooManyEntriesInBatchRequest" => "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            other => other,
        };
        let fault = if error.status < 500 { "Sender" } else { "Receiver" };
        set("x-amzn-query-error", &format!("{code};{fault}"));
    }
}

fn envelope(call: &AwsCall, inner: &Xml, request_id: &str) -> String {
    let action = &call.action;
    let (mut before, mut after) = (Xml::new(), Xml::new());
    let namespace = match call.api {
        AwsService::Ec2 => {
            before.text("requestId", request_id);
            "http://ec2.amazonaws.com/doc/2016-11-15/"
        }
        api => {
            before.begin(&format!("{action}Result"));
            after.end(&format!("{action}Result")).node("ResponseMetadata", |xml| {
                xml.text("RequestId", request_id);
            });
            match api {
                AwsService::Iam => "https://iam.amazonaws.com/doc/2010-05-08/",
                _ => "https://sts.amazonaws.com/doc/2011-06-15/",
            }
        }
    };
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    let start = format!("{head}<{action}Response xmlns=\"{namespace}\">");
    let end = format!("</{action}Response>");
    // An answer may have a megabyte: it is copied once.
    [start.as_str(), before.as_str(), inner.as_str(), after.as_str(), end.as_str()].concat()
}

fn response(status: u16, media_type: &'static str, body: String, request_id: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert("x-amzn-requestid", id);
    }
    response
}
