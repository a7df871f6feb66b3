import { startTelemetry, withSpan, SPANS, ATTRIBUTES, contextFromTraceparent } from '/work/main/libs/telemetry/src/index.ts'
const t = await startTelemetry({ service: 's', version: '1', redact: (x: string) => x.replaceAll('hunter2', ''), ...(process.argv[2] ? { otlpEndpoint: process.argv[2] } : {}) })
if (process.argv[3] === 'shelf') { let n = 0; t.onTrace((x) => { if (n++ % 30 === 0) x.read() }) }
const tr = t.tracer('x')
async function one(i: number) {
  const id = i.toString(16).padStart(32, 'b')
  await withSpan(tr, SPANS.execution, { [ATTRIBUTES.executionId]: 'exe_' + i, a: 1, b: 2, c: 'x', d: 'y', e: 'z' }, async () => {
    for (let k = 0; k < 7; k++) await withSpan(tr, 'child', { a: 1, b: 'x', c: 2 }, () => {})
  }, { parent: contextFromTraceparent(`00-${id}-b7ad6b7169203331-01`) })
}
for (let i = 0; i < 5000; i++) await one(i)
const c0 = process.cpuUsage()
const N = 20000
for (let i = 0; i < N; i++) await one(i + 10000)
const c = process.cpuUsage(c0)
console.log(((c.user + c.system) / N / 8).toFixed(2), 'us per span')
await t.shutdown()
