/**
 * The image of API, worker and dispatcher: two builds have one ID, its bill of materials is complete, and a
 * fleet of it runs an execution on the Docker engine.
 */
import { execFile } from 'node:child_process'
import { chmodSync, chownSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { createClient } from '@cofferdam/client'
import { startPostgres, startRedis } from '@cofferdam/embedded'
import { needs } from '@cofferdam/embedded/needs'
import { freePort } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { buildFleetImage, type FleetImage } from './fleet/build-fleet.ts'
import { FLEET_USER } from './fleet/fleet-root.ts'
import { digestOf } from './fleet/image-archive.ts'
import type { Sbom } from './fleet/sbom.ts'

const run = promisify(execFile)
const BUILD_MS = 1_800_000
/** The restrictions under which the chart and docker-compose.yml start the image. */
const HARDENED = [
  '--read-only',
  '--tmpfs=/tmp:mode=1777',
  '--cap-drop=ALL',
  '--security-opt=no-new-privileges',
]

needs('docker', 'root', 'apt').describe('the image of the fleet', () => {
  let folder: string
  let image: FleetImage
  const containers: string[] = []

  const docker = async (...args: string[]): Promise<string> =>
    (await run('docker', args, { maxBuffer: 64 * 1024 * 1024 })).stdout.trim()
  /** What a program in the image prints. */
  const inImage = (entrypoint: string, ...args: string[]): Promise<string> =>
    docker('run', '--rm', ...HARDENED, '--network=none', `--entrypoint=${entrypoint}`, image.id, ...args)

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cofferdam-fleet-test-'))
    chmodSync(folder, 0o711)
    image = await buildFleetImage({ output: join(folder, 'first') })
    await docker('load', '--quiet', '--input', image.archive)
  }, BUILD_MS)
  afterAll(async () => {
    if (containers.length > 0) await docker('rm', '--force', '--volumes', ...containers)
    if (image !== undefined) await docker('rmi', '--force', image.id)
    await rm(folder, { recursive: true })
  })

  it(
    'is the same, byte by byte, when it is built again, and has the ID that the build told',
    { timeout: BUILD_MS },
    async () => {
      const again = await buildFleetImage({ output: join(folder, 'second') })
      expect(again.id).toBe(image.id)
      expect(await digestOf(again.archive)).toBe(await digestOf(image.archive))
      expect(await docker('image', 'inspect', '--format={{.Id}}', image.name)).toBe(image.id)
    },
  )

  it('runs as its own user, and only /data belongs to that user', async () => {
    expect(await inImage('id', '--user')).toBe(String(FLEET_USER))
    expect(await inImage('stat', '--format=%u %a', '/data', '/app', '/tmp')).toBe(
      `${FLEET_USER} 700\n0 755\n0 1777`,
    )
    const owned = `import os
for path, folders, files in os.walk('/'):
    folders[:] = [one for one in folders if os.path.join(path, one) not in ('/proc', '/sys', '/dev', '/tmp')]
    for name in folders + files:
        full = os.path.join(path, name)
        if os.lstat(full).st_uid == ${FLEET_USER}: print(full)`
    expect(await inImage('python3', '-c', owned)).toBe('/data')
  })

  it('has a bill of materials with every package of npm and Debian in it, and none of development', async () => {
    const sbom = JSON.parse(readFileSync(image.sbom, 'utf8')) as Sbom
    expect(await inImage('cat', '/usr/share/cofferdam/sbom.cdx.json')).toBe(
      readFileSync(image.sbom, 'utf8').trim(),
    )
    expect(sbom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' })
    const purls = new Set(sbom.components.map(({ purl }) => purl))
    const installed = `const { globSync, readFileSync } = require('node:fs')
for (const path of globSync('/app/node_modules/**/package.json')) {
  const { name, version } = JSON.parse(readFileSync(path, 'utf8'))
  if (/node_modules\\/(@[^/]+\\/)?[^/]+\\/package.json$/.test(path) && name && version)
    console.log('pkg:npm/' + name.replace('@', '%40') + '@' + version)
}`
    // Our own packages are the subject of the bill of materials, not entries in it.
    const found = (await inImage('node', '-e', installed))
      .split('\n')
      .filter((purl) => !purl.startsWith('pkg:npm/%40cofferdam/'))
    expect(found.length).toBeGreaterThan(150)
    expect(found.filter((purl) => !purls.has(purl))).toEqual([])
    expect([...purls].filter((purl) => /\/(vitest|oxlint|kubernetes-models)@/.test(purl))).toEqual([])
    for (const name of ['python3', 'bubblewrap', 'libc6', 'ca-certificates'])
      expect(
        [...purls].some((purl) => purl.startsWith(`pkg:deb/debian/${name}@`)),
        name,
      ).toBe(true)
  })

  it('serves: API and worker of it run an execution', async () => {
    await using stores = new AsyncDisposableStack()
    const redis = await startRedis({ dataDir: join(folder, 'redis'), durable: false })
    stores.defer(() => redis.stop())
    const postgres = await startPostgres({ dataDir: join(folder, 'postgres'), durable: false })
    stores.defer(() => postgres.stop())
    // Redis and Postgres listen on sockets in their own folders, which the image's user must be able to
    // enter.
    const redisSocket = redis.url.replace(/^unix:\/\//, '')
    const postgresFolder = decodeURIComponent(/host=([^&]+)/.exec(postgres.url)?.[1] ?? '')
    chmodSync(redisSocket, 0o777)
    chmodSync(join(postgresFolder, '.s.PGSQL.5432'), 0o777)
    for (const path of [dirname(redisSocket), postgresFolder]) chmodSync(path, statSync(path).mode | 0o111)

    const data = await mkdtemp(join(folder, 'data-'))
    chownSync(data, FLEET_USER, FLEET_USER)
    const [port, metrics] = [await freePort(), await freePort()]
    const shared = [
      ...HARDENED,
      '--network=host',
      `--volume=${data}:/data`,
      ...[dirname(redisSocket), postgresFolder].map((path) => `--volume=${path}:${path}`),
      `--env=REDIS_URL=${redis.url}`,
      `--env=DATABASE_URL=${postgres.url}`,
    ]
    const start = async (...args: string[]): Promise<string> => {
      const id = await docker('run', '--detach', ...shared, ...args)
      containers.push(id)
      return id
    }
    await docker('run', '--rm', ...shared, image.id, 'setup', '--migrate-only')
    expect(readdirSync(data)).toEqual([])
    await docker('run', '--rm', ...shared, image.id, 'setup')
    const apiKey = readFileSync(join(data, 'admin.key'), 'utf8').trim()
    await start(`--env=COFFERDAM_PORT=${port}`, image.id, 'api')
    const worker = await start(
      '--env=COFFERDAM_BACKENDS=process',
      '--env=COFFERDAM_SLOTS=2',
      `--env=COFFERDAM_METRICS_PORT=${metrics}`,
      image.id,
      'worker',
    )
    // The probes of the chart.
    for (const url of [`http://127.0.0.1:${port}/readyz`, `http://127.0.0.1:${metrics}/readyz`])
      await expect
        .poll(() => fetch(url).then(({ status }) => status, String), { timeout: 120_000, interval: 500 })
        .toBe(200)
    await using client = createClient({ baseUrl: `http://127.0.0.1:${port}`, apiKey })
    const result = await client.run({
      tenant_id: 'demo',
      agent_id: 'a',
      program: { type: 'script', language: 'python', source: 'print(6 * 7)' },
    })
    expect(result, await docker('logs', worker)).toMatchObject({
      ok: true,
      stdout: '42\n',
      backend: 'process',
    })
    // SIGTERM reaches the process itself, which drains.
    await docker('stop', '--time=60', worker)
    expect(await docker('inspect', '--format={{.State.ExitCode}}', worker)).toBe('0')
  })
})
