/**
 * Our guest agent in a session of an interpreter pool: brought there as a file, and reached by executions. Everything lies in a folder
 * named for this incarnation, so that a session that the service silently made anew answers nothing.
 */
import { randomBytes } from 'node:crypto'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { agentBundle, ours } from './agent-bundle.ts'
import type { Executed, Executions } from './dialects.ts'
import { RUNNING_PATIENCE_MS, type PoolApi } from './pool-api.ts'
import { json, LostAnswer, type PoolCall } from './pool-call.ts'
import type { AskPod } from './pod-calls.ts'
import { newPermit, permitSchema } from './permit.ts'
import { createSessionFiles, FILE_MAX } from './session-files.ts'

const DATA = '/mnt/data'
/** Of a wish in the command itself; above it a file is uploaded first. Below what a kernel takes as one argument (128 KiB). */
const INLINE_MAX = 48 * 1024
/** Seconds for what takes milliseconds. */
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

/** What one execution of ours said. */
export interface Told {
  state: string
  status: number
  data: Buffer
  /** Of the next batch. */
  permit: string | null
  /** That the one that was asked for has not begun. */
  proof: string | null
}

/** How one execution of ours is asked for; see PoolCall. */
export interface Timing extends Pick<PoolCall, 'isRepeatable' | 'patienceMs' | 'signal'> {
  seconds: number
}

export interface InterpreterSession {
  readonly incarnation: string
  /** Where programs work. */
  readonly work: string
  /** Of the first batch in a session that is provisioned here. */
  readonly permit: string
  /** Brings the agent, and with `pod` leaves http_pod.py behind. `transforms`: what makes JavaScript of all TypeScript comes along. */
  provision(options: { pod: boolean; transforms: boolean }, signal: AbortSignal): Promise<void>
  /** One wish to in-session.py; `data` goes along with it. Throws `sandbox_lost` when the session is another one. */
  tell(wish: Record<string, unknown>, options: Timing & { data?: Uint8Array }): Promise<Told>
  /** Questions to the pod that was left behind. */
  readonly ask: AskPod
}

/** The service ended the execution for its memory. */
export const isOutOfMemory = (error: unknown): boolean =>
  isCofferdamError(error) && error.details['azure'] === 'Execution aborted'

/** A session at an interpreter pool, which the first call allocates. `incarnation` is that of one that is there already. */
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
  /** Files that carried what went to and fro: read, and to be removed along with the next call. */
  const spent: string[] = []

  /** Between the nonces, whatever else was printed; null when it is not all there. */
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
      // Base64 and the rest of the line must fit into what comes through.
      const inline = Math.floor((executions.outputMax - 1024) * 0.7)
      const whole = { ...wish, ...given, inline, out, forget: spent.splice(0) }
      const program = [`${folder}/in-session.py`]
      let { answer, executed } = await execute(program, whole, options)
      // Cut on its way: the same again as a file, where that has no second effect.
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

/** Why an execution of ours said nothing: the service ended it, cut it, or it is another session. */
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
