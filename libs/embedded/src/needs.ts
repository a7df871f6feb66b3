/**
 * What a test needs from the machine beyond Node.js, Python 3, Redis and Postgres. A test declares it with
 * `needs('docker')`. If the part is missing, the test is skipped with the reason in its title. The parts are
 * detected once per run (scripts/machine-parts.ts).
 */
import { describe, inject, it, type SuiteAPI, type TestAPI } from 'vitest'

/** Every part that a test may name. */
export const PARTS = {
  docker: 'the docker backend: an engine, and our sandbox image in it',
  gvisor: 'the gvisor backend: the same engine with the runtime runsc',
  microvm: 'the microvm backend: QEMU, and our image of virtual machines',
  process: 'the process backend, on whichever rung this machine has',
  'process-namespaces': 'the process backend on a rung with namespaces, which has sessions and network',
  bwrap: 'bubblewrap that can open a sandbox',
  'self-jail': 'the process backend on its own jail with namespaces',
  'landlock-jail': 'the process backend on its own jail without namespaces',
  'user-namespaces': 'user namespaces that this user may make',
  'unprivileged-namespaces': 'user namespaces that any user may make',
  'open-clone': 'a clone that any user can read',
  cgroups: 'cgroups that this process may make groups in',
  'cgroup-v1': 'cgroup v1 with a memory hierarchy',
  freezer: 'cgroups that stop a process, as root',
  root: 'a test run as root',
  mounts: 'mounts in a namespace, as root',
  hosts: 'network namespaces made with ip, as root',
  kubectl: 'kubectl',
  helm: 'Helm, from PATH or from the npm package that has it',
  compose: 'Docker Compose 2, from PATH or from a package of a newer Debian',
  openssl: 'openssl',
  setpriv: 'setpriv of util-linux',
  unzip: 'unzip',
  initdb: 'an installed Postgres',
  'postgres-package': 'the npm package of Postgres',
  'redis-server': 'redis-server on PATH',
  apt: 'apt-get with its package lists',
  pip: 'pip for python3, on PATH and of the system',
  chromium: 'a Chromium without a window, and a font',
  'git-history': 'a git checkout that has the commit before (scripts/earlier-commit.ts)',
  firecracker: 'a real Firecracker with jailer and image, on hardware (FIRECRACKER_FOLDER)',
} as const

export type PartName = keyof typeof PARTS

/** Why each part is missing. Null if it is present. */
export type FoundParts = Readonly<Record<PartName, string | null>>

declare module 'vitest' {
  export interface ProvidedContext {
    cofferdamParts: FoundParts
    /** `npm test` runs `short`, `npm run test:long` runs `long`. */
    cofferdamTier: 'short' | 'long'
  }
}

/** True in `npm run test:long`, which covers all combinations of backends, targets and themes. */
export const isLongTier = (): boolean => inject('cofferdamTier') === 'long'

/** vitest's `it`, for tests of the long tier only. In the short tier they do not count as skipped. */
export const inLongTier = ((title: string, ...rest: unknown[]) => {
  if (isLongTier()) (it as unknown as Declare)(title, ...rest)
}) as unknown as TestAPI

const NOTHING = Object.assign((): void => undefined, { each: () => (): void => undefined })

type Declare = (title: string, ...rest: unknown[]) => unknown

export interface Needed {
  /** The first missing part and why it is missing. Null when all are present. */
  readonly lacking: string | null
  /** vitest's `describe`, skipped with the reason if a part is missing. */
  readonly describe: SuiteAPI
  /** vitest's `it`, skipped with the reason if a part is missing. */
  readonly it: TestAPI
  /** Like `it`, for tests of the long tier only. */
  readonly inLongTier: TestAPI
}

/** The parts that a backend's sandboxes need. */
const BACKEND_PARTS: Readonly<Record<string, readonly PartName[]>> = {
  docker: ['docker'],
  gvisor: ['gvisor'],
  microvm: ['microvm'],
  process: ['process'],
  none: [],
}

/** The needs of a test on a local backend. Throws for an unknown name. */
export function needsBackend(name: string): Needed {
  const parts = BACKEND_PARTS[name]
  if (parts === undefined) throw new Error(`no part is known for the backend ${name}`)
  return needs(...parts)
}

/** The needs of a test that uses all of these parts. */
export function needs(...parts: readonly PartName[]): Needed {
  const found = inject('cofferdamParts')
  const missing = parts.find((part) => found[part] !== null)
  const lacking = missing === undefined ? null : `${missing}: ${found[missing]}`
  const own = titled(it, lacking)
  return {
    lacking,
    describe: titled(describe, lacking),
    it: own,
    inLongTier: isLongTier() ? own : (NOTHING as unknown as TestAPI),
  }
}

/** Separates a title from the reason for a skip. scripts/report-tests.ts looks for it. */
export const NEEDS = ' — needs '

/** `api` itself, or its `skip` with the reason appended to every title. */
function titled<Api extends SuiteAPI | TestAPI>(api: Api, lacking: string | null): Api {
  if (lacking === null) return api
  // These characters are placeholders in titles of `each`.
  const reason = NEEDS + lacking.replaceAll(' > ', ' / ').replaceAll(/[%$]/g, '')
  const declare =
    (skip: Declare): Declare =>
    (title, ...rest) =>
      skip(title + reason, ...rest)
  const each = (...cases: unknown[]): Declare =>
    declare((api.skip.each as (...cases: unknown[]) => Declare)(...cases))
  return Object.assign(declare(api.skip as Declare), { each }) as unknown as Api
}
