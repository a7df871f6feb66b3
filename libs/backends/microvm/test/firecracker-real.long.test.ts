/**
 * The engine against a real Firecracker, and the double’s answers against its. Runs only where
 * FIRECRACKER_FOLDER names a folder with `firecracker`, `jailer` and the image of virtual machines, as root
 * on a host with hardware KVM (docs/testing.md). It has not been run yet.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import {
  createFirecrackerEngine,
  firecrackerConfigSchema,
  settingsOf,
} from '@cofferdam/backend-microvm/firecracker'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import { createVmm, type Underneath } from '../../../../infra/doubles/firecracker/vmm.ts'
import { CONTROL_PORT } from '../src/engine.ts'
import { hello } from './firecracker-host.ts'

const here = process.env['FIRECRACKER_FOLDER'] ?? '/nowhere'
const real = needs('firecracker', 'root')
const never = new AbortController().signal
const settings = settingsOf(
  firecrackerConfigSchema.parse({ firecracker: join(here, 'firecracker'), jailer: join(here, 'jailer') }),
)
const spec = {
  kernel: join(here, 'vmlinux'),
  initramfs: join(here, 'initramfs.cpio'),
  root: join(here, 'root.erofs'),
  memoryMib: 512,
  vcpus: 1,
}

real.it('boots, saves, and restores two clones that answer, on hardware', { timeout: 180_000 }, async () => {
  const engine = await createFirecrackerEngine(settings)
  expect(engine.hardware).toBe(true)
  expect(await engine.probe()).toMatchObject({ ok: true })
  const folder = mkdtempSync(join(settings.chrootBase, 'test-'))
  try {
    const template = await engine.createTemplate(spec, folder, hello, never)
    const lease = (id: string) => ({ folder, id, started: () => Promise.resolve() })
    await using one = await engine.restore(template, lease(`sbx_${folder}1`), never)
    await using two = await engine.restore(template, lease(`sbx_${folder}2`), never)
    for (const machine of [one, two]) (await machine.connect(CONTROL_PORT)).destroy()
    await one.kill()
    await one.exited
    expect(await engine.killLeft({ id: `sbx_${folder}2`, process: null })).toBe(true)
    await two.kill()
  } finally {
    await rm(folder, { recursive: true })
  }
})

/**
 * Sequences of API calls that need no guest. The double must answer each with the same status as Firecracker.
 */
const ORDERS: [string, string, unknown][][] = [
  [
    ['GET', '/version', null],
    ['GET', '/', null],
    ['GET', '/version', {}],
  ],
  [
    ['PUT', '/entropy', {}],
    ['PUT', '/entropy', { seed: 1 }],
    ['PUT', '/logger', null],
  ],
  [
    ['PUT', '/actions', { action_type: 'InstanceStart' }],
    ['PATCH', '/vm', { state: 'Paused' }],
  ],
  [
    ['PUT', '/machine-config', { vcpu_count: 0, mem_size_mib: 128 }],
    ['PUT', '/machine-config', { vcpu_count: 33, mem_size_mib: 128 }],
    ['PUT', '/machine-config', { vcpu_count: 3, mem_size_mib: 128, smt: true }],
    ['PUT', '/machine-config', { vcpu_count: 3, mem_size_mib: 0 }],
    ['PUT', '/machine-config', { vcpu_count: 3, mem_size_mib: 128 }],
    [
      'PUT',
      '/snapshot/load',
      { snapshot_path: 's', mem_backend: { backend_type: 'File', backend_path: 'm' } },
    ],
  ],
  [
    ['PUT', '/drives/a', { drive_id: 'b', path_on_host: 'image', is_root_device: false, is_read_only: true }],
    [
      'PUT',
      '/drives/a-b',
      { drive_id: 'a-b', path_on_host: 'image', is_root_device: false, is_read_only: true },
    ],
    [
      'PUT',
      '/drives/a',
      { drive_id: 'a', path_on_host: 'absent', is_root_device: false, is_read_only: true },
    ],
    ['PUT', '/drives/a', { drive_id: 'a', path_on_host: 'image', is_root_device: true, is_read_only: true }],
    ['PUT', '/drives/b', { drive_id: 'b', path_on_host: 'image', is_root_device: true, is_read_only: true }],
  ],
  [
    ['PUT', '/vsock', { guest_cid: 3, uds_path: 'v.sock' }],
    ['PUT', '/vsock', { guest_cid: 3, uds_path: 'x'.repeat(200) }],
    ['PUT', '/boot-source', { kernel_image_path: 'absent' }],
    ['PUT', '/snapshot/create', { snapshot_path: 's', mem_file_path: 'm' }],
  ],
  [
    ['PUT', '/snapshot/load', { snapshot_path: 's' }],
    ['PUT', '/nowhere', {}],
    ['POST', '/actions', {}],
  ],
]

real.it.each(
  ORDERS.map((order) => [order.map(([method, path]) => `${method} ${path}`).join(', '), order] as const),
)('answers as the double does to %s', { timeout: 180_000 }, async (_title, order) => {
  const folder = mkdtempSync('/tmp/fc-real-')
  mkdirSync(join(folder, 'run'))
  writeFileSync(join(folder, 'image'), Buffer.alloc(1_048_576))
  const socketPath = join(folder, 'run/fc.sock')
  const vmm = spawn(settings.firecracker, ['--api-sock', socketPath], { cwd: folder, stdio: 'ignore' })
  try {
    await expect.poll(() => ask(socketPath, 'GET', '/version', ''), { timeout: 60_000 }).toBe(200)
    const double = createVmm({ id: 'real', version: '1.16.1' }, onlyFiles)
    for (const [method, path, body] of order) {
      const text = body === null ? '' : JSON.stringify(body)
      const wanted = await ask(socketPath, method, path, text)
      expect([method, path, (await double.handle(method, path, text)).status]).toEqual([method, path, wanted])
    }
  } finally {
    vmm.kill('SIGKILL')
    await rm(folder, { recursive: true })
  }
})

const onlyFiles: Underneath = {
  opensForReading: async (path) => (path === 'absent' ? 'No such file' : null),
  opensLog: async () => null,
  bindsVsock: async (path) => (path.length > 107 ? 'path must be shorter than SUN_LEN' : null),
  boots: async () => null,
  pauses: async () => {},
  resumes: async () => {},
  saves: async () => null,
  loads: async () => 'no snapshot',
}

const ask = (socketPath: string, method: string, path: string, text: string): Promise<number> =>
  new Promise((resolve) => {
    const headers =
      text === '' ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    const call = request({ socketPath, method, path, headers }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    })
    call.once('error', () => resolve(0))
    call.end(text)
  })
