//! From an HTTP request to the store and back.

pub(super) mod audit;
pub(super) mod body;
pub(super) mod handler;
pub(super) mod request;
pub(super) mod service;
