/**
 * Our guest agent in a session of an interpreter pool: brought there as a file, and reached by executions. Everything lies in a folder
 * named for this incarnation, so that a session that the service silently made anew answers nothing.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { guestBundle } from '@cofferdam/guest'
import { z } from 'zod'
import { multipart } from '../remote/multipart.ts'
import { versionOf, type Executed, type Executions } from './dialects.ts'
import { LostAnswer, RUNNING_PATIENCE_MS, type PoolApi, type PoolCall } from './pool-api.ts'
import { json } from './pool-refusals.ts'
import type { AskPod } from './pod-calls.ts'

const DATA = '/mnt/data'
/** Of a wish in the command itself; above it a file is uploaded first. Below what a kernel takes as one argument (128 KiB). */
const INLINE_MAX = 48 * 1024
/** Seconds for what takes milliseconds. */
const SHORT_S = 60
/** No answer of ours is larger (in-session.py ends an agent that says more). */
const FILE_MAX = 64 * 1024 * 1024 + 1024

const UNPACK = `
import base64, json, os, subprocess, sys, time
wish = json.loads(base64.b64decode(sys.argv[1]))
folder = wish["folder"]
if not os.path.isdir(folder):
    making = folder + ".new"
    with open(wish["bundle"], "rb") as packed:
        files = json.load(packed)
    for name, content in files.items():
        path = os.path.join(making, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(base64.b64decode(content))
        if "/bin/" in name:
            os.chmod(path, 0o755)
    os.rename(making, folder)
    os.unlink(wish["bundle"])
if wish["pod"] and not os.path.exists(wish["socket"]):
    null = subprocess.DEVNULL
    subprocess.Popen([sys.executable, "-I", "-S", folder + "/guest/http_pod.py", wish["socket"]], stdin=null, stdout=null, stderr=null, start_new_session=True)
    until = time.monotonic() + 20
    while not os.path.exists(wish["socket"]) and time.monotonic() < until:
        time.sleep(0.02)
print(wish["nonce"] + json.dumps({"state": "ready" if not wish["pod"] or os.path.exists(wish["socket"]) else "failed"}) + wish["nonce"])
`

const answerSchema = z.object({
  state: z.string().max(32).optional(),
  status: z.int().optional(),
  bytes: z.base64().optional(),
  file: z
    .string()
    .regex(/^cofd-[\w-]{1,100}$/)
    .optional(),
  size: z.int().nonnegative().max(FILE_MAX).optional(),
})

/** What one execution of ours said. */
export interface Told {
  state: string
  status: number
  data: Buffer
}

/** How one execution of ours is asked for; see PoolCall. */
export interface Timing extends Pick<PoolCall, 'isRepeatable' | 'patienceMs' | 'signal'> {
  seconds: number
}

export interface InterpreterSession {
  readonly incarnation: string
  /** Where programs work. */
  readonly work: string
  /** Brings the agent, and with `pod` leaves http_pod.py behind. */
  provision(pod: boolean, signal: AbortSignal): Promise<void>
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
  let files = 0
  /** Files that carried what went to and fro: read, and to be removed along with the next call. */
  const spent: string[] = []

  async function upload(
    file: string,
    bytes: Uint8Array,
    more: Pick<PoolCall, 'allocates' | 'patienceMs' | 'signal'>,
  ): Promise<void> {
    const { body, type } = multipart([{ path: file, bytes }])
    await executions.spelled((dialect) =>
      api.call({
        ...more,
        method: 'POST',
        path: dialect === 'old' ? '/files/upload' : '/files',
        query: { 'api-version': versionOf(dialect) },
        identifier,
        bytes: body,
        type,
        isRepeatable: true,
      }),
    )
  }
  async function download(file: string, more: Pick<PoolCall, 'patienceMs' | 'signal'>): Promise<Buffer> {
    const answer = await executions.spelled((dialect) =>
      api.call({
        ...more,
        method: 'GET',
        path: dialect === 'old' ? `/files/content/${file}` : `/files/${file}/content`,
        query: { 'api-version': versionOf(dialect) },
        identifier,
        isRepeatable: true,
        maxBytes: FILE_MAX,
      }),
    )
    return answer.body
  }
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
    async provision(pod, signal) {
      const bundle = JSON.parse(guestBundle().toString()) as Record<string, string>
      const inSession = readFileSync(new URL('in-session.py', import.meta.url)).toString('base64')
      const packed = Object.fromEntries(
        Object.entries(bundle).map(([file, content]) => [`guest/${file}`, content]),
      )
      await upload(`${name}.json`, Buffer.from(JSON.stringify({ ...packed, 'in-session.py': inSession })), {
        allocates: true,
        signal,
      })
      const wish = { folder, socket, pod, bundle: `${folder}.json` }
      const { answer, executed } = await execute(['-c', UNPACK], wish, {
        seconds: SHORT_S,
        isRepeatable: true,
        signal,
      })
      if (answer?.state !== 'ready')
        throw new CofferdamError(
          'sandbox_open_failed',
          'Azure: the agent could not be brought into the session.',
          {
            details: { said: executed.stderr.slice(-500) },
          },
        )
    },

    async tell(wish, { data = new Uint8Array(), ...options }) {
      files += 1
      const [brought, out] = [`${name}-in-${files}`, `${name}-out-${files}`]
      const isFile = data.length > INLINE_MAX
      const { seconds: _, isRepeatable: __, ...more } = options
      if (isFile) await upload(brought, data, more)
      const given = isFile ? { file: brought } : { bytes: Buffer.from(data).toString('base64') }
      // Base64 and the rest of the line must fit into what comes through.
      const inline = Math.floor((executions.outputMax - 1024) * 0.7)
      const asked = { ...wish, ...given, inline, out, forget: spent.splice(0) }
      const program = [`${folder}/in-session.py`]
      let { answer, executed } = await execute(program, asked, options)
      // Cut on its way: the same again as a file, where that has no second effect.
      if (answer === null && executed.succeeded && options.isRepeatable)
        ({ answer, executed } = await execute(program, { ...asked, inline: 0 }, options))
      if (answer === null) throw unheard(executed)
      const content =
        answer.file === undefined
          ? Buffer.from(answer.bytes ?? '', 'base64')
          : await download(answer.file, more)
      spent.push(...(isFile ? [brought] : []), ...(answer.file === undefined ? [] : [answer.file]))
      if (answer.size !== undefined && content.length !== answer.size)
        throw new CofferdamError('sandbox_lost', 'Azure: a file of the session is not whole.')
      return { state: answer.state ?? '', status: answer.status ?? 0, data: content }
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

const CUT = 'the output was cut'

/** True for an execution that was carried out, and whose words did not come through. */
export const wasCut = (error: unknown): boolean => error instanceof LostAnswer && error.cause === CUT

/** Why an execution of ours said nothing: the service ended it, cut it, or it is another session. */
function unheard({ succeeded, stderr }: Executed): CofferdamError {
  if (succeeded) return new LostAnswer(CUT)
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
