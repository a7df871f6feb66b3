/**
 * File operations of `/v1/sessions`: a turn in the session's sandbox in which nothing of the user runs. The
 * answer is the value (a list) or an artifact (a file), so it is bounded, encrypted and retained like every
 * result.
 *
 * The sandbox is not trusted: impossible paths are left out, and everything else is cut at our bounds.
 */
import { createHash } from 'node:crypto'
import {
  assertNever,
  BOUNDS,
  isCofferdamError,
  isLongOperation,
  outcomeWithoutRun,
  pathSchema,
  type Entry,
  type FileOperation,
  type Outcome,
  type Program,
  type Sandbox,
  type SessionFork,
  turnMsOf,
  unlessAborted,
} from '@cofferdam/contract'
import { besidesEnding, blobKeyOf, type AttemptState } from './attempt-state.ts'
import { collectFolder } from './collect-folder.ts'
import { turnOf, type HeldSandbox } from './held-sandbox.ts'
import { writeFiles } from './prepare-sandbox.ts'
import { compileRules } from './redaction-rules.ts'
import { redactText } from './redactor.ts'
import { withDeadline } from './clock.ts'

/** Enough for 8 MiB to or from a remote sandbox. Some operations have more (`isLongOperation`). */
const OPERATION_TIMEOUT_MS = 30_000
/** Most names that are read. One more is requested, so that `truncated` is known. */
const LIST_MAX = 1000
/** Bytes of a value besides the names. */
const FRAME_BYTES = 64

type FileProgram = Extract<Program, { type: 'files' }>

interface Operation {
  state: AttemptState
  program: FileProgram
  sandbox: Sandbox
  /** Aborts when nobody waits for the operation any more. */
  signal: AbortSignal
}

/** The part of an outcome that is decided here. */
type Done = Pick<Outcome, 'ending' | 'reason' | 'failureReason'> &
  Partial<Pick<Outcome, 'value' | 'artifacts' | 'artifactsOmitted' | 'artifactsIncomplete' | 'collectedFrom'>>

/**
 * Carries out the operation. There is no point of no return, because nothing of the user runs: if this worker
 * dies, the next one repeats it. Rejects only with the signal's reason.
 */
export async function operateOnFiles(
  state: AttemptState,
  program: FileProgram,
  { sandbox, openMs }: HeldSandbox,
): Promise<Outcome> {
  const { signal, request } = state.attempt
  const timeout = new Error('the sandbox did not answer')
  const timeoutMs = isLongOperation(program) ? turnMsOf(request) : OPERATION_TIMEOUT_MS
  using bound = withDeadline(state.parts.clock, signal, timeoutMs, timeout)
  let done: Done
  // A session whose backend had to make a new sandbox no longer has any files.
  if (
    request.session?.scope !== undefined &&
    request.session.scope !== 'none' &&
    sandbox.session?.fresh !== false
  ) {
    sandbox.retire?.()
    done = failed('session_not_found', 'The session has no sandbox any more.')
  } else {
    try {
      const operation = { state, program, sandbox, signal: bound.signal }
      // Long operations end themselves at the deadline: a collection keeps the files that it has stored, and
      // a pause is undone.
      done = isLongOperation(program)
        ? await operate(operation)
        : await unlessAborted(operate(operation), bound.signal)
    } catch (error) {
      signal.throwIfAborted()
      // The state of an operation that hangs is unknown. Retire the sandbox, so that the operation does not
      // hold up the session's next turn.
      if (error === timeout) sandbox.retire?.()
      done = isCofferdamError(error)
        ? failed(error.code, error.message)
        : failed('sandbox_lost', 'The session did not answer in time.')
    }
  }
  return {
    ...outcomeWithoutRun('ok', '', ''),
    ...done,
    backend: sandbox.ref.backend,
    isolation: sandbox.isolation,
    warm: sandbox.warm,
    session: turnOf(sandbox),
    openMs,
    ...besidesEnding(state),
  }
}

const failed = (reason: string, message: string): Done => outcomeWithoutRun('error', reason, message)

async function operate(operation: Operation): Promise<Done> {
  const { state, program, sandbox, signal } = operation
  const path = program.path ?? ''
  const ok: Done = { ending: 'ok', reason: null, failureReason: null }
  const op: FileOperation = program.op
  switch (op) {
    case 'list':
      return {
        ...ok,
        value: listing(await sandbox.list(globsBelow(path), LIST_MAX + 1), path, redactor(state)),
      }
    case 'read': {
      const bytes = await sandbox.read(path, BOUNDS.fileBytes)
      return { ...ok, artifacts: [await store(operation, path, bytes)] }
    }
    case 'write':
      await writeFiles(state, sandbox)
      // `write` returns before the sandbox has answered. Answers come in order, so this one confirms it.
      await sandbox.list(['*'], 1)
      return ok
    case 'remove':
      await sandbox.remove(path)
      return ok
    case 'collect': {
      const what = { sandbox, folder: path, globs: globsBelow(path), redact: redactor(state), signal }
      return { ...ok, ...(await collectFolder(state, what)) }
    }
    case 'pause':
      if (sandbox.pause === undefined) return cannotPause(sandbox)
      await sandbox.pause(signal)
      return ok
    case 'resume':
      // A paused session was already resumed when its sandbox was opened.
      return sandbox.pause === undefined ? cannotPause(sandbox) : ok
    case 'fork': {
      if (sandbox.fork === undefined) return cannotPause(sandbox)
      const sessions = await sandbox.fork(program.keys ?? [], signal)
      return { ...ok, value: { sessions: sessions.map(shown) } }
    }
    case 'end':
      if (sandbox.retire === undefined)
        return {
          ending: 'error',
          reason: 'capability_missing',
          failureReason: 'The backend ends sessions by itself.',
        }
      sandbox.retire()
      return ok
    default:
      return assertNever(op)
  }
}

const cannotPause = ({ ref }: Sandbox): Done =>
  failed(
    'capability_missing',
    `The backend ${ref.backend} cannot pause, resume or fork sessions, because it has no snapshot of a ` +
      'sandbox’s memory. Only microvm has.',
  )

const shown = ({ key, sessionId }: SessionFork): { key: string; session_id: string } => ({
  key,
  session_id: sessionId,
})

/**
 * Matches at least everything below a folder. Glob characters in its name become a question mark, which
 * matches any character, so `listing` compares the paths.
 */
const globsBelow = (path: string): string[] => [path === '' ? '**' : `${path.replaceAll(/^!|\*/g, '?')}/**`]

/** Programs chose the names, so the tenant's secrets are removed from them. */
function redactor({ attempt }: AttemptState): (text: string) => string {
  const rules = compileRules(attempt.tenant.redact, {})
  return (text) => redactText(rules, text).text
}

/** As many names as fit into a value. */
function listing(
  entries: readonly Entry[],
  folder: string,
  redact: (text: string) => string,
): { files: Entry[]; truncated: boolean } {
  const sane = entries
    .filter(
      ({ path }) => pathSchema.safeParse(path).success && (folder === '' || path.startsWith(`${folder}/`)),
    )
    .filter(({ size }) => Number.isSafeInteger(size) && size >= 0)
    .map(({ path, size }) => ({ path: redact(path), size }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const files: Entry[] = []
  let left = BOUNDS.valueBytes - FRAME_BYTES
  for (const entry of sane.slice(0, LIST_MAX)) {
    left -= Buffer.byteLength(JSON.stringify(entry)) + 1
    if (left < 0) break
    files.push(entry)
  }
  return { files, truncated: files.length < entries.length }
}

async function store(
  { state, signal }: Operation,
  asked: string,
  bytes: Uint8Array,
): Promise<Outcome['artifacts'][number]> {
  const path = redactor(state)(asked)
  const sink = await state.parts.blobs.create({ ...blobKeyOf(state.attempt), name: `artifacts/${path}` })
  try {
    await sink.write(bytes)
    signal.throwIfAborted()
    const ref = await sink.commit()
    return { path, size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex'), ref }
  } catch (error) {
    await sink.abort()
    throw error
  }
}
