/**
 * Gives a program two deadlines: at the soft one it is asked to stop and keeps what it printed, at the hard one its
 * whole process tree dies.
 *
 * Output:
 *   soft_timeout timeout counted to 3
 */
import { connect } from './connect.ts'

await using client = connect()
const result = await client.run({
  tenant_id: 'demo',
  agent_id: 'examples',
  limits: { soft_timeout_ms: 1500, hard_timeout_ms: 10_000 },
  program: {
    type: 'script',
    language: 'python',
    source: `
import time
print("counted to 3", flush=True)
time.sleep(60)
`,
  },
})
console.log(result.ending, result.exit_status, result.stdout.trim())
