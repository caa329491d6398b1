//! The `--budget` of `plan --consolidate`.

/// Number of nodes of a pool that one command may take: a count, or a percentage that is rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeBudget {
    /// A count.
    Nodes(usize),
    /// A percentage.
    Percent(usize),
}

impl NodeBudget {
    /// Parses a budget in the form of a NodePool's `budgets[].nodes`.
    ///
    /// # Errors
    /// The allowed forms, if it is neither a count nor a percentage up to 100.
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = |text: &str| text.parse::<usize>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let found = match text.strip_suffix('%') {
            Some(percent) => digits(percent).filter(|percent| *percent <= 100).map(Self::Percent),
            None => digits(text).map(Self::Nodes),
        };
        found.ok_or_else(|| "allowed: a number of nodes, or a percentage up to 100%".to_owned())
    }

    /// Number of nodes that the budget allows among `nodes`.
    pub fn count_among(self, nodes: usize) -> usize {
        match self {
            Self::Nodes(count) => count,
            Self::Percent(percent) => nodes.saturating_mul(percent).div_ceil(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_count_or_a_percentage_rounded_up() {
        assert_eq!(NodeBudget::parse("10%").map(|budget| budget.count_among(11)), Ok(2));
        assert_eq!(NodeBudget::parse("3").map(|budget| budget.count_among(100)), Ok(3));
        for bad in ["", "%", "101%", "-1", "+1", "1.5", "many"] {
            assert!(NodeBudget::parse(bad).is_err(), "{bad:?}");
        }
    }
}
