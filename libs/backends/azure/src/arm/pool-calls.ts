/** The ARM calls that a session pool needs: its group, the pool itself, and the role of its users. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { ArmAnswer, ArmClient } from './arm-client.ts'

const GROUPS = 'api-version=2021-04-01'
const POOLS = 'api-version=2025-07-01'
const ROLES = 'api-version=2022-04-01'
/** The role "Azure ContainerApps Session Executor". */
const EXECUTOR_ROLE = '0fb8eba5-a2bb-4abe-b1c1-49dfad359bb0'

const tagsSchema = z.record(z.string(), z.string()).nullish()
const groupSchema = z.object({ location: z.string(), tags: tagsSchema })
const poolSchema = z.object({
  id: z.string(),
  location: z.string(),
  tags: tagsSchema,
  properties: z.object({
    provisioningState: z.string().optional(),
    poolManagementEndpoint: z.string().optional(),
  }),
})
const listSchema = z.object({
  value: z.array(z.object({ id: z.string() })),
  nextLink: z.string().nullish(),
})
export type ArmPool = z.output<typeof poolSchema>
export type ArmTags = z.output<typeof tagsSchema>

/** The names of one pool. ARM ignores case when it compares them. */
export interface PoolPlace {
  subscription: string
  resource_group: string
  pool_name: string
}

const groupPath = (at: PoolPlace): string =>
  `/subscriptions/${at.subscription}/resourceGroups/${at.resource_group}`
/** The pool's resource ID. */
export const poolIdOf = (at: PoolPlace): string =>
  `${groupPath(at)}/providers/Microsoft.App/sessionPools/${at.pool_name}`

export async function getGroup(arm: ArmClient, at: PoolPlace, signal: AbortSignal) {
  const answer = await arm.send({ method: 'GET', path: `${groupPath(at)}?${GROUPS}` }, signal)
  return answer.status === 404 ? null : groupSchema.parse(answer.body)
}

export async function putGroup(
  arm: ArmClient,
  at: PoolPlace,
  group: { location: string; tags: Record<string, string> },
  signal: AbortSignal,
): Promise<void> {
  await arm.send({ method: 'PUT', path: `${groupPath(at)}?${GROUPS}`, body: group }, signal)
}

/** Returns true if the group is empty. If there is another page, it is not. */
export async function isGroupEmpty(arm: ArmClient, at: PoolPlace, signal: AbortSignal): Promise<boolean> {
  const answer = await arm.send({ method: 'GET', path: `${groupPath(at)}/resources?${GROUPS}` }, signal)
  if (answer.status === 404) return true
  const { value, nextLink } = listSchema.parse(answer.body)
  return value.length === 0 && (nextLink ?? '') === ''
}

export function deleteGroup(arm: ArmClient, at: PoolPlace, signal: AbortSignal): Promise<ArmAnswer> {
  return arm.send({ method: 'DELETE', path: `${groupPath(at)}?${GROUPS}` }, signal)
}

export async function getPool(arm: ArmClient, at: PoolPlace, signal: AbortSignal): Promise<ArmPool | null> {
  const answer = await arm.send({ method: 'GET', path: `${poolIdOf(at)}?${POOLS}` }, signal)
  return answer.status === 404 ? null : poolSchema.parse(answer.body)
}

/** Creates a Python pool: at most ten sessions, no egress, a cooldown of 300 s without a call. */
export function putPool(
  arm: ArmClient,
  at: PoolPlace,
  pool: { location: string; tags: Record<string, string> },
  signal: AbortSignal,
): Promise<ArmAnswer> {
  const properties = {
    poolManagementType: 'Dynamic',
    containerType: 'PythonLTS',
    scaleConfiguration: { maxConcurrentSessions: 10, readySessionInstances: 0 },
    dynamicPoolConfiguration: {
      lifecycleConfiguration: { lifecycleType: 'Timed', cooldownPeriodInSeconds: 300 },
    },
    sessionNetworkConfiguration: { status: 'EgressDisabled' },
  }
  return arm.send({ method: 'PUT', path: `${poolIdOf(at)}?${POOLS}`, body: { ...pool, properties } }, signal)
}

export function deletePool(arm: ArmClient, at: PoolPlace, signal: AbortSignal): Promise<ArmAnswer> {
  return arm.send({ method: 'DELETE', path: `${poolIdOf(at)}?${POOLS}` }, signal)
}

/**
 * Lets a principal run programs in the pool. A repeat has no effect, because the role assignment's name is
 * derived from its content.
 */
export async function putExecutorRole(
  arm: ArmClient,
  at: PoolPlace,
  principalId: string,
  signal: AbortSignal,
): Promise<void> {
  const scope = poolIdOf(at)
  const name = uuidOf(`${scope.toLowerCase()} ${EXECUTOR_ROLE} ${principalId.toLowerCase()}`)
  const roleDefinitionId = `/subscriptions/${at.subscription}/providers/Microsoft.Authorization/roleDefinitions/${EXECUTOR_ROLE}`
  const path = `${scope}/providers/Microsoft.Authorization/roleAssignments/${name}?${ROLES}`
  await arm.send({ method: 'PUT', path, body: { properties: { roleDefinitionId, principalId } } }, signal)
}

function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex')
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-')
}
