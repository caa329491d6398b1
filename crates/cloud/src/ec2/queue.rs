//! The interruption queue: SQS (karpenter-aws 5).

use std::collections::BTreeMap;

use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use jiff::Timestamp;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use crate::cloud::QueueMessage;
use crate::error::CloudError;

/// Most messages of one call, in both directions: SQS's own limit.
const MOST: usize = 10;
/// Seconds that a call waits for a message; SQS allows no more.
const WAIT: i32 = 20;
/// Seconds for which a message that was received is hidden.
const HIDDEN: i32 = 20;

impl Ec2Cloud {
    pub(super) async fn get_queue_url(&self, name: &str) -> Result<String, CloudError> {
        const CALL: &str = "GetQueueUrl";
        let answer = self.clients.sqs.get_queue_url().queue_name(name).send().await;
        let answer = answer.map_err(|error| classify(CALL, Effect::Repeatable, error))?;
        answer
            .queue_url
            .ok_or_else(|| CloudError::invalid(CALL, "AnswerNotUnderstood", "there is no URL in the answer"))
    }

    pub(super) async fn receive_messages(&self, url: &str) -> Result<Vec<QueueMessage>, CloudError> {
        let call = self.clients.sqs.receive_message().queue_url(url).max_number_of_messages(MOST as i32);
        let call = call.wait_time_seconds(WAIT).visibility_timeout(HIDDEN);
        let call = call.message_system_attribute_names(MessageSystemAttributeName::SentTimestamp);
        let answer = call.send().await.map_err(|error| classify("ReceiveMessage", Effect::Repeatable, error))?;
        Ok(answer.messages.unwrap_or_default().into_iter().map(message).collect())
    }

    /// Deletes what it can; answers what SQS keeps, which comes again.
    pub(super) async fn delete_from_queue(
        &self,
        url: &str,
        receipts: &[String],
    ) -> Result<BTreeMap<String, CloudError>, CloudError> {
        let mut kept = BTreeMap::new();
        for batch in receipts.chunks(MOST) {
            match self.delete_batch(url, batch).await {
                Ok(failed) => kept.extend(failed),
                Err(error) => kept.extend(batch.iter().map(|receipt| (receipt.clone(), error.clone()))),
            }
        }
        Ok(kept)
    }

    /// One call. An entry that fails says so by its number.
    async fn delete_batch(&self, url: &str, batch: &[String]) -> Result<BTreeMap<String, CloudError>, CloudError> {
        const CALL: &str = "DeleteMessageBatch";
        let entries: Result<Vec<_>, _> =
            batch.iter().enumerate().map(|(number, receipt)| entry(number, receipt)).collect();
        let entries = entries.map_err(|error| CloudError::invalid(CALL, "NotSent", error.to_string()))?;
        let call = self.clients.sqs.delete_message_batch().queue_url(url).set_entries(Some(entries));
        let answer = call.send().await.map_err(|error| classify(CALL, Effect::Repeatable, error))?;
        let failed = answer.failed.into_iter().filter_map(|failed| {
            let receipt = batch.get(failed.id.parse::<usize>().ok()?)?;
            let (code, message) = (failed.code, failed.message.unwrap_or_default());
            let error = match failed.sender_fault {
                true => CloudError::Final { call: CALL, code, message },
                false => CloudError::Retryable { call: CALL, code, message },
            };
            Some((receipt.clone(), error))
        });
        Ok(failed.collect())
    }
}

fn entry(
    number: usize,
    receipt: &str,
) -> Result<DeleteMessageBatchRequestEntry, aws_smithy_types::error::operation::BuildError> {
    DeleteMessageBatchRequestEntry::builder().id(number.to_string()).receipt_handle(receipt).build()
}

fn message(message: Message) -> QueueMessage {
    let attributes: BTreeMap<_, _> =
        message.attributes.into_iter().flatten().map(|(name, value)| (name.as_str().to_owned(), value)).collect();
    let sent = attributes.get("SentTimestamp").and_then(|millis| millis.parse().ok());
    QueueMessage {
        body: message.body.unwrap_or_default(),
        receipt: message.receipt_handle.unwrap_or_default(),
        sent: sent.and_then(|millis| Timestamp::from_millisecond(millis).ok()),
    }
}
