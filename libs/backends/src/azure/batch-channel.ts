/**
 * A byte stream to an agent that lives for one request only: what is written is gathered until the request is whole, carried out by
 * one execution with a fresh agent in the same work directory, and its frames are then read. Nothing streams, but nothing
 * of it relies on more than the vendor documents.
 *
 *   gather ──whole──▶ batch n ──answer──▶ read …
 *                        └─answer lost──▶ result n ──never──▶ batch n+1 · done ──▶ read · else ──▶ lost
 */
import { once } from 'node:events'
import { PassThrough, Writable } from 'node:stream'
import { CofferdamError } from '@cofferdam/contract'
import { isOutOfMemory, wasCut, type InterpreterSession, type Told } from './interpreter-session.ts'
import { LostAnswer, RUNNING_PATIENCE_MS } from './pool-api.ts'

/** A request whose fate is known to be "never began" is made again; three in a row are an outage. */
const ATTEMPTS = 3
/** Beyond the program's own deadline: start and end of the agent. */
const AGENT_S = 20
/** For requests without a program. */
const COLLECT_S = 60

export interface BatchDeadlines {
  softMs: number
  hardMs: number
}

/** Opens the stream; the agent's ready frame comes first, from a first batch that also shows that an agent runs there. */
export function openBatchChannel(
  session: InterpreterSession,
  options: readonly string[],
  deadlines: BatchDeadlines,
): { readable: PassThrough; writable: Writable } {
  const stop = new AbortController()
  const readable = new PassThrough({ highWaterMark: 256 * 1024 })
  let parts: Buffer[] = []
  let number = 0
  let work: Promise<void> = Promise.resolve()

  async function carriedOut(frames: Buffer, isRun: boolean): Promise<Buffer> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      number += 1
      const told = await batch(frames, isRun)
      if (told.state === 'done') return told.data
      if (told.state !== 'never') break
    }
    throw new CofferdamError('sandbox_lost', 'Azure: the agent in the session did not end its answer.')
  }

  async function batch(frames: Buffer, isRun: boolean): Promise<Told> {
    const hard = isRun ? deadlines.hardMs / 1000 + AGENT_S / 2 : COLLECT_S
    const wish = {
      op: 'batch',
      number,
      options,
      hard,
      ...(isRun
        ? { soft: deadlines.softMs / 1000, grace: Math.max(100, deadlines.hardMs - deadlines.softMs) }
        : {}),
    }
    try {
      return await session.tell(wish, {
        seconds: hard + AGENT_S,
        isRepeatable: false,
        data: frames,
        patienceMs: isRun ? RUNNING_PATIENCE_MS : 0,
        signal: stop.signal,
      })
    } catch (error) {
      stop.signal.throwIfAborted()
      if (!mayHaveRun(error)) throw error
      // Executions of a session come one after the other, so the answer to this one says what became of that one.
      const told = await session.tell(
        { op: 'result', number },
        { seconds: COLLECT_S, isRepeatable: true, patienceMs: RUNNING_PATIENCE_MS, signal: stop.signal },
      )
      // It was carried out: a program that took its claim away is not run again.
      return told.state === 'never' && wasCut(error) ? { ...told, state: 'lost' } : told
    }
  }

  async function request(frames: Buffer, isRun: boolean): Promise<void> {
    const answer = await carriedOut(frames, isRun).catch((error: unknown) => {
      if (!isRun || !isOutOfMemory(error)) throw error
      return exitFrame(KILLED_FOR_MEMORY)
    })
    if (!readable.write(answer) && !readable.destroyed)
      await once(readable, 'drain', { signal: stop.signal }).catch(() => undefined)
  }

  function take(chunk: Buffer): void {
    parts.push(chunk)
    const frames = Buffer.concat(parts)
    const whole = wholeRequest(frames)
    parts = [frames]
    if (whole === null) return
    parts = []
    work = work
      .then(() => request(frames, whole.isRun))
      .catch((error: unknown) => {
        readable.destroy(error instanceof Error ? error : new Error(String(error)))
      })
  }

  readable.once('close', () => stop.abort())
  readable.on('error', () => {})
  const writable = new Writable({
    write(chunk: Buffer, _encoding, done) {
      // A stop cannot reach a session that executes: the soft deadline is told to it beforehand.
      if (chunk[0] !== STOP || parts.length > 0) take(chunk)
      done()
    },
  })
  work = work
    .then(() => request(Buffer.alloc(0), false))
    .catch((error: Error) => void readable.destroy(error))
  return { readable, writable }
}

const STOP = 'S'.charCodeAt(0)

/** The answer was lost or cut, or the service failed in the middle: it may have run. */
const mayHaveRun = (error: unknown): boolean =>
  error instanceof LostAnswer ||
  (error instanceof CofferdamError && Number(error.details['status'] ?? 0) >= 500)

const KILLED_FOR_MEMORY = {
  code: null,
  signal: 'SIGKILL',
  wallUs: 0,
  cpuUs: null,
  maxRssKb: 0,
  memPeak: null,
  oomKills: 1,
  pidsPeak: null,
  pidsHit: null,
  diskFull: false,
  outBytes: 0,
  errBytes: 0,
  outDropped: 0,
  errDropped: 0,
  leftovers: false,
}

function exitFrame(evidence: object): Buffer {
  const payload = Buffer.from(JSON.stringify(evidence))
  const head = Buffer.alloc(5)
  head.write('X', 'latin1')
  head.writeUInt32LE(payload.length, 1)
  return Buffer.concat([head, payload])
}

/** Null while frames are missing: a job is whole with its go and, where it has input, the end of that; others are one frame. */
function wholeRequest(bytes: Buffer): { isRun: boolean } | null {
  const frames = [...framesOf(bytes)]
  const [first] = frames
  if (first === undefined) return null
  if (first.type !== 'J') return { isRun: false }
  const job = JSON.parse(first.payload.toString('utf8')) as { op: string; stdin?: number | null }
  if (!frames.some(({ type }) => type === 'G')) return null
  if (job.op !== 'run') return { isRun: false }
  const hasEnd = frames.some(({ type, payload }) => type === 'I' && payload.length === 0)
  return job.stdin == null || hasEnd ? { isRun: true } : null
}

function* framesOf(bytes: Buffer): Generator<{ type: string; payload: Buffer }> {
  for (let at = 0; at + 5 <= bytes.length;) {
    const length = bytes.readUInt32LE(at + 1)
    if (at + 5 + length > bytes.length) return
    yield { type: String.fromCharCode(bytes[at] ?? 0), payload: bytes.subarray(at + 5, at + 5 + length) }
    at += 5 + length
  }
}
