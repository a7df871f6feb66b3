/** What an `open` that failed says of its backend, and what the backend is passed over for. */
import { isCofferdamError, type CofferdamError, type SandboxSpec } from '@cofferdam/contract'
import type { NoRoom } from './full-backends.ts'
import type { Rejection, RejectionReason } from './select-backend.ts'

/** A rejection of a backend whose name its reader knows. */
export type Refusal = Omit<Rejection, 'backend'>

/** It is the request that does not fit, or the tenant that is not provisioned: other requests may well be served. */
const SAYS_NOTHING_OF_THE_BACKEND: ReadonlySet<string> = new Set<RejectionReason>([
  'capability_missing',
  'interpreter_not_ready',
])

/** False where the failure is the backend's own, and counts against it. */
export const saysNothingOfTheBackend = ({ reason }: Refusal): boolean =>
  SAYS_NOTHING_OF_THE_BACKEND.has(reason)

const OF_THE_SESSION: ReadonlySet<string> = new Set(['conflict', 'session_not_found', 'fenced'])

/**
 * The session is there and cannot be had like this (other limits, in use, another worker's meanwhile), or is asked for and gone: no
 * other backend has it, and it says nothing of this one. Falling back would make a second session of the same name.
 */
export const isOfTheSession = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && OF_THE_SESSION.has(error.code)

/** An execution that only goes on in a session looks for it on each of its backends. */
export const isMissingSession = (error: unknown, { session }: Pick<SandboxSpec, 'session'>): boolean =>
  session?.mustExist === true && isCofferdamError(error) && error.code === 'session_not_found'

/** What a backend is passed over for that does not have it. */
export const MISSING_SESSION: Refusal = {
  reason: 'session_not_found',
  detail: 'has no session of this key (any more)',
}

/** The vendor takes no more for now, and will when something ends (contract: `open`). */
export const isFull = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && error.code === 'backend_unavailable' && error.details['full'] === true

/** What a full backend is passed over for. */
export const withoutRoom = ({ said, forTooLong }: NoRoom): Refusal =>
  forTooLong
    ? { reason: 'backend_unavailable', detail: `cannot run here: ${said}` }
    : { reason: 'backend_full', detail: `has no room: ${said}` }

/** What a backend is passed over for whose `open` failed. */
export function refusalOf(error: unknown): Refusal {
  if (!isCofferdamError(error)) {
    const name = error instanceof Error ? error.name : 'unknown error'
    return { reason: 'sandbox_open_failed', detail: `failed to open a sandbox (${name})` }
  }
  switch (error.code) {
    case 'capability_missing':
      return { reason: 'capability_missing', detail: error.message }
    case 'interpreter_not_ready':
      return { reason: 'interpreter_not_ready', detail: `is not ready: ${error.message}` }
    case 'backend_unavailable':
      return { reason: 'backend_unavailable', detail: `cannot run here: ${error.message}` }
    default:
      return { reason: 'sandbox_open_failed', detail: `failed to open a sandbox: ${error.message}` }
  }
}
