//! AWS services beside EC2: ARC's zonal shifts, EKS, IAM, Pricing, Savings Plans, SQS with the interruption queue, SSM, STS.

pub(super) mod eks;
pub(super) mod iam;
pub(super) mod interruption;
pub(super) mod pricing;
pub(super) mod queue;
pub(super) mod savings_plans;
pub(super) mod sqs;
pub(super) mod ssm;
pub(super) mod sts;
pub(super) mod zonal_shift;
