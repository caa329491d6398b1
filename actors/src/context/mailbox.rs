//! Mailboxes have bounds, and what happens there is one rule: nothing is lost, and it is counted. Whoever sends does not wait, since
//! most of what is sent are facts of a watch that nobody says twice. A mailbox that stays full belongs to an actor
//! that does not answer when it is asked how it is, which ends the process after a minute (`silent` in [`crate::leadership::control_plane`]).
//! docs/decisions/021 has the reasons.

use actix::dev::{RecipientRequest, ToEnvelope};
use actix::prelude::*;

use crate::context::env::Env;
use crate::telemetry::measure::Measure;

/// Messages that a mailbox takes before it counts as full.
pub const BOUND: usize = 1024;

/// An address that takes messages of one kind.
pub trait Mailbox<M>
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    /// Puts it in within the bound.
    fn offer(&self, message: M) -> Result<(), SendError<M>>;
    /// Puts it in beyond the bound.
    fn force(&self, message: M);
    /// Puts it in; what it comes to is the answer.
    fn ask(&self, message: M) -> RecipientRequest<M>;
}

impl<M> Mailbox<M> for Recipient<M>
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn offer(&self, message: M) -> Result<(), SendError<M>> {
        self.try_send(message)
    }

    fn force(&self, message: M) {
        self.do_send(message);
    }

    fn ask(&self, message: M) -> RecipientRequest<M> {
        self.send(message)
    }
}

impl<A, M> Mailbox<M> for Addr<A>
where
    A: Actor<Context = Context<A>> + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn offer(&self, message: M) -> Result<(), SendError<M>> {
        self.try_send(message)
    }

    fn force(&self, message: M) {
        self.do_send(message);
    }

    fn ask(&self, message: M) -> RecipientRequest<M> {
        self.clone().recipient().send(message)
    }
}

impl Env {
    /// Sends a message. Beyond the mailbox's bound it is delivered all the same, and counted; an actor that has ended hears nothing.
    pub fn post<M>(&self, to: &impl Mailbox<M>, message: M)
    where
        M: Message + Send + 'static,
        M::Result: Send,
    {
        if let Err(SendError::Full(message)) = to.offer(message) {
            self.measure(&Measure::MailboxFull { sender: self.actor, message: name_of::<M>() });
            to.force(message);
        }
    }
}

/// A type's name without its path.
fn name_of<M>() -> &'static str {
    let path = std::any::type_name::<M>();
    let own = path.split('<').next().unwrap_or(path);
    own.rsplit("::").next().unwrap_or(own)
}
