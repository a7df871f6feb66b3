/**
 * A host of Firecracker in a folder of its own, with the double in the place of Firecracker and its jailer.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { expect } from 'vitest'
import { createFirecrackerEngine, type FirecrackerSettings } from '@cofferdam/backend-microvm/firecracker'
import { installDouble, type InstalledDouble } from '../../../../infra/doubles/firecracker/install-double.ts'
import {
  CONTROL_PORT,
  type Connect,
  type MachineLease,
  type MachineSpec,
  type MicrovmEngine,
} from '../src/engine.ts'

export interface FirecrackerHost extends AsyncDisposable {
  folder: string
  engine: MicrovmEngine
  settings: FirecrackerSettings
  double: InstalledDouble
  spec: MachineSpec
  lease(): MachineLease
  /** An empty folder. */
  templateFolder(): string
  /** Whatever is left of machines: jails, users, groups, processes. */
  left(): string[]
  calls(): { id: string; call: string; text: string; status: number }[]
}

// Long, because two Node.js programs start for each machine, and the host may be busy.
const PATIENT = { jailerMs: 60_000, apiMs: 60_000, connectMs: 30_000, handshakeMs: 10_000, answerMs: 30_000 }

export async function firecrackerHost(
  options: Parameters<typeof installDouble>[1] = {},
  timings: object = PATIENT,
): Promise<FirecrackerHost> {
  // The name is short, because the paths of Unix sockets below it have a length limit.
  const folder = mkdtempSync('/tmp/fc-')
  chmodSync(folder, 0o755)
  const bin = join(folder, 'bin')
  for (const name of ['bin', 'leases', 'templates', 'images']) mkdirSync(join(folder, name))
  const double = installDouble(bin, options)
  const image = (name: string): string => {
    const path = join(folder, 'images', name)
    writeFileSync(path, name, { mode: 0o444 })
    return path
  }
  const spec = {
    kernel: image('vmlinux'),
    initramfs: image('initramfs'),
    root: image('root.erofs'),
    memoryMib: 128,
    vcpus: 1,
  }
  const settings: FirecrackerSettings = {
    firecracker: double.firecracker,
    jailer: double.jailer,
    chrootBase: folder,
    uids: { first: 1_902_000_000, count: 64 },
    parentCgroup: `cofferdam-test-${folder.slice('/tmp/fc-'.length)}`,
  }
  const engine = await createFirecrackerEngine(settings, { double: true, timings })
  let leases = 0
  return {
    folder,
    engine,
    settings,
    double,
    spec,
    lease() {
      leases += 1
      const id = `sbx_${folder}${leases}`
      const lease = { folder: join(folder, 'leases', `l${leases}`), id, started: () => Promise.resolve() }
      mkdirSync(lease.folder)
      return lease
    },
    templateFolder: () => mkdtempSync(join(folder, 'templates', 't-')),
    left: () => leftBelow(folder, settings.parentCgroup),
    calls: () =>
      readFileSync(double.record, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as { id: string; call: string; text: string; status: number }),
    async [Symbol.asyncDispose]() {
      await removeGroups(settings.parentCgroup)
      await rm(folder, { recursive: true })
    },
  }
}

/** Whatever is left of machines: jails, users, groups, processes. */
export const leftBelow = (chrootBase: string, parentCgroup: string): string[] => [
  ...entries(join(chrootBase, 'firecracker'), 'jail'),
  ...entries(join(chrootBase, 'uids'), 'uid'),
  ...entries(join(chrootBase, 'makers'), 'maker'),
  ...subgroups(groupsOf(parentCgroup)).map((group) => `group ${group}`),
  ...processesWith(chrootBase),
]

/**
 * Kills the processes in the cgroups of machines and removes the cgroups. There are some only after a failed
 * test.
 */
export async function removeGroups(parentCgroup: string): Promise<void> {
  const groups = groupsOf(parentCgroup)
  for (const group of subgroups(groups)) {
    for (const pid of readFileSync(join(group, 'cgroup.procs'), 'latin1').split('\n'))
      if (pid !== '') process.kill(Number(pid), 'SIGKILL')
    const isRemoved = (): Promise<boolean> =>
      rmdir(group).then(
        () => true,
        () => false,
      )
    await expect.poll(isRemoved, { timeout: 60_000 }).toBe(true)
  }
  await rmdir(groups).catch(() => {})
}

const groupsOf = (parentCgroup: string): string =>
  join(/^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/mounts', 'latin1'))?.[1] ?? '', parentCgroup)

const entries = (folder: string, what: string): string[] =>
  existsSync(folder) ? readdirSync(folder).map((name) => `${what} ${name}`) : []

const subgroups = (groups: string): string[] =>
  existsSync(groups)
    ? readdirSync(groups, { withFileTypes: true }).flatMap((entry) =>
        entry.isDirectory() ? [join(groups, entry.name)] : [],
      )
    : []

/** Living processes whose command line names the folder. */
export function processesWith(folder: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return []
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')
      const isZombie = /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'))
      return line.includes(folder) && !isZombie ? [`process ${pid} ${line}`] : []
    } catch {
      return []
    }
  })
}

/** Waits for the guest’s hello, as the preparation of a template does. */
export async function hello(connect: Connect): Promise<void> {
  const stream = await connect(CONTROL_PORT)
  const said = JSON.parse(await nextLine(stream)) as { hello?: number }
  if (said.hello !== 1) throw new Error('no hello')
}

/** Does what a thaw does to a clone: sends a nonce and gets it back. A clone sends no second hello. */
export async function thaw(connect: Connect, options: readonly string[] = []): Promise<Duplex> {
  const stream = await connect(CONTROL_PORT)
  stream.write(`${JSON.stringify({ nonce: 'n1', options })}\n`)
  const said = JSON.parse(await nextLine(stream)) as { nonce?: string }
  if (said.nonce !== 'n1') throw new Error('no nonce')
  return stream
}

async function nextLine(stream: Duplex): Promise<string> {
  let line = ''
  for (;;) {
    const chunk = stream.read() as Buffer | null
    if (chunk !== null) {
      line += chunk.toString('utf8')
      const end = line.indexOf('\n')
      if (end >= 0) {
        stream.unshift(Buffer.from(line.slice(end + 1)))
        return line.slice(0, end)
      }
      continue
    }
    await new Promise<void>((resolve, reject) => {
      stream.once('readable', resolve)
      stream.once('close', () => reject(new Error('the stream ended')))
    })
  }
}
