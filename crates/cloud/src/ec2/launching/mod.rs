//! The launch: launch templates, CreateFleet, and what launches leave behind.

pub(super) mod fleet;
pub(super) mod made;
pub(super) mod planned;
pub(super) mod template;
pub(super) mod template_data;
pub(super) mod template_text;
