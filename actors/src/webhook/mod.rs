//! Keeps the conversion webhook alive. In every replica it reads the Secret with the certificates and has the newest served.
//! In the leader it also makes and changes them, keeps the CustomResourceDefinitions in step, so that v1beta1 is served and
//! converted, and has what is stored as v1beta1 stored as v1. It acts before anything is listed: where objects are stored as
//! v1beta1, nothing can be listed without it. What is to be done, and when, is decided by `dovetail_core::webhook`.
//!
//! A replica reads one Secret every thirty seconds, and every two while it serves nothing. The leader reads three
//! definitions as often as the Secret.
//!
//! At the mailbox's bound: one pass at a time, the next one planned when it has ended.

mod definitions;
mod migration;
mod secret;

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::webhook::definition::WebhookAddress;
use dovetail_core::webhook::kept::{KeptIdentities, ServingIdentity};
use kube::Client;

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::context::identities::Identities;
use crate::context::leader_term::Office;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Observe, WebhookState};
use crate::settings::Settings;
use crate::telemetry::log_event::LogEvent;
use crate::webhook::definitions::Definitions;

pub(crate) use definitions::NAMES as DEFINITIONS;

/// Pause between two passes; a tenth is added by chance.
const PASS_INTERVAL: Duration = Duration::from_secs(30);
/// Shortest pause between passes while nothing is served, or the leader has something left to do.
const SHORTEST_PAUSE: Duration = Duration::from_secs(2);
/// The number of failures after which it is reported, once.
const WORTH_TELLING: u32 = 3;

/// The actor `webhook`: keeps the conversion webhook's certificate and the definitions that name it.
pub struct Webhook {
    env: Env,
    client: Client,
    identities: Arc<dyn Identities>,
    office: Office,
    served: Option<ServingIdentity>,
    /// Memory of the leader about the definitions; taken by the pass that is under way.
    definitions: Option<Definitions>,
    backoff: Backoff,
    rng: fastrand::Rng,
    state: WebhookState,
}

/// Tools of a pass.
struct Pass {
    env: Env,
    calls: Calls,
    place: WebhookAddress,
    identities: Arc<dyn Identities>,
    leads: bool,
    served: Option<ServingIdentity>,
    definitions: Definitions,
}

struct Outcome {
    served: Option<ServingIdentity>,
    definitions: Definitions,
    /// True if the next pass may wait; an error is the obstacle.
    rests: Result<bool, String>,
}

impl Webhook {
    /// At the start of a replica.
    pub fn new(env: &Env, client: Client, identities: Arc<dyn Identities>, office: Office) -> Self {
        let env = env.for_actor("webhook");
        let (backoff, rng) = (Backoff::new(SHORTEST_PAUSE, PASS_INTERVAL, env.rng("passes")), env.rng("ticks"));
        Self {
            env,
            client,
            identities,
            office,
            served: None,
            definitions: Some(Definitions::default()),
            backoff,
            rng,
            state: WebhookState::default(),
        }
    }
}

impl Actor for Webhook {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.begin_pass(ctx);
    }
}

impl Handler<Observe> for Webhook {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.state.clone().into())
    }
}

/// Address of the webhook for an API server, by the settings.
pub fn place(settings: &Settings) -> WebhookAddress {
    if settings.webhook.url.is_empty() {
        return WebhookAddress::Service {
            namespace: settings.system_namespace.clone(),
            name: settings.webhook.service.clone(),
        };
    }
    WebhookAddress::Url(settings.webhook.url.clone())
}

impl Webhook {
    fn begin_pass(&mut self, ctx: &mut Context<Self>) {
        let leader_term = self.office.held();
        let env =
            leader_term.as_ref().map_or_else(|| self.env.clone(), |leader_term| self.env.in_term(leader_term.term()));
        let pass = Pass {
            place: place(&env.settings),
            leads: leader_term.is_some(),
            calls: Calls::new(self.client.clone(), env.clone(), leader_term),
            identities: self.identities.clone(),
            served: self.served.take(),
            definitions: self.definitions.take().unwrap_or_default(),
            env,
        };
        ctx.spawn(pass.run().into_actor(self).map(|outcome, webhook, ctx| webhook.ended(outcome, ctx)));
    }

    fn ended(&mut self, outcome: Outcome, ctx: &mut Context<Self>) {
        let leads = self.office.held().is_some();
        self.state = WebhookState {
            serves_until: outcome.served.as_ref().map(|one| one.until.to_string()),
            definitions: outcome.definitions.standing(),
            migrated: outcome.definitions.migrated,
        };
        let pause = match outcome.rests {
            Ok(rests) => {
                if self.backoff.failures() >= WORTH_TELLING {
                    let (what, attempts) = ("keeping the conversion webhook".to_owned(), self.backoff.failures() + 1);
                    self.env.emit(LogEvent::Recovered { what, attempts });
                }
                self.backoff.reset();
                let waits = outcome.served.is_none() || (leads && !rests);
                if waits { SHORTEST_PAUSE } else { PASS_INTERVAL }
            }
            Err(error) => {
                let pause = self.backoff.pause();
                if self.backoff.failures() == WORTH_TELLING {
                    self.env.emit(LogEvent::Retrying { what: "keeping the conversion webhook".into(), error });
                }
                pause
            }
        };
        (self.served, self.definitions) = (outcome.served, Some(outcome.definitions));
        let pause = pause + pause.mul_f64(self.rng.f64() / 10.0);
        ctx.run_later(pause, Self::begin_pass);
    }
}

impl Pass {
    async fn run(mut self) -> Outcome {
        let rests = self.go().await;
        let rests = match rests {
            // The next leader goes on.
            Err(CallError::Deposed) => Ok(true),
            // Somebody else has written it: what it says now is looked at next time.
            Err(CallError::Conflict(_)) => Ok(false),
            other => other.map_err(|error| error.to_string()),
        };
        Outcome { served: self.served, definitions: self.definitions, rests }
    }

    /// Runs the pass. True if everything is as it should be for now.
    async fn go(&mut self) -> Result<bool, CallError> {
        let Some(kept) = self.certificates().await? else { return Ok(true) };
        self.serve(&kept)?;
        if !self.leads {
            return Ok(true);
        }
        let trusted = self.trust(&kept.bundle()).await?;
        self.store_anew(trusted).await
    }

    /// Has what the Secret says served from now on.
    fn serve(&mut self, kept: &KeptIdentities) -> Result<(), CallError> {
        let now = self.env.wall();
        let names = self.place.names();
        let Some(new) = kept.serving.as_ref().filter(|one| Some(*one) != self.served.as_ref()) else { return Ok(()) };
        if !self.identities.is_sound(new, &names, now) {
            return Ok(());
        }
        self.identities.serve(new).map_err(CallError::Refused)?;
        self.served = Some(new.clone());
        self.env.emit(LogEvent::WebhookServes { until: new.until.to_string(), names: names.join(", ") });
        Ok(())
    }
}
