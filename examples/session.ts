/**
 * A session: executions that share one sandbox, one after the other. Scope `interpreter` is a REPL; `files`
 * (the default) keeps the work directory for programs of every language.
 *
 * Output:
 *   the interpreter remembers: 42
 *   and survives an error: error, then 42
 *   bash reads what Python wrote: kept
 *   same session: true
 */
import { connect } from './connect.ts'

await using client = connect()

type Session = { key: string; scope: 'files' | 'interpreter' }
const run = (session: Session, language: 'python' | 'bash', source: string) =>
  client.run({
    tenant_id: 'demo',
    agent_id: 'examples',
    session,
    program: { type: 'script', language, source },
  })

const key = `example-${Date.now()}`
const repl: Session = { key: `${key}-repl`, scope: 'interpreter' }
await run(repl, 'python', 'x = 41')
console.log('the interpreter remembers:', (await run(repl, 'python', 'x += 1; x')).value)
const wrong = await run(repl, 'python', 'x / 0')
console.log(`and survives an error: ${wrong.ending}, then`, (await run(repl, 'python', 'x')).value)

const files: Session = { key: `${key}-files`, scope: 'files' }
const first = await run(files, 'python', 'open("note.txt", "w").write("kept\\n")')
const second = await run(files, 'bash', 'cat note.txt')
console.log('bash reads what Python wrote:', second.stdout.trim())
console.log('same session:', first.session?.id === second.session?.id)
