/** What someone on call should look at, made of what the API says. */
import type { AuditRow, Operations } from '@cofferdam/client'
import type { Tone } from '../../words/endings.ts'
import { counted, duration } from '../../words/figures.ts'
import type { Queue } from '../queue/queue.ts'

export interface Matter {
  tone: Tone
  text: string
  /** The page with more, as a path and query. Null if there is none. */
  path: string | null
  query: Readonly<Record<string, string>>
}

type Backends = Operations['listBackends']['result']['backends']

/** Workers send a heartbeat every second by default, so one that is silent for this long has a problem. */
const SILENT_MS = 15_000
/** A wait that callers notice. */
const LONG_WAIT_MS = 60_000

const matter = (tone: Tone, text: string, path: string | null = null, query = {}): Matter => ({
  tone,
  text,
  path,
  query,
})

function ofQueue(queue: Queue): Matter[] {
  const silent = queue.workers.filter((worker) => worker.last_seen_ms > SILENT_MS)
  const lanes = Object.entries(queue.lanes).filter(([, lane]) => (lane.oldest_age_ms ?? 0) > LONG_WAIT_MS)
  return [
    ...(queue.workers.length === 0 ? [matter('bad', 'No worker has a heartbeat: nothing can run.')] : []),
    ...silent.map((worker) =>
      matter('bad', `${worker.worker_id} was last seen ${duration(worker.last_seen_ms)} ago.`),
    ),
    ...lanes.map(([name, lane]) =>
      matter(
        'warn',
        `The oldest in lane ${name} has waited for ${duration(lane.oldest_age_ms ?? 0)}.`,
        '/executions',
        { status: 'live' },
      ),
    ),
    ...(queue.outbox > 0
      ? [matter('warn', `${counted(queue.outbox, 'attempt record')} not in the store yet.`)]
      : []),
    ...(queue.callbacks.retrying > 0
      ? [matter('warn', `${counted(queue.callbacks.retrying, 'callback')} failed and will be sent again.`)]
      : []),
  ]
}

function ofBackends(backends: Backends): Matter[] {
  return backends.flatMap(({ name, available, workers }) => {
    const failing = workers.filter(({ report }) => !report.probe.ok).length
    if (!available) return [matter('bad', `No worker can use the backend ${name}.`, '/backends')]
    if (failing === 0) return []
    return [matter('warn', `${counted(failing, 'worker')} cannot use the backend ${name}.`, '/backends')]
  })
}

/** Endings that are the platform’s fault, one line for each kind. */
function ofEndings(rows: readonly AuditRow[]): Matter[] {
  return [...Map.groupBy(rows, (row) => row.ending)].map(([ending, those]) =>
    matter(
      'bad',
      `${counted(those.length, 'execution')} ended ${ending} within the last hour.`,
      '/executions',
      {
        ending,
        within: '1h',
      },
    ),
  )
}

/**
 * Everything that needs attention, the worst first. `rows` are the recent rows that ended by a fault of the
 * platform.
 */
export function mattersOf(queue: Queue, backends: Backends, rows: readonly AuditRow[]): Matter[] {
  const all = [...ofQueue(queue), ...ofBackends(backends), ...ofEndings(rows)]
  return [...all.filter(({ tone }) => tone === 'bad'), ...all.filter(({ tone }) => tone !== 'bad')]
}
