/**
 * One execution in an interpreter session, in the way that the pool understands. Which one it is, is learnt once per pool: a wrong shape
 * is refused with `SessionPropertiesMissing` before anything runs, and then the other is used from there on.
 */
import { isCofferdamError, type CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import type { AzureConfig } from './config.ts'
import type { PoolApi } from './pool-api.ts'
import { json, LostAnswer, type PoolCall } from './pool-call.ts'
import { outcomeOf } from './running-execution.ts'

/** Asked for in every call: without it the service cuts at 4,096 characters. */
export const OUTPUT_MAX = 256 * 1024
/** What fits into an answer of the older way, which cannot be told how much to keep. */
const OLD_OUTPUT_MAX = 4096
const NEW_VERSION = '2025-10-02-preview'
const OLD_VERSION = '2024-08-02-preview'
/** The service ends an execution after 220 s. */
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
  /** The service's word for how it ended: false for a failure, a timeout or too little memory, all of which come as HTTP 200. */
  succeeded: boolean
  stdout: string
  stderr: string
}

export interface Executions {
  /** Runs a command of the session's machine. Throws like `PoolApi.call`; `LostAnswer` when it may have run. */
  run(
    identifier: string,
    argv: readonly string[],
    options: { seconds: number; isRepeatable: boolean; patienceMs?: number; signal?: AbortSignal },
  ): Promise<Executed>
  /**
   * Does `work`, a call that is spelled differently by the dialects and runs nothing, in the way that the pool understands: once more in the
   * other one where this one is refused.
   */
  spelled<T>(work: (dialect: Dialect) => Promise<T>): Promise<T>
  /** Characters of stdout that come through. */
  readonly outputMax: number
  readonly dialect: Dialect
}

/** Creates the executions of one pool. */
export function createExecutions(
  api: PoolApi,
  config: Pick<AzureConfig, 'interpreter' | 'dialect' | 'api_timeout_ms'>,
): Executions {
  let dialect: Dialect = config.interpreter === 'shell' ? 'shell' : config.dialect === 'old' ? 'old' : 'new'
  /** A call in it was answered. */
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
   * A wrong shape is refused before anything runs, so the same is asked twice before the other dialect is:
   * one stray refusal must not change how all later executions are asked for. Others may have learnt it
   * meanwhile: the other one is that than which was asked in.
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
    // A path that is not there says nothing of the dialect once that is known: it is a file's that is gone.
    spelled: (work) =>
      inDialect(work, (error) => lacksProperties(error) || (!isLearnt && isUnknownPath(error))),
  }
}

/** The api-version that goes with a dialect. */
export const versionOf = (dialect: Dialect): string => (dialect === 'old' ? OLD_VERSION : NEW_VERSION)

/** Refused before anything ran. */
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

/** In a process of its own: what runs must not depend on, or change, the names of the service's interpreter. */
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
  // A shell pool says the exit code there.
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

/** Whatever came in place of the answer, or too early, the execution may have begun. */
const noAnswer = (): CofferdamError => new LostAnswer('an answer to an execution that is none')
