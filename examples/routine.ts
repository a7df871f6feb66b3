/**
 * Creates a routine, runs it now, and follows the progress that the program reports from inside its sandbox.
 *
 * Output:
 *   next run is in the future: true
 *   25 % loading
 *   75 % fitting
 *   ended ok
 *   deleted: 204
 */
import { address, connect, key } from './connect.ts'

const call = async (method: string, path: string, body?: unknown): Promise<Response> =>
  fetch(`${address()}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key()}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })

const made = await call('POST', '/v1/routines', {
  name: 'nightly fit',
  schedule: { cron: '30 2 * * *', time_zone: 'Europe/Berlin' },
  concurrency: 'forbid',
  request: {
    tenant_id: 'demo',
    agent_id: 'examples',
    program: {
      type: 'script',
      language: 'python',
      source: `
import cofferdam, time
for part, what in ((0.25, "loading"), (0.75, "fitting")):
    cofferdam.progress(part, what)
    time.sleep(0.3)
`,
    },
  },
})
const routine = (await made.json()) as { routine_id: string; next_run_at: string }
console.log('next run is in the future:', Date.parse(routine.next_run_at) > Date.now())

const path = `/v1/routines/${routine.routine_id}`
const run = (await (await call('POST', `${path}/run`, {})).json()) as { execution_id: `exe_${string}` }

await using client = connect()
for await (const { event } of client.stream(run.execution_id)) {
  if (event.type === 'progress') console.log(`${event.fraction * 100} % ${event.message}`)
  if (event.type === 'ended') console.log(`ended ${event.ending}`)
}
console.log('deleted:', (await call('DELETE', path)).status)
