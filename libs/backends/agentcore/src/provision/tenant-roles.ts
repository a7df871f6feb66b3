/** A role for each tenant, if the configuration asks for it. The first use loads the SDK. */
import { isDeepStrictEqual } from 'node:util'
import type { KeyedClient } from '../hide-keys.ts'
import { AwsFailure, calling, isAwsFailure } from './aws-failure.ts'
import type { AgentcoreProvisionConfig } from './config.ts'
import { clientOptions } from './control-plane.ts'
import { roleName } from './interpreter-name.ts'
import { executionPolicy, POLICY_NAME, trustPolicy } from './role-policy.ts'

/** Every method throws `AwsFailure`. */
export interface TenantRoles extends AsyncDisposable {
  /** Creates the tenant's role if needed and rewrites its policy; null if programs get no role. */
  ensure(tenantId: string): Promise<{ arn: string; isNew: boolean } | null>
  /** Deletes the tenant's own role, but never a role named in the configuration. */
  remove(tenantId: string): Promise<void>
}

/** Makes no request. */
export function createTenantRoles(config: AgentcoreProvisionConfig): TenantRoles {
  if (config.execution_role !== 'per-tenant') {
    const fixed = config.execution_role === 'none' ? null : { arn: config.execution_role, isNew: false }
    return {
      ensure: () => Promise.resolve(fixed),
      remove: () => Promise.resolve(),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }
  }
  let opened: ReturnType<typeof openIam> | undefined
  const iam = (): ReturnType<typeof openIam> => (opened ??= openIam(config))
  const trust = trustPolicy(config)

  return {
    async ensure(tenantId) {
      const { sdk, client } = await iam()
      const name = roleName(config.prefix, tenantId)
      const made = await createOrGet(await iam(), config, name, trust)
      await calling(client, 'PutRolePolicy', () =>
        client.send(
          new sdk.PutRolePolicyCommand({
            RoleName: name,
            PolicyName: POLICY_NAME,
            PolicyDocument: JSON.stringify(executionPolicy(config, tenantId)),
          }),
        ),
      )
      return made
    },
    async remove(tenantId) {
      const { sdk, client } = await iam()
      const RoleName = roleName(config.prefix, tenantId)
      await unlessGone(client, 'DeleteRolePolicy', () =>
        client.send(new sdk.DeleteRolePolicyCommand({ RoleName, PolicyName: POLICY_NAME })),
      )
      await unlessGone(client, 'DeleteRole', () => client.send(new sdk.DeleteRoleCommand({ RoleName })))
    },
    async [Symbol.asyncDispose]() {
      if (opened !== undefined) (await opened).client.destroy()
    },
  }
}

async function openIam(config: AgentcoreProvisionConfig) {
  const sdk = await import('@aws-sdk/client-iam')
  const client = new sdk.IAMClient(clientOptions(config, config.iam_url))
  return { sdk, client }
}

async function createOrGet(
  { sdk, client }: Awaited<ReturnType<typeof openIam>>,
  config: AgentcoreProvisionConfig,
  name: string,
  trust: object,
): Promise<{ arn: string; isNew: boolean }> {
  try {
    const { Role } = await calling(client, 'CreateRole', () =>
      client.send(
        new sdk.CreateRoleCommand({
          RoleName: name,
          Path: `/${config.prefix}/`,
          Description: 'Of the programs of one tenant; made by cofferdam provision agentcore.',
          AssumeRolePolicyDocument: JSON.stringify(trust),
        }),
      ),
    )
    return { arn: Role?.Arn ?? '', isNew: true }
  } catch (error) {
    if (!isAwsFailure(error, 'conflict')) throw error
  }
  const { Role } = await calling(client, 'GetRole', () =>
    client.send(new sdk.GetRoleCommand({ RoleName: name })),
  )
  // IAM returns the document URL-encoded.
  const found = parsedOrNull(decodeURIComponent(Role?.AssumeRolePolicyDocument ?? ''))
  if (Role?.Arn === undefined || !isDeepStrictEqual(found, trust))
    throw new AwsFailure(
      'invalid',
      `Role ${name} exists and may be taken by others than the service for this account: it is not used. Delete it, or correct its trust policy.`,
      null,
    )
  return { arn: Role.Arn, isNew: false }
}

async function unlessGone(client: KeyedClient, what: string, call: () => Promise<unknown>): Promise<void> {
  try {
    await calling(client, what, call)
  } catch (error) {
    if (!isAwsFailure(error, 'gone')) throw error
  }
}

function parsedOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
