//! Events of which what they announce is written down, or is being written: an event that comes twice is known.

use std::collections::{BTreeMap, VecDeque};

/// Written events that are remembered.
const MOST_REMEMBERED: usize = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EventState {
    writing: bool,
    written: bool,
}

/// Known events by their ids; of those that are written the oldest are forgotten first. An event without an id is never known.
#[derive(Clone, Debug, Default)]
pub struct KnownEvents {
    states: BTreeMap<String, EventState>,
    /// Ids of the written ones, the oldest first.
    written: VecDeque<String>,
}

impl KnownEvents {
    #[must_use]
    pub fn is_being_written(&self, id: &str) -> bool {
        self.states.get(id).is_some_and(|state| state.writing)
    }

    #[must_use]
    pub fn is_written(&self, id: &str) -> bool {
        self.states.get(id).is_some_and(|state| state.written)
    }

    /// The facts that an event announces are being written down.
    pub fn begin(&mut self, id: &str) {
        self.change(id, |state| state.writing = true);
    }

    /// The writing has ended; an event that is not `written` comes again.
    pub fn end(&mut self, id: &str, written: bool) {
        self.change(id, |state| state.writing = false);
        if written {
            self.remember(id);
        }
    }

    /// Nothing is left to be done about an event.
    pub fn remember(&mut self, id: &str) {
        if id.is_empty() || self.is_written(id) {
            return;
        }
        self.change(id, |state| state.written = true);
        self.written.push_back(id.to_owned());
        if self.written.len() > MOST_REMEMBERED
            && let Some(oldest) = self.written.pop_front()
        {
            self.change(&oldest, |state| state.written = false);
        }
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut EventState)) {
        let mut state = self.states.get(id).copied().unwrap_or_default();
        change(&mut state);
        match state == EventState::default() || id.is_empty() {
            true => drop(self.states.remove(id)),
            false => drop(self.states.insert(id.to_owned(), state)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_known_while_it_is_written_and_afterwards() {
        let mut events = KnownEvents::default();
        events.begin("a");
        assert!(events.is_being_written("a") && !events.is_written("a"));
        events.end("a", false);
        assert!(!events.is_being_written("a") && !events.is_written("a"), "it comes again");
        events.begin("a");
        events.end("a", true);
        assert!(!events.is_being_written("a") && events.is_written("a"));
    }

    #[test]
    fn the_oldest_is_forgotten_first_none_without_an_id_is_known() {
        let mut events = KnownEvents::default();
        events.begin("");
        events.end("", true);
        assert!(events.states.is_empty() && events.written.is_empty());
        (0..=MOST_REMEMBERED).for_each(|id| events.remember(&id.to_string()));
        events.remember("1");
        assert!(!events.is_written("0") && events.is_written("1"));
        assert_eq!((events.states.len(), events.written.len()), (MOST_REMEMBERED, MOST_REMEMBERED));
    }
}
