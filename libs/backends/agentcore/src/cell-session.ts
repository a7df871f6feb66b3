/**
 * A session at the service that has proven to be ours: requests to its cell, each answered once. The first failure that leaves open
 * what runs there ends its use: `isSound` is false from then on, and nobody runs a second program in it.
 */
import { CofferdamError, type ProgramFile } from '@cofferdam/contract'
import { createCellRequests } from './cell-requests.ts'
import { isRefused, lostSandbox, openFailure, refusedProgram } from './classify-failure.ts'
import type { DataPlane, SessionPlace } from './data-plane.ts'
import { despiteLosses } from './patiently.ts'
import type { Answer } from './read-answer.ts'
import { runOnce, type ProgramRequest, type Ran } from './run-once.ts'

/** An empty listing: the cheapest sign of life. One that takes longer, beyond the 10 s of a turn in the rate, is none. */
const SIGN_OF_LIFE = { op: 'list', globs: [], most: 0 }
const SIGN_MAX = 1024
const SIGN_MS = 15_000

export interface CellSession {
  readonly id: SessionPlace
  /** Where its cell stands in it. */
  readonly base: string
  /** Nothing happened to it that leaves open what runs there. */
  readonly isSound: boolean
  /** It must serve no other program. */
  spoil(): void
  /** Files for the next request, which puts them in their places. Throws what `invalid_request` and the like are for. */
  upload(files: readonly ProgramFile[], signal: AbortSignal): Promise<string>
  /** `archive`: of files that come first, put there by `upload`. `most` bounds the bytes of the answer. */
  ask(request: { op: string; archive: string | null }, most: number, signal: AbortSignal): Promise<Answer>
  /** Whether it answers. Throws `backend_unavailable` when rate, rights or keys let nobody ask. */
  isAlive(signal: AbortSignal): Promise<boolean>
  /**
   * How many processes the kernel of its machine has killed for memory since the last program began; 0 where
   * that is not learnt.
   */
  oomKills(signal: AbortSignal): Promise<number>
  /** Runs a program at most once. */
  run(request: ProgramRequest, signal: AbortSignal): Promise<Ran>
}

/** A session that was proven ready before, by this worker or another. */
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
      const written = despiteLosses(async () => await requests.call('writeFiles', given, signal), signal)
      const { isError, stderr } = await written.catch((error: unknown) => {
        signal.throwIfAborted()
        throw refusedProgram(error)
      })
      if (isError)
        throw new CofferdamError('internal', `AgentCore: files were not taken: ${stderr.slice(0, 200)}`)
      return archive
    },

    async ask(request, most, signal) {
      // Files that came are put into their places by the first one, and what was removed is not there for the second.
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
        // It was not asked: rate, rights and keys are nothing of the session's.
        const isUnasked = isRefused(error) || failure === error
        if (isUnasked && failure.code === 'backend_unavailable') throw failure
        return false
      }
    },

    async oomKills(signal) {
      // cell.py wrote the count before the program began. Both are the program's to forge, for its own
      // verdict.
      const command = `cat ${base}/oom; echo; sed -n 's/^oom_kill //p' /proc/vmstat`
      const asked = requests.call('executeCommand', { command }, signal)
      const said = await asked.catch(() => signal.throwIfAborted())
      const [before, after] = (said?.stdout ?? '').trim().split(/\s+/).map(Number)
      return Math.max(0, (after ?? 0) - (before ?? 0)) || 0
    },

    run: async (request, signal) => await runOnce({ requests, base, onFailed: spoil }, request, signal),
  }
}
