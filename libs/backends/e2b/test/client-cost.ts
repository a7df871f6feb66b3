/**
 * `node libs/backends/e2b/test/client-cost.ts [MEGABYTES] [ROUNDS]` compares what E2B's SDK and our client
 * cost a worker: loading the client, and reading a program's output from the double. Each sample is a
 * process; the two clients alternate. Prints medians as JSON.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startE2bDouble } from '../double/e2b-double.ts'

const SAMPLE = fileURLToPath(new URL('client-sample.ts', import.meta.url))
const CLIENTS = ['sdk', 'ours'] as const

export interface Sample {
  /** CPU time and resident memory for loading the client. */
  load_cpu_ms: number
  load_rss_mib: number
  /** CPU time, wall time, and growth of peak resident memory of the run. */
  run_cpu_ms: number
  run_ms: number
  run_peak_mib: number
  bytes: number
}

export async function clientCosts(
  bytes: number,
  rounds: number,
): Promise<Record<(typeof CLIENTS)[number], Sample>> {
  await using double = await startE2bDouble()
  const { origin, apiKey } = double
  const samples = { sdk: [] as Sample[], ours: [] as Sample[] }
  for (let round = 0; round < rounds; round++)
    for (const client of CLIENTS) {
      const given = JSON.stringify({ client, origin, apiKey, bytes })
      const { stdout } = await promisify(execFile)(process.execPath, [SAMPLE, given])
      samples[client].push(JSON.parse(stdout) as Sample)
    }
  return { sdk: medians(samples.sdk), ours: medians(samples.ours) }
}

function medians(samples: Sample[]): Sample {
  const names = Object.keys(samples[0] ?? {}) as (keyof Sample)[]
  const middle = (name: keyof Sample): number =>
    samples.map((sample) => sample[name]).toSorted((a, b) => a - b)[samples.length >> 1] ?? Number.NaN
  return Object.fromEntries(names.map((name) => [name, middle(name)])) as unknown as Sample
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [megabytes = '20', rounds = '5'] = process.argv.slice(2)
  console.log(JSON.stringify(await clientCosts(Number(megabytes) * 1e6, Number(rounds)), null, 2))
}
