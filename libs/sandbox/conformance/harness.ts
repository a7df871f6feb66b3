/** Shared by all themes: sandboxes with an owner per test, which must be gone when the test ends. */
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
  /** Parts of the machine; without them one test is skipped with the reason. Default: none. */
  needs?: readonly PartName[]
  /** Default: Python with the standard library. */
  programs?: Programs
  /** Lists an owner's sandboxes from outside the backend (`docker ps`, /proc). Must be empty at the end. */
  leftovers?: (owner: WorkerId) => Promise<string[]>
  /** Kills a sandbox without the backend's knowledge. */
  destroyUnderneath?: (sandbox: Sandbox) => Promise<void>
  /** A program's output so far, read from outside, for backends whose output comes only at the end. */
  printedSoFar?: (sandbox: Sandbox) => Promise<string>
  /** True if another instance cannot know this one's sandboxes (they live in memory). Default: false. */
  refsAreLocal?: boolean
  /**
   * True if the service starts a new, empty sandbox for requests to one that has ended. A worker that does
   * not know of a kill yet may bring the sandbox back with its next request. The suite therefore waits until
   * a sandbox that others killed is gone.
   */
  beginsAnew?: boolean
  /**
   * True if programs are visible in the host's /proc. Default: true for the isolations weaker than gVisor.
   */
  visibleOnHost?: boolean
  /** Sandboxes opened at once. Default: 4. */
  parallel?: number
  /**
   * Owner of the backend's warm slots, if the factory gives it some (`warmSlots`). Every sandbox of the suite
   * then has this owner, so that the slots can be used. Slots outlive a test, so leftovers are checked once,
   * after the backend is disposed, and not after each test.
   */
  warmOwner?: WorkerId
  /**
   * Which rows of the theme `surroundings` apply: `all` (default), those of our `agent` (no own file tree, or
   * a vendor's image), or `none` (a vendor's own interpreter).
   */
  surroundings?: 'all' | 'agent' | 'none'
  /**
   * True if a session's Python is the vendor's own interpreter: no other language is kept, and the session
   * ends with it. Default: false.
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
  /** Another instance of the backend, like another worker's; the same one if refs are local. */
  readonly other: () => Promise<Backend>
  /** The owner of everything in the current test. */
  readonly owner: () => WorkerId
  /** Another owner in this run's fleet. */
  readonly newOwner: () => WorkerId
  /** Checks that something is gone: at once, or with patience if a sandbox can come back (`beginsAnew`). */
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
  /** Settles like `run`. A rejection that no test checks does not count as unhandled. */
  ended: Promise<Ran>
}

export type SpecChange = Partial<Omit<SandboxSpec, 'limits'>> & { limits?: Partial<SandboxSpec['limits']> }

/** Creates the harness of one `exerciseBackend`; call it inside the `describe`. */
export function createHarness(
  name: string,
  backend: Backend,
  options: HarnessOptions,
  programs: Programs,
  other: () => Promise<Backend>,
): Harness {
  // A separate fleet, so that no janitor or other run on this host sweeps our sandboxes.
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
    // Warm slots keep waiting; `exerciseBackend` checks when they must be gone.
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

  /** Polls `printedSoFar` until it contains the text or the program has ended. */
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
