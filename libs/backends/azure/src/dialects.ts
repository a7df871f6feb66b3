/**
 * Runs one execution in an interpreter session, in the dialect that the pool understands. The pool refuses a
 * wrong one with `SessionPropertiesMissing` before anything runs. Then the other one is tried, and used from
 * then on if it works.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isCofferdamError, type CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import type { AzureConfig } from './config.ts'
import type { PoolApi } from './pool-api.ts'
import { json, LostAnswer, type PoolCall } from './pool-call.ts'

/**
 * Sent with every execution of the `new` and `shell` dialects, because the service otherwise cuts output at
 * 4,096 characters.
 */
export const OUTPUT_MAX = 256 * 1024
/** The output that fits into an answer of the older dialect, which has no parameter for it. */
const OLD_OUTPUT_MAX = 4096
const NEW_VERSION = '2025-10-02-preview'
const OLD_VERSION = '2024-08-02-preview'
/** The longest execution. The service ends one after 220 s. */
export const LONGEST_MS = 215_000

export type Dialect = 'new' | 'old' | 'shell'

const text = z.string().nullish()
const newSchema = z.object({
  status: z.string().max(100),
  result: z.object({ stdout: text, stderr: text }).nullish(),
})
const oldSchema = z.object({
  properties: z.object({ status: z.string().max(100), stdout: text, stderr: text }),
})

export interface Executed {
  /** False for a failure, a timeout and too little memory, which all come as HTTP 200. */
  succeeded: boolean
  stdout: string
  stderr: string
}

export interface Executions {
  /** Runs a command on the session's machine. Throws like `PoolApi.call`; `LostAnswer` if it may have run. */
  run(
    identifier: string,
    argv: readonly string[],
    options: { seconds: number; isRepeatable: boolean; patienceMs?: number; signal?: AbortSignal },
  ): Promise<Executed>
  /**
   * Makes a call that runs no program. Repeats it in the other dialect if the pool refuses the current one.
   */
  spelled<T>(work: (dialect: Dialect) => Promise<T>): Promise<T>
  /** The characters of stdout that an answer can carry. */
  readonly outputMax: number
  readonly dialect: Dialect
}

/** Creates the executions of one pool. */
export function createExecutions(
  api: PoolApi,
  config: Pick<AzureConfig, 'interpreter' | 'dialect' | 'api_timeout_ms'>,
): Executions {
  let dialect: Dialect = config.interpreter === 'shell' ? 'shell' : config.dialect === 'old' ? 'old' : 'new'
  /** True once a call in this dialect was answered. */
  let isLearnt = false
  const isFixed = config.interpreter === 'shell' || config.dialect !== 'auto'

  async function ask(
    asked: Dialect,
    call: Omit<PoolCall, 'path' | 'query' | 'json' | 'method'> & { timeoutMs: number },
    argv: readonly string[],
    seconds: number,
  ): Promise<Executed> {
    const isOld = asked === 'old'
    const query = { 'api-version': versionOf(asked) }
    const { body } = await api.call({
      ...call,
      method: 'POST',
      path: isOld ? '/code/execute' : '/executions',
      query,
      json: bodyOf(asked, argv, seconds),
    })
    if (isOld) return fromOld(body)
    return fromNew(await outcomeOf(api, body, { ...call, query }), asked === 'shell')
  }

  /**
   * The pool refuses a wrong dialect before anything runs. Try the same one twice before the other, so that
   * one stray refusal does not switch all later executions. Another call may change `dialect` meanwhile, so
   * `other` is the opposite of `asked`.
   */
  async function inDialect<T>(
    work: (asked: Dialect) => Promise<T>,
    refusesShape: (error: unknown) => boolean,
  ): Promise<T> {
    const asked = dialect
    const other: Dialect = asked === 'old' ? 'new' : 'old'
    const tries: Dialect[] = isFixed ? [asked] : [asked, asked, other]
    for (const [index, tried] of tries.entries()) {
      try {
        const done = await work(tried)
        isLearnt = true
        if (tried !== asked) dialect = tried
        return done
      } catch (error) {
        if (index === tries.length - 1 || !refusesShape(error)) throw error
      }
    }
    throw new LostAnswer('no dialect was tried')
  }

  return {
    get dialect() {
      return dialect
    },
    get outputMax() {
      return dialect === 'old' ? OLD_OUTPUT_MAX : OUTPUT_MAX
    },
    async run(identifier, argv, { seconds, ...call }) {
      const timed = { ...call, identifier, timeoutMs: seconds * 1000 + config.api_timeout_ms }
      return await inDialect((asked) => ask(asked, timed, argv, seconds), lacksProperties)
    },
    // Once the dialect is known, a 404 says only that a file is gone.
    spelled: (work) =>
      inDialect(work, (error) => lacksProperties(error) || (!isLearnt && isUnknownPath(error))),
  }
}

/** The api-version of a dialect. */
export const versionOf = (dialect: Dialect): string => (dialect === 'old' ? OLD_VERSION : NEW_VERSION)

const lacksProperties = (error: unknown): boolean =>
  isCofferdamError(error) && error.details['azure'] === 'SessionPropertiesMissing'

const isUnknownPath = (error: unknown): boolean =>
  isCofferdamError(error) && (error.details['status'] === 404 || error.details['status'] === 405)

function bodyOf(dialect: Dialect, argv: readonly string[], seconds: number): unknown {
  const timeoutInSeconds = Math.ceil(seconds)
  if (dialect === 'shell')
    return { execCommandAndArgs: argv, timeoutInSeconds, outputStreamsMaxLength: OUTPUT_MAX }
  const fields = {
    codeInputType: 'Inline',
    executionType: 'Synchronous',
    code: pythonOf(argv),
    timeoutInSeconds,
  }
  return dialect === 'old' ? { properties: fields } : { ...fields, outputStreamsMaxLength: OUTPUT_MAX }
}

/**
 * Python code that runs `argv` as a process of its own, so that it cannot depend on variables in the
 * service's interpreter.
 */
const pythonOf = (argv: readonly string[]): string => `import base64, json, subprocess
_ = subprocess.run(json.loads(base64.b64decode("${Buffer.from(JSON.stringify(argv)).toString('base64')}")), stdin=subprocess.DEVNULL, capture_output=True)
print(_.stdout.decode("utf-8", "replace"), end="")
if _.returncode: raise SystemExit(_.stderr.decode("utf-8", "replace")[-2000:])
`

function fromNew(body: Buffer, isShell: boolean): Executed {
  const parsed = newSchema.safeParse(json(body))
  if (!parsed.success) throw noAnswer()
  const { status, result } = parsed.data
  if (status === 'Running' || status === 'NotStarted') throw noAnswer()
  // A shell pool returns the exit code as `status`.
  const succeeded = isShell
    ? status === '0' || status === 'Succeeded'
    : status === 'Succeeded' || status === 'Success'
  return { succeeded, stdout: result?.stdout ?? '', stderr: result?.stderr ?? '' }
}

function fromOld(body: Buffer): Executed {
  const parsed = oldSchema.safeParse(json(body))
  if (!parsed.success) throw noAnswer()
  const { status, stdout, stderr } = parsed.data.properties
  return {
    succeeded: status === 'Success' || status === 'Succeeded',
    stdout: stdout ?? '',
    stderr: stderr ?? '',
  }
}

/** The execution may have started, although no usable answer came. */
const noAnswer = (): CofferdamError => new LostAnswer('an answer to an execution that is none')

/** The pause before the first poll of an execution that still runs. Each later pause is twice as long. */
const PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000

const runningSchema = z.object({
  status: z.enum(['NotStarted', 'Running']),
  /** The ID becomes part of a path. */
  id: z.string().regex(/^[\w-]{1,100}$/),
})

/**
 * Returns the final answer of an execution: `body`, or a later one, because the service may answer `Running`
 * although we wait. Throws `LostAnswer` if none comes within `call.timeoutMs`, or the reason of
 * `call.signal`.
 */
async function outcomeOf(
  api: Pick<PoolApi, 'call'>,
  body: Buffer,
  call: Omit<PoolCall, 'method' | 'path'> & { timeoutMs: number },
): Promise<Buffer> {
  const { timeoutMs, ...more } = call
  const untilMs = performance.now() + timeoutMs
  let latest = body
  for (let waitMs = PAUSE_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_PAUSE_MS)) {
    const running = runningSchema.safeParse(json(latest))
    if (!running.success) return latest
    if (performance.now() > untilMs) throw new LostAnswer('an execution that does not end')
    try {
      await sleep(waitMs, undefined, more.signal === undefined ? {} : { signal: more.signal })
      const path = `/executions/${running.data.id}`
      latest = (await api.call({ ...more, method: 'GET', path, isRepeatable: true })).body
    } catch (error) {
      more.signal?.throwIfAborted()
      // The execution has started, whatever this call answers.
      throw new LostAnswer(error)
    }
  }
}
