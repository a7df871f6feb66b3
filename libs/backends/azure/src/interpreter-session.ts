/**
 * Our guest agent in a session of an interpreter pool: uploaded as a file, and reached by executions. Its
 * folder has a random name, the incarnation. A session that the service silently created anew does not have
 * that folder, so it cannot answer.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { COMPILER, guestFiles } from '@cofferdam/sandbox/guest'
import { z } from 'zod'
import type { Executed, Executions } from './dialects.ts'
import { RUNNING_PATIENCE_MS, type PoolApi } from './pool-api.ts'
import { json, LostAnswer, type PoolCall } from './pool-call.ts'
import type { AskPod } from './pod-calls.ts'
import { newPermit, permitSchema } from './permit.ts'
import { createSessionFiles, FILE_MAX } from './session-files.ts'

const DATA = '/mnt/data'
/** The largest request inside the command (the kernel allows 128 KiB per argument). Others are uploaded. */
const INLINE_MAX = 48 * 1024
/** The timeout in seconds for what takes milliseconds. */
const SHORT_S = 60

const answerSchema = z.object({
  state: z.string().max(32).optional(),
  status: z.int().optional(),
  bytes: z.base64().optional(),
  file: z
    .string()
    .regex(/^cofd-[\w-]{1,100}$/)
    .optional(),
  size: z.int().nonnegative().max(FILE_MAX).optional(),
  permit: permitSchema.nullish(),
  proof: permitSchema.optional(),
})

/** The answer of one execution of in-session.py. */
export interface Told {
  state: string
  status: number
  data: Buffer
  /**
   * The permit of the next batch: the hash of a secret, good for one batch (in-session.py). Null if the
   * answer has none.
   */
  permit: string | null
  /** Proof that the batch in question has not started. */
  proof: string | null
}

/** How to make one execution (see PoolCall). */
export interface Timing extends Pick<PoolCall, 'isRepeatable' | 'patienceMs' | 'signal'> {
  seconds: number
}

export interface InterpreterSession {
  readonly incarnation: string
  /** The work directory of programs. */
  readonly work: string
  /** The permit of the first batch in a session that `provision` set up. */
  readonly permit: string
  /**
   * Uploads the agent. `pod`: leaves http_pod.py running. `transforms`: includes amaro.cjs, for TypeScript
   * syntax.
   */
  provision(options: { pod: boolean; transforms: boolean }, signal: AbortSignal): Promise<void>
  /** Sends one request to in-session.py, with `data`. Throws `sandbox_lost` if the session is another one. */
  tell(wish: Record<string, unknown>, options: Timing & { data?: Uint8Array }): Promise<Told>
  /** Asks the http_pod.py that was left running. */
  readonly ask: AskPod
}

/** Returns true if the service ended the execution because it ran out of memory. */
export const isOutOfMemory = (error: unknown): boolean =>
  isCofferdamError(error) && error.details['azure'] === 'Execution aborted'

/** Creates a session, which the first call allocates. `incarnation` is that of an existing session. */
export function createInterpreterSession(parts: {
  api: PoolApi
  executions: Executions
  identifier: string
  python: string
  incarnation?: string
}): InterpreterSession {
  const { api, executions, identifier, python } = parts
  const incarnation = parts.incarnation ?? randomBytes(8).toString('hex')
  const name = `cofd-${incarnation}`
  const folder = `${DATA}/${name}`
  const socket = `/tmp/${name}.sock`
  const first = newPermit()
  const files = createSessionFiles(api, executions, identifier)
  let asked = 0
  /** Transfer files that are no longer needed. The next call removes them. */
  const spent: string[] = []

  /** Returns the text between the nonces, whatever else was printed, or null if it is incomplete. */
  function between(nonce: string, { stdout }: Executed): unknown {
    const from = stdout.indexOf(nonce)
    const to = stdout.lastIndexOf(nonce)
    return from < 0 || from === to ? null : json(Buffer.from(stdout.slice(from + nonce.length, to)))
  }
  async function execute(
    program: readonly string[],
    wish: Record<string, unknown>,
    options: Timing,
  ): Promise<{ answer: z.output<typeof answerSchema> | null; executed: Executed }> {
    const nonce = `[${randomBytes(12).toString('hex')}]`
    const encoded = Buffer.from(JSON.stringify({ ...wish, nonce })).toString('base64')
    const executed = await executions.run(identifier, [python, '-I', '-S', ...program, encoded], options)
    const parsed = answerSchema.safeParse(between(nonce, executed))
    return { answer: parsed.success ? parsed.data : null, executed }
  }

  const session: InterpreterSession = {
    incarnation,
    work: `${DATA}/work`,
    permit: first.permit,
    async provision({ pod, transforms }, signal) {
      const more = { [`permit-${first.permit}`]: first.secret }
      await files.upload(`${name}.json`, agentBundle(transforms, more), {
        allocates: true,
        signal,
      })
      const wish = { folder, socket, pod, bundle: `${folder}.json` }
      const { answer, executed } = await execute(['-c', ours('unpack-agent.py').toString()], wish, {
        seconds: SHORT_S,
        isRepeatable: true,
        signal,
      })
      if (answer?.state !== 'ready')
        throw new CofferdamError('sandbox_open_failed', 'Azure: the agent could not be brought there.', {
          details: { said: executed.stderr.slice(-500) },
        })
    },

    async tell(wish, { data = new Uint8Array(), ...options }) {
      asked += 1
      const [brought, out] = [`${name}-in-${asked}`, `${name}-out-${asked}`]
      const isFile = data.length > INLINE_MAX
      const { seconds: _, isRepeatable: __, ...more } = options
      if (isFile) await files.upload(brought, data, more)
      const given = isFile ? { file: brought } : { bytes: Buffer.from(data).toString('base64') }
      // Base64 and the rest of the line must fit into the answer.
      const inline = Math.floor((executions.outputMax - 1024) * 0.7)
      const whole = { ...wish, ...given, inline, out, forget: spent.splice(0) }
      const program = [`${folder}/in-session.py`]
      let { answer, executed } = await execute(program, whole, options)
      // The answer was cut. Ask for it as a file, if repeating the request has no second effect.
      if (answer === null && executed.succeeded && options.isRepeatable)
        ({ answer, executed } = await execute(program, { ...whole, inline: 0 }, options))
      if (answer === null) throw unheard(executed)
      const content =
        answer.file === undefined
          ? Buffer.from(answer.bytes ?? '', 'base64')
          : await files.download(answer.file, more)
      spent.push(...(isFile ? [brought] : []), ...(answer.file === undefined ? [] : [answer.file]))
      if (answer.size !== undefined && content.length !== answer.size)
        throw new CofferdamError('sandbox_lost', 'Azure: a file of the session is not whole.')
      const { state = '', status = 0, permit = null, proof = null } = answer
      return { state, status, data: content, permit, proof }
    },

    async ask({ path, query, body, waitMs, signal }) {
      const target = `/v1/${path}?${new URLSearchParams(query).toString()}`
      const wish = { op: 'ask', socket, path: target, seconds: waitMs / 1000 + 30 }
      const { status, data } = await session.tell(wish, {
        seconds: waitMs / 1000 + SHORT_S,
        isRepeatable: true,
        data: body,
        ...(path === 'receive' || path === 'send' ? { patienceMs: RUNNING_PATIENCE_MS } : {}),
        ...(signal === undefined ? {} : { signal }),
      })
      return { status, body: data }
    },
  }
  return session
}

/** Returns why an execution gave no answer: the service ended it or cut it, or the session is another one. */
function unheard({ succeeded, stderr }: Executed): CofferdamError {
  if (succeeded) return new LostAnswer('the output was cut')
  if (stderr.includes('Execution aborted'))
    return new CofferdamError('sandbox_lost', 'Azure: the session ran out of memory.', {
      details: { azure: 'Execution aborted' },
    })
  if (stderr.includes('Request timed out'))
    return new CofferdamError('sandbox_lost', 'Azure: the execution took longer than the service allows.', {
      details: { azure: 'Request timed out' },
    })
  return new CofferdamError('sandbox_lost', 'Azure: the session was replaced by an empty one.', {
    details: { said: stderr.slice(-300) },
  })
}

/** Reads one of our programs that run in the session. */
const ours = (file: string): Buffer => readFileSync(new URL(file, import.meta.url))

/**
 * Returns the guest agent and our programs as one file for unpack-agent.py: paths and base64 contents, with
 * `more` added.
 */
function agentBundle(transforms: boolean, more: Record<string, string>): Buffer {
  const files: [string, Buffer][] = guestFiles()
    // Without COMPILER, amaro.cjs is 5.0 of the 5.3 MB that a new session uploads. Leave it out if it is not
    // needed.
    .filter(({ name }) => name !== COMPILER && (transforms || name !== 'node-gate/amaro.cjs'))
    .map(({ name, source }) => [`guest/${name}`, readFileSync(source)])
  const added = Object.entries(more).map(([path, text]): [string, Buffer] => [path, Buffer.from(text)])
  const all = [...files, ...added, ['in-session.py', ours('in-session.py')] as const]
  return Buffer.from(
    JSON.stringify(Object.fromEntries(all.map(([path, file]) => [path, file.toString('base64')]))),
  )
}
