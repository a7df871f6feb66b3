/**
 * Acts as a byte stream to one agent, although a new agent runs for each request. Writes are gathered until a
 * request is complete. One execution of the service then runs it with a fresh agent in the same work
 * directory, and the stream returns the agent's frames. Output comes only at the end, but the channel relies
 * only on what the vendor documents.
 *
 *   gather ──whole──▶ batch ──answer──▶ read …
 *                       └─answer lost──▶ result? ──never──▶ another batch · done ──▶ read · else ──▶ lost
 *
 * A batch with a program is repeated only with a proof that it has not started, which no program can forge
 * (permit.ts).
 */
import { once } from 'node:events'
import { PassThrough, Writable } from 'node:stream'
import { CofferdamError } from '@cofferdam/contract'
import { endForMemory, isStop, wholeRequest } from './batch-frames.ts'
import { isOutOfMemory, type InterpreterSession, type Told } from './interpreter-session.ts'
import { RUNNING_PATIENCE_MS } from './pool-api.ts'
import { LostAnswer } from './pool-call.ts'
import { isUnspent } from './permit.ts'

/** How often a request that never started is sent. After that, the session counts as lost. */
const ATTEMPTS = 3
/**
 * Seconds for the agent's start and end. in-session.py gets half of them in addition to the program's hard
 * deadline. The call gets all of them in addition to that.
 */
const AGENT_S = 20
/** The time for requests without a program. */
const COLLECT_S = 60

export interface BatchDeadlines {
  softMs: number
  hardMs: number
}

/** Opens the stream for one program. A first, empty batch returns the agent's ready frame. */
export function openBatchChannel(
  session: InterpreterSession,
  options: readonly string[],
  deadlines: BatchDeadlines,
): { readable: PassThrough; writable: Writable } {
  const stop = new AbortController()
  const readable = new PassThrough({ highWaterMark: 256 * 1024 })
  let parts: Buffer[] = []
  /** The permit of the next batch, or null if the session sent none. */
  let permit: string | null = session.permit
  /**
   * The permit of a program that the service ended because it ran out of memory. Asking for its result
   * returns the next permit.
   */
  let aborted: string | null = null
  let hasRun = false
  let work: Promise<void> = Promise.resolve()

  async function collected(frames: Buffer): Promise<Answer> {
    for (let attempt = 1; ; attempt += 1) {
      const told = await batch(frames, await takePermit(), { hard: COLLECT_S })
      if (told.state !== 'never' || attempt === ATTEMPTS) return told
    }
  }

  async function ran(frames: Buffer): Promise<Answer> {
    if (hasRun) throw new CofferdamError('conflict', 'Azure: such a session runs one program.')
    hasRun = true
    const { softMs, hardMs } = deadlines
    const times = {
      hard: hardMs / 1000 + AGENT_S / 2,
      soft: softMs / 1000,
      grace: Math.max(100, hardMs - softMs),
    }
    for (let attempt = 1; ; attempt += 1) {
      const spent = await takePermit()
      try {
        const told = await batch(frames, spent, times, RUNNING_PATIENCE_MS)
        if (told.state !== 'never' || !isUnspent(spent, told.proof) || attempt === ATTEMPTS) return told
      } catch (error) {
        if (!isOutOfMemory(error)) throw error
        aborted = spent
        return { state: 'done', data: endForMemory() }
      }
    }
  }

  async function takePermit(): Promise<string> {
    if (permit === null && aborted !== null) await result(aborted)
    if (permit === null) throw lost()
    const taken = permit
    permit = null
    return taken
  }

  async function batch(
    frames: Buffer,
    spent: string,
    times: { hard: number; soft?: number; grace?: number },
    patienceMs = 0,
  ): Promise<Told> {
    try {
      const told = await session.tell(
        { op: 'batch', permit: spent, options, ...times },
        {
          seconds: times.hard + AGENT_S,
          isRepeatable: false,
          data: frames,
          patienceMs,
          signal: stop.signal,
        },
      )
      permit = told.permit
      return told
    } catch (error) {
      stop.signal.throwIfAborted()
      if (!mayHaveRun(error)) throw error
      // A session runs one execution at a time, so this answer says what became of the earlier one.
      return await result(spent)
    }
  }

  async function result(spent: string): Promise<Told> {
    const told = await session.tell(
      { op: 'result', permit: spent },
      { seconds: COLLECT_S, isRepeatable: true, patienceMs: RUNNING_PATIENCE_MS, signal: stop.signal },
    )
    permit = told.permit
    return told
  }

  async function answer(asked: Promise<Answer>): Promise<void> {
    const { state, data } = await asked
    if (state !== 'done') throw lost()
    if (!readable.write(data) && !readable.destroyed)
      await once(readable, 'drain', { signal: stop.signal }).catch(() => undefined)
  }

  function inTurn(request: () => Promise<Answer>): void {
    work = work
      .then(() => answer(request()))
      .catch((error: unknown) => {
        readable.destroy(error instanceof Error ? error : new Error(String(error)))
      })
  }

  function take(chunk: Buffer): void {
    parts.push(chunk)
    const frames = Buffer.concat(parts)
    const whole = wholeRequest(frames)
    parts = whole === null ? [frames] : []
    if (whole !== null) inTurn(() => (whole.isRun ? ran(frames) : collected(frames)))
  }

  readable.once('close', () => stop.abort())
  readable.on('error', () => {})
  const writable = new Writable({
    write(chunk: Buffer, _encoding, done) {
      // Drop a soft stop, because a session takes no call while it runs an execution. in-session.py enforces
      // the soft deadline.
      if (!isStop(chunk) || parts.length > 0) take(chunk)
      done()
    },
  })
  inTurn(() => collected(Buffer.alloc(0)))
  return { readable, writable }
}

type Answer = Pick<Told, 'state' | 'data'>

const lost = (): CofferdamError =>
  new CofferdamError('sandbox_lost', 'Azure: the agent in the session did not end its answer.')

/** The answer was lost or cut, or the service failed meanwhile. The program may have run. */
const mayHaveRun = (error: unknown): boolean =>
  error instanceof LostAnswer ||
  (error instanceof CofferdamError && Number(error.details['status'] ?? 0) >= 500)
