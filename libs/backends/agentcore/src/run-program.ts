/** Runs one program of an execution in a session: chooses tool and deadlines, returns exit and output. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  unmeasuredUsage,
  type Exit,
  type Program,
  type RunIo,
  type SandboxSpec,
  CofferdamError,
} from '@cofferdam/contract'
import type { CellSession } from './cell-session.ts'
import type { ToolResult } from './consume-stream.ts'
import { fromAnswer, KILLED_BY_SIGKILL, withoutAnswer } from './exit-evidence.ts'
import { createLiveOutput } from './live-output.ts'
import { traceParentOf } from './trace-parent.ts'

/**
 * Limit per stream of one answer. The service sends each stream twice, as text and as structured content, and
 * the worker holds the whole answer in memory: 10 MB of text took 0.3 GB (measured).
 */
const OUTPUT_MAX = 8 * 1024 * 1024
/** Share of the time between soft and hard deadline for stopping a program; the rest is for its answer. */
const GRACE_SHARE = 0.8
const GRACE_MIN_MS = 100
/**
 * A program that was killed early returns this long after its hard deadline, so that the caller's own timer
 * acts first.
 */
const LATE_MS = 500

export interface ProgramParts {
  session: CellSession
  spec: SandboxSpec
  /** Path of Node.js in the session. */
  node: string
  /** A program that may run longer than this runs in the background. */
  callMaxMs: number
}

/**
 * `files`: uploaded files to unpack first, and the paths of all files so far. `startedAt`: time of the
 * request by the monotonic clock. Throws what `Sandbox.run` throws.
 */
export async function runProgram(
  { session, spec, node, callMaxMs }: ProgramParts,
  program: Program,
  files: { archive: string | null; provided: readonly string[] },
  io: RunIo,
  { signal, startedAt }: { signal: AbortSignal; startedAt: number },
): Promise<Exit> {
  const { limits, env, reuse } = spec
  const { soft_timeout_ms: softMs, hard_timeout_ms: hardMs } = limits
  const inCell = program.type === 'script' && program.language === 'python'
  const keep = reuse === 'session' && inCell
  const graceMs = Math.max(GRACE_MIN_MS, (hardMs - softMs) * GRACE_SHARE)
  const most = {
    stdout: Math.min(io.maxOutputBytes.stdout, OUTPUT_MAX),
    stderr: Math.min(io.maxOutputBytes.stderr, OUTPUT_MAX),
  }
  const output = createLiveOutput(io, most)
  // A failing reader ends the run, because its program might wait for the reader for ever.
  const reader = new AbortController()
  const both = AbortSignal.any([signal, reader.signal])
  // The service does not say when the program begins, only when it prints or ends. So it may run once the
  // call is sent.
  io.onHandedOver?.()
  const { answer, result } = await session.run(
    {
      once: randomUUID(),
      softMs,
      graceMs,
      carrier: hardMs > callMaxMs && !keep ? 'task' : inCell ? 'cell' : 'command',
      maxOutput: most.stdout + most.stderr,
      traceParent: traceParentOf(spec),
      job: {
        op: 'run',
        archive: files.archive,
        keep,
        program: describeProgram(program, files.provided),
        node,
        env,
        secrets: secretsIn(env),
        stdin: Buffer.from(io.stdin ?? []).toString('base64'),
        soft_ms: softMs,
        grace_ms: graceMs,
        max: most,
      },
      async onLive(piece) {
        both.throwIfAborted()
        await output.take(piece).catch((error: unknown) => {
          reader.abort(error)
          throw error
        })
      },
    },
    both,
  )
  const wallMs = performance.now() - startedAt
  // Counts out-of-memory kills only before the soft deadline. After it, we killed the program ourselves.
  const oomKills = async ({ exitCode }: ToolResult, isStopped: boolean): Promise<number> =>
    exitCode === KILLED_BY_SIGKILL && !isStopped ? await session.oomKills(signal) : 0
  // A program that was stopped may have left processes running.
  if (answer === null || answer.head.exit?.stopped === true) session.spoil()
  const { stdout, stderr, ...ended } =
    answer === null
      ? withoutAnswer(result, output.handed, most, await oomKills(result, wallMs >= softMs))
      : fromAnswer(answer)
  await (answer === null ? output.append({ stdout, stderr }) : output.finish({ stdout, stderr }))
  // It was killed early to leave time for its output, but the hard deadline is what ended it.
  if (answer?.head.exit?.killed === true)
    await sleep(hardMs + LATE_MS - wallMs, undefined, { signal }).catch(() => undefined)
  const serviceExecutionTime = result?.executionTime ?? null
  return {
    ...ended,
    usage: unmeasuredUsage(wallMs),
    ...(serviceExecutionTime === null ? {} : { serviceExecutionTime }),
  }
}

const SECRET_NAME = /token|secret|passw|api_?key|access_?key|private_?key|credential/i
const secretsIn = (env: Record<string, string>): string[] =>
  Object.entries(env).flatMap(([name, value]) => (SECRET_NAME.test(name) ? [value] : []))

/** A longer shell text goes into a file: Linux takes at most 128 KiB per argument (MAX_ARG_STRLEN). */
const SHELL_ARG_MAX = 120 * 1024
const ENTRIES = { python: 'main.py', javascript: 'main.js', typescript: 'main.ts', bash: 'main.sh' } as const

/**
 * Translates a program into the form that the cell (our program in the session) reads. `provided`: paths of
 * its files. Throws `capability_missing` except for scripts and commands.
 */
function describeProgram(program: Program, provided: readonly string[]): object {
  switch (program.type) {
    case 'script': {
      const { language, source, argv = [] } = program
      return { type: 'script', language, source, argv, entry: freeName(ENTRIES[language], provided) }
    }
    case 'command': {
      const { argv, shell = '' } = program
      if (argv !== undefined) return { type: 'command', argv }
      if (Buffer.byteLength(shell) <= SHELL_ARG_MAX) return { type: 'command', argv: ['bash', '-c', shell] }
      const entry = freeName('command.sh', provided)
      return { type: 'script', language: 'bash', source: shell, argv: [], entry }
    }
    case 'files':
    case 'tests':
    case 'install':
      throw new CofferdamError(
        'capability_missing',
        `agentcore does not run ${program.type} programs by itself`,
      )
  }
}

function freeName(name: string, provided: readonly string[]): string {
  const taken = new Set(provided.map((path) => path.split('/')[0]))
  const [stem, ending] = name.split('.')
  for (let n = 0; ; n += 1) {
    const free = n === 0 ? name : `${stem}_${n}.${ending}`
    if (!taken.has(free)) return free
  }
}
