/** Tests the double's management plane with Microsoft's unmodified @azure/arm-appcontainers, over TLS. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ContainerAppsAPIClient, type SessionPool } from '@azure/arm-appcontainers'
import { AzureCliCredential } from '@azure/identity'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { writeAzStub } from '../double/az-stub.ts'
import { startAzureDouble, type AzureDouble } from '../double/azure-double.ts'
import { PRINCIPAL } from '../double/identity.ts'
import { azureProvisionConfigSchema } from '../src/arm/config.ts'
import { createPoolProvisioner, type PoolProvisioner } from '../src/arm/pool-provisioner.ts'
import type { PoolPlan } from '../src/arm/provision-pool.ts'

const SUBSCRIPTION = '11111111-2222-3333-4444-555555555555'
const GROUP = 'rg-double'

function certificate(folder: string): { key: string; cert: string } {
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const words = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=double'
  const names = ['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert]
  execFileSync('openssl', [...words.split(' '), ...names], { stdio: 'ignore' })
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
}

needs('openssl').describe('Azure’s double, called by Microsoft’s management client,', () => {
  const folder = temporaryFolder('azure-arm')
  let double: AzureDouble
  let pools: ContainerAppsAPIClient['containerAppsSessionPools']
  let ours: PoolProvisioner

  beforeAll(async () => {
    const tls = certificate(folder)
    double = await startAzureDouble({ pools: [], tls })
    await writeAzStub(double.identity, folder)
    vi.stubEnv('PATH', `${folder}:${process.env['PATH'] ?? ''}`)
    const client = new ContainerAppsAPIClient(new AzureCliCredential(), SUBSCRIPTION, {
      endpoint: double.tlsOrigin ?? '',
      tlsOptions: { ca: tls.cert },
      retryOptions: { maxRetries: 2, retryDelayInMs: 1, maxRetryDelayInMs: 1 },
    })
    pools = client.containerAppsSessionPools
    ours = createPoolProvisioner(
      azureProvisionConfigSchema.parse({
        subscription: SUBSCRIPTION,
        arm_endpoint: double.origin,
        credentials: ['azure-cli'],
        az: join(folder, 'az'),
        retry_ms: 1,
      }),
    )
    double.arm.groups.set(`/subscriptions/${SUBSCRIPTION}/resourcegroups/${GROUP}`, {
      id: `/subscriptions/${SUBSCRIPTION}/resourceGroups/${GROUP}`,
      location: 'eastus',
      tags: {},
    })
  })
  afterEach(
    () =>
      void Object.assign(double.arm.faults, { polls: 1, fail_pool: false, throttle: 0, retry_after: null }),
  )
  afterAll(async () => {
    vi.unstubAllEnvs()
    await double[Symbol.asyncDispose]()
  })

  const wanted: SessionPool = {
    location: 'eastus',
    tags: { made: 'theirs' },
    poolManagementType: 'Dynamic',
    containerType: 'PythonLTS',
    scaleConfiguration: { maxConcurrentSessions: 10 },
    dynamicPoolConfiguration: {
      lifecycleConfiguration: { lifecycleType: 'Timed', cooldownPeriodInSeconds: 300 },
    },
    sessionNetworkConfiguration: { status: 'EgressDisabled' },
  }
  const quickly = { updateIntervalInMs: 1 }
  const listed = async (pages: AsyncIterable<SessionPool>): Promise<(string | undefined)[]> =>
    (await Array.fromAsync(pages)).map(({ name }) => name)

  it('creates, shows, changes, lists and deletes pools with long-running operations', async () => {
    double.arm.faults.polls = 3
    const made = await pools.createOrUpdate(GROUP, 'theirs', wanted, quickly)
    expect(made).toMatchObject({
      ...wanted,
      name: 'theirs',
      type: 'Microsoft.App/sessionPools',
      provisioningState: 'Succeeded',
      poolManagementEndpoint: double.endpoint('theirs'),
    })
    expect(await pools.get(GROUP, 'THEIRS')).toEqual(made)

    const changed = await pools.update(
      GROUP,
      'theirs',
      { tags: { made: 'twice' }, scaleConfiguration: { maxConcurrentSessions: 7 } },
      quickly,
    )
    expect(changed).toMatchObject({
      tags: { made: 'twice' },
      scaleConfiguration: { maxConcurrentSessions: 7 },
      poolManagementEndpoint: double.endpoint('theirs'),
    })
    const again = await pools.createOrUpdate(GROUP, 'theirs', wanted, quickly)
    expect(again.poolManagementEndpoint).toBe(made.poolManagementEndpoint)

    await pools.createOrUpdate(GROUP, 'another', wanted, quickly)
    expect(await listed(pools.listByResourceGroup(GROUP))).toEqual(['theirs', 'another'])
    expect(await listed(pools.listBySubscription())).toEqual(['theirs', 'another'])
    for (const name of ['theirs', 'another', 'another']) await pools.delete(GROUP, name, quickly)
    expect(await listed(pools.listByResourceGroup(GROUP))).toEqual([])
    expect(() => double.pool('theirs')).toThrow('has no pool')
  })

  it('refuses calls in a form that the client understands, and accepts its retries', async () => {
    await expect(pools.get(GROUP, 'absent')).rejects.toMatchObject({
      statusCode: 404,
      code: 'ResourceNotFound',
    })
    await expect(listed(pools.listByResourceGroup('absent'))).rejects.toMatchObject({
      code: 'ResourceGroupNotFound',
    })
    await expect(pools.createOrUpdate(GROUP, 'Bad-Name', wanted, quickly)).rejects.toMatchObject({
      statusCode: 400,
    })
    Object.assign(double.arm.faults, { throttle: 2, retry_after: 0 })
    expect(await listed(pools.listBySubscription())).toEqual([])
    double.arm.faults.fail_pool = true
    await expect(pools.createOrUpdate(GROUP, 'failing', wanted, quickly)).rejects.toThrow('PoolFailed')
    expect(await pools.get(GROUP, 'failing')).toMatchObject({ provisioningState: 'Failed' })
    await pools.delete(GROUP, 'failing', quickly)
  })

  it('shows the client a pool from our provisioning, with the role of the token’s principal', async () => {
    const plan: PoolPlan = {
      subscription: SUBSCRIPTION,
      resource_group: GROUP,
      pool_name: 'ours',
      location: 'eastus',
      owner: 'fleet',
    }
    const work = { keep: async () => undefined, signal: AbortSignal.timeout(30_000) }
    const made = await ours.make(plan, work)
    const { tags: _tags, ...settings } = wanted
    expect(await pools.get(GROUP, 'ours')).toMatchObject({
      ...settings,
      id: made.pool_id,
      tags: { 'fleet-owner': 'fleet' },
      poolManagementEndpoint: made.endpoint,
    })
    expect([...double.arm.roles.values()]).toEqual([
      {
        principalId: PRINCIPAL,
        roleDefinitionId: `/subscriptions/${SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/0fb8eba5-a2bb-4abe-b1c1-49dfad359bb0`,
      },
    ])
    await ours.removePool(plan, work)
    await expect(pools.get(GROUP, 'ours')).rejects.toMatchObject({ statusCode: 404 })
  })
})
