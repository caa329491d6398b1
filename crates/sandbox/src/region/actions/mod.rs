//! EC2's actions: what each is asked and what it answers.

pub(super) mod discovery;
pub(super) mod ec2;
pub(super) mod filters;
pub(super) mod fleet;
pub(super) mod instance_types;
pub(super) mod instances;
pub(super) mod names;
pub(super) mod paging;
pub(super) mod run_instances;
pub(super) mod tags;
pub(super) mod templates;
pub(super) mod type_xml;
