/**
 * Gives a program two deadlines. At the soft deadline it is asked to stop, and its output is kept. At the
 * hard deadline its whole process tree is killed.
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
