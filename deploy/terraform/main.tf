# What Dovetail needs in an AWS account beside an EKS cluster, as deploy/cloudformation/dovetail.yaml has it: tests/deploy
# holds the two to each other.

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  # What the policies under policies/ are filled in with.
  names = {
    partition    = data.aws_partition.current.partition
    region       = data.aws_region.current.name
    account      = data.aws_caller_identity.current.account_id
    cluster_name = var.cluster_name
    uid_pattern  = var.cluster_uid == "" ? "?*" : var.cluster_uid
    uid_operator = var.adopt_karpenter_instances ? "StringLikeIfExists" : "StringLike"
    # Written out: a policy that waits for the role could not be planned with it.
    node_role_arn = "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:role/KarpenterNodeRole-${var.cluster_name}"
  }

  policies = {
    NodeLifecycle     = "node-lifecycle"
    IAMIntegration    = "iam-integration"
    EKSIntegration    = "eks-integration"
    Interruption      = "interruption"
    ResourceDiscovery = "resource-discovery"
  }

  documents = {
    for name, file in local.policies : name => jsondecode(templatefile("${path.module}/policies/${file}.json.tftpl", local.names))
  }

  rules = {
    scheduled-change = {
      description = "Instances that AWS has scheduled for retirement or maintenance."
      pattern = {
        source      = ["aws.health"]
        detail-type = ["AWS Health Event"]
        detail      = { service = ["EC2"], eventTypeCategory = ["scheduledChange"] }
      }
    }
    spot-interruption = {
      description = "Spot instances that are taken back in two minutes."
      pattern = {
        source      = ["aws.ec2"]
        detail-type = ["EC2 Spot Instance Interruption Warning"]
      }
    }
    rebalance = {
      description = "Spot instances that are more likely to be taken back."
      pattern = {
        source      = ["aws.ec2"]
        detail-type = ["EC2 Instance Rebalance Recommendation"]
      }
    }
    instance-state-change = {
      description = "Instances that somebody stops or terminates."
      pattern = {
        source      = ["aws.ec2"]
        detail-type = ["EC2 Instance State-change Notification"]
        detail      = { state = ["stopping", "stopped", "shutting-down", "terminated"] }
      }
    }
    capacity-reservation-interruption = {
      description = "Instances whose reserved capacity is taken back."
      pattern = {
        source      = ["aws.ec2"]
        detail-type = ["EC2 Capacity Reservation Instance Interruption Warning"]
      }
    }
  }

  # What is attached to the controller's role: one policy, or one for each purpose.
  # A policy has 6,144 characters at most, so that the one goes without names for its statements.
  single = jsonencode({
    Version   = "2012-10-17"
    Statement = [for one in flatten([for name in keys(local.policies) : local.documents[name].Statement]) : { for key, value in one : key => value if key != "Sid" }]
  })
  attached = merge(
    { for name, document in local.documents : "KarpenterController${name}Policy" => jsonencode(document) if !var.single_policy },
    { for name in ["KarpenterControllerPolicy"] : name => local.single if var.single_policy },
  )
}

resource "aws_iam_role" "node" {
  name = "KarpenterNodeRole-${var.cluster_name}"
  path = "/"
  tags = var.tags

  assume_role_policy = templatefile("${path.module}/policies/trust-node.json.tftpl", { url_suffix = data.aws_partition.current.dns_suffix })
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset(["AmazonEKS_CNI_Policy", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"])

  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}

resource "aws_iam_instance_profile" "node" {
  name = "KarpenterNodeInstanceProfile-${var.cluster_name}"
  path = "/"
  role = aws_iam_role.node.name
  tags = var.tags
}

resource "aws_iam_policy" "controller" {
  for_each = local.attached

  name   = "${each.key}-${var.cluster_name}"
  policy = each.value
  tags   = var.tags

  lifecycle {
    precondition {
      condition     = !var.single_policy || var.cluster_uid == ""
      error_message = "cluster_uid goes with the five policies, single_policy false."
    }
  }
}

resource "aws_iam_role" "controller" {
  count = var.controller_role == "None" ? 0 : 1

  name = "${var.cluster_name}-karpenter"
  path = "/"
  tags = var.tags

  # For this service account of this cluster alone.
  assume_role_policy = templatefile("${path.module}/policies/trust-${var.controller_role}.json.tftpl", merge(local.names, {
    oidc_provider   = var.oidc_provider
    namespace       = var.namespace
    service_account = var.service_account
  }))

  lifecycle {
    precondition {
      condition     = var.controller_role != "IRSA" || var.oidc_provider != ""
      error_message = "controller_role IRSA needs oidc_provider, the cluster's issuer without https://."
    }
  }
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = var.controller_role == "None" ? {} : aws_iam_policy.controller

  role       = aws_iam_role.controller[0].name
  policy_arn = each.value.arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count = var.pod_identity_association && var.controller_role == "PodIdentity" ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller[0].arn
  tags            = var.tags
}

resource "aws_sqs_queue" "interruption" {
  name = var.cluster_name
  tags = var.tags

  # A spot warning is useful for two minutes.
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true

  # Hidden for 20 seconds each time, a message has 15 tries at most before it is too old.
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letter.arn
    maxReceiveCount     = 10
  })
}

resource "aws_sqs_queue" "dead_letter" {
  name = "${var.cluster_name}-dead-letter"
  tags = var.tags

  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.id
  policy = templatefile("${path.module}/policies/queue.json.tftpl", {
    queue_arn = aws_sqs_queue.interruption.arn
    rule_arns = jsonencode([for name in keys(local.rules) : aws_cloudwatch_event_rule.interruption[name].arn])
  })
}

resource "aws_sqs_queue_policy" "dead_letter" {
  queue_url = aws_sqs_queue.dead_letter.id
  policy    = templatefile("${path.module}/policies/dead-letter-queue.json.tftpl", { queue_arn = aws_sqs_queue.dead_letter.arn })
}

# Rules match events of the whole account and region; Dovetail ignores what is not this cluster's.
resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = local.rules

  name_prefix   = "karpenter-"
  description   = each.value.description
  event_pattern = jsonencode(each.value.pattern)
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = local.rules

  rule      = aws_cloudwatch_event_rule.interruption[each.key].name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.interruption.arn
}
