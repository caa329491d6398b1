//! The seam to a cloud, and EC2 behind it on the AWS SDK.
