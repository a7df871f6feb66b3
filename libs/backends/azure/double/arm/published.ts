/**
 * The part of Azure's management plane that session pools need, as Microsoft publishes it in
 * Azure/azure-rest-api-specs, folder specification:
 *
 *   POOLS    app/resource-manager/Microsoft.App/ContainerApps/stable/2025-07-01: SessionPools.json, examples
 *   GROUPS   resources/resource-manager/Microsoft.Resources/stable/2021-04-01: resources.json
 *   ROLES    authorization/resource-manager/Microsoft.Authorization/stable/2022-04-01:
 *            authorization-RoleAssignmentsCalls.json, examples
 *   COMMON   common-types/resource-management/v5: types.json for resources, errors and operations
 *
 * Extensible enums (`modelAsString`) accept only the values of that version. Fields that only the service
 * writes (`readOnly`) are not in requests. Of these, `id`, `name` and `type` are in each resource of an
 * answer.
 */
import { z } from 'zod'
import { createPublished, type Operation } from '@cofferdam/backend-remote/double'

const POOLS = 'SessionPools.json 2025-07-01'
const GROUPS = 'resources.json 2021-04-01'
const ROLES = 'authorization-RoleAssignmentsCalls.json 2022-04-01'
const COMMON = 'common-types v5'

const text = z.string().optional()
const tags = z.record(z.string(), z.string()).optional()
/** `format: arm-id`. */
const armId = z.string().startsWith('/')
/** COMMON, `Resource`. The examples of pools and roles have all three fields. */
const named = (type: string) => ({ id: armId, name: z.string(), type: z.literal(type) })

/** POOLS, `SessionPoolUpdatableProperties`; `env` is `EnvironmentVar` of CommonDefinitions.json. */
const updatable = {
  scaleConfiguration: z
    .strictObject({
      maxConcurrentSessions: z.int32().optional(),
      readySessionInstances: z.int32().optional(),
    })
    .optional(),
  secrets: z.array(z.strictObject({ name: text, value: text })).optional(),
  dynamicPoolConfiguration: z
    .strictObject({
      lifecycleConfiguration: z
        .strictObject({
          lifecycleType: z.enum(['Timed', 'OnContainerExit']).optional(),
          cooldownPeriodInSeconds: z.int32().optional(),
          maxAlivePeriodInSeconds: z.int32().optional(),
        })
        .optional(),
    })
    .optional(),
  customContainerTemplate: z
    .strictObject({
      registryCredentials: z
        .strictObject({ server: text, username: text, passwordSecretRef: text, identity: text })
        .optional(),
      containers: z
        .array(
          z.strictObject({
            image: text,
            name: text,
            command: z.array(z.string()).optional(),
            args: z.array(z.string()).optional(),
            env: z.array(z.strictObject({ name: text, value: text, secretRef: text })).optional(),
            resources: z.strictObject({ cpu: z.number().optional(), memory: text }).optional(),
          }),
        )
        .optional(),
      ingress: z.strictObject({ targetPort: z.int32().optional() }).optional(),
    })
    .optional(),
  sessionNetworkConfiguration: z
    .strictObject({ status: z.enum(['EgressEnabled', 'EgressDisabled']).optional() })
    .optional(),
}
/** POOLS, `SessionPool`: properties that a caller may set. */
const settable = {
  ...updatable,
  environmentId: armId.optional(),
  containerType: z.enum(['CustomContainer', 'PythonLTS']).optional(),
  poolManagementType: z.enum(['Manual', 'Dynamic']).optional(),
  managedIdentitySettings: z
    .array(z.strictObject({ identity: z.string(), lifecycle: z.enum(['None', 'Main']).optional() }))
    .optional(),
}
/** POOLS: properties that are `readOnly`. */
const written = {
  nodeCount: z.int32().optional(),
  poolManagementEndpoint: z.url().optional(),
  provisioningState: z.enum(['InProgress', 'Succeeded', 'Failed', 'Canceled', 'Deleting']).optional(),
}
/** common-types/resource-management/v3/managedidentity.json, `ManagedServiceIdentity`. */
const identity = z
  .strictObject({
    type: z.enum(['None', 'SystemAssigned', 'UserAssigned', 'SystemAssigned,UserAssigned']),
    principalId: z.guid().optional(),
    tenantId: z.guid().optional(),
    userAssignedIdentities: z.record(z.string(), z.unknown()).optional(),
  })
  .optional()
const pool = z.strictObject({
  ...named('Microsoft.App/sessionPools'),
  systemData: z.unknown().optional(),
  location: z.string(),
  tags,
  identity,
  properties: z.strictObject({ ...settable, ...written }).optional(),
})
const poolRequest = z.strictObject({
  location: z.string(),
  tags,
  identity,
  properties: z.strictObject(settable).optional(),
})
/** POOLS, `SessionPoolUpdatableProperties`. */
const poolPatch = z.strictObject({ tags, identity, properties: z.strictObject(updatable).optional() })
/** POOLS, `SessionPoolCollection`. Its examples have a `nextLink` of null. */
const poolList = z.strictObject({ value: z.array(pool), nextLink: z.string().nullish() })

/** GROUPS, `ResourceGroup`. */
const group = z.strictObject({
  ...named('Microsoft.Resources/resourceGroups'),
  location: z.string(),
  managedBy: text,
  tags,
  properties: z.strictObject({ provisioningState: text }).optional(),
})
const groupRequest = z.strictObject({ location: z.string(), managedBy: text, tags })
/** GROUPS, `ResourceListResult` of `GenericResourceExpanded`. */
const resources = z.strictObject({
  value: z.array(
    z.strictObject({
      id: armId,
      name: z.string(),
      type: z.string(),
      location: text,
      tags,
      kind: text,
      managedBy: text,
      provisioningState: text,
      createdTime: z.iso.datetime().optional(),
      changedTime: z.iso.datetime().optional(),
      ...Object.fromEntries(
        ['extendedLocation', 'plan', 'properties', 'sku', 'identity'].map((name) => [
          name,
          z.unknown().optional(),
        ]),
      ),
    }),
  ),
  nextLink: z.string().nullish(),
})

/** ROLES, `RoleAssignmentProperties`: what a caller may set. */
const roleSettable = {
  roleDefinitionId: z.string(),
  principalId: z.string(),
  principalType: z.enum(['User', 'Group', 'ServicePrincipal', 'ForeignGroup']).optional(),
  description: text,
  condition: text,
  conditionVersion: z.literal('2.0').optional(),
  delegatedManagedIdentityResourceId: text,
}
/** ROLES, `RoleAssignment`. Its examples have a scope. */
const role = z.strictObject({
  ...named('Microsoft.Authorization/roleAssignments'),
  properties: z.strictObject({
    ...roleSettable,
    scope: armId,
    createdOn: z.iso.datetime().optional(),
    updatedOn: z.iso.datetime().optional(),
    createdBy: text,
    updatedBy: text,
  }),
})

/** COMMON, `ErrorDetail`. `code` and `message` are required here, because every client reads them. */
const errorDetail = z.strictObject({
  code: z.string(),
  message: z.string(),
  target: text,
  details: z.array(z.unknown()).optional(),
  additionalInfo: z.array(z.unknown()).optional(),
})
/** COMMON, `OperationStatusResult`. */
const operationStatus = z.strictObject({
  id: armId.optional(),
  name: text,
  status: z.string(),
  percentComplete: z.number().min(0).max(100).optional(),
  startTime: z.iso.datetime().optional(),
  endTime: z.iso.datetime().optional(),
  operations: z.array(z.unknown()).optional(),
  error: errorDetail.optional(),
  resourceId: armId.optional(),
})

const GROUP = '/subscriptions/[^/]+/resourcegroups/[^/]+'
const at = (path: string): RegExp => new RegExp(`^${path}$`, 'i')
const POOL = at(`${GROUP}/providers/microsoft\\.app/sessionpools/[a-z][a-z0-9]{2,62}`)
const LIST = at('/subscriptions/[^/]+(/resourcegroups/[^/]+)?/providers/microsoft\\.app/sessionpools')
const ROLE = at('/.+/providers/microsoft\\.authorization/roleassignments/[0-9a-f-]{36}')

const OPERATIONS: readonly Operation[] = [
  { source: POOLS, method: 'GET', path: LIST, answers: { 200: poolList } },
  { source: POOLS, method: 'GET', path: POOL, answers: { 200: pool } },
  { source: POOLS, method: 'PUT', path: POOL, request: poolRequest, answers: { 200: pool, 201: pool } },
  { source: POOLS, method: 'PATCH', path: POOL, request: poolPatch, answers: { 200: pool, 202: null } },
  { source: POOLS, method: 'DELETE', path: POOL, answers: { 202: null, 204: null } },
  { source: GROUPS, method: 'GET', path: at(GROUP), answers: { 200: group } },
  {
    source: GROUPS,
    method: 'PUT',
    path: at(GROUP),
    request: groupRequest,
    answers: { 200: group, 201: group },
  },
  { source: GROUPS, method: 'DELETE', path: at(GROUP), answers: { 200: null, 202: null } },
  { source: GROUPS, method: 'GET', path: at(`${GROUP}/resources`), answers: { 200: resources } },
  { source: ROLES, method: 'GET', path: ROLE, answers: { 200: role } },
  {
    source: ROLES,
    method: 'PUT',
    path: ROLE,
    request: z.strictObject({ properties: z.strictObject(roleSettable) }),
    answers: { 200: role, 201: role },
  },
  {
    source: COMMON,
    method: 'GET',
    path: at('/subscriptions/[^/]+/providers/[^/]+/locations/[^/]+/operationstatuses/[^/]+'),
    answers: { 200: operationStatus },
  },
  // The URL of a `Location` header: it answers 202 until the end (`Deployments_Delete`). For pools, the
  // answer at the end is not published.
  {
    source: GROUPS,
    method: 'GET',
    path: at('/subscriptions/[^/]+(/providers/[^/]+/locations/[^/]+)?/operationresults/[^/]+'),
    answers: { 200: null, 202: null },
  },
]

export const AZURE_ARM = createPublished('Azure', OPERATIONS, z.strictObject({ error: errorDetail }))
