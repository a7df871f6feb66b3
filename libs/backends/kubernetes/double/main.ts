/** `node main.ts [--port N] [--runtime cofferdam|sandboxd|python-runtime-sandbox]` runs the double. */
import { parseArgs } from 'node:util'
import { missing } from '@cofferdam/backend-remote/double'
import { startKubernetesDouble } from './kubernetes-double.ts'
import { RUNTIME_NAMES } from './pod.ts'

const { values } = parseArgs({
  options: { port: { type: 'string', default: '0' }, runtime: { type: 'string', default: 'cofferdam' } },
})
const why = missing()
const runtime = RUNTIME_NAMES.find((name) => name === values.runtime)
if (why !== null || runtime === undefined || !/^\d{1,5}$/.test(values.port)) {
  console.error(why ?? `expected --port N and --runtime ${RUNTIME_NAMES.join('|')}`)
  process.exit(2)
}
const double = await startKubernetesDouble({ port: Number(values.port), runtime })
console.log(
  JSON.stringify({
    double: 'kubernetes',
    api_server: double.origin,
    namespace: 'cofferdam-sandboxes',
    warm_pool: 'cofferdam',
  }),
)
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void double[Symbol.asyncDispose]().then(() => process.exit(0)))
