/**
 * Runs a program and waits for its result. A failure of the program is in the result; it is never an
 * exception.
 *
 * Output:
 *   ok 2 { total: 6 }
 *   error ZeroDivisionError: division by zero
 */
import { connect } from './connect.ts'

await using client = connect()
const run = (source: string) =>
  client.run({
    tenant_id: 'demo',
    agent_id: 'examples',
    program: { type: 'script', language: 'python', source },
  })

const good = await run('print(1 + 1)\n{"total": sum([1, 2, 3])}')
console.log(good.ending, good.stdout.trim(), good.value)

const bad = await run('1 / 0')
console.log(bad.ending, bad.stderr.trim().split('\n').at(-1))
