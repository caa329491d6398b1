//! Checks made once, before anything is done: AWS knows us, and knows the cluster.

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::describe::filter;
use crate::error::CloudError;
use crate::user_data::ClusterFacts;

/// Code of EC2's answer to a dry run that would have been carried out.
pub(super) const WOULD_WORK: &str = "DryRunOperation";

impl Ec2Cloud {
    /// Asks EC2 for something and has it not done: that it answers, and would have, is all that matters. One type alone
    /// is asked for: an EC2 that does not heed dry runs (moto) takes half a minute to write all of them down.
    ///
    /// # Errors
    /// EC2 cannot be reached, does not know us, or does not let us.
    pub async fn probe(&self) -> Result<(), CloudError> {
        let one = filter("instance-type", ["m5.large"]);
        let asked = self.clients.ec2.describe_instance_types().dry_run(true).filters(one).send().await;
        match asked.map_err(|error| classify("DescribeInstanceTypes", Effect::Repeatable, error)) {
            Ok(_) => Ok(()),
            Err(error) if error.code() == WOULD_WORK => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The cluster as nodes will be told of it.
    ///
    /// # Errors
    /// EKS cannot be asked, and the settings do not say enough.
    pub async fn cluster(&self) -> Result<ClusterFacts, CloudError> {
        self.cluster_facts().await
    }
}
