//! The answer for a person. Every line is made harmless for the terminal at the end.

use dovetail_core::explain::{
    BudgetNow, ClaimAnswer, ConditionNow, MethodVerdict, NodeAnswer, PodAnswer, PodVerdict, PoolAnswer, Suggestion,
};
use dovetail_core::pack::PoolReason;
use jiff::Timestamp;

use super::{Answer, Explanation};
use crate::live::escape::escape_lines;

pub(super) fn render(found: &Explanation) -> String {
    let mut lines = Lines { all: Vec::new(), now: found.at };
    match &found.answer {
        Answer::Pod(answer) => lines.pod(answer),
        Answer::Node(answer) => lines.node(answer),
        Answer::NodeClaim(answer) => lines.claim(answer),
        Answer::NodePool(answer) => lines.pool(answer),
    }
    lines.blank();
    lines.say(0, format!("Settings: {}. Instance types and prices: {}.", found.settings_from, found.offers_from));
    if !found.missing.is_empty() {
        lines.say(0, "Not read, so the answer is without it:".to_owned());
        found.missing.iter().for_each(|one| lines.say(1, format!("{}: {}", one.what, one.why)));
    }
    escape_lines(&lines.all)
}

struct Lines {
    all: Vec<String>,
    now: Timestamp,
}

impl Lines {
    fn say(&mut self, depth: usize, text: String) {
        self.all.push(format!("{}{text}", "  ".repeat(depth)));
    }

    fn blank(&mut self) {
        self.all.push(String::new());
    }

    /// A field with its name, unless it is empty.
    fn field(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.say(1, format!("{name:<14} {value}"));
        }
    }

    fn age(&self, since: Option<Timestamp>) -> String {
        since.map(|since| format!("{since:.0}, {} ago", ago(since, self.now))).unwrap_or_default()
    }

    fn pod(&mut self, answer: &PodAnswer) {
        let head = match &answer.verdict {
            PodVerdict::Bound { .. } => "has a node",
            PodVerdict::Over => "needs no node any more",
            PodVerdict::NotForNodes => "waits for something else than a node",
            PodVerdict::Placed { .. } => "gets a node",
            PodVerdict::Unschedulable => "gets no node",
        };
        self.say(0, format!("Pod {} {head}", answer.pod));
        self.field("created", &self.age(answer.created));
        if let Some(awaited) = &answer.waits_for {
            let since = awaited.since.map(|since| format!(" for {}", ago(since, self.now))).unwrap_or_default();
            self.field("waits", &format!("for nodeclaim {}{since}: {}", awaited.claim, awaited.waits_for));
        }
        match answer.pools.as_slice() {
            [] => self.field("reason", &answer.sentence),
            pools => pools.iter().for_each(|pool| self.pool_reason(pool)),
        }
        if let Some(words) = &answer.scheduler {
            self.field("kube-scheduler", words);
        }
        if !answer.changes.is_empty() {
            self.blank();
            let many = answer.changes.len() > 1;
            let head = if many { "Any one of these lets it run:" } else { "The smallest change that lets it run:" };
            self.say(0, head.to_owned());
            answer.changes.iter().for_each(|one| self.suggestion(one));
        } else if !answer.remedy.is_empty() {
            self.blank();
            self.say(0, format!("To end that, {}.", answer.remedy));
        }
    }

    /// The rule in the way, and what each rule before it took.
    fn pool_reason(&mut self, reason: &PoolReason) {
        self.say(1, format!("nodepool {}: {}", reason.pool, reason.detail));
        let mut left = reason.instance_types;
        for removed in &reason.removed {
            left = left.saturating_sub(removed.instance_types);
            let (rule, taken) = (removed.rule.name(), removed.instance_types);
            self.say(2, format!("{rule:<18}takes {taken} instance type(s), {left} left"));
        }
        if reason.removed.is_empty() {
            self.say(2, format!("rule: {}; it has {} instance type(s)", reason.rule.name(), reason.instance_types));
        }
    }

    fn suggestion(&mut self, one: &Suggestion) {
        self.say(1, format!("- {}", one.sentence));
        self.say(2, format!("then {}", one.then.sentence()));
    }

    fn node(&mut self, answer: &NodeAnswer) {
        let price =
            answer.price.map_or_else(|| "its price is not known".to_owned(), |price| format!("${price:.4} an hour"));
        self.say(0, format!("Node {}", answer.node));
        let machine = [&answer.instance_type, &answer.capacity_type, &answer.zone, &answer.instance];
        let machine: Vec<&str> = machine.into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        self.field("machine", &machine.join(", "));
        let overlaid = answer.overlaid_price.map(|price| format!("; weighed at ${price:.4} by nodeoverlays"));
        self.field("costs", &(price + &overlaid.unwrap_or_default()));
        self.field("nodepool", &answer.pool);
        self.field("created", &self.age(answer.created));
        let ready = if answer.ready { "Ready" } else { "not Ready" };
        let own = answer.pods.saturating_sub(answer.visitors);
        self.field("state", &format!("{ready}, {} pod(s), {own} of them a DaemonSet's or its own", answer.pods));
        self.blank();
        self.say(0, "Why it exists:".to_owned());
        answer.exists.iter().for_each(|one| self.say(1, format!("- {one}")));
        self.blank();
        if let Some(why) = &answer.going {
            self.say(0, format!("It is going: {why}"));
        } else if !answer.methods.is_empty() {
            self.say(0, "Why it stays:".to_owned());
        }
        for one in &answer.methods {
            let verdict = match one.verdict {
                MethodVerdict::Goes => "goes",
                MethodVerdict::Stays => "stays",
                MethodVerdict::Later => "later",
            };
            self.say(1, format!("{:<14} {verdict:<6} {}", one.method, one.why));
            if !one.set.is_empty() {
                self.say(12, format!("to change that: {}", one.set));
            }
        }
        if !answer.drain.is_empty() {
            self.blank();
            self.say(0, "What its drain waits for:".to_owned());
        }
        for one in &answer.drain {
            self.say(1, format!("- {}", one.why));
            if !one.remedy.is_empty() {
                self.say(2, format!("to end that, {}", one.remedy));
            }
        }
    }

    fn claim(&mut self, answer: &ClaimAnswer) {
        let stage = answer.stage.map_or_else(|| "not launched".to_owned(), |stage| format!("{stage:?}"));
        self.say(0, format!("NodeClaim {}: {stage}", answer.claim));
        self.field("waits for", &answer.waits_for);
        self.field("given up at", &answer.given_up_at.map(|at| format!("{at:.0}")).unwrap_or_default());
        let machine = [&answer.instance_type, &answer.capacity_type, &answer.zone, &answer.instance];
        let machine: Vec<&str> = machine.into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        self.field("machine", &machine.join(", "));
        self.field("nodepool", &answer.pool);
        self.field("node", &answer.node);
        self.field("created", &self.age(answer.created));
        self.field("trace", &answer.trace_id);
        self.field("launched for", &answer.pods.join(", "));
        self.conditions(&answer.conditions);
    }

    fn conditions(&mut self, all: &[ConditionNow]) {
        if all.is_empty() {
            return;
        }
        self.blank();
        self.say(0, "Conditions:".to_owned());
        for one in all {
            let words = if one.message.is_empty() { String::new() } else { format!(": {}", one.message) };
            let ago = ago(one.since, self.now);
            self.say(1, format!("{}={} for {ago} ({}){words}", one.type_, one.status, one.reason));
        }
    }

    fn pool(&mut self, answer: &PoolAnswer) {
        self.say(0, format!("NodePool {}", answer.pool));
        self.field("class", &answer.node_class);
        self.field("nodes", &format!("{}, and {} coming; ${:.4} an hour", answer.nodes, answer.coming, answer.price));
        if let Some(replicas) = &answer.replicas {
            self.field("replicas", &replicas.sentence);
        }
        match (&answer.left_out, &answer.launches, &answer.launches_nothing) {
            (Some(why), ..) => self.field("launches", &format!("nothing: it is left out: {why}")),
            (None, Some(place), _) => self.field("launches", &format!("for a small pod {}", place.sentence())),
            (None, None, Some(reason)) => {
                self.field("launches", "nothing");
                self.pool_reason(reason);
            }
            (None, None, None) => self.field("launches", "nothing that is known"),
        }
        if answer.limits.is_empty() {
            self.field("limits", "none");
        }
        for one in &answer.limits {
            let text = format!("{} {} of {} used, {} left", one.resource, one.used, one.limit, one.left);
            self.field("limit", &text);
        }
        answer.budgets.iter().for_each(|one| self.budget(one));
        answer.held_back.iter().for_each(|one| self.field("held back", one));
        answer.mistakes.iter().for_each(|one| self.field("mistake", one));
        self.conditions(&answer.conditions);
    }

    fn budget(&mut self, one: &BudgetNow) {
        let count = |nodes: Option<usize>| nodes.map_or_else(|| "any number of".to_owned(), |nodes| nodes.to_string());
        let next = one.changes_at.map(|at| format!("; {} from {at:.0}", count(one.nodes_then))).unwrap_or_default();
        let text = format!("{} node(s) for {}, {} going now{next}", count(one.nodes), one.reason, one.disrupting);
        self.field("budget", &text);
    }
}

/// A length of time in its two largest units, as `2h5m`.
fn ago(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m{}s", seconds / 60, seconds % 60),
        7_200..172_800 => format!("{}h{}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_two_units_and_never_negative() {
        let at = |second: i64| Timestamp::from_second(second).unwrap_or_default();
        let told = [0, 119, 125, 7_500, 180_000].map(|second| ago(at(0), at(second)));
        assert_eq!(told, ["0s", "119s", "2m5s", "2h5m", "2d2h"]);
        assert_eq!(ago(at(9), at(0)), "0s");
    }
}
