//! The annotation [`COMPUTED_HASH`]: what the leader has computed for an object, and the hash that stood on it then.
//!
//! ```text
//! of:1f3a generation:5 9:7 8
//! │       │            │   └ an earlier template, with the hash that was computed for it
//! │       │            └ this template: 9 is computed for it, and 7 stands on the object
//! │       └ the object's generation when that was written
//! └ the object, and the fields that are hashed
//! ```

use std::collections::BTreeMap;

use dovetail_api::names::annotations::COMPUTED_HASH;

/// Most templates that are remembered: a rollback goes back by one, or by a few.
const MOST_ENTRIES: usize = 4;
/// Most hashes of others that are remembered of a template; of more, any counts as one.
const MOST_ALSO: usize = 4;
/// Word for hashes that nobody knows.
const ANY: &str = "*";

/// The annotation, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub of: String,
    pub generation: Option<i64>,
    /// Templates, the present one first.
    pub entries: Vec<Entry>,
}

/// A template, and the hashes of claims that are of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The hash that is computed for it.
    pub computed: String,
    /// The hash that stands on the object, and that claims are stamped with.
    pub standing: String,
    /// Hashes of others that were found on the object.
    pub also: Vec<String>,
    /// True if claims of it may carry hashes that nobody knows.
    pub any: bool,
}

impl Record {
    /// Reads the annotation; one that makes no sense says nothing that is trusted.
    pub fn read_from(own: &BTreeMap<String, String>) -> Self {
        let mut record = Self::default();
        for word in own.get(COMPUTED_HASH).into_iter().flat_map(|text| text.split_whitespace()) {
            match word.split_once(':') {
                Some(("of", of)) => of.clone_into(&mut record.of),
                Some(("generation", generation)) => record.generation = generation.parse().ok(),
                _ => record.entries.push(Entry::read_word(word)),
            }
        }
        record.entries.truncate(MOST_ENTRIES);
        record
    }

    /// True if an object has the annotation, and it makes sense.
    pub fn is_on(own: &BTreeMap<String, String>) -> bool {
        !Self::read_from(own).entries.is_empty()
    }

    /// The annotation's text.
    pub fn written(&self) -> String {
        let of = (!self.of.is_empty()).then(|| format!("of:{}", self.of));
        let generation = self.generation.map(|generation| format!("generation:{generation}"));
        let entries = self.entries.iter().take(MOST_ENTRIES).map(Entry::written);
        of.into_iter().chain(generation).chain(entries).collect::<Vec<_>>().join(" ")
    }

    /// The template for which this is computed, if it is remembered.
    pub fn template(&self, computed: &str) -> Option<&Entry> {
        self.entries.iter().find(|one| one.computed == computed)
    }

    /// True if this hash stands for a template that is remembered.
    pub fn has_standing(&self, hash: &str) -> bool {
        self.entries.iter().any(|one| one.standing == hash)
    }
}

impl Entry {
    fn read_word(word: &str) -> Self {
        let (computed, rest) = word.split_once(':').unwrap_or((word, word));
        let mut hashes = rest.split(',').map(ToOwned::to_owned);
        let standing = hashes.next().unwrap_or_default();
        let (any, also): (Vec<_>, Vec<_>) = hashes.partition(|hash| hash == ANY);
        let mut entry = Self { computed: computed.to_owned(), standing, also: Vec::new(), any: !any.is_empty() };
        also.iter().for_each(|hash| entry.accept(hash));
        entry
    }

    /// Claims with a hash of another program's are of this template.
    pub fn accept(&mut self, hash: &str) {
        if self.also.iter().any(|one| one == hash) {
            return;
        }
        match self.also.len() < MOST_ALSO {
            true => self.also.push(hash.to_owned()),
            false => self.any = true,
        }
    }

    fn written(&self) -> String {
        if self.standing == self.computed && self.also.is_empty() && !self.any {
            return self.computed.clone();
        }
        let hashes = [&self.standing].into_iter().chain(&self.also).map(String::as_str);
        let hashes: Vec<_> = hashes.chain(self.any.then_some(ANY)).collect();
        format!("{}:{}", self.computed, hashes.join(","))
    }
}
