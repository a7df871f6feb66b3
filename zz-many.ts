import { startFleet } from './tests/fleet.ts'
import { startDispatcher } from './tests/dispatcher.ts'
import { startManagedAgents } from './infra/doubles/managed-agents/managed-agents-double.ts'
const N = Number(process.argv[2] ?? 200)
const t0 = performance.now(); const at = () => ((performance.now() - t0) / 1000).toFixed(1)
await using fleet = await startFleet({ durable: true })
await using double = await startManagedAgents({ ttl_seconds: 60 })
await fleet.createTenant('acme', { policy: { min_isolation: 'none' }, caps: { tenant_daily: 1e6, agent_hourly: 1e6, concurrency: 1000, max_queued: 1e5 } })
await fleet.startWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '8', COFFERDAM_MEMORY_BUDGET_MIB: '14000' })
const ds = [await startDispatcher(fleet, double, { environment: { max_sessions: 120, limits: { memory_mib: 48 } } }), await startDispatcher(fleet, double, { environment: { max_sessions: 120, limits: { memory_mib: 48 } } })]
const bash = (command: string) => ({ tool_use: { name: 'bash', input: { command } } })
const sessions = Array.from({ length: N }, (_, i) => double.createSession({ script: [bash(`echo s${i} >> log; x=${i}`), bash('echo $x; cat log'), { tool_use: { name: 'write', input: { file_path: '/mnt/session/outputs/o.txt', content: `${i}` } } }, bash('cat log; wc -l < log'), { idle: 'end_turn' }] as never }))
const want = (i: number) => ['(no output)', `${i}\ns${i}`, `wrote`, `s${i}\n1`]
let last = -1
for (;;) {
  const answered = sessions.reduce((n, s) => n + [...s.results.values()].filter((c) => c.result).length, 0)
  if (answered !== last) { last = answered }
  if (answered >= N * 4 || performance.now() - t0 > 500_000) break
  if (Math.random() < 0.05) console.log(at(), answered)
  await new Promise((r) => setTimeout(r, 500))
}
let wrong = 0, twice = 0, missing = 0, replaced = 0
sessions.forEach((s, i) => { const cs = [...s.results.values()]; want(i).forEach((w, k) => { const c = cs[k]; if (!c?.result) { missing++; return } if (c.answers !== 1) twice++; const text = c.result.content.map((b) => (b.type === 'text' ? b.text : '')).join(''); if (text.includes('new sandbox')) replaced++; else if (!text.startsWith(w)) { wrong++; if (wrong < 6) console.log(i, k, text.slice(0, 200)) } }) })
console.log(at(), { N, last, wrong, twice, missing, replaced })
await Promise.all(ds.map((d) => d.stop()))
console.log(at(), 'stopped'); for (const d of ds) console.log(d.log().slice(-1500))
