//! SQS's actions, over JSON 1.0.

use std::collections::BTreeSet;
use std::time::Duration;

use md5::{Digest as _, Md5};
use serde_json::{Map, Value, json};

use crate::faults::QueueLoss;
use crate::region::config::{ACCOUNT, RegionConfig};
use crate::region::services::queue::{Message, SqsQueue};
use crate::region::wire::error::AwsError;
use crate::region::{Cx, Region};

/// Actions by which a queue is read.
pub(crate) const OF_READERS: [&str; 4] = ["DeleteMessage", "DeleteMessageBatch", "GetQueueUrl", "ReceiveMessage"];

type Notes = Vec<(&'static str, Value)>;

/// Carries out an action of SQS other than ReceiveMessage.
pub(crate) fn act(cx: &mut Cx<'_>, action: &str, body: &Value) -> Result<Value, AwsError> {
    check_lost(cx, action, body)?;
    match action {
        "GetQueueUrl" => {
            let name = required(body, "QueueName")?;
            named(cx, name)?;
            Ok(json!({"QueueUrl": url(cx, name)}))
        }
        "CreateQueue" => {
            let name = required(body, "QueueName")?;
            cx.state.queues.create(name);
            Ok(json!({"QueueUrl": url(cx, name)}))
        }
        "SendMessage" => send(cx, body),
        "DeleteMessage" => delete(cx, body),
        "DeleteMessageBatch" => delete_batch(cx, body),
        "ChangeMessageVisibility" => change_visibility(cx, body),
        "GetQueueAttributes" => attributes(cx, body),
        _ => Err(AwsError::new("UnsupportedOperation", format_args!("The action {action} is not valid."))),
    }
}

/// ReceiveMessage: waits for a message as long as the request says.
pub(crate) async fn receive(region: &Region, body: &Value) -> Result<(Value, Notes), AwsError> {
    let most = number(body, "MaxNumberOfMessages", 1, 1..=10)?;
    let wait = Duration::from_secs(number(body, "WaitTimeSeconds", 0, 0..=20)?);
    let until = tokio::time::Instant::now() + wait;
    loop {
        let arrived = region.shared.arrived.notified();
        tokio::pin!(arrived);
        arrived.as_mut().enable();
        let (messages, next_in) = region.with(|cx| {
            let now = cx.now;
            let wall = cx.wall;
            check_lost(cx, "ReceiveMessage", body)?;
            let queue = addressed(cx, body)?;
            let hide = number(body, "VisibilityTimeout", queue.visibility.as_secs(), 0..=43_200)?;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let messages = queue.receive(most, Duration::from_secs(hide), now, wall);
            Ok::<_, AwsError>((messages, queue.next_visible().map(|at| at.saturating_sub(now))))
        })?;
        let left = until.saturating_duration_since(tokio::time::Instant::now());
        if !messages.is_empty() || left.is_zero() {
            let ids = messages.iter().map(|message| Value::from(&*message.id)).collect();
            let answer = if messages.is_empty() {
                json!({})
            } else {
                let messages: Vec<Value> = messages.iter().map(|message| message_json(message, body)).collect();
                json!({"Messages": messages})
            };
            return Ok((answer, vec![("messages", Value::Array(ids))]));
        }
        tokio::select! {
            biased;
            () = arrived => {}
            () = tokio::time::sleep(next_in.map_or(left, |next| next.min(left))) => {}
        }
    }
}

fn message_json(message: &Message, body: &Value) -> Value {
    let mut json = json!({
        "MessageId": message.id,
        "ReceiptHandle": message.receipt,
        "MD5OfBody": md5_hex(&message.body),
        "Body": message.body,
    });
    let asked: Vec<&str> = ["AttributeNames", "MessageSystemAttributeNames"]
        .iter()
        .filter_map(|key| body.get(key)?.as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let millis = |at: Option<jiff::Timestamp>| at.map_or(0, jiff::Timestamp::as_millisecond).to_string();
    let attributes = [
        ("SenderId", "AIDAEXAMPLEEVENTBRIDGE".to_owned()),
        ("SentTimestamp", millis(Some(message.sent))),
        ("ApproximateReceiveCount", message.received.to_string()),
        ("ApproximateFirstReceiveTimestamp", millis(message.first_received)),
    ];
    let given: Map<String, Value> = attributes
        .into_iter()
        .filter(|(name, _)| asked.contains(name) || asked.contains(&"All"))
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    if !given.is_empty() {
        json["Attributes"] = Value::Object(given);
    }
    json
}

fn send(cx: &mut Cx<'_>, body: &Value) -> Result<Value, AwsError> {
    let text = required(body, "MessageBody")?.to_owned();
    let (now, wall) = (cx.now, cx.wall);
    let twice = cx.faults.duplicates_message();
    let queue = addressed(cx, body)?;
    let md5 = md5_hex(&text);
    if twice {
        queue.send(text.clone(), now, wall);
    }
    let id = queue.send(text, now, wall);
    Ok(json!({"MD5OfMessageBody": md5, "MessageId": id}))
}

fn delete(cx: &mut Cx<'_>, body: &Value) -> Result<Value, AwsError> {
    let receipt = required(body, "ReceiptHandle")?;
    let queue = addressed(cx, body)?;
    if queue.delete(receipt) { Ok(json!({})) } else { Err(bad_receipt(receipt)) }
}

fn delete_batch(cx: &mut Cx<'_>, body: &Value) -> Result<Value, AwsError> {
    let entries = body.get("Entries").and_then(Value::as_array).cloned().unwrap_or_default();
    if entries.is_empty() {
        return Err(AwsError::new("EmptyBatchRequest", "There should be at least one DeleteMessageBatchRequestEntry."));
    }
    if entries.len() > 10 {
        let message = "Maximum number of entries per request are 10.";
        return Err(AwsError::new("TooManyEntriesInBatchRequest", message));
    }
    let ids: BTreeSet<Option<&str>> = entries.iter().map(|entry| entry["Id"].as_str()).collect();
    if ids.len() < entries.len() {
        let message = "Two or more batch entries in the request have the same Id.";
        return Err(AwsError::new("BatchEntryIdsNotDistinct", message));
    }
    let queue = addressed(cx, body)?;
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for entry in &entries {
        let id = required(entry, "Id")?;
        let receipt = required(entry, "ReceiptHandle")?;
        if queue.delete(receipt) {
            successful.push(json!({"Id": id}));
        } else {
            let error = bad_receipt(receipt);
            failed.push(json!({"Id": id, "SenderFault": true, "Code": error.code, "Message": error.message}));
        }
    }
    Ok(json!({"Successful": successful, "Failed": failed}))
}

fn change_visibility(cx: &mut Cx<'_>, body: &Value) -> Result<Value, AwsError> {
    let receipt = required(body, "ReceiptHandle")?;
    let seconds = number(body, "VisibilityTimeout", 0, 0..=43_200)?;
    let now = cx.now;
    let queue = addressed(cx, body)?;
    let known = queue.hide_until(receipt, now + Duration::from_secs(seconds), now);
    if known { Ok(json!({})) } else { Err(bad_receipt(receipt)) }
}

fn attributes(cx: &mut Cx<'_>, body: &Value) -> Result<Value, AwsError> {
    let now = cx.now;
    let (region, partition) = (cx.config.region.clone(), cx.config.partition());
    let queue = addressed(cx, body)?;
    let (visible, hidden) = queue.counts(now);
    Ok(json!({"Attributes": {
        "QueueArn": format!("arn:{partition}:sqs:{region}:{ACCOUNT}:{}", queue.name),
        "ApproximateNumberOfMessages": visible.to_string(),
        "ApproximateNumberOfMessagesNotVisible": hidden.to_string(),
        "VisibilityTimeout": queue.visibility.as_secs().to_string(),
    }}))
}

fn url(cx: &Cx<'_>, name: &str) -> String {
    let suffix = if cx.config.partition() == "aws-cn" { ".cn" } else { "" };
    format!("https://sqs.{}.amazonaws.com{suffix}/{ACCOUNT}/{name}", cx.config.region)
}

/// The error by which the interruption queue answers while it is lost.
fn check_lost(cx: &mut Cx<'_>, action: &str, body: &Value) -> Result<(), AwsError> {
    let text = |field: &str| body.get(field).and_then(Value::as_str);
    let asked = text("QueueName").or_else(|| text("QueueUrl")?.rsplit('/').next());
    let name = cx.config.queue_name();
    let Some(how) = cx.faults.queue_lost().filter(|_| asked == Some(&*name)) else { return Ok(()) };
    match how {
        QueueLoss::Deleted => {
            cx.state.queues.empty(&name);
            Err(no_such_queue())
        }
        QueueLoss::Denied => Err(denied(cx.config, action)),
        QueueLoss::KeyDenied if action == "ReceiveMessage" => {
            Err(not_authorized(cx.config, "KMS.AccessDeniedException", "kms:Decrypt", "key/interruptions"))
        }
        QueueLoss::KeyDenied => Ok(()),
    }
}

/// The error of an action on the interruption queue that no policy allows.
pub(crate) fn denied(config: &RegionConfig, action: &str) -> AwsError {
    not_authorized(config, "AccessDenied", &format!("sqs:{}", action.to_lowercase()), &config.queue_name())
}

fn not_authorized(config: &RegionConfig, code: &str, allowed: &str, resource: &str) -> AwsError {
    let (partition, region) = (config.partition(), &config.region);
    let service = allowed.split(':').next().unwrap_or_default();
    let role = format!("arn:{partition}:sts::{ACCOUNT}:assumed-role/KarpenterControllerRole/dovetail");
    let resource = format!("arn:{partition}:{service}:{region}:{ACCOUNT}:{resource}");
    let message = format!(
        "User: {role} is not authorized to perform: {allowed} on resource: {resource} because no identity-based policy allows the {allowed} action"
    );
    AwsError::new(code, message).with_status(403)
}

fn addressed<'a>(cx: &'a mut Cx<'_>, body: &Value) -> Result<&'a mut SqsQueue, AwsError> {
    let url = required(body, "QueueUrl")?;
    named(cx, url.rsplit('/').next().unwrap_or(url))
}

fn named<'a>(cx: &'a mut Cx<'_>, name: &str) -> Result<&'a mut SqsQueue, AwsError> {
    cx.state.queues.get_mut(name).ok_or_else(no_such_queue)
}

fn no_such_queue() -> AwsError {
    AwsError::new("QueueDoesNotExist", "The specified queue does not exist.")
}

fn bad_receipt(receipt: &str) -> AwsError {
    AwsError::new("ReceiptHandleIsInvalid", format_args!("The input receipt handle \"{receipt}\" is not valid."))
}

fn required<'a>(body: &'a Value, name: &str) -> Result<&'a str, AwsError> {
    body.get(name).and_then(Value::as_str).ok_or_else(|| AwsError::missing(name))
}

fn number(body: &Value, name: &str, default: u64, allowed: std::ops::RangeInclusive<u64>) -> Result<u64, AwsError> {
    let value = body.get(name).map_or(Some(default), Value::as_u64);
    value.filter(|value| allowed.contains(value)).ok_or_else(|| {
        let (least, most) = (allowed.start(), allowed.end());
        let value = body.get(name).unwrap_or(&Value::Null);
        let message =
            format!("Value {value} for parameter {name} is invalid. Reason: Must be between {least} and {most}.");
        AwsError::new("InvalidParameterValue", message)
    })
}

fn md5_hex(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
