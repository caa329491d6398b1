//! A request's way through the region.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};

use crate::detached::detached;
use crate::faults::{Direction, RequestOutcome, Service, Way};
use crate::log::Caller;
use crate::region::wire::answer::{self, AwsAnswer};
use crate::region::wire::call::{AwsCall, AwsService, Parameters};
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::{
    Cx, Region, actions::ec2, ids, services::eks, services::iam, services::pricing, services::savings_plans,
    services::sqs, services::ssm, services::sts, services::zonal_shift,
};

/// Longest wait of a caller without a time-out of its own for an answer that never comes.
const GIVE_UP: Duration = Duration::from_secs(60);

/// A call on its way.
struct Sent {
    who: Caller,
    call: AwsCall,
    outcome: RequestOutcome,
    started: Option<(&'static str, Value)>,
}

impl Region {
    /// Answers one request of an AWS client. It takes as long as such a request takes, and what the faults say befalls
    /// it; a response marked [`crate::region::ConnectionLost`] stands for a connection that broke.
    pub async fn handle(&self, who: Caller, request: Request<Bytes>) -> Response<Bytes> {
        let Some(call) = AwsCall::from_request(&request) else { return answer::not_understood() };
        let started = self.start_of(&who, &call);
        let verdict = self.faults().verdict(service_of(call.api), who.replica);
        if verdict.outcome == RequestOutcome::Unreachable {
            self.note_fault(&who, &call, "unreachable");
            tokio::time::sleep(GIVE_UP).await;
            return answer::lost();
        }
        let way = Way::from_shares(verdict.latency + self.with(|cx| cx.usual_latency(&call)), 0.25, 0.25);
        tokio::time::sleep(way.there).await;
        let sent = Sent { who, call, outcome: verdict.outcome, started };
        let (sent, result) = if sent.call.action == "ReceiveMessage" {
            // Whoever waits for messages and goes away gets none.
            self.carry_out(sent, way.inside).await
        } else {
            // From here on it is the service's: should its sender be stopped, or killed, it is carried out all the same.
            let region = self.clone();
            let done = detached(async move { region.carry_out(sent, way.inside).await }).await;
            let Some(done) = done else { return answer::lost() };
            done
        };
        tokio::time::sleep(way.back).await;
        self.hand_over(&sent.who, &sent.call, &result, sent.outcome).await
    }

    async fn carry_out(&self, mut sent: Sent, inside: Duration) -> (Sent, Result<AwsAnswer, AwsError>) {
        tokio::time::sleep(inside + self.faults().slowness_of(&sent.call.action)).await;
        let Sent { who, call, outcome, started } = &mut sent;
        let (result, mut notes) = match outcome {
            RequestOutcome::Fail => (Err(AwsError::internal(call.api.protocol())), Vec::new()),
            RequestOutcome::Throttle => (Err(AwsError::throttled(call.api.protocol())), Vec::new()),
            _ if self.with(|cx| cx.is_throttled(call.api, &call.action, call.instances())) => {
                (Err(AwsError::throttled(call.api.protocol())), Vec::new())
            }
            _ => self.act(call).await,
        };
        let code = result.as_ref().err().map_or("OK", |error| error.code.as_str());
        notes.extend(started.take());
        self.note(who, call, code, notes);
        (sent, result)
    }

    /// Gives the answer to the caller, or lets it get lost: also when a partition began while the call was carried out.
    async fn hand_over(
        &self,
        who: &Caller,
        call: &AwsCall,
        result: &Result<AwsAnswer, AwsError>,
        outcome: RequestOutcome,
    ) -> Response<Bytes> {
        let cut = self.faults().partitioned(who.replica, service_of(call.api));
        let swallowed = matches!(outcome, RequestOutcome::SwallowAnswer | RequestOutcome::Late)
            || matches!(cut, Some(Direction::In | Direction::Both));
        if swallowed {
            self.note_fault(who, call, "answerSwallowed");
            tokio::time::sleep(GIVE_UP).await;
        }
        if swallowed || outcome == RequestOutcome::LoseAnswer {
            if !swallowed {
                self.note_fault(who, call, "answerLost");
            }
            return answer::lost();
        }
        let request_id = self.with(|cx| ids::uuid(&mut cx.state.request_ids));
        answer::render(call, result, &request_id)
    }

    async fn act(&self, call: &AwsCall) -> (Result<AwsAnswer, AwsError>, Vec<(&'static str, Value)>) {
        match &call.parameters {
            Parameters::Json(body) if call.api == AwsService::Sqs && call.action == "ReceiveMessage" => {
                if let Err(error) = self.with(|cx| cx.error_of_call(&call.action, false)) {
                    return (Err(error), Vec::new());
                }
                match sqs::receive(self, body).await {
                    Ok((answer, notes)) => (Ok(AwsAnswer::Json(answer)), notes),
                    Err(error) => (Err(error), Vec::new()),
                }
            }
            Parameters::Json(body) => {
                self.with(|cx| (cx.act_json(call, body).map(AwsAnswer::Json), std::mem::take(&mut cx.notes)))
            }
            Parameters::Form(form) => {
                self.with(|cx| (cx.act_form(call, form).map(AwsAnswer::Xml), std::mem::take(&mut cx.notes)))
            }
        }
    }

    /// Time and term in which a launch was sent: it may be on its way for long.
    fn start_of(&self, who: &Caller, call: &AwsCall) -> Option<(&'static str, Value)> {
        let log = &self.shared.log;
        let micros = (log.seconds() * 1e6).round() / 1e6;
        let term = who.replica.and_then(|replica| log.term_of(replica));
        (call_name(call) == "CreateFleet").then(|| ("sent", json!({"t": micros, "term": term})))
    }

    fn note(&self, who: &Caller, call: &AwsCall, result: &str, notes: Vec<(&'static str, Value)>) {
        let result_of_call: serde_json::Map<String, Value> =
            notes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let fields = [
            ("service", Value::from(call.api.name())),
            ("action", Value::from(call_name(call))),
            ("parameters", call.brief()),
            ("code", Value::from(result)),
            ("result", Value::Object(result_of_call)),
        ];
        self.shared.log.append("aws", who, fields);
    }

    /// Logs what befell a call on its way.
    fn note_fault(&self, who: &Caller, call: &AwsCall, what: &str) {
        let fields = [
            ("what", Value::from(what)),
            ("service", Value::from(call.api.name())),
            ("action", Value::from(call_name(call))),
        ];
        self.shared.log.append("fault", who, fields);
    }
}

impl Cx<'_> {
    fn act_form(&mut self, call: &AwsCall, form: &FormNode) -> Result<crate::region::wire::xml::Xml, AwsError> {
        self.error_of_call(&call.action, form.flag("DryRun"))?;
        match call.api {
            AwsService::Ec2 => ec2::act(self, &call.action, form),
            AwsService::Iam => iam::act(self, &call.action, form),
            AwsService::Sts => sts::act(self, &call.action, form),
            _ => Err(AwsError::unknown_action(&call.action)),
        }
    }

    fn act_json(&mut self, call: &AwsCall, body: &Value) -> Result<Value, AwsError> {
        self.error_of_call(&call.action, false)?;
        match call.api {
            AwsService::Sqs => sqs::act(self, &call.action, body),
            AwsService::Ssm => ssm::act(self, &call.action, body),
            AwsService::Pricing => pricing::act(self, &call.action, body),
            AwsService::Eks => eks::act(self, &call.action, body),
            AwsService::SavingsPlans => savings_plans::act(self, &call.action, body),
            AwsService::ZonalShift => zonal_shift::act(self, &call.action, body),
            _ => Err(AwsError::unknown_action(&call.action)),
        }
    }

    /// Usual time that such a request takes, give or take a quarter: of the order that AWS shows, on the quick side.
    fn usual_latency(&mut self, call: &AwsCall) -> Duration {
        let dry_run = is_dry_run(call);
        let millis = match (call.api, call.action.as_str()) {
            (AwsService::Ec2, _) if dry_run => 60,
            (AwsService::Ec2, "CreateFleet" | "RunInstances") => 600,
            (AwsService::Ec2, action) if action.starts_with("Describe") => 40,
            (AwsService::Ec2, _) => 150,
            (AwsService::Iam, _) => 80,
            (AwsService::Pricing | AwsService::SavingsPlans | AwsService::ZonalShift, _) => 50,
            (AwsService::Sqs, _) => 10,
            (AwsService::Ssm | AwsService::Eks | AwsService::Sts, _) => 20,
        };
        let usual = Duration::from_millis(millis);
        self.state.delay(usual * 3 / 4, usual * 5 / 4)
    }
}

fn is_dry_run(call: &AwsCall) -> bool {
    matches!(&call.parameters, Parameters::Form(form) if form.flag("DryRun"))
}

/// Name of a request in the log: a launch that is not carried out is none.
fn call_name(call: &AwsCall) -> String {
    let launch = matches!(call.action.as_str(), "CreateFleet" | "RunInstances");
    if launch && is_dry_run(call) { format!("{} (dry run)", call.action) } else { call.action.clone() }
}

fn service_of(api: AwsService) -> Service {
    if api == AwsService::Sqs { Service::Sqs } else { Service::Ec2 }
}
