/**
 * `node infra/doubles/managed-agents/main.ts [--port N] [--chat]` runs the double until stopped. With --chat,
 * each line of stdin goes to a session, its answer to stdout, and the end of stdin ends the double.
 */
import { parseArgs } from 'node:util'
import { chat } from './chat.ts'
import { startManagedAgents } from './managed-agents-double.ts'

const { values } = parseArgs({
  options: { port: { type: 'string', default: '0' }, chat: { type: 'boolean', default: false } },
})
if (!/^\d{1,5}$/.test(values.port)) {
  console.error('expected --port N and perhaps --chat')
  process.exit(2)
}
const double = await startManagedAgents({ port: Number(values.port) })
// Handle the signals before the JSON line is printed: its reader may end this process at once.
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
stop.signal.addEventListener('abort', () => void double.close().then(() => process.exit(0)), { once: true })
console.log(
  JSON.stringify({
    double: 'managed-agents',
    origin: double.url,
    environment_id: double.environmentId,
    environment_key: double.environmentKey,
    api_key: double.apiKey,
  }),
)
if (values.chat) {
  await chat(double, { input: process.stdin, print: (text) => console.log(text), stop: stop.signal })
  stop.abort()
}
