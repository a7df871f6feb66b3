/**
 * What a day leaves behind, in small: many executions over two workers, one of which is killed with SIGKILL half-way;
 * then the janitor of the other has swept. Counted on the host, not asked of us. Anything but 0 is a bug.
 */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { benchRequest } from './measure-latency.ts'
import type { BenchContext, Measured } from './report.ts'
import { startWarmWorker } from './warm-worker.ts'

const run = promisify(execFile)
const BACKENDS = ['docker', 'process']
/** Heartbeat 10 s, then the janitor's minute (DESIGN §8), and slack for a busy host. */
const SWEPT_WITHIN_MS = 120_000

/** What the worker's janitor logs. */
const SWEPT = 'destroyed what a dead worker left'

interface Host {
  containers: number
  processes: number
  zombies: number
  mounts: number
  cgroups: number
  sockets: number
}

export async function measureLeaks(context: BenchContext): Promise<Record<string, Measured>> {
  const results: Record<string, Measured> = {}
  for (const backend of BACKENDS)
    try {
      const left = await leaksOf(context, backend)
      for (const [what, count] of Object.entries(left))
        results[`leaks.${backend}.${what}`] = { unit: 'count', value: count }
    } catch (error) {
      context.skip(`leaks.${backend}`, error instanceof Error ? error.message : String(error))
    }
  return results
}

async function leaksOf(context: BenchContext, backend: string): Promise<Host> {
  const before = await lookAtHost()
  const runs = context.quick ? 60 : 1000
  const survivor = await startWarmWorker(context, { backends: [backend] })
  const victim = await startWarmWorker(context, { backends: [backend] })
  try {
    let started = 0
    const lane = async (): Promise<void> => {
      while (started < runs) {
        started += 1
        if (started === Math.floor(runs / 2)) await victim.kill()
        // Those that the victim had begun end worker_lost: also an ending.
        await context.fleet.client.run(benchRequest(backend), { timeoutMs: 300_000 })
      }
    }
    await Promise.all([lane(), lane(), lane(), lane()])
  } finally {
    const deadline = Date.now() + SWEPT_WITHIN_MS
    // Containers die with their worker; what a jail's worker leaves is there until the survivor's janitor says so.
    const isSwept = async (): Promise<boolean> =>
      backend === 'docker' ? (await ownersOfContainers()) <= 1 : survivor.log().includes(SWEPT)
    while (!(await isSwept()) && Date.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 1000))
    await survivor.stop()
  }
  const after = await lookAtHost()
  const difference = (what: keyof Host): number => Math.max(0, after[what] - before[what])
  return {
    containers: difference('containers'),
    processes: difference('processes'),
    zombies: difference('zombies'),
    mounts: difference('mounts'),
    cgroups: difference('cgroups'),
    sockets: difference('sockets'),
  }
}

async function containers(format: string): Promise<string[]> {
  const listed = await run('docker', [
    'ps',
    '-a',
    '--filter',
    'label=cofferdam.owner',
    '--format',
    format,
  ]).catch(() => ({ stdout: '' }))
  return listed.stdout.split('\n').filter((line) => line !== '')
}

const ownersOfContainers = async (): Promise<number> =>
  new Set(await containers('{{.Label "cofferdam.owner"}}')).size

async function lookAtHost(): Promise<Host> {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const zombies = processes.filter((pid) => stateOf(pid) === 'Z')
  return {
    containers: (await containers('{{.ID}}')).length,
    // Kernel threads come and go by themselves.
    processes: processes.filter((pid) => commandOf(pid) !== '').length,
    zombies: zombies.length,
    mounts: readFileSync('/proc/mounts', 'utf8').split('\n').length,
    cgroups: cgroupsBelow('/sys/fs/cgroup'),
    sockets: readFileSync('/proc/net/unix', 'utf8')
      .split('\n')
      .filter((line) => line.includes('cofferdam')).length,
  }
}

const orEmpty = (read: () => string): string => {
  try {
    return read()
  } catch {
    return ''
  }
}
const stateOf = (pid: string): string =>
  /^State:\s+(\w)/m.exec(orEmpty(() => readFileSync(`/proc/${pid}/status`, 'utf8')))?.[1] ?? ''
const commandOf = (pid: string): string => orEmpty(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))

/** Folders of ours and of Docker, in every hierarchy. */
function cgroupsBelow(root: string): number {
  const folders = readdirSync(root, { recursive: true, withFileTypes: true })
  return folders.filter((entry) => entry.isDirectory() && /\/(docker|cofferdam)(\/|$)/.test(entry.parentPath))
    .length
}
