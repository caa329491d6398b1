//! Traces, metrics, health and what an operator loads.
