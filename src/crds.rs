//! The command `dovetail crds`.

use dovetail_input::Failure;

use crate::cli::CrdsArgs;
use crate::output::print;

/// Prints the CRDs of a provider as a stream of YAML documents.
pub fn run(args: &CrdsArgs) -> Result<(), Failure> {
    let text = dovetail_api::crds::provider_crds_yaml(args.provider).map_err(|why| Failure::System(why.to_string()))?;
    print(&text)
}
