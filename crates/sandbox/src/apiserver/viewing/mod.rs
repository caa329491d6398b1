//! What a read answers: lists, watches, selectors, forms, logs, and what there is to read.

pub(super) mod discovery;
pub(super) mod list;
pub(super) mod podlog;
pub(super) mod review;
pub(super) mod select;
pub(super) mod view;
pub(super) mod watch;
