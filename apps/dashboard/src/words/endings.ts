/** The status of an execution in a word or two, and the tone in which it is shown. */
import type { ExecutionResult, ExecutionState } from '@cofferdam/client'

export type Ending = ExecutionResult['ending']
export type Status = ExecutionState['status']
export type Tone = 'ok' | 'bad' | 'warn' | 'busy' | 'wait'

/** Every ending in words, in the order of docs/errors.md. */
export const ENDINGS: Readonly<Record<Ending, { words: string; tone: Tone }>> = {
  ok: { words: 'Succeeded', tone: 'ok' },
  error: { words: 'Failed', tone: 'bad' },
  crashed: { words: 'Crashed', tone: 'bad' },
  soft_timeout: { words: 'Stopped at soft deadline', tone: 'warn' },
  hard_timeout: { words: 'Killed at hard deadline', tone: 'bad' },
  oom: { words: 'Out of memory', tone: 'bad' },
  pids_limit: { words: 'Too many processes', tone: 'bad' },
  disk_limit: { words: 'Disk full', tone: 'bad' },
  output_limit: { words: 'Too much output', tone: 'bad' },
  cancelled: { words: 'Cancelled', tone: 'wait' },
  policy_denied: { words: 'Refused by policy', tone: 'warn' },
  cap_exceeded: { words: 'Refused: cap used up', tone: 'warn' },
  provisioning: { words: 'No sandbox', tone: 'bad' },
  sandbox_lost: { words: 'Sandbox lost', tone: 'bad' },
  worker_lost: { words: 'Worker lost', tone: 'bad' },
}

const STATUSES: Readonly<Record<Exclude<Status, 'ended'>, { words: string; tone: Tone }>> = {
  delayed: { words: 'Delayed', tone: 'wait' },
  queued: { words: 'Waiting', tone: 'wait' },
  running: { words: 'Running', tone: 'busy' },
}

const isEnding = (word: string): word is Ending => Object.hasOwn(ENDINGS, word)

/** The words and tone of a status, or of the ending once it ended. A newer API may know other endings. */
export function standing(status: Status, ending: string | null): { words: string; tone: Tone } {
  if (status !== 'ended') return STATUSES[status]
  if (ending === null) return { words: 'Ended', tone: 'wait' }
  return isEnding(ending) ? ENDINGS[ending] : { words: ending.slice(0, 40), tone: 'warn' }
}
