//! The patterns that the schemas use (core spec 1.1).

/// Durations (P1 of core spec 1.1).
pub const DURATION: &str = "^([0-9]+(s|m|h))+$";
/// Durations or Never (P2).
pub const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";
/// A budget's nodes (P3).
pub const BUDGET_NODES: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";
/// A budget's duration (P4).
pub const BUDGET_DURATION: &str = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$";
/// A budget's schedule (P5).
pub const SCHEDULE: &str =
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
/// Qualified keys (P6).
pub const KEY: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// Label values (P7).
pub const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Quantities.
pub const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
