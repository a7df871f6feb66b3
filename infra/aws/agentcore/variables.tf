variable "region" {
  description = "Region of the interpreters; provisioning.agentcore.region."
  type        = string
}

variable "prefix" {
  description = "First part of the names of all that is made; provisioning.agentcore.prefix. One deployment, one prefix."
  type        = string
  default     = "cofferdam"

  validation {
    condition     = can(regex("^[a-zA-Z][a-zA-Z0-9]{0,11}$", var.prefix))
    error_message = "Up to 12 letters and digits, the first a letter."
  }
}

variable "execution_role" {
  description = "Role of the programs, which can read its credentials: none, per-tenant (made by the provisioner) or shared (made here)."
  type        = string
  default     = "none"

  validation {
    condition     = contains(["none", "per-tenant", "shared"], var.execution_role)
    error_message = "none, per-tenant or shared."
  }
}

variable "internal_network" {
  description = "Where interpreters without network run: sandbox, or vpc for provisioning.agentcore.internal_network with subnets."
  type        = string
  default     = "sandbox"

  validation {
    condition     = contains(["sandbox", "vpc"], var.internal_network)
    error_message = "sandbox or vpc."
  }
}

variable "worker_roles" {
  description = "Names of the IAM roles that workers run with."
  type        = list(string)
  default     = []
}

variable "provisioner_roles" {
  description = "Names of the IAM roles that run `cofferdam provision agentcore`, or whose workers have every_ms set."
  type        = list(string)
  default     = []
}
