//! Requests and answers on the wire, and the region as an HTTP server.

pub(super) mod answer;
pub(super) mod call;
pub(super) mod connector;
pub(super) mod error;
pub(super) mod form;
pub(super) mod handle;
pub(super) mod serve;
pub(super) mod xml;
