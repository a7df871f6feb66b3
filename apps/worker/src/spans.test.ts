import { SPANS, startTelemetry } from '@cofferdam/telemetry'
import { expect, it } from 'vitest'
import { inSpan } from './spans.ts'

it.each(['the first', 'the next'])('a worker records its spans with %s telemetry of a process', async () => {
  await using telemetry = await startTelemetry({ service: 'test', version: '0', redact: (text) => text })
  const traceId = await telemetry.tracer('test').startActiveSpan('attempt', async (attempt) => {
    await inSpan(SPANS.admission, async () => undefined)
    attempt.end()
    return attempt.spanContext().traceId
  })
  expect(telemetry.recentSpans(traceId).map(({ name }) => name)).toEqual(['attempt', SPANS.admission])
})
