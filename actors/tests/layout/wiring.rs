//! Table of senders and takers, held to the source: senders make a message, takers have a `Handler` for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{is_word, production, room, text, word};
use crate::table::{Row, rows};

/// Names by the message that they send or take.
type ByMessage = BTreeMap<String, BTreeSet<String>>;

/// The actor that a file belongs to; none where it is of a room below the actors.
fn actor(path: &str) -> Option<&str> {
    match (path, room(path)) {
        ("leadership/leader.rs" | "leadership/leader/calls.rs" | "leadership/lease_object.rs", _) => Some("leader"),
        // It starts the leader's actors by way of `wiring`.
        ("wiring.rs", _) | (_, "leadership") => Some("control_plane"),
        (_, "messages" | "links" | "context" | "telemetry" | "settings" | "reading" | "kube" | "cloud" | "lib") => None,
        (_, room) => Some(room),
    }
}

/// The messages between actors, by their declarations.
fn messages(files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (_, text) in files.iter().filter(|(path, _)| room(path) == "messages" || *path == "leadership/messages.rs") {
        all.extend(text.split("impl Message for ").skip(1).map(|rest| word(rest).to_owned()));
        for derived in text.split("#[derive(").skip(1) {
            let (traits, rest) = derived.split_once(')').unwrap();
            if traits.split(", ").any(|one| one == "Message") {
                let (_, declared) = rest.split_once("pub ").unwrap();
                let (_, name) = declared.split_once(' ').unwrap();
                all.insert(word(name).to_owned());
            }
        }
    }
    all
}

/// Actors with a handler, by message.
fn takers(files: &BTreeMap<String, String>, messages: &BTreeSet<String>) -> ByMessage {
    let mut all = ByMessage::new();
    for (path, text) in files {
        for message in text.split("Handler<").skip(1).map(word).filter(|message| messages.contains(*message)) {
            let actor = actor(path).unwrap_or_else(|| panic!("{path} is no actor's, and handles {message}"));
            all.entry(message.to_owned()).or_default().insert(actor.to_owned());
        }
    }
    all
}

/// The messages that a text imports.
fn imported(text: &str) -> BTreeSet<&str> {
    let imports = text.split("messages::").skip(1).map(|rest| rest.split(';').next().unwrap());
    imports.flat_map(|names| names.split(|c| !is_word(c))).collect()
}

/// The names that a text makes values of: not those that it imports, takes or states as a type.
fn made(text: &str) -> BTreeSet<&str> {
    let mut all = BTreeSet::new();
    let mut parts = text.split("fn handle(");
    let first = parts.next().into_iter();
    // A handler may take apart the messages that it names.
    for statement in first
        .chain(parts.map(behind_parameters))
        .flat_map(|part| part.split_inclusive(';'))
        .filter(|one| !is_import(one))
    {
        let mut at = 0;
        while let Some(found) = statement[at..].find(is_word) {
            let start = at + found;
            let name = word(&statement[start..]);
            at = start + name.len();
            if name.starts_with(char::is_uppercase) && is_value(&statement[..start], &statement[at..]) {
                all.insert(name);
            }
        }
    }
    all
}

/// Text after a function's parameters.
fn behind_parameters(text: &str) -> &str {
    behind_group(text, 1)
}

/// Text after a group of brackets of which `open` are open already.
fn behind_group(text: &str, mut open: i32) -> &str {
    let end = text.find(|c| {
        open += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        open == 0
    });
    end.map_or("", |end| &text[end + 1..])
}

fn is_import(statement: &str) -> bool {
    let code = statement.trim_start();
    code.starts_with("use ") || code.starts_with("pub use ") || code.starts_with("pub(crate) use ")
}

/// True if a name between these is a value: not part of a path, nor a type, a declaration, or one side of a comparison.
fn is_value(before: &str, after: &str) -> bool {
    let before = before.trim_end();
    let last = before.rsplit(|c| !is_word(c)).next().unwrap();
    let declared = ["for", "impl", "struct", "enum", "type", "dyn"].contains(&last);
    !before.ends_with([':', '<', '&', '>'])
        && !before.ends_with("==")
        && !declared
        && !after.starts_with('>')
        && !is_pattern(after)
}

/// True if the text after a name makes it a pattern of a `match` or a `let`.
fn is_pattern(after: &str) -> bool {
    let mut rest = after;
    while let Some(part) = rest.strip_prefix("::") {
        rest = &part[word(part).len()..];
    }
    rest = rest.trim_start();
    if rest.starts_with(['(', '{']) {
        rest = behind_group(rest, 0).trim_start();
    }
    rest.starts_with("=>") || rest.starts_with("= ") || rest.starts_with("| ") || rest.starts_with("if ")
}

/// Actors that make a message, by message.
fn senders(files: &BTreeMap<String, String>, messages: &BTreeSet<String>) -> ByMessage {
    let mut all = ByMessage::new();
    for (path, text) in files {
        let Some(actor) = actor(path).filter(|_| *path != "leadership/messages.rs") else { continue };
        for message in made(text).intersection(&imported(text)).filter(|name| messages.contains(**name)) {
            all.entry((*message).to_owned()).or_default().insert(actor.to_owned());
        }
    }
    all
}

/// Differences between the table and the source.
fn differences(rows: &[Row], messages: &BTreeSet<String>, senders: &ByMessage, takers: &ByMessage) -> Vec<String> {
    let none = BTreeSet::new();
    let of = |all: &ByMessage, message: &str| all.get(message).unwrap_or(&none).clone();
    let mut wrong = Vec::new();
    for message in messages {
        let stated = |cell: fn(&Row) -> &BTreeSet<String>| {
            rows.iter().filter(|row| row.messages.contains(message)).flat_map(|row| cell(row).clone()).collect()
        };
        let (from, to): (BTreeSet<String>, BTreeSet<String>) = (stated(|row| &row.from), stated(|row| &row.to));
        let (makes, takes) = (of(senders, message), of(takers, message));
        wrong.extend(takes.difference(&to).map(|one| format!("no row has {message} to {one}, which handles it")));
        wrong
            .extend(to.difference(&takes).map(|one| format!("a row has {message} to {one}, which does not handle it")));
        wrong.extend(makes.difference(&from).map(|one| format!("no row has {message} from {one}, which makes it")));
        wrong.extend(
            from.difference(&makes).map(|one| format!("a row has {message} from {one}, which does not make it")),
        );
    }
    let stated: BTreeSet<_> = rows.iter().flat_map(|row| row.messages.clone()).collect();
    wrong.extend(stated.difference(messages).map(|one| format!("a row has {one}, which is no message")));
    wrong
}

#[test]
fn the_wiring_table_has_every_sender_and_every_handler() {
    let files = production();
    let messages = messages(&files);
    let (senders, takers) = (senders(&files, &messages), takers(&files, &messages));
    let rows = rows(&text("wiring.rs"));
    assert!(messages.len() > 40 && rows.len() > 20 && takers.len() == messages.len(), "something is not read");
    let wrong = differences(&rows, &messages, &senders, &takers);
    assert!(wrong.is_empty(), "actors/src/wiring.rs, at its head:\n{}", wrong.join("\n"));
}

#[test]
fn rooms_below_the_actors_send_nothing() {
    for (path, text) in production() {
        let sends = [".post(&", ".do_send("].iter().any(|call| text.contains(call));
        assert!(actor(&path).is_some() || path == "context/mailbox.rs" || !sends, "{path} sends");
    }
}

#[test]
fn a_message_that_is_made_is_told_from_one_that_is_named() {
    let text = "use crate::messages::{Launch, Plan};\nstruct A { own: Recipient<Fails>, one: Remove }\nimpl Handler<Taken> for B {}\n\
                fn handle(&mut self, Apart(a, _): Apart, ctx: &mut C) {}\n\
                fn f(x: &Seen) -> Gone { post(&to, Batch { pods }); send(TakeIt); Wrote::Claim(1); Story::Elected { a } }\n\
                fn g() { let Open { a } = b; match c { Shut::By(d) => {} } if e == Equal::One {} }";
    let made = made(text);
    for message in ["Batch", "TakeIt", "Wrote"] {
        assert!(made.contains(message), "{message}: {made:?}");
    }
    for other in
        ["Launch", "Plan", "Fails", "Remove", "Taken", "Apart", "Seen", "Gone", "Elected", "Open", "Shut", "Equal"]
    {
        assert!(!made.contains(other), "{other}: {made:?}");
    }
}

#[test]
fn what_a_table_lacks_or_makes_up_is_found() {
    let set = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<BTreeSet<_>>();
    let by =
        |all: &[(&str, &[&str])]| all.iter().map(|(one, who)| ((*one).to_owned(), set(who))).collect::<ByMessage>();
    let row =
        |from: &str, message: &str, to: &str| Row { from: set(&[from]), messages: set(&[message]), to: set(&[to]) };
    let (senders, takers) = (by(&[("M", &["a"])]), by(&[("M", &["b"])]));
    let judged = |rows: &[Row]| differences(rows, &set(&["M"]), &senders, &takers);
    assert_eq!(judged(&[row("a", "M", "b")]), [""; 0]);
    assert_eq!(judged(&[]).len(), 2, "neither a sender nor a handler");
    assert_eq!(judged(&[row("a", "M", "b"), row("c", "M", "b")]), ["a row has M from c, which does not make it"]);
    assert_eq!(judged(&[row("a", "M", "b"), row("a", "M", "c")]), ["a row has M to c, which does not handle it"]);
    assert_eq!(judged(&[row("a", "M", "b"), row("a", "N", "b")]), ["a row has N, which is no message"]);
}
