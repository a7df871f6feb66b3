/** `node libs/backends/e2b/double/main.ts [--port N]` runs E2B's double until stopped. */
import { parseArgs } from 'node:util'
import { startE2bDouble } from './e2b-double.ts'
import { missing } from '@cofferdam/backend-remote/double'

const { values } = parseArgs({ options: { port: { type: 'string', default: '0' } } })
const why = missing()
if (why !== null || !/^\d{1,5}$/.test(values.port)) {
  console.error(why ?? 'expected --port N')
  process.exit(2)
}
const double = await startE2bDouble(Number(values.port))
console.log(JSON.stringify({ double: 'e2b', origin: double.origin, api_key: double.apiKey }))
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void double[Symbol.asyncDispose]().then(() => process.exit(0)))
