//! Decisions about the conversion webhook: the change of certificates ([`rotation`]), the Secret that keeps them ([`kept`]), the
//! changes to a CustomResourceDefinition for older versions to be served ([`definition`]), and the objects to be stored anew
//! ([`migration`]).
//!
//! A certificate has an authority of its own, whose key is thrown away after signing it. So a reader of the Secret can sign
//! nothing, and an authority ends with its certificate. Each authority comes to be trusted before its certificate is served.

pub mod definition;
pub mod kept;
pub mod migration;
pub mod rotation;

use std::collections::VecDeque;
use std::time::Duration;

/// A bound on the number of writes within a time. Pure: the time comes from outside.
#[derive(Clone, Debug)]
pub struct Brake {
    most: usize,
    within: Duration,
    recent: VecDeque<Duration>,
}

impl Brake {
    /// At most `most` writes in any time of length `within`.
    pub fn new(most: usize, within: Duration) -> Self {
        Self { most, within, recent: VecDeque::new() }
    }

    /// Takes one more write, if it may be made now. It counts as made.
    ///
    /// # Errors
    /// The time to wait.
    pub fn take_token(&mut self, now: Duration) -> Result<(), Duration> {
        self.recent.retain(|when| now.saturating_sub(*when) < self.within);
        match self.recent.front() {
            Some(first) if self.recent.len() >= self.most => Err((*first + self.within).saturating_sub(now)),
            _ => {
                self.recent.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brake_lets_so_many_through_and_tells_when_it_lets_the_next() {
        let mut brake = Brake::new(2, Duration::from_secs(60));
        let at = Duration::from_secs;
        assert_eq!((brake.take_token(at(5)), brake.take_token(at(10))), (Ok(()), Ok(())));
        assert_eq!(brake.take_token(at(20)), Err(at(45)));
        assert_eq!((brake.take_token(at(65)), brake.take_token(at(66))), (Ok(()), Err(at(4))));
    }
}
