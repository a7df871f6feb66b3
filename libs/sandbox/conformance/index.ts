/**
 * The conformance suite: what every backend and both doubles must do. New semantics are tested here, not in
 * one backend's tests. A backend's test file is `await exerciseBackend(name, factory, options)`.
 */
import { availableParallelism } from 'node:os'
import type { Backend, WorkerId } from '@cofferdam/contract'
import { isLongTier, needs, type PartName } from '@cofferdam/embedded/needs'
import { afterAll, describe, expect, test } from 'vitest'
import { createHarness, type HarnessOptions } from './harness.ts'
import { pythonPrograms } from './programs.ts'
import { createRefillGate, warmConfigSchema, type WarmDeps } from '../src/warm/index.ts'
import { HOST_MARKER } from './themes/environment.ts'
import { THEMES, type Theme } from './themes/index.ts'

export { fakePrograms } from './fake-programs.ts'
export { descendants } from '../src/host-jail/process-identity.ts'
export { hostProcesses } from './harness.ts'
export { pythonPrograms, type Programs } from './programs.ts'

/** Themes that depend on the kernel below a container; each sandbox costs a second of CPU time. */
export const KERNEL_THEMES = ['lifecycle', 'surroundings', 'bounds', 'network', 'separation'] as const
/** Themes that depend on how a vendor lets us reach our agent. Other backends test the agent itself. */
export const VENDOR_THEMES = ['lifecycle', 'output', 'files', 'lost', 'refusal'] as const
/** Themes that depend on the jail around the agent. */
export const RUNG_THEMES = [
  'lifecycle',
  'environment',
  'surroundings',
  'bounds',
  'network',
  'separation',
  'lost',
] as const

// A probe without an answer after a minute has failed. A busy CI machine's daemon may take seconds.
const PROBE_MS = 60_000

export interface ExerciseOptions extends HarnessOptions {
  /**
   * Themes that `npm test` runs; the long tier runs all. Default: all. If a backend is tested in several
   * variants (transports, pools, jails), a further variant names only the themes that it can affect.
   */
  shortThemes?: readonly Theme[]
}

/**
 * Registers all themes for one backend; `await` it at the top of a test file, because the backend's
 * capabilities decide which tests exist. If a part of `options.needs` is missing, one test is skipped with
 * the reason; otherwise a backend that cannot run is a failure. `factory` is called once, and again for a
 * second instance that stands for another worker; both are disposed.
 */
export async function exerciseBackend(
  name: string,
  factory: () => Backend | Promise<Backend>,
  options: ExerciseOptions = {},
): Promise<void> {
  const needed = needs(...(options.needs ?? []))
  if (needed.lacking !== null) {
    needed.it(name, () => {})
    return
  }
  process.env[HOST_MARKER.name] = HOST_MARKER.value
  const backend = await factory()
  const answer = await backend.probe(AbortSignal.timeout(PROBE_MS))
  if (!answer.ok) {
    await backend[Symbol.asyncDispose]()
    const reason = `${name}: cannot run here: ${answer.why} ${answer.fix}`
    test(name, () => expect.fail(reason))
    return
  }

  describe(name, { timeout: options.testMs ?? 60_000 }, () => {
    let second: Promise<Backend> | undefined
    const other = (): Promise<Backend> => {
      if (options.refsAreLocal === true) return Promise.resolve(backend)
      second ??= Promise.resolve(factory())
      return second
    }
    const harness = createHarness(name, backend, options, options.programs ?? pythonPrograms, other)
    const chosen = isLongTier() ? undefined : options.shortThemes
    for (const [title, theme] of Object.entries(THEMES))
      if (chosen === undefined || chosen.some((name) => name === title)) describe(title, () => theme(harness))

    afterAll(async () => {
      await backend[Symbol.asyncDispose]()
      await (await second)?.[Symbol.asyncDispose]()
      const { warmOwner } = options
      if (warmOwner !== undefined)
        expect((await options.leftovers?.(warmOwner)) ?? [], 'left behind by pools and cells').toEqual([])
    })
  })
}

/** Arguments of `exerciseBackend` after the name. */
export type Exercised = [factory: () => Backend | Promise<Backend>, options?: ExerciseOptions]

/**
 * Like `exerciseBackend`, for a backend that needs a service. `start` starts it. Skipped if a part is
 * missing.
 */
export async function exerciseStarted(
  name: string,
  parts: readonly PartName[],
  start: () => Promise<Exercised>,
): Promise<void> {
  const { lacking, it } = needs(...parts)
  if (lacking === null) await exerciseBackend(name, ...(await start()))
  else it(name, () => {})
}

/**
 * Gives a backend warm slots like a worker's, with unlimited memory. `config` is the `warm` section of the
 * configuration.
 */
export function warmSlots(
  owner: WorkerId,
  config: Parameters<typeof warmConfigSchema.parse>[0] = {},
): WarmDeps {
  return {
    owner,
    config: warmConfigSchema.parse(config),
    refillGate: createRefillGate(availableParallelism()),
    memory: {
      tryAcquire: () => ({ [Symbol.dispose]: () => undefined }),
      onPressure: () => undefined,
    },
  }
}
