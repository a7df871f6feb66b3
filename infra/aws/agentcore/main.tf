# Rights for Cofferdam at Amazon Bedrock AgentCore. `cofferdam provision agentcore` creates the interpreters,
# because they come and go with tenants, which Terraform cannot track.

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

locals {
  scope = {
    partition  = data.aws_partition.current.partition
    region     = var.region
    account_id = data.aws_caller_identity.current.account_id
    prefix     = var.prefix
  }
}

resource "aws_iam_policy" "worker" {
  name        = "${var.prefix}-worker"
  description = "Sessions in Cofferdam's own code interpreters."
  policy      = templatefile("${path.module}/policies/worker.json", local.scope)
}

resource "aws_iam_policy" "provisioner" {
  name        = "${var.prefix}-provisioner"
  description = "Makes and deletes code interpreters of tenants."
  policy      = templatefile("${path.module}/policies/provisioner.json", local.scope)
}

resource "aws_iam_policy" "provisioner_roles" {
  count = var.execution_role == "per-tenant" ? 1 : 0

  name        = "${var.prefix}-provisioner-roles"
  description = "Makes and deletes roles of tenants."
  policy      = templatefile("${path.module}/policies/provisioner-roles.json", local.scope)
}

resource "aws_iam_policy" "pass_role" {
  count = var.execution_role == "none" ? 0 : 1

  name        = "${var.prefix}-pass-role"
  description = "Hands roles of programs to AgentCore alone."
  policy      = templatefile("${path.module}/policies/pass-role.json", local.scope)
}

resource "aws_iam_policy" "service_linked_role" {
  count = var.internal_network == "vpc" ? 1 : 0

  name        = "${var.prefix}-service-linked-role"
  description = "Lets AgentCore make its interfaces in a VPC, the first time."
  policy      = templatefile("${path.module}/policies/service-linked-role.json", local.scope)
}

resource "aws_iam_role" "execution" {
  count = var.execution_role == "shared" ? 1 : 0

  name               = "${var.prefix}-execution"
  path               = "/${var.prefix}/"
  description        = "Of the programs of all tenants: may do nothing."
  assume_role_policy = templatefile("${path.module}/policies/execution-trust.json", local.scope)
}

resource "aws_iam_role_policy" "execution" {
  count = var.execution_role == "shared" ? 1 : 0

  name   = "cofferdam"
  role   = aws_iam_role.execution[0].id
  policy = templatefile("${path.module}/policies/execution.json", local.scope)
}

resource "aws_iam_role_policy_attachment" "worker" {
  for_each = toset(var.worker_roles)

  role       = each.value
  policy_arn = aws_iam_policy.worker.arn
}

resource "aws_iam_role_policy_attachment" "provisioner" {
  for_each = toset(var.provisioner_roles)

  role       = each.value
  policy_arn = aws_iam_policy.provisioner.arn
}

resource "aws_iam_role_policy_attachment" "provisioner_roles" {
  for_each = toset(var.execution_role == "per-tenant" ? var.provisioner_roles : [])

  role       = each.value
  policy_arn = aws_iam_policy.provisioner_roles[0].arn
}

resource "aws_iam_role_policy_attachment" "pass_role" {
  for_each = toset(var.execution_role == "none" ? [] : var.provisioner_roles)

  role       = each.value
  policy_arn = aws_iam_policy.pass_role[0].arn
}

resource "aws_iam_role_policy_attachment" "service_linked_role" {
  for_each = toset(var.internal_network == "vpc" ? var.provisioner_roles : [])

  role       = each.value
  policy_arn = aws_iam_policy.service_linked_role[0].arn
}
