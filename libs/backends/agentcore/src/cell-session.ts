/**
 * A session that has proven that it runs our cell. Each request to the cell is answered once. After the first
 * failure that leaves unknown what runs there, `isSound` is false and no further program runs.
 */
import { CofferdamError, type ProgramFile } from '@cofferdam/contract'
import { createCellRequests } from './cell-requests.ts'
import { isRefused, lostSandbox, openFailure, refusedProgram } from './classify-failure.ts'
import type { DataPlane, SessionPlace } from './data-plane.ts'
import { retryLost } from './retry-calls.ts'
import type { Answer } from './read-answer.ts'
import { runOnce, type ProgramRequest, type Ran } from './run-once.ts'

/**
 * An empty listing is the cheapest check that a session answers. SIGN_MS includes up to 10 s of waiting for
 * the rate limit.
 */
const SIGN_OF_LIFE = { op: 'list', globs: [], most: 0 }
const SIGN_MAX = 1024
const SIGN_MS = 15_000

export interface CellSession {
  readonly id: SessionPlace
  /** Path of the cell in the session. */
  readonly base: string
  /** False once it is unknown what runs in the session. */
  readonly isSound: boolean
  /** Marks the session as unfit for another program. */
  spoil(): void
  /**
   * Uploads files. Returns the `archive` for the request that unpacks them. That request throws for a path
   * that is not valid. Throws `sandbox_lost`, or `internal` if the service did not take the files.
   */
  upload(files: readonly ProgramFile[], signal: AbortSignal): Promise<string>
  /** `archive`: uploaded files to unpack first, from `upload`. `most` bounds the bytes of the answer. */
  ask(request: { op: string; archive: string | null }, most: number, signal: AbortSignal): Promise<Answer>
  /**
   * Whether the session answers. Throws `backend_unavailable` if the rate limit, the rights or the keys
   * prevent the question.
   */
  isAlive(signal: AbortSignal): Promise<boolean>
  /** Number of out-of-memory kills by the machine's kernel since the last program began; 0 if unknown. */
  oomKills(signal: AbortSignal): Promise<number>
  /** Runs a program at most once. */
  run(request: ProgramRequest, signal: AbortSignal): Promise<Ran>
}

/** Uses a session that this or another worker has proven ready. */
export function createCellSession(service: DataPlane, id: SessionPlace, base: string): CellSession {
  let isSound = true
  const spoil = (): void => void (isSound = false)
  const requests = createCellRequests(service, id, spoil)

  return {
    id,
    base,
    get isSound() {
      return isSound
    },
    spoil,

    async upload(files, signal) {
      const archive = requests.fileFor('files')
      const head = files.map(({ path, bytes, executable }) => ({
        path,
        size: bytes.length,
        executable: executable === true,
      }))
      const blob = Buffer.concat([
        Buffer.from(`${JSON.stringify(head)}\n`),
        ...files.map(({ bytes }) => bytes),
      ])
      const given = { content: [{ path: archive, blob }] }
      const written = retryLost(async () => await requests.call('writeFiles', given, signal), signal)
      const { isError, stderr } = await written.catch((error: unknown) => {
        signal.throwIfAborted()
        throw refusedProgram(error)
      })
      if (isError)
        throw new CofferdamError('internal', `AgentCore: files were not taken: ${stderr.slice(0, 200)}`)
      return archive
    },

    async ask(request, most, signal) {
      // Unpacking an archive or removing files cannot be repeated: the second attempt would not find them.
      const changes = request.archive !== null || request.op === 'remove'
      try {
        return await requests[changes ? 'ask' : 'askAgain'](request, most, signal)
      } catch (error) {
        signal.throwIfAborted()
        throw lostSandbox(error)
      }
    },

    async isAlive(signal) {
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(SIGN_MS)])
      try {
        await requests.askAgain(SIGN_OF_LIFE, SIGN_MAX, inTime, 'before')
        return true
      } catch (error) {
        const failure = openFailure(error, 'sign_of_life')
        // The request did not reach the session. So a refusal because of the rate limit, the rights or the
        // keys says nothing about the session.
        const isUnasked = isRefused(error) || failure === error
        if (isUnasked && failure.code === 'backend_unavailable') throw failure
        return false
      }
    },

    async oomKills(signal) {
      // cell.py wrote the first count before the program began. A program can forge both counts, but only for
      // results of its own session.
      const command = `cat ${base}/oom; echo; sed -n 's/^oom_kill //p' /proc/vmstat`
      const asked = requests.call('executeCommand', { command }, signal)
      const said = await asked.catch(() => signal.throwIfAborted())
      const [before, after] = (said?.stdout ?? '').trim().split(/\s+/).map(Number)
      return Math.max(0, (after ?? 0) - (before ?? 0)) || 0
    },

    run: async (request, signal) => await runOnce({ requests, base, onFailed: spoil }, request, signal),
  }
}
