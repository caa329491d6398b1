//! The patterns that the schemas use (core spec 1.1).
//!
//! Some are narrower than Karpenter's, where its pattern admits what no type can hold: durations beyond 2^63 nanoseconds
//! (Go's limit, 2562047h47m), counts beyond 32 bits, names longer than Kubernetes takes. They refuse no manifest that works.

/// Durations within Go's limit: one unit alone, or hours, minutes and seconds in this order, or up to nine parts in any
/// order of up to 99,999 hours, 9,999,999 minutes or 999,999,999 seconds each.
macro_rules! durations {
    () => {
        concat!(
            "([0-9]{1,8}|1[0-4][0-9]{7}|15[0-2][0-9]{6}|153[0-6][0-9]{5})m|",
            "([0-9]{1,9}|[0-8][0-9]{9}|9[01][0-9]{8}|922[0-2][0-9]{6})s|",
            "[0-9]{1,6}h([0-9]{1,7}m)?([0-9]{1,9}s)?|",
            "(1[0-9]{6}|2[0-4][0-9]{5}|25[0-5][0-9]{4}|256[01][0-9]{3}|25620[0-3][0-9]|256204[0-6])",
            "h([0-5]?[0-9]m)?([0-5]?[0-9]s)?|",
            "2562047h([0-3]?[0-9]m|4[0-6]m)?([0-5]?[0-9]s)?|",
            "([0-9]{1,5}h|[0-9]{1,7}m|[0-9]{1,9}s){1,9}"
        )
    };
}

/// Durations (P1 of core spec 1.1).
pub const DURATION: &str = concat!("^(", durations!(), ")$");
/// Durations or Never (P2).
pub const DURATION_OR_NEVER: &str = concat!("^(", durations!(), "|Never)$");
/// A budget's nodes (P3).
pub const BUDGET_NODES: &str = "^((100|[0-9]{1,2})%|[0-9]{1,9})$";
/// A budget's duration (P4).
pub const BUDGET_DURATION: &str = "^(([0-9]{1,6}h|[0-9]{1,7}m|[0-9]{1,6}h[0-9]{1,7}m)(0s)?)$";
/// A budget's schedule (P5), which is five fields of what a cron line is made of; whether it is one, no pattern says.
pub const SCHEDULE: &str =
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|\s*[-0-9A-Za-z*?,/]+(\s+[-0-9A-Za-z*?,/]+){4}\s*)$";
/// Qualified keys (P6), of at most 63 characters after the domain.
pub const KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$";
/// Most characters of a qualified key: a domain of 253, a slash, a name of 63.
pub const LONGEST_KEY: usize = 317;
/// Times (RFC 3339), with the fractions, offsets and years that a time of ours can have.
pub const TIME: &str = r"^([0-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$";
/// Label values (P7).
pub const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Quantities.
pub const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$";
