//! Messages about instances that no NodeClaim has yet: EC2 may warn of an instance before its id is written on its claim. They
//! are kept for a while, few of them, and looked at again.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Time that a message waits for its instance to become known. A launch writes the id within seconds, a new leader finds the
/// instances of its predecessor within a minute.
const KEPT: SignedDuration = SignedDuration::from_secs(60);
/// Most messages that wait: every cluster of an account hears of the instances of all.
const MOST: usize = 1000;

/// Messages of a type `M`, by their ids.
#[derive(Clone, Debug)]
pub struct KeptMessages<M> {
    messages: BTreeMap<String, (Timestamp, M)>,
}

impl<M> Default for KeptMessages<M> {
    fn default() -> Self {
        Self { messages: BTreeMap::new() }
    }
}

impl<M> KeptMessages<M> {
    /// Keeps a message, first heard of now unless it is kept already: then the newer one takes its place, and its time runs on.
    /// Answers the message that is not kept, as it has waited long enough or too many others do.
    pub fn insert(&mut self, id: &str, message: M, now: Timestamp) -> Option<M> {
        let known = self.messages.get(id).map(|(since, _)| *since);
        let since = known.unwrap_or(now);
        if now.duration_since(since) >= KEPT || (known.is_none() && self.messages.len() >= MOST) {
            self.messages.remove(id);
            return Some(message);
        }
        self.messages.insert(id.to_owned(), (since, message));
        None
    }

    /// Takes out a message whose instance is known by now.
    pub fn remove(&mut self, id: &str) -> Option<M> {
        self.messages.remove(id).map(|(_, message)| message)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &M)> {
        self.messages.iter().map(|(id, (_, message))| (id.as_str(), message))
    }

    /// Takes out the messages that have waited long enough.
    pub fn over(&mut self, now: Timestamp) -> Vec<M> {
        let over = |since: &Timestamp| now.duration_since(*since) >= KEPT;
        let ids: Vec<String> =
            self.messages.iter().filter(|(_, (since, _))| over(since)).map(|(id, _)| id.clone()).collect();
        ids.iter().filter_map(|id| self.remove(id)).collect()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    #[test]
    fn a_message_is_kept_for_a_minute_however_often_it_comes() {
        let mut kept = KeptMessages::default();
        assert_eq!(kept.insert("a", 1, at(0)), None);
        assert_eq!(kept.insert("a", 2, at(20)), None);
        assert!(kept.over(at(59)).is_empty());
        assert_eq!(kept.over(at(60)), [2], "the newer receipt is the one that deletes it");
        assert_eq!((kept.insert("b", 1, at(0)), kept.insert("b", 2, at(60)), kept.len()), (None, Some(2), 0));
    }

    #[test]
    fn too_many_are_not_kept_and_those_that_are_stay() {
        let mut kept = KeptMessages::default();
        for one in 0..MOST {
            assert_eq!(kept.insert(&one.to_string(), one, at(0)), None);
        }
        assert_eq!(kept.insert("more", MOST, at(1)), Some(MOST));
        assert_eq!(kept.insert("7", 7, at(1)), None, "one that is kept comes again");
        assert_eq!((kept.remove("7"), kept.insert("more", MOST, at(1))), (Some(7), None));
    }
}
