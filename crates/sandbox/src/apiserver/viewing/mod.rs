//! Answers to reads: lists, watches, selectors, forms, logs, and discovery.

pub(super) mod discovery;
pub(super) mod list;
pub(super) mod podlog;
pub(super) mod review;
pub(super) mod select;
pub(super) mod view;
pub(super) mod watch;
