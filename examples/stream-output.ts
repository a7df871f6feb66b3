/**
 * Follows a program's output while it runs.
 *
 * Output:
 *   started
 *   1 2 3
 *   ended ok
 */
import { connect } from './connect.ts'

await using client = connect()
const { execution_id } = await client.enqueue({
  tenant_id: 'demo',
  agent_id: 'examples',
  program: {
    type: 'script',
    language: 'bash',
    source: 'for i in 1 2 3; do echo -n "$i "; sleep 0.2; done; echo',
  },
})

let text = ''
for await (const { event } of client.stream(execution_id)) {
  if (event.type === 'started') console.log('started')
  if (event.type === 'output') text += event.text
  if (event.type === 'ended') console.log(`${text.trim()}\nended ${event.ending}`)
}
