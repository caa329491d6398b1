//! Tells of objects that cannot be read: each once, at ERROR, and by an event on the object itself.

use std::time::Duration;

use dovetail_core::cluster_state::Unreadable;
use dovetail_core::say_once::SayOnce;

use crate::context::env::Env;
use crate::messages::{Record, reference};
use crate::telemetry::log_event::LogEvent;

/// The event's reason.
pub const REASON: &str = "Unreadable";
/// An event says the same no sooner again.
pub const REPEAT_INTERVAL: Duration = Duration::from_secs(3600);
/// Most objects that the log names within [`WINDOW`], so that thousands of them do not fill it. All are counted.
const MOST_NAMED: usize = 100;
const WINDOW: Duration = Duration::from_secs(60);
/// Most objects that are remembered as named.
const MOST_REMEMBERED: usize = 10_000;

/// Memory of the reports about unreadable objects.
#[derive(Debug)]
pub struct Reports {
    /// Reason for each object that was named, by uid.
    named: SayOnce<String, String>,
    /// Start of the window, and the number of objects named in it.
    window: (Duration, usize),
}

impl Default for Reports {
    fn default() -> Self {
        Self { named: SayOnce::with_bound(MOST_REMEMBERED), window: (Duration::ZERO, 0) }
    }
}

impl Reports {
    /// Names an object in the log, unless that has been done. Answers whether it is news.
    pub fn note(&mut self, env: &Env, object: &Unreadable) -> bool {
        let uid = object.metadata.uid.clone().unwrap_or_else(|| object.full_name());
        if !self.named.is_news(uid, object.why.clone()) {
            return false;
        }
        let now = env.now();
        if now.saturating_sub(self.window.0) >= WINDOW {
            self.window = (now, 0);
        }
        self.window.1 += 1;
        if self.window.1 <= MOST_NAMED {
            log(env, object);
        }
        self.window.1 <= MOST_NAMED
    }
}

/// Names an object in the log.
fn log(env: &Env, object: &Unreadable) {
    env.emit(LogEvent::Unreadable {
        resource: object.kind.clone(),
        object: object.full_name(),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        why: object.why.clone(),
    });
}

/// The event on an object.
pub fn event(object: &Unreadable) -> Record {
    let message = format!("{} cannot be read and is not used: {}", object.kind, object.why);
    let meta = &object.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name, uid) = (text(&meta.namespace), text(&meta.name), text(&meta.uid));
    let reference = reference(&object.api_version, &object.kind, &namespace, &name, &uid);
    Record::warning(reference, REASON, message).quiet_for(REPEAT_INTERVAL)
}
