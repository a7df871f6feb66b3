/**
 * What `/v1/sessions` does with the files of a session: a turn in its sandbox in which nothing of the user runs. The answer
 * is the value (a list) or an artifact (a file), so that it goes the way of every result: bounded, encrypted where the
 * tenant's outputs are, kept for its retention.
 *
 * The sandbox is not believed: a path that it makes up is left out, and what it says of a file is cut at our bounds.
 */
import { createHash } from 'node:crypto'
import {
  assertNever,
  BOUNDS,
  isCofferdamError,
  outcomeWithoutRun,
  pathSchema,
  type BlobKey,
  type BlobStore,
  type Entry,
  type FileOperation,
  type Outcome,
  type Program,
  type Sandbox,
  type SessionScope,
  unlessAborted,
} from '@cofferdam/contract'
import { turnOf } from './held-sandbox.ts'
import { compileRules } from './redaction-rules.ts'
import { redactText } from './redactor.ts'
import { withDeadline } from './with-deadline.ts'
import type { Clock } from './clock.ts'

/** 8 MiB to or from a remote sandbox, as for what goes in before a program. */
const OPERATION_TIMEOUT_MS = 30_000
/** Names looked at: what a value can hold of short ones, so that `truncated` is told and not guessed. */
const LIST_MAX = 1000
/** Of a value, for the frame around the names. */
const FRAME_BYTES = 64

export interface FileOperationParts {
  program: Extract<Program, { type: 'files' }>
  sandbox: Sandbox
  scope: SessionScope
  /** The tenant's values: programs chose the names that are listed. */
  secrets: readonly string[]
  blobs: BlobStore
  key: Omit<BlobKey, 'name'>
  /** Puts the request's files there. */
  write(): Promise<void>
  clock: Clock
  signal: AbortSignal
}

/** What of an outcome is decided here. */
type Done = Pick<Outcome, 'ending' | 'reason' | 'failureReason'> &
  Partial<Pick<Outcome, 'value' | 'artifacts'>>

/** Does it and tells how it ended. Rejects with the signal's reason only. */
export async function operateOnFiles(parts: FileOperationParts): Promise<Outcome> {
  const { sandbox, signal } = parts
  const failed = (reason: string, message: string): Done => outcomeWithoutRun('error', reason, message)
  const timeout = new Error('the sandbox did not answer')
  using bound = withDeadline(parts.clock, signal, OPERATION_TIMEOUT_MS, timeout)
  let done: Done
  if (isNew(parts)) {
    sandbox.retire?.()
    done = failed('session_not_found', 'The session has no sandbox any more.')
  } else {
    try {
      done = await unlessAborted(operate(parts, bound.signal), bound.signal)
    } catch (error) {
      signal.throwIfAborted()
      // Nothing is known of the turn that hangs; it must not hold up the session's next one.
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
  }
}

/** A backend that found nothing to attach to and made a sandbox: there are no files of this session. */
const isNew = ({ sandbox, scope }: FileOperationParts): boolean =>
  scope !== 'none' && sandbox.session?.fresh !== false

async function operate(parts: FileOperationParts, signal: AbortSignal): Promise<Done> {
  const { program, sandbox } = parts
  const path = program.path ?? ''
  const ok: Done = { ending: 'ok', reason: null, failureReason: null }
  const op: FileOperation = program.op
  switch (op) {
    case 'list':
      return {
        ...ok,
        value: listing(await sandbox.list(globsBelow(path), LIST_MAX + 1), path, redactor(parts)),
      }
    case 'read': {
      const bytes = await sandbox.read(path, BOUNDS.fileBytes)
      return { ...ok, artifacts: [await store(parts, path, bytes, signal)] }
    }
    case 'write':
      await parts.write()
      // Writing waits for no answer: this one comes after it.
      await sandbox.list(['*'], 1)
      return ok
    case 'remove':
      await sandbox.remove(path)
      return ok
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

/** Everything below a folder; characters that a glob would read otherwise match any, and are compared later. */
const globsBelow = (path: string): string[] => [path === '' ? '**' : `${path.replaceAll(/^!|\*/g, '?')}/**`]

function redactor({ secrets }: FileOperationParts): (text: string) => string {
  const rules = compileRules(secrets, {})
  return (text) => redactText(rules, text).text
}

/** As many names as a value may have bytes. */
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
  parts: FileOperationParts,
  asked: string,
  bytes: Uint8Array,
  signal: AbortSignal,
): Promise<Outcome['artifacts'][number]> {
  const { blobs, key } = parts
  const path = redactor(parts)(asked)
  const sink = await blobs.create({ ...key, name: `artifacts/${path}` })
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
