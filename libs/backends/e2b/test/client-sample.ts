/** Started by client-cost.ts: one client reads a program's output in a new sandbox. Prints a `Sample`. */
import { readFileSync } from 'node:fs'
import type { Sample } from './client-cost.ts'
// Every worker loads these anyway, so they are no cost of a client.
import '@cofferdam/contract'
import '@cofferdam/sandbox/guest'

const { client, origin, apiKey, bytes } = JSON.parse(process.argv[2] ?? '{}') as {
  client: 'sdk' | 'ours'
  origin: string
  apiKey: string
  bytes: number
}
const MiB = 1024 * 1024
const COMMAND = `head -c ${bytes} /dev/zero | tr '\\0' x`
const cpuMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
/** Peak so far. `resourceUsage().maxRSS` would begin with the peak of the process that started this one. */
function peakMiB(): number {
  const [, kiB] = /^VmHWM:\s*(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
  return Number(kiB) / 1024
}

/**
 * Each loads its client and returns a function. The function runs a program in a new sandbox and returns how
 * many bytes it printed.
 */
const RUNS = {
  async sdk() {
    const { Sandbox } = await import('e2b')
    return async () => {
      const sandbox = await Sandbox.create({ apiKey, apiUrl: origin, sandboxUrl: origin })
      const { stdout } = await sandbox.commands.run(COMMAND)
      await sandbox.kill()
      return stdout.length
    }
  },
  async ours() {
    const { createControlApi } = await import('../src/control-api.ts')
    const { envdAddress } = await import('../src/envd-address.ts')
    const { createEnvd } = await import('../src/envd.ts')
    return async () => {
      const api = createControlApi({ origin, apiKey: async () => apiKey, timeoutMs: 60_000 })
      const { signal } = new AbortController()
      const created = await api.create({ template: 'base', lifeMs: 60_000, metadata: {} }, signal)
      const address = envdAddress(created, { domain: 'e2b.app', sandbox_url: origin })
      const channel = await createEnvd(address, 60_000).start(['/bin/bash', '-c', COMMAND], 'sample', signal)
      let printed = 0
      for await (const chunk of channel.readable) printed += (chunk as Buffer).length
      await api.kill(created.sandboxID)
      return printed
    }
  },
}

const rss = process.memoryUsage.rss()
const atStart = cpuMs()
const run = await RUNS[client]()
const loaded = cpuMs()
const loadedRss = process.memoryUsage.rss()
const peak = peakMiB()
const startedMs = performance.now()
const printed = await run()
const sample: Sample = {
  load_cpu_ms: Math.round(loaded - atStart),
  load_rss_mib: Math.round((loadedRss - rss) / MiB),
  run_cpu_ms: Math.round(cpuMs() - loaded),
  run_ms: Math.round(performance.now() - startedMs),
  run_peak_mib: Math.round(peakMiB() - peak),
  bytes: printed,
}
console.log(JSON.stringify(sample))
