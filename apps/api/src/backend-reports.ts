/**
 * What workers say about their backends: each writes `{ at_ms, backends }` into the hash `{cofferdam}:backends` under
 * its id every 20 s. A worker that was killed stays there until another removes it, so old entries are passed over.
 * What other processes wrote is parsed, not trusted.
 */
import { CofferdamError, isolationSchema } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { z } from 'zod'

/** Key of the hash worker id → reports. */
const BACKENDS_KEY = '{cofferdam}:backends'

/** Loose: workers of another version may say more or less about a backend than this one knows. */
export const backendReportSchema = z.looseObject({
  name: z.string(),
  isolation: isolationSchema,
  probe: z.looseObject({ ok: z.boolean() }),
})
export type BackendReport = z.output<typeof backendReportSchema>

const workerReportSchema = z.looseObject({ at_ms: z.int(), backends: z.array(backendReportSchema) })

/** Three missed renewals of 20 s (apps/worker, publish-backends.ts). */
const STALE_AFTER_MS = 60_000

export interface BackendSummary {
  name: string
  isolation: BackendReport['isolation']
  /** Whether any worker can use it now. */
  available: boolean
  workers: { worker: string; report: BackendReport }[]
}

/** Every reported backend by name at `nowMs`; entries that are old or cannot be read are left out. Throws `queue_unavailable`. */
export async function readBackendReports(redis: Redis, nowMs: number): Promise<BackendSummary[]> {
  const byName = new Map<string, BackendSummary>()
  const all = await redis.hgetall(BACKENDS_KEY).catch((cause: unknown) => {
    throw new CofferdamError('queue_unavailable', undefined, { cause })
  })
  const byWorker = Object.entries(all).sort(([a], [b]) => a.localeCompare(b))
  for (const [worker, text] of byWorker) {
    for (const report of parseReports(text, nowMs)) {
      const summary = byName.get(report.name) ?? {
        name: report.name,
        isolation: report.isolation,
        available: false,
        workers: [],
      }
      summary.available ||= report.probe.ok
      summary.workers.push({ worker, report })
      byName.set(report.name, summary)
    }
  }
  return [...byName.values()].sort((a, b) => a.name.localeCompare(b.name))
}

function parseReports(text: string, nowMs: number): BackendReport[] {
  try {
    const { data } = workerReportSchema.safeParse(JSON.parse(text))
    return data === undefined || nowMs - data.at_ms > STALE_AFTER_MS ? [] : data.backends
  } catch {
    return []
  }
}
