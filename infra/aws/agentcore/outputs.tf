output "worker_policy_arn" {
  description = "For whoever runs programs."
  value       = aws_iam_policy.worker.arn
}

output "provisioner_policy_arn" {
  description = "For whoever makes interpreters."
  value       = aws_iam_policy.provisioner.arn
}

output "execution_role_arn" {
  description = "For provisioning.agentcore.execution_role, where execution_role is shared; else null."
  value       = one(aws_iam_role.execution[*].arn)
}

output "account_id" {
  description = "For provisioning.agentcore.account_id."
  value       = local.scope.account_id
}
