import { session } from '../api/session.ts'

/** The only form that a trace ID may have, so that the link cannot lead to another page. */
const TRACE_ID = /^[0-9a-f]{32}$/

/** A trace in Jaeger, in another tab. Null if the operator named no Jaeger. */
export function jaegerLink(traceId: string | null | undefined, words: string) {
  const base = session.value?.jaeger_url
  if (!base || !traceId || !TRACE_ID.test(traceId)) return null
  return (
    <a href={`${base}/trace/${traceId}`} target="_blank" rel="noreferrer" title="Open in Jaeger">
      {words}
    </a>
  )
}
