//! Handlers of the watches on alpha kinds, and of questions to the actor.

use actix::prelude::*;
use dovetail_api::v1alpha1::AWSNodeTemplate;
use dovetail_api::v1alpha5::{Machine, Provisioner};

use super::{Seen, SeenUnreadable, Translator};
use crate::messages::{Came, Observe, TranslatorState};

impl Handler<Seen<Provisioner>> for Translator {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<Provisioner>, ctx: &mut Self::Context) {
        self.unread.heard(&event, "Provisioner");
        self.provisioners.apply(event);
        self.touch(ctx);
    }
}

impl Handler<Seen<AWSNodeTemplate>> for Translator {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<AWSNodeTemplate>, ctx: &mut Self::Context) {
        self.unread.heard(&event, "AWSNodeTemplate");
        self.templates.apply(event);
        self.touch(ctx);
    }
}

impl Handler<Seen<Machine>> for Translator {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<Machine>, ctx: &mut Self::Context) {
        self.unread.heard(&event, "Machine");
        self.machines.apply(event);
        self.touch(ctx);
    }
}

impl Handler<SeenUnreadable> for Translator {
    type Result = ();

    /// Forgets the last readable version; the objects made from it stay as they were.
    fn handle(&mut self, SeenUnreadable(object, came): SeenUnreadable, ctx: &mut Self::Context) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let key = format!("{}/{name}", object.kind);
        match object.kind.as_str() {
            "Provisioner" => self.provisioners.forget(&name),
            "AWSNodeTemplate" => self.templates.forget(&name),
            _ => self.machines.forget(&name),
        }
        match came {
            Came::Gone => self.unread.remove(&key),
            Came::Listed | Came::Changed => self.unread.insert(key, *object),
        }
        self.touch(ctx);
    }
}

impl Handler<Observe> for Translator {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let state = TranslatorState {
            watched: self.watched.iter().cloned().collect(),
            reported: self.reported.iter().map(|(source, text)| (source.display_name(), text.clone())).collect(),
            unreadable: self.unread.keys().map(str::to_owned).collect(),
        };
        MessageResult(state.into())
    }
}
