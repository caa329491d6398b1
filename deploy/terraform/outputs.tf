output "node_role" {
  description = "The role that an EC2NodeClass names (spec.role), and that needs access to the cluster."
  value       = aws_iam_role.node.name
}

output "node_role_arn" {
  description = "For the access entry (type EC2_LINUX) or aws-auth."
  value       = aws_iam_role.node.arn
}

output "node_instance_profile" {
  description = "An instance profile with the node role, for spec.instanceProfile."
  value       = aws_iam_instance_profile.node.name
}

output "controller_role_arn" {
  description = "For the chart's serviceAccount.annotations (eks.amazonaws.com/role-arn), or a pod identity association."
  value       = one(aws_iam_role.controller[*].arn)
}

output "interruption_queue" {
  description = "For the chart's settings.interruptionQueue."
  value       = aws_sqs_queue.interruption.name
}
