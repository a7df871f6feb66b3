/** `node libs/backends/azure/double/main.ts [--port N]` runs Azure's double until stopped. */
import { parseArgs } from 'node:util'
import { missing } from '@cofferdam/backend-remote/double'
import { startAzureDouble } from './azure-double.ts'

const { values } = parseArgs({ options: { port: { type: 'string', default: '0' } } })
const why = missing()
if (why !== null || !/^\d{1,5}$/.test(values.port)) {
  console.error(why ?? 'expected --port N')
  process.exit(2)
}
const double = await startAzureDouble({ port: Number(values.port) })
console.log(
  JSON.stringify({
    double: 'azure',
    origin: double.origin,
    identity_endpoint: double.identityEndpoint,
    identity_header: double.identity.settings.identityHeader,
    pools: Object.fromEntries(['python', 'shell', 'custom'].map((name) => [name, double.endpoint(name)])),
  }),
)
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void double[Symbol.asyncDispose]().then(() => process.exit(0)))
