/** What every theme works with: sandboxes of one test's own owner, which must be gone when the test ends. */
import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type Backend,
  type Capabilities,
  type Exit,
  type Program,
  type RunIo,
  type Sandbox,
  type SandboxSpec,
  type WorkerId,
} from '@cofferdam/contract'
import type { PartName } from '@cofferdam/embedded/needs'
import { afterEach, beforeEach, expect, vi } from 'vitest'
import type { Programs } from './programs.ts'

export interface HarnessOptions {
  /**
   * What it needs of the machine; without it one test is skipped with the reason, and no backend is made.
   * Default: nothing.
   */
  needs?: readonly PartName[]
  /** Default: Python with the standard library. */
  programs?: Programs
  /**
   * Sandboxes of an owner as something outside of the backend sees them (`docker ps`, /proc); must be empty
   * at the end.
   */
  leftovers?: (owner: WorkerId) => Promise<string[]>
  /** Kills a sandbox behind the backend's back. */
  destroyUnderneath?: (sandbox: Sandbox) => Promise<void>
  /**
   * What a program has printed so far, seen from outside: for backends whose output comes at the end alone.
   */
  printedSoFar?: (sandbox: Sandbox) => Promise<string>
  /**
   * True when another instance cannot know the sandboxes of this one (they live in memory). Default: false.
   */
  refsAreLocal?: boolean
  /**
   * True where the service starts a new, empty sandbox when somebody asks for one that has ended. A worker
   * that asks during a kill brings it back until it hears of the kill. Then the suite waits for a sandbox
   * that others killed to be gone.
   */
  beginsAnew?: boolean
  /** True when programs show in the host's /proc. Default: true below gVisor. */
  visibleOnHost?: boolean
  /** Sandboxes opened at once. Default: 4. */
  parallel?: number
  /**
   * The owner that the backend's warm slots are labelled with, where the factory lets slots wait
   * (`warmSlots`): every sandbox of the suite is then its, so that slots fit, and what is left is looked for
   * when the backend is disposed.
   */
  warmOwner?: WorkerId
  /**
   * Which rows of the theme `surroundings` it is held to: `all` (default), those that our `agent` decides (no
   * file tree of its own, or a vendor's image), or `none` (a vendor's own interpreter).
   */
  surroundings?: 'all' | 'agent' | 'none'
  /**
   * True where the Python of a session is the vendor's own interpreter: no other language has one that is
   * kept, and when it ends, so does the session. Default: false.
   */
  vendorInterpreter?: boolean
  /** Limit of one test, milliseconds. Default: 60,000, for slow and busy machines. */
  testMs?: number
}

export interface Ran {
  exit: Exit
  stdout: Buffer
  stderr: Buffer
}

export interface Harness {
  readonly name: string
  readonly backend: Backend
  readonly capabilities: Capabilities
  readonly programs: Programs
  readonly options: HarnessOptions
  /** Another instance of the backend, as another worker has it; the same one where refs are local. */
  readonly other: () => Promise<Backend>
  /** The owner of everything that the current test opens. */
  readonly owner: () => WorkerId
  /** Another owner of this run's own fleet. */
  readonly newOwner: () => WorkerId
  /**
   * Looks at once whether something is gone, but where a sandbox that is over can come back for a moment
   * (`beginsAnew`).
   */
  readonly gone: (check: () => Promise<void>) => Promise<void>
  spec(program: Program, change?: SpecChange): SandboxSpec
  open(program: Program, change?: SpecChange, signal?: AbortSignal): Promise<Sandbox>
  run(sandbox: Sandbox, program: Program, io?: Partial<RunIo>): Promise<Ran>
  /** Opens, runs once, disposes. */
  once(program: Program, change?: SpecChange, io?: Partial<RunIo>): Promise<Ran>
  /** Starts a program and resolves when its stdout contains `text`. */
  start(sandbox: Sandbox, program: Program, text: string, io?: Partial<RunIo>): Promise<Started>
}

export interface Started {
  /** Settles as `run` does. A rejection that no test looks at is no unhandled one. */
  ended: Promise<Ran>
}

export type SpecChange = Partial<Omit<SandboxSpec, 'limits'>> & { limits?: Partial<SandboxSpec['limits']> }

/** Makes the harness of one `exerciseBackend`; call inside of its `describe`. */
export function createHarness(
  name: string,
  backend: Backend,
  options: HarnessOptions,
  programs: Programs,
  other: () => Promise<Backend>,
): Harness {
  // A fleet of its own, so that neither a janitor nor another run on this host takes our sandboxes for its
  // leftovers.
  const fleet = randomBytes(6).toString('hex')
  const newOwner = (): WorkerId => newWorkerId(fleet)
  let owner = options.warmOwner ?? newOwner()
  const opened: Sandbox[] = []

  const gone = (check: () => Promise<void>): Promise<void> =>
    options.beginsAnew === true ? vi.waitFor(check, { timeout: 20_000, interval: 50 }) : check()

  beforeEach(() => {
    owner = options.warmOwner ?? newOwner()
  })
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((sandbox) => sandbox[Symbol.asyncDispose]()))
    // Warm slots wait on; `exerciseBackend` looks when they must be gone.
    if (options.warmOwner !== undefined) return
    await gone(async () => {
      expect(await backend.owners(), 'owners that still have sandboxes').not.toContain(owner)
      expect((await options.leftovers?.(owner)) ?? [], 'left behind, seen from outside').toEqual([])
    })
  })

  const harness: Harness = {
    name,
    backend,
    capabilities: backend.capabilities,
    programs,
    options,
    other,
    owner: () => owner,
    newOwner,
    gone,

    spec: (program, { limits, ...change } = {}) => ({
      sandboxId: newSandboxId(),
      executionId: newExecutionId(),
      attempt: 1,
      tenantId: 'conformance',
      owner,
      program,
      limits: { ...DEFAULT_LIMITS, ...limits },
      network: 'none',
      env: {},
      preload: null,
      reuse: 'job',
      session: null,
      ...change,
    }),

    async open(program, change, signal = new AbortController().signal) {
      const sandbox = await backend.open(harness.spec(program, change), signal)
      opened.push(sandbox)
      return sandbox
    },

    async run(sandbox, program, io = {}) {
      const chunks = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
      const exit = await sandbox.run(program, {
        maxOutputBytes: { stdout: 16 << 20, stderr: 16 << 20 },
        signal: new AbortController().signal,
        ...io,
        onOutput: (stream, chunk) => {
          chunks[stream].push(Buffer.from(chunk))
          return io.onOutput?.(stream, chunk)
        },
      })
      return { exit, stdout: Buffer.concat(chunks.stdout), stderr: Buffer.concat(chunks.stderr) }
    },

    async once(program, change, io) {
      await using sandbox = await backend.open(harness.spec(program, change), new AbortController().signal)
      return await harness.run(sandbox, program, io)
    },

    async start(sandbox, program, text, io = {}) {
      let seen = ''
      const shown = Promise.withResolvers<void>()
      const ended = harness.run(sandbox, program, {
        ...io,
        onOutput: async (stream, chunk) => {
          await io.onOutput?.(stream, chunk)
          seen += Buffer.from(chunk).toString('latin1')
          if (seen.includes(text)) shown.resolve()
        },
      })
      ended.then(
        () => shown.reject(new Error(`the program ended before it printed "${text}", after: ${seen}`)),
        (error: unknown) => shown.reject(error),
      )
      if (!backend.capabilities.streaming) await seenOutside(sandbox, text, shown)
      await shown.promise
      return { ended }
    },
  }

  /** Looks from outside, until it shows or the program has ended. */
  async function seenOutside(
    sandbox: Sandbox,
    text: string,
    shown: PromiseWithResolvers<void>,
  ): Promise<void> {
    let isOver = false
    const over = (): void => void (isOver = true)
    shown.promise.then(over, over)
    while (!isOver && !((await options.printedSoFar?.(sandbox)) ?? '').includes(text)) await sleep(20)
    shown.resolve()
  }
  return harness
}

/** Host processes whose command line contains `marker`, read from /proc. */
export async function hostProcesses(marker: string): Promise<number[]> {
  const found: number[] = []
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) continue
    const line = await readFile(`/proc/${entry}/cmdline`, 'utf8').catch(() => '')
    if (line.includes(marker)) found.push(Number(entry))
  }
  return found
}
