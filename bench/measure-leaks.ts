/**
 * What stays on the host after many executions over two workers. One worker is killed half-way, and the
 * janitor of the other one has swept. The figures are counted on the host itself. Anything but 0 is a bug.
 * With `--quick` the worker is stopped instead, because a killed one is noticed only after half a minute.
 */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, type Dirent } from 'node:fs'
import { promisify } from 'node:util'
import { fleetOf, type WorkerId } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { benchRequest } from './measure-latency.ts'
import type { BenchContext, Measured } from './report.ts'
import { startWarmWorker } from './warm-worker.ts'

const run = promisify(execFile)
const BACKENDS = ['docker', 'process']
/** The heartbeat timeout of 9 s, the janitor's interval of 30 s, and a reserve for a busy host. */
const SWEPT_WITHIN_MS = 120_000

/** The log message of the worker's janitor. */
const SWEPT = 'destroyed what a dead worker left'

/**
 * New things on the host are watched until they are gone, at most for this long: other sandboxes come and go,
 * and the daemon's helpers end a moment after their container.
 */
const SETTLES_WITHIN_MS = 60_000

const KINDS = ['containers', 'processes', 'zombies', 'mounts', 'cgroups', 'sockets'] as const
/** What is on the host, by names that are never reused. */
type Host = Record<(typeof KINDS)[number], ReadonlySet<string>>

export async function measureLeaks(context: BenchContext): Promise<Record<string, Measured>> {
  const results: Record<string, Measured> = {}
  // With `--quick` both backends run at the same time, which takes half as long. Leftovers then count for
  // both.
  const groups = context.quick ? [BACKENDS] : BACKENDS.map((backend) => [backend])
  for (const group of groups) {
    const skip = (backend: string, error: unknown): void =>
      context.skip(`leaks.${backend}`, error instanceof Error ? error.message : String(error))
    try {
      const before = await lookAtHost()
      const ended = await Promise.allSettled(group.map((backend) => runAndSweep(context, backend)))
      const left = await whatStays(before, context)
      for (const what of KINDS) for (const name of left[what]) context.note(`left: ${what} ${name}`)
      for (const [n, backend] of group.entries()) {
        const end = ended[n]
        if (end?.status === 'rejected') skip(backend, end.reason)
        else
          for (const what of KINDS)
            results[`leaks.${backend}.${what}`] = { unit: 'count', value: left[what].size }
      }
    } catch (error) {
      for (const backend of group) skip(backend, error)
    }
  }
  return results
}

/** Runs the executions, and waits until the survivor's janitor has swept what the victim left. */
async function runAndSweep(context: BenchContext, backend: string): Promise<void> {
  const redis = connectRedis(context.fleet.redisUrl, 'worker')
  const runs = context.quick ? 20 : 1000
  const [survivor, victim] = await Promise.all([
    startWarmWorker(context, { backends: [backend] }),
    startWarmWorker(context, { backends: [backend] }),
  ])
  const fleetId = await redis.get('{cofferdam}:fleet')
  redis.disconnect()
  try {
    let started = 0
    const lane = async (): Promise<void> => {
      while (started < runs) {
        started += 1
        if (started === Math.floor(runs / 2)) await (context.quick ? victim.stop() : victim.kill())
        // Executions that the victim had begun end as worker_lost.
        await context.fleet.client.run(benchRequest(backend), { timeoutMs: 300_000 })
      }
    }
    await Promise.all([lane(), lane(), lane(), lane()])
  } finally {
    const deadline = Date.now() + SWEPT_WITHIN_MS
    // A container ends with its worker, so one owner is left. Jails stay until the survivor's janitor logs
    // its sweep.
    const isSwept = async (): Promise<boolean> =>
      backend === 'docker' ? (await ownersOfContainers(fleetId)) <= 1 : survivor.log().includes(SWEPT)
    while (!context.quick && !(await isSwept()) && Date.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 300))
    await survivor.stop()
  }
}

/** What is new on the host and does not disappear by itself. */
async function whatStays(before: Host, context: BenchContext): Promise<Host> {
  const began = Date.now()
  let left = pick(await lookAtHost(), (what, name) => !before[what].has(name))
  const first = KINDS.map((what) => `${left[what].size} ${what}`).join(', ')
  while (KINDS.some((what) => left[what].size > 0) && Date.now() - began < SETTLES_WITHIN_MS) {
    await new Promise((resolve) => setTimeout(resolve, 500))
    const now = await lookAtHost()
    const known = left
    left = pick(now, (what, name) => known[what].has(name))
  }
  context.note(
    `new on the host when the last worker had ended: ${first}; looked at for ${Date.now() - began} ms`,
  )
  return left
}

const pick = (host: Host, isMeant: (what: keyof Host, name: string) => boolean): Host => {
  const chosen = (what: keyof Host): Set<string> =>
    new Set([...host[what]].filter((name) => isMeant(what, name)))
  return Object.fromEntries(KINDS.map((what) => [what, chosen(what)])) as unknown as Host
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

const ownersOfContainers = async (fleetId: string | null): Promise<number> => {
  const owners = new Set(await containers('{{.Label "cofferdam.owner"}}'))
  return [...owners].filter((owner) => fleetOf(owner as WorkerId) === fleetId).length
}

async function lookAtHost(): Promise<Host> {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const sockets = readFileSync('/proc/net/unix', 'utf8').split('\n')
  return {
    containers: new Set(await containers('{{.ID}}')),
    // Counts only our own children, and orphans, which are children of init. A process that somebody else's
    // shell started is neither. Kernel threads have no command line and are left out.
    processes: new Set(processes.filter((pid) => commandOf(pid) !== '' && isOursOrOrphan(pid)).map(nameOf)),
    zombies: new Set(processes.filter((pid) => stateOf(pid) === 'Z').map(nameOf)),
    mounts: new Set(readFileSync('/proc/mounts', 'utf8').split('\n')),
    cgroups: cgroupsBelow('/sys/fs/cgroup'),
    // Slots listen in folders of this user below the temporary folder.
    sockets: new Set(
      sockets.map((line) => line.split(' ').at(-1) ?? '').filter((path) => path.includes('/cofd-')),
    ),
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
const parentOf = (pid: string): string =>
  /^PPid:\s+(\d+)/m.exec(orEmpty(() => readFileSync(`/proc/${pid}/status`, 'utf8')))?.[1] ?? '0'
const isOursOrOrphan = (pid: string): boolean =>
  ['1', String(process.pid)].includes(parentOf(pid)) && pid !== String(process.pid)

/** A pid can be reused, so the name includes its parent and start time. */
function nameOf(pid: string): string {
  const [, name = '', rest = ''] =
    /^\d+ \((.*)\) (.*)$/s.exec(orEmpty(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))) ?? []
  const fields = rest.split(' ')
  return `${pid} ${name}, child of ${fields[1]}, started at ${fields[19]}`
}
const commandOf = (pid: string): string => orEmpty(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))

/** Retries, because reading the tree fails when a folder disappears meanwhile. */
function listAll(root: string, triesLeft = 20): Dirent[] {
  try {
    return readdirSync(root, { recursive: true, withFileTypes: true })
  } catch (error) {
    if (triesLeft === 0) throw error
    return listAll(root, triesLeft - 1)
  }
}

/** The cgroups of Cofferdam and of Docker, in every hierarchy. */
function cgroupsBelow(root: string): Set<string> {
  const folders = listAll(root)
  const ours = folders.filter(
    (entry) => entry.isDirectory() && /\/(docker|cofferdam)(\/|$)/.test(entry.parentPath),
  )
  return new Set(ours.map((entry) => `${entry.parentPath}/${entry.name}`))
}
