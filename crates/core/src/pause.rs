//! The pause that doubles: between trials of what has failed, and between two reports of what stays as it was.

use std::time::Duration;

/// No pause is doubled more often than that; each of them is at its longest by then.
const MOST_DOUBLINGS: u32 = 16;

/// A pause that doubles from its first length to its longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoublingPause {
    /// Length of the first pause.
    pub first: Duration,
    /// Upper bound of every pause.
    pub longest: Duration,
}

impl DoublingPause {
    /// Length of the next pause where there were so many before it.
    #[must_use]
    pub fn length_after(self, earlier: u32) -> Duration {
        self.first.saturating_mul(1 << earlier.min(MOST_DOUBLINGS)).min(self.longest)
    }

    /// Length of the pause of this number, counted from one; zero stands for the first too.
    #[must_use]
    pub fn length_of_nth(self, nth: u32) -> Duration {
        self.length_after(nth.saturating_sub(1))
    }

    /// A length from the upper half of the next pause where there were so many before it. `draw` is 0 to 1, by chance.
    #[must_use]
    pub fn drawn_after(self, earlier: u32, draw: f64) -> Duration {
        self.length_after(earlier).mul_f64(0.5 + draw / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: DoublingPause = DoublingPause { first: Duration::from_secs(3), longest: Duration::from_secs(20) };

    #[test]
    fn pause_doubles_up_to_its_longest_however_often_it_is_made() {
        let lengths: Vec<u64> = (0..5).map(|earlier| PAUSE.length_after(earlier).as_secs()).collect();
        assert_eq!(lengths, [3, 6, 12, 20, 20]);
        assert_eq!(PAUSE.length_after(u32::MAX), PAUSE.longest);
        assert_eq!([0, 1, 2].map(|nth| PAUSE.length_of_nth(nth).as_secs()), [3, 3, 6]);
        let endless = DoublingPause { first: Duration::MAX, longest: Duration::MAX };
        assert_eq!(endless.length_after(9), Duration::MAX);
    }

    #[test]
    fn drawn_pause_lies_in_the_upper_half() {
        assert_eq!(PAUSE.drawn_after(2, 0.0), Duration::from_secs(6));
        assert_eq!(PAUSE.drawn_after(2, 0.5), Duration::from_secs(9));
        assert_eq!(PAUSE.drawn_after(9, 1.0), PAUSE.longest);
    }
}
