//! Refusals of the API server: the `Status` objects of the Kubernetes API conventions.
use serde_json::{Value, json};

/// One field that is wrong, as in `details.causes` of a `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusCause {
    /// `FieldValueInvalid`, `FieldValueRequired`, `DisruptionBudget`, …
    pub reason: String,
    /// The mistake, without the field's path.
    pub message: String,
    /// The field's path; empty when the cause is about no field.
    pub field: String,
}

impl StatusCause {
    /// A cause about the field at `field`.
    pub fn new(reason: &str, field: &str, message: impl Into<String>) -> Self {
        StatusCause { reason: reason.to_owned(), message: message.into(), field: field.to_owned() }
    }

    /// A value that the field may not have.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        StatusCause::new("FieldValueInvalid", field, message)
    }

    /// A value that is missing.
    pub fn required(field: &str) -> Self {
        StatusCause::new("FieldValueRequired", field, "Required value")
    }

    /// A value that may not be there, or may not change.
    pub fn forbidden(field: &str, message: &str) -> Self {
        StatusCause::new("FieldValueForbidden", field, format!("Forbidden: {message}"))
    }

    fn line(&self) -> String {
        if self.field.is_empty() { self.message.clone() } else { format!("{}: {}", self.field, self.message) }
    }
}

/// A refused request. Boxed: it travels in every `Result` of the server.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct ApiError(Box<ApiRefusal>);

/// The content of a refusal.
#[derive(Clone, Debug)]
pub struct ApiRefusal {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason (`NotFound`, `Conflict`, …); empty where kube-apiserver gives none.
    pub reason: &'static str,
    /// Sentence for people.
    pub message: String,
    /// Group, kind (or resource) and name of the object it is about.
    pub about: Option<(String, String, String)>,
    /// Fields at fault.
    pub causes: Vec<StatusCause>,
    /// Seconds after which a repetition may succeed.
    pub retry_after: Option<u32>,
}

impl ApiError {
    /// A refusal with a code, a reason and a message.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        ApiError(Box::new(ApiRefusal {
            code,
            reason,
            message: message.into(),
            about: None,
            causes: Vec::new(),
            retry_after: None,
        }))
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.0.about = Some((group.to_owned(), kind.to_owned(), name.to_owned()));
        self
    }

    /// 404 for an object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        ApiError::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(resource, group)))
            .about(group, resource, name)
    }

    /// 404 for a path that no resource has.
    pub fn no_such_path() -> Self {
        ApiError::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// 409 on create.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        ApiError::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(resource, group)))
            .about(group, resource, name)
    }

    /// 409 on update.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(resource, group));
        ApiError::new(409, "Conflict", message).about(group, resource, name)
    }

    /// 409 because the resourceVersion sent is not the stored one.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        ApiError::conflict(group, resource, name, why)
    }

    /// 422 with every field at fault.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<StatusCause>) -> Self {
        let lines: Vec<String> = causes.iter().map(StatusCause::line).collect();
        let list = if lines.len() == 1 { lines.concat() } else { format!("[{}]", lines.join(", ")) };
        let message = format!("{} \"{name}\" is invalid: {list}", qualified(kind, group));
        ApiError::new(422, "Invalid", message).about(group, kind, name).with_causes(causes)
    }

    /// The same refusal of a patch: what was sent could be read, its outcome cannot.
    pub fn of_a_patch(self) -> Self {
        let cause = StatusCause::invalid("patch", format!("Invalid value: {}", self.0.message));
        ApiError::invalid("", "", "", vec![cause])
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        ApiError::new(400, "BadRequest", message)
    }

    /// 403.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", qualified(resource, group));
        ApiError::new(403, "Forbidden", message).about(group, resource, name)
    }

    /// 410: the version asked for is no longer in the history.
    pub fn expired(message: impl Into<String>) -> Self {
        ApiError::new(410, "Expired", message)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        ApiError::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// 429.
    pub fn too_many_requests(message: impl Into<String>, retry_after: Option<u32>) -> Self {
        let mut error = ApiError::new(429, "TooManyRequests", message);
        error.0.retry_after = retry_after;
        error
    }

    /// 422 for options that a request may not have.
    pub fn bad_options(kind: &str, cause: StatusCause) -> Self {
        ApiError::invalid("meta.k8s.io", kind, "", vec![cause])
    }

    /// 504: a version that is not there yet.
    pub fn too_large_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = StatusCause::new("ResourceVersionTooLarge", "", "Too large resource version");
        let mut error = ApiError::new(504, "Timeout", message).with_causes(vec![cause]);
        error.0.retry_after = Some(1);
        error
    }

    pub fn with_causes(mut self, causes: Vec<StatusCause>) -> Self {
        self.0.causes = causes;
        self
    }

    /// HTTP status of the refusal.
    pub fn code(&self) -> u16 {
        self.0.code
    }

    /// Machine-readable reason.
    pub fn reason(&self) -> &'static str {
        self.0.reason
    }

    /// Everything that it says.
    pub fn refusal(&self) -> &ApiRefusal {
        &self.0
    }

    /// The `Status` object that is the answer's body.
    pub fn status(&self) -> Value {
        let refusal = &self.0;
        let mut details = serde_json::Map::new();
        if let Some((group, kind, name)) = &refusal.about {
            for (key, text) in [("group", group), ("kind", kind), ("name", name)] {
                if !text.is_empty() {
                    details.insert(key.to_owned(), json!(text));
                }
            }
        }
        if !refusal.causes.is_empty() {
            details.insert("causes".to_owned(), refusal.causes.iter().map(cause_value).collect());
        }
        if let Some(seconds) = refusal.retry_after {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": refusal.message, "reason": refusal.reason, "code": refusal.code});
        // A generic answer of kube-apiserver has `details`, and they are empty.
        if !details.is_empty() || matches!(refusal.code, 404 | 422) {
            status["details"] = Value::Object(details);
        }
        if refusal.reason.is_empty()
            && let Some(map) = status.as_object_mut()
        {
            map.remove("reason");
        }
        status
    }
}

fn cause_value(cause: &StatusCause) -> Value {
    let mut value = json!({"reason": cause.reason, "message": cause.message});
    if !cause.field.is_empty() {
        value["field"] = json!(cause.field);
    }
    value
}

fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// Result of the server's functions.
pub type Result<T> = std::result::Result<T, ApiError>;
