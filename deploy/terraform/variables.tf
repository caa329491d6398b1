variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster. All names and tags contain it."

  validation {
    # An IAM role's name has 64 characters at most.
    condition     = can(regex("^[0-9A-Za-z][A-Za-z0-9_-]{0,45}$", var.cluster_name))
    error_message = "cluster_name has to be an EKS cluster's name of 46 characters at most."
  }
}

variable "controller_role" {
  type        = string
  description = "How the controller gets its role: PodIdentity and IRSA create the role CLUSTER-karpenter; None creates none."
  default     = "PodIdentity"

  validation {
    condition     = contains(["PodIdentity", "IRSA", "None"], var.controller_role)
    error_message = "controller_role is PodIdentity, IRSA or None."
  }
}

variable "oidc_provider" {
  type        = string
  description = "For IRSA, the cluster's issuer without https://, such as oidc.eks.us-east-1.amazonaws.com/id/EXAMPLE."
  default     = ""
}

variable "namespace" {
  type        = string
  description = "Namespace of the chart's release."
  default     = "kube-system"
}

variable "service_account" {
  type        = string
  description = "Name of the controller's service account: the release's name, unless the chart's values set another."
  default     = "dovetail"
}

variable "cluster_uid" {
  type        = string
  description = "UID of the cluster's namespace kube-system, so that resources of another cluster of the same name are out of reach. Empty accepts any UID."
  default     = ""
}

variable "adopt_karpenter_instances" {
  type        = bool
  description = "Whether Dovetail may end instances that Karpenter launched for this cluster (ADOPT_KARPENTER_INSTANCES)."
  default     = false
}

variable "single_policy" {
  type        = bool
  description = "One policy KarpenterControllerPolicy-CLUSTER in place of five, for configurations that attach it by this name. The cluster's name may have 24 characters then, and cluster_uid has no room."
  default     = false
}

variable "pod_identity_association" {
  type        = bool
  description = "Whether the module associates the role with the service account, which needs the cluster to be there (PodIdentity only)."
  default     = false
}

variable "tags" {
  type        = map(string)
  description = "Tags of all resources of the module."
  default     = {}
}
