//! A sorted map by text whose copies share what they have in common: a change after a copy copies a few dozen entries, and not all
//! of them. Pods are kept in it: a snapshot is taken several times a second, and between two of them a few of 20,000 change.
//!
//! ```text
//! SharedMap ─► chunks, by the least key of each ─► entries, sorted, at most `MOST` ─► key with its first bytes beside it, value
//! ```
//!
//! The first eight bytes of a key decide nearly every comparison of uids. They lie in the chunk, so that a look-up reads few
//! places of memory.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Most entries of a chunk. A change copies one chunk, and the list of chunks.
const MOST: usize = 64;

/// A key with its first bytes as a number: in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    first: u64,
    text: String,
}

impl Key {
    fn new(text: String) -> Self {
        Self { first: first_bytes(&text), text }
    }

    fn compare(&self, (first, text): (u64, &str)) -> Ordering {
        self.first.cmp(&first).then_with(|| self.text.as_str().cmp(text))
    }
}

/// The first eight bytes as a number; missing ones are zero.
fn first_bytes(text: &str) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(text.bytes()).for_each(|(out, byte)| *out = byte);
    u64::from_be_bytes(bytes)
}

#[derive(Clone, Debug)]
struct Chunk<V> {
    /// No key of it is less, and none of the chunks before it is as large.
    least: Key,
    entries: Arc<Vec<(Key, V)>>,
}

/// A sorted map by text; cloning it is cheap.
#[derive(Clone)]
pub struct SharedMap<V> {
    chunks: Arc<Vec<Chunk<V>>>,
    len: usize,
}

impl<V> Default for SharedMap<V> {
    fn default() -> Self {
        Self { chunks: Arc::default(), len: 0 }
    }
}

impl<V> SharedMap<V> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&V> {
        let key = (first_bytes(key), key);
        let entries = &self.chunks.get(self.chunk_of(key)?)?.entries;
        let at = entries.binary_search_by(|(own, _)| own.compare(key)).ok()?;
        entries.get(at).map(|(_, value)| value)
    }

    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.entries.iter().map(|(key, value)| (&key.text, value)))
    }

    /// All keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Number of the only chunk that may have a key; `None` if it is less than all.
    fn chunk_of(&self, key: (u64, &str)) -> Option<usize> {
        self.chunks.partition_point(|chunk| chunk.least.compare(key).is_le()).checked_sub(1)
    }
}

impl<V: Clone> SharedMap<V> {
    /// Keeps a value under a key. Answers the value that was there.
    pub fn insert(&mut self, key: String, value: V) -> Option<V> {
        let key = Key::new(key);
        let known = self.chunk_of((key.first, &key.text));
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.is_empty() {
            chunks.push(Chunk { least: key.clone(), entries: Arc::default() });
        }
        let number = known.unwrap_or(0);
        let chunk = chunks.get_mut(number)?;
        if known.is_none() {
            chunk.least = key.clone();
        }
        let entries = Arc::make_mut(&mut chunk.entries);
        match entries.binary_search_by(|(own, _)| own.compare((key.first, &key.text))) {
            Ok(at) => return entries.get_mut(at).map(|(_, known)| std::mem::replace(known, value)),
            Err(at) => entries.insert(at, (key, value)),
        }
        self.len += 1;
        if entries.len() > MOST {
            let upper = entries.split_off(MOST / 2);
            if let Some(least) = upper.first().map(|(key, _)| key.clone()) {
                chunks.insert(number + 1, Chunk { least, entries: Arc::new(upper) });
            }
        }
        None
    }

    /// Drops a key. Answers its value. Where there is none, nothing is copied.
    pub fn remove(&mut self, key: &str) -> Option<V> {
        let key = (first_bytes(key), key);
        let number = self.chunk_of(key)?;
        let at = self.chunks.get(number)?.entries.binary_search_by(|(own, _)| own.compare(key)).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let entries = Arc::make_mut(&mut chunks.get_mut(number)?.entries);
        let (_, value) = entries.remove(at);
        self.len -= 1;
        if entries.is_empty() {
            chunks.remove(number);
        }
        Some(value)
    }

    /// The value under a key, to be changed. Where there is none, nothing is copied.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        let key = (first_bytes(key), key);
        let number = self.chunk_of(key)?;
        let at = self.chunks.get(number)?.entries.binary_search_by(|(own, _)| own.compare(key)).ok()?;
        let chunk = Arc::make_mut(&mut self.chunks).get_mut(number)?;
        Arc::make_mut(&mut chunk.entries).get_mut(at).map(|(_, value)| value)
    }
}

impl<V: fmt::Debug> fmt::Debug for SharedMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<V: PartialEq> PartialEq for SharedMap<V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
impl<V> std::ops::Index<&str> for SharedMap<V> {
    type Output = V;

    #[allow(clippy::expect_used)]
    fn index(&self, key: &str) -> &V {
        self.get(key).expect("there is an entry under the key")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Keys of which many begin alike, some are the beginning of others, and some are shorter than what is kept beside them.
    fn key(number: u32) -> String {
        match number % 4 {
            0 => format!("{:04x}", number / 4 * 40_503 % 977),
            1 => format!("a-name-that-is-long-{}", number % 211),
            2 => "z".repeat((number % 13) as usize),
            _ => format!("a-name-\0{}", number % 17),
        }
    }

    proptest! {
        #[test]
        fn shared_map_is_like_a_sorted_map_and_copies_stay(
            changes in prop::collection::vec((0..65_536_u32, 0..5_u8), 0..2000),
        ) {
            let (mut own, mut plain) = (SharedMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for (nth, (number, change)) in changes.into_iter().enumerate() {
                let key = key(number);
                match change {
                    0 => prop_assert_eq!(own.remove(&key), plain.remove(&key)),
                    1 => {
                        let (own, plain) = (own.get_mut(&key), plain.get_mut(&key));
                        prop_assert_eq!(own.is_some(), plain.is_some());
                        own.into_iter().chain(plain).for_each(|one| *one += 1);
                    }
                    _ => prop_assert_eq!(own.insert(key.clone(), nth), plain.insert(key.clone(), nth)),
                }
                prop_assert_eq!((own.get(&key), own.len()), (plain.get(&key), plain.len()));
                if nth % 400 == 0 {
                    copies.push((own.clone(), plain.clone()));
                }
            }
            copies.push((own, plain));
            for (own, plain) in copies {
                prop_assert!(own.iter().eq(plain.iter()), "{own:?}");
                prop_assert!(own.chunks.iter().all(|chunk| !chunk.entries.is_empty() && chunk.entries.len() <= MOST));
            }
        }
    }

    #[test]
    fn a_change_after_a_copy_copies_one_chunk() {
        let mut own: SharedMap<usize> = SharedMap::default();
        for number in 0..20_000 {
            own.insert(format!("{:05x}", number * 40_503 % 999_983), number);
        }
        let copy = own.clone();
        own.insert("00001".to_owned(), 7);
        let shared = |one: &Chunk<usize>| copy.chunks.iter().any(|other| Arc::ptr_eq(&one.entries, &other.entries));
        let unlike = own.chunks.iter().filter(|chunk| !shared(chunk)).count();
        assert!((1..=2).contains(&unlike) && own.chunks.len() > 300, "{unlike} of {}", own.chunks.len());
        assert_eq!((copy.len() + 1, copy.get("00001")), (own.len(), None));
    }
}
