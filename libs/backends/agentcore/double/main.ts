/** `node libs/backends/agentcore/double/main.ts [--port N]` runs AgentCore's double until stopped. */
import { parseArgs } from 'node:util'
import { missing } from '@cofferdam/backend-remote/double'
import { startAccountDouble } from './control/control-plane.ts'

const { values } = parseArgs({ options: { port: { type: 'string', default: '0' } } })
const why = missing()
if (why !== null || !/^\d{1,5}$/.test(values.port)) {
  console.error(why ?? 'expected --port N')
  process.exit(2)
}
const double = await startAccountDouble(Number(values.port))
// Accept every identifier, so that the data plane can be used without provisioning.
double.data.interpreters = null
console.log(
  JSON.stringify({
    double: 'agentcore',
    origin: double.origin,
    access_key_id: double.secrets.accessKeyId,
    secret_access_key: double.secrets.secretAccessKey,
  }),
)
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void double[Symbol.asyncDispose]().then(() => process.exit(0)))
