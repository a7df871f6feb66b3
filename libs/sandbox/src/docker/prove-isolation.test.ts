/** Judges evidence, and takes real evidence from containers of this machine's engine. */
import { createServer, request, type RequestListener } from 'node:http'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DEFAULT_LIMITS, newExecutionId, newSandboxId, newWorkerId } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import Docker from 'dockerode'
import { expect, test } from 'vitest'
import { createDockerBackend } from './index.ts'
import { judge } from './prove-isolation.ts'

const HOST = { release: '6.1.0-host', bootId: 'adb26fd7' }
const GUEST = { release: '6.12.28-kata', bootId: '0c7ab150' }
const HARDWARE = { hardware: true, why: null, fix: null }
const NONE = { hardware: false, why: 'no vmx', fix: 'another host' }
const here = { inside: GUEST, outside: HOST, own: HOST, hardware: HARDWARE }

test.each([
  ['another kernel with hardware here', {}, 'microvm'],
  ['another kernel without hardware', { hardware: NONE }, 'microvm-emulated'],
  ['another kernel on another host', { own: { ...HOST, bootId: 'elsewhere' } }, 'microvm-emulated'],
  ['the kernel of the host', { inside: HOST }, 'container'],
  ['another boot id alone', { inside: { ...HOST, bootId: GUEST.bootId } }, 'container'],
  ['another release alone', { inside: { ...GUEST, bootId: HOST.bootId } }, 'container'],
  ['a kernel without boot id', { inside: { ...GUEST, bootId: '' } }, 'container'],
  ['a kernel without release', { inside: { ...GUEST, release: '' } }, 'container'],
  ['a reference that tells nothing', { outside: { release: '', bootId: '' } }, 'container'],
])('judges %s', (_title, changed, isolation) => {
  expect(judge({ ...here, ...changed }).isolation).toBe(isolation)
})

/**
 * A proxy to the real engine that starts `real` under the name `kata-x`, as a wrong daemon.json would. `use`
 * gets the proxy's socket, and the names of the containers that were made through it so far.
 */
async function withWrongName(
  real: string,
  use: (socketPath: string, made: readonly string[]) => Promise<void>,
): Promise<void> {
  const made: string[] = []
  const folder = await mkdtemp(join(tmpdir(), 'cofferdam-kata-'))
  const engine = (process.env['DOCKER_HOST'] ?? '/var/run/docker.sock').replace(/^unix:\/\//, '')
  const pass: RequestListener = (incoming, outgoing) => {
    const [, name] = /\/containers\/create\?.*\bname=([\w-]+)/.exec(incoming.url ?? '') ?? []
    if (name !== undefined) made.push(name)
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const sent = Buffer.concat(chunks).toString().replaceAll('"Runtime":"kata-x"', `"Runtime":"${real}"`)
      const headers = { ...incoming.headers, 'content-length': String(Buffer.byteLength(sent)) }
      const call = request({ socketPath: engine, path: incoming.url, method: incoming.method, headers })
      call.on('error', () => outgoing.destroy())
      call.on('response', (answer) => {
        const parts: Buffer[] = []
        answer.on('data', (chunk: Buffer) => parts.push(chunk))
        const isInfo = incoming.url?.endsWith('/info') === true
        if (!isInfo) {
          outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
          answer.pipe(outgoing)
          return
        }
        answer.on('end', () => {
          const info = JSON.parse(Buffer.concat(parts).toString()) as { Runtimes: object }
          outgoing.end(JSON.stringify({ ...info, Runtimes: { ...info.Runtimes, 'kata-x': {} } }))
        })
      })
      call.end(sent)
    })
  }
  const server = createServer(pass)
  // Passes the attach stream on unchanged, in both directions.
  server.on('upgrade', (incoming, socket, first) => {
    const to = connect(engine, () => {
      const lines = Object.entries(incoming.headers).map(([name, value]) => `${name}: ${String(value)}`)
      to.write(`${incoming.method} ${incoming.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
      to.write(first)
      to.pipe(socket).pipe(to)
    })
    to.on('error', () => socket.destroy())
    socket.on('error', () => to.destroy())
  })
  const path = join(folder, 'd.sock')
  await new Promise<void>((resolve) => server.listen(path, resolve))
  try {
    await use(path, made)
  } finally {
    server.closeAllConnections()
    server.close()
    await rm(folder, { recursive: true })
  }
}

const spec = () => ({
  sandboxId: newSandboxId(),
  executionId: newExecutionId(),
  attempt: 1,
  tenantId: 'kata',
  owner: newWorkerId('facade000002'),
  program: { type: 'script', language: 'python', source: 'import os\nprint(os.uname().release)' } as const,
  limits: DEFAULT_LIMITS,
  network: 'none' as const,
  env: {},
  preload: null,
  reuse: 'job' as const,
  session: null,
})

needs('docker').it(
  'calls a runtime kata-x that is runc what it is, and leaves no container',
  async () => {
    const release = (await readFile('/proc/sys/kernel/osrelease', 'utf8')).trim()
    await withWrongName('runc', async (host, made) => {
      await using backend = await createDockerBackend({ host, runtime: 'kata-x' })
      const probe = await backend.probe(AbortSignal.timeout(170_000))
      expect(probe).toMatchObject({
        ok: true,
        features: expect.arrayContaining([
          `isolation container: programs run on the host’s kernel (${release})`,
        ]),
      })
      expect(backend.isolation).toBe('container')
      const one = spec()
      await using sandbox = await backend.open(one, AbortSignal.timeout(170_000))
      expect(sandbox.isolation).toBe('container')
      // Only this test's containers: other test runs on the same engine may have such containers too.
      const name = made.filter((one) => one.startsWith('cofferdam-kernel-'))
      expect(name).not.toEqual([])
      expect(await new Docker().listContainers({ all: true, filters: { name } })).toEqual([])
    })
  },
  600_000,
)

needs('gvisor').it(
  'calls a runtime kata-x that is runsc no machine',
  async () => {
    await withWrongName('runsc', async (host) => {
      await using backend = await createDockerBackend({ host, runtime: 'kata-x' })
      const probe = await backend.probe(AbortSignal.timeout(170_000))
      expect(probe).toMatchObject({
        ok: true,
        features: expect.arrayContaining([
          expect.stringMatching(/^isolation container: .*nothing is proven/),
        ]),
      })
      expect(backend.isolation).toBe('container')
    })
  },
  600_000,
)
