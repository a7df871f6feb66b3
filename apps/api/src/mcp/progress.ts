/**
 * Progress of an execution as `notifications/progress`: its place in the queue, its start, then the program's
 * own reports and the latest line of its output. Events are redacted before they come here.
 *
 * `progress` must rise with each message. It is 100 times the fraction that the program reported. Without a
 * newer fraction, it is slightly more than in the last message.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { ExecutionEvent, ExecutionId } from '@cofferdam/contract'
import { holderOf } from '../authenticate.ts'
import { cleanText } from './clean-text.ts'
import type { ToolCall } from './tool.ts'

/** The time between two reads of the queue. Reads are rare because each forecast runs a script in Redis. */
const QUEUE_LOOK_MS = 2000

/** Least time between two messages of one kind, so that a program cannot flood its client. */
const LEAST_GAP_MS: Partial<Record<ExecutionEvent['type'], number>> = { output: 1000, progress: 250 }

const LINE_MAX = 200
const STEP = 0.001

/**
 * Sends progress until the execution ends or `signal` aborts, if the client asked for it and this process has
 * capacity for one more event stream. Never rejects: progress is a courtesy.
 */
export async function followProgress(call: ToolCall, id: ExecutionId, signal: AbortSignal): Promise<void> {
  const token = call.meta?.['progressToken']
  if (typeof token !== 'string' && typeof token !== 'number') return
  using slot = call.context.streams.take(holderOf(call.request))
  if (slot === null) return
  const reporter = createReporter(call, token)
  try {
    const started = new AbortController()
    const until = AbortSignal.any([signal, started.signal])
    await Promise.all([
      reportQueue(call, id, reporter, until),
      reportEvents(call, id, reporter, signal, started),
    ])
  } catch (error) {
    if (!signal.aborted) call.request.log.warn({ err: error }, 'progress of an MCP call broke off')
  }
}

interface Reporter {
  say(message: string, fraction?: number): Promise<void>
}

function createReporter(call: ToolCall, progressToken: string | number): Reporter {
  let last = 0
  let hasFraction = false
  return {
    async say(message, fraction) {
      hasFraction ||= fraction !== undefined
      last = Math.max(last + STEP, (fraction ?? 0) * 100)
      await call.notify({
        method: 'notifications/progress',
        params: { progressToken, progress: last, ...(hasFraction ? { total: 100 } : {}), message },
      })
    },
  }
}

/**
 * Reports the position in the queue and the estimated wait, whenever one changes, until the execution starts.
 */
async function reportQueue(
  { context }: ToolCall,
  id: ExecutionId,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<void> {
  let said = ''
  while (!signal.aborted) {
    const state = await context.producer.get(id)
    if (state === null || state.position === null) return
    const eta = state.eta_ms === null ? '' : `, about ${Math.ceil(state.eta_ms / 1000)} s`
    const message = `queued: ${state.position} ahead${eta}`
    if (message !== said && !signal.aborted) await reporter.say(message)
    said = message
    await pause(QUEUE_LOOK_MS, undefined, { signal }).catch(() => undefined)
  }
}

async function reportEvents(
  { context }: ToolCall,
  id: ExecutionId,
  reporter: Reporter,
  signal: AbortSignal,
  started: AbortController,
): Promise<void> {
  const sentAtMs = new Map<string, number>()
  try {
    for await (const { event } of context.producer.events(id, { signal })) {
      if (event.type !== 'queued') started.abort()
      const nowMs = performance.now()
      const message = messageOf(event)
      const gapMs = LEAST_GAP_MS[event.type] ?? 0
      if (message === null || nowMs - (sentAtMs.get(event.type) ?? -gapMs) < gapMs || signal.aborted) continue
      sentAtMs.set(event.type, nowMs)
      await reporter.say(message, event.type === 'progress' ? event.fraction : undefined)
    }
  } finally {
    started.abort()
  }
}

/** Null for an event that says nothing to a client. */
function messageOf(event: ExecutionEvent): string | null {
  switch (event.type) {
    case 'started':
      return `started on ${event.backend} (${event.isolation})`
    case 'output': {
      const line = cleanText(event.text)
        .split('\n')
        .findLast((text) => text.trim() !== '')
      return line === undefined ? null : line.slice(0, LINE_MAX).toWellFormed()
    }
    case 'progress':
      return cleanText(event.message)
    case 'notice':
      return event.message
    case 'queued':
    case 'ended':
      return null
  }
}
