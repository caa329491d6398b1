//! Ownership of the instances that a launch has made or found, and launch tokens that are not the claim's own.

use std::sync::Arc;

use dovetail_api::names::annotations;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::Instance;
use dovetail_core::ownership::{OwnershipMarks, has_foreign_token};
use dovetail_core::say_once::SayOnce;
use kube::ResourceExt;

use crate::launcher::launch::Launching;
use crate::messages::{InstanceKnown, Record};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

impl Launching {
    /// True if an instance that was found is the claim's, by its tags; then it need not be looked up again. If it is not, that is
    /// reported, unless it was `said` before, as a launch looks every two seconds.
    pub fn is_own(&self, claim: &NodeClaim, found: &Instance, said: &mut SayOnce<String>) -> bool {
        let cluster = self.env.cluster(&*self.links.cloud);
        let marks = OwnershipMarks::new(&cluster, &found.tags, &found.private_dns_name);
        match marks.is_of(claim) {
            Ok(_) => {
                self.known_to_be(&found.id, marks);
                true
            }
            Err(why) => {
                let (node_claim, instance) = (claim.name_any(), found.id.clone());
                let (reason, error) = (why.reason().to_owned(), why.to_string());
                // By the reason too: that an instance is not the claim's for another reason is news.
                if !said.is_news(format!("{instance} {error}"), ()) {
                    return false;
                }
                self.env.emit_in(LogEvent::InstanceNotOwned { node_claim, instance, reason, error }, self.trace);
                false
            }
        }
    }

    /// Tells of a launch token that is another claim's, unless it was `said`: nothing is adopted by it.
    pub fn tell_foreign_token(&self, claim: &NodeClaim, said: &mut SayOnce<String>) {
        let Some(token) = claim.annotations().get(annotations::LAUNCH_TOKEN).filter(|_| has_foreign_token(claim))
        else {
            return;
        };
        if !said.is_news(token.clone(), ()) {
            return;
        }
        let message = format!("Launch token {token} is not made from this NodeClaim's uid, and is ignored");
        let record = Record::warning(object::claim(claim), "LaunchTokenNotOwned", message);
        self.env.post(&self.links.recorder, record);
        let (node_claim, token) = (claim.name_any(), token.clone());
        self.env.emit_in(LogEvent::TokenNotOwned { node_claim, token }, self.trace);
    }

    /// Says whose an instance is, so that it need not be looked up.
    pub fn known_to_be(&self, id: &str, marks: OwnershipMarks) {
        self.env.post(&self.links.owner, InstanceKnown { id: id.to_owned(), marks: Some(Arc::new(marks)) });
    }
}
