import Anthropic from '@anthropic-ai/sdk'
import { mkdtempSync } from 'node:fs'
import { startFleet } from './tests/fleet.ts'
import { startDispatcher } from './tests/dispatcher.ts'
import { startManagedAgents } from './infra/doubles/managed-agents/managed-agents-double.ts'
const CALLS = Number(process.argv[2] ?? 60)
const script = Array.from({ length: CALLS }, () => ({ tool_use: { name: 'bash', input: { command: ':' } } }))
const q = (xs: number[], p: number) => xs.toSorted((a, b) => a - b)[Math.floor(p * (xs.length - 1))]
async function timed(double: Awaited<ReturnType<typeof startManagedAgents>>): Promise<number[]> {
  const session = double.createSession({ script: script as never })
  const times: number[] = []
  const asked = new Map<string, number>()
  // Poll the event log in this process.
  let done = 0
  while (done < CALLS) {
    for (const c of session.results.values()) {
      if (!asked.has(c.id)) asked.set(c.id, performance.now())
      else if (c.result !== null && asked.get(c.id)! > 0) { times.push(performance.now() - asked.get(c.id)!); asked.set(c.id, -1); done++ }
    }
    await new Promise((r) => setImmediate(r))
  }
  return times.slice(10)
}
{
  await using double = await startManagedAgents()
  const stop = new AbortController()
  const client = new Anthropic({ baseURL: double.url, authToken: double.environmentKey, apiKey: null })
  const run = client.beta.environments.work.worker({ environmentId: double.environmentId, environmentKey: double.environmentKey, workdir: mkdtempSync('/tmp/zz-') }).run(stop.signal).catch(() => 0)
  const t = await timed(double)
  console.log('sdk', 'p50', q(t, 0.5)?.toFixed(1), 'p90', q(t, 0.9)?.toFixed(1))
  stop.abort(); await run
}
await using fleet = await startFleet({ durable: true })
await fleet.createTenant('acme', { policy: { min_isolation: 'none' }, caps: { tenant_daily: 1e6, agent_hourly: 1e6, concurrency: 64 } })
await fleet.startWorker({ COFFERDAM_BACKENDS: 'process' })
for (const shell of ['kept', 'restored']) {
  await using double = await startManagedAgents()
  const d = await startDispatcher(fleet, double, { environment: { shell } })
  const t = await timed(double)
  console.log('ours', shell, 'p50', q(t, 0.5)?.toFixed(1), 'p90', q(t, 0.9)?.toFixed(1))
  await d.stop()
}
