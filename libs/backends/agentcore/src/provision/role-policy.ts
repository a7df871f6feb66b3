/**
 * Who may assume a tenant's role, and what the role may do. Programs in an interpreter can read the role's
 * credentials, so they may do whatever the role may: nothing, or access their own tenant's objects. The
 * policy's Deny statement also limits policies that somebody attaches later.
 */
import type { AgentcoreProvisionConfig } from './config.ts'

/** Name of a role's only inline policy. */
export const POLICY_NAME = 'cofferdam'

type Scope = Pick<AgentcoreProvisionConfig, 'region' | 'account_id' | 'data_bucket'>

/**
 * Only the service may assume the role, and only for this account and region (prevents the confused deputy
 * problem).
 */
export function trustPolicy({ region, account_id: account = '' }: Scope): object {
  return {
    Version: '2012-10-17',
    Statement: [
      {
        Sid: 'CodeInterpretersOfThisAccount',
        Effect: 'Allow',
        Principal: { Service: 'bedrock-agentcore.amazonaws.com' },
        Action: 'sts:AssumeRole',
        Condition: {
          StringEquals: { 'aws:SourceAccount': account },
          ArnLike: { 'aws:SourceArn': `arn:${partitionOf(region)}:bedrock-agentcore:${region}:${account}:*` },
        },
      },
    ],
  }
}

/** What programs of `tenantId` may do in AWS. */
export function executionPolicy(scope: Scope, tenantId: string): object {
  if (scope.data_bucket === undefined)
    return {
      Version: '2012-10-17',
      Statement: [{ Sid: 'Nothing', Effect: 'Deny', Action: '*', Resource: '*' }],
    }
  const objects = `arn:${partitionOf(scope.region)}:s3:::${scope.data_bucket}/tenants/${tenantId}/*`
  return {
    Version: '2012-10-17',
    Statement: [
      {
        Sid: 'OwnObjects',
        Effect: 'Allow',
        Action: ['s3:GetObject', 's3:PutObject'],
        Resource: objects,
      },
      { Sid: 'NothingElse', Effect: 'Deny', Action: '*', NotResource: objects },
    ],
  }
}

/** First part of ARNs in a region (docs.aws.amazon.com, "AWS partitions"). */
export function partitionOf(region: string): 'aws' | 'aws-cn' | 'aws-us-gov' {
  if (region.startsWith('cn-')) return 'aws-cn'
  return region.startsWith('us-gov-') ? 'aws-us-gov' : 'aws'
}
