/**
 * Who may take a tenant's role, and what it may do. Programs inside of an interpreter can read the role's credentials, so
 * that whatever it may do, they may: nothing, or their own tenant's objects. The denial also binds policies that somebody
 * attaches later.
 */
import type { AgentcoreProvisionConfig } from './config.ts'

/** Name of the one inline policy of a role. */
export const POLICY_NAME = 'cofferdam'

type Scope = Pick<AgentcoreProvisionConfig, 'region' | 'account_id' | 'data_bucket'>

/** The service alone, for interpreters of this account and region alone (no confused deputy). */
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

/** What the programs of `tenantId` may do with AWS. */
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
