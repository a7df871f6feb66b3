/**
 * Our client of Azure's management plane and its double, compared with Microsoft's published API. The double
 * checks each of its answers in every test that uses it.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { AZURE_ARM } from '../double/arm/published.ts'
import { startAzureDouble } from '../double/azure-double.ts'
import { ARM_AUDIENCE, ARM_DEFAULTS, createArmClient } from '../src/arm/arm-client.ts'
import { makePool, type PoolPlan } from '../src/arm/provision-pool.ts'

/**
 * From Azure/azure-rest-api-specs (MIT): of Microsoft.App 2025-07-01
 * SessionPools_LifecycleTimed_CreateOrUpdate.json (200), SessionPools_Patch.json (202 with a `Location` and
 * no body) and SessionPools_ListByResourceGroup.json (null link); of Microsoft.Authorization 2022-04-01
 * RoleAssignments_CreateForResource.json.
 */
const SUBSCRIPTION = '34adfa4f-cedf-4dc0-ba29-b6d1a69ab345'
const RG = `/subscriptions/${SUBSCRIPTION}/resourceGroups/rg`
const POOL_ID = `${RG}/providers/Microsoft.App/sessionPools/testsessionpool`
const ENDPOINT = 'https://testsessionpool.agreeableriver-3d30edf1.eastus.azurecontainerapps.io'
const POOL = {
  id: POOL_ID,
  name: 'testsessionpool',
  type: 'Microsoft.App/sessionPools',
  location: 'East US',
  properties: {
    provisioningState: 'Succeeded',
    environmentId: `${RG}/providers/Microsoft.App/managedEnvironments/demokube`,
    poolManagementType: 'Dynamic',
    nodeCount: 1,
    containerType: 'CustomContainer',
    scaleConfiguration: { maxConcurrentSessions: 500, readySessionInstances: 100 },
    dynamicPoolConfiguration: {
      lifecycleConfiguration: { lifecycleType: 'Timed', maxAlivePeriodInSeconds: 600 },
    },
    customContainerTemplate: {
      containers: [
        {
          image: 'repo/testcontainer:v4',
          name: 'testinitcontainer',
          resources: { cpu: 0.25, memory: '0.5Gi' },
          command: ['/bin/sh'],
          args: ['-c', 'while true; do echo hello; sleep 10;done'],
        },
      ],
      ingress: { targetPort: 80 },
      registryCredentials: {
        server: 'test.azurecr.io',
        identity:
          '/subscriptions/7a497526-bb8d-4816-9795-db1418a1f977/resourcegroups/test' +
          '/providers/Microsoft.ManagedIdentity/userAssignedIdentities/testSP',
      },
    },
    sessionNetworkConfiguration: { status: 'EgressEnabled' },
    poolManagementEndpoint: ENDPOINT,
  },
  identity: {
    type: 'SystemAssigned',
    principalId: 'bce8c037-3d10-44a4-a970-25f799611fc6',
    tenantId: '72f988bf-86f1-41af-91ab-2d7cd011db47',
  },
}
const ROLE_SCOPE =
  '/subscriptions/a925f2f7-5c63-4b7b-8799-25a5f97bc3b2/resourceGroups/testrg' +
  '/providers/Microsoft.DocumentDb/databaseAccounts/test-db-account'
const ROLE_NAME = '05c5a614-a7d6-4502-b150-c2fb455033ff'
const ROLE_ID = `${ROLE_SCOPE}/providers/Microsoft.Authorization/roleAssignments/${ROLE_NAME}`
const ROLE = {
  properties: {
    roleDefinitionId:
      '/providers/Microsoft.Authorization/roleDefinitions/0b5fe924-9a61-425c-96af-cfe6e287ca2d',
    principalId: 'ce2ce14e-85d7-4629-bdbc-454d0519d987',
    principalType: 'User',
    scope: ROLE_SCOPE,
  },
  id: ROLE_ID,
  type: 'Microsoft.Authorization/roleAssignments',
  name: ROLE_NAME,
}

it('the shapes of the double’s management plane accept Azure’s examples', () => {
  for (const status of [200, 201]) AZURE_ARM.checkAnswer('PUT', POOL_ID, status, POOL)
  AZURE_ARM.checkAnswer('GET', `${RG}/providers/Microsoft.App/sessionPools`, 200, {
    value: [POOL],
    nextLink: null,
  })
  AZURE_ARM.checkAnswer('PATCH', POOL_ID, 202, undefined)
  AZURE_ARM.checkAnswer('PUT', ROLE_ID, 201, ROLE)
  expect(() => AZURE_ARM.checkAnswer('PATCH', POOL_ID, 202, POOL)).toThrow('there is a body')
})

it('provisions a pool with Microsoft’s example answers, and sends published requests', async () => {
  const puts: string[] = []
  const made = { ...POOL, tags: { 'fleet-owner': 'fleet' } }
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (part: Buffer) => (text += part.toString()))
    request.on('end', () => {
      const [method, path] = [request.method ?? '', new URL(request.url ?? '/', 'http://vendor').pathname]
      if (method === 'PUT') {
        expect.soft(AZURE_ARM.faultOfRequest(method, path, JSON.parse(text))).toBeNull()
        puts.push(path)
      }
      const isRole = path.includes('/roleAssignments/')
      const isThere = method === 'PUT' || path === RG || puts.includes(path)
      response.writeHead(isThere ? 200 : 404, { 'Content-Type': 'application/json' })
      const missing = { error: { code: 'ResourceNotFound', message: 'absent' } }
      const found = isRole ? ROLE : path === RG ? { location: 'eastus' } : made
      response.end(JSON.stringify(isThere ? found : missing))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const arm = createArmClient(
    { ...ARM_DEFAULTS, endpoint, retryMs: 1 },
    { get: async () => 'token', refused: () => undefined },
  )
  const plan: PoolPlan = {
    subscription: SUBSCRIPTION,
    resource_group: 'rg',
    pool_name: 'testsessionpool',
    location: 'East US',
    owner: 'fleet',
  }
  const steps = {
    arm,
    principals: [ROLE.properties.principalId],
    signal: AbortSignal.timeout(10_000),
    keep: async () => undefined,
  }
  expect(await makePool(steps, plan)).toEqual({ endpoint: ENDPOINT, location: 'East US', pool_id: POOL_ID })
  expect(puts).toEqual([POOL_ID, expect.stringContaining(`${POOL_ID}/providers/Microsoft.Authorization/`)])
})

it('the double refuses unpublished bodies, and answers a change with only a Location', async () => {
  await using double = await startAzureDouble({ pools: [] })
  const group = { id: RG, location: 'eastus', tags: {} }
  double.arm.groups.set(RG.toLowerCase(), group)
  const { token } = double.identity.mint(ARM_AUDIENCE, 'test')
  const call = (method: string, properties: object, more: object = {}) =>
    fetch(`${double.origin}${POOL_ID}?api-version=2025-07-01`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...more, properties }),
    })
  const eastus = { location: 'eastus' }
  const refused = await call('PUT', { containerType: 'PythonLTS', cooldown: 300 }, eastus)
  expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('cooldown')])
  expect((await call('PUT', { containerType: 'PythonLTS' }, eastus)).status).toBe(201)
  const changed = await call('PATCH', { scaleConfiguration: { maxConcurrentSessions: 7 } })
  expect([changed.status, await changed.text()]).toEqual([202, ''])
  expect(changed.headers.get('location')).toMatch(/\/providers\/Microsoft\.App\/locations\/.+api-version=/)
  const status = await fetch(changed.headers.get('azure-asyncoperation') ?? '', {
    headers: { authorization: `Bearer ${token}` },
  })
  expect(await status.json()).toMatchObject({
    id: expect.stringMatching(/^\/subscriptions\//),
    name: expect.any(String),
  })
})
