/**
 * Runs as its own process, to be killed: a worker that begins a session, pauses it, and resumes it. Prints
 * pausing, resuming and resumed ID, each after the step before it.
 */
import type { Program, SandboxSpec } from '@cofferdam/contract'
import { createMicrovmBackend } from '../src/index.ts'

const [given = '{}'] = process.argv.slice(2)
const { settings, spec } = JSON.parse(given) as { settings: object; spec: SandboxSpec }
const backend = await createMicrovmBackend(settings)
const { signal } = new AbortController()
const say = (word: string): unknown => process.stdout.write(`${word}\n`)

async function turn(program: Program, pauses: boolean): Promise<void> {
  await using sandbox = await backend.open({ ...spec, program }, signal)
  if (pauses) {
    say('pausing')
    await sandbox.pause?.(signal)
  } else {
    await sandbox.run(program, {
      onOutput: () => undefined,
      maxOutputBytes: { stdout: 1000, stderr: 1000 },
      signal,
    })
  }
}

await turn(spec.program, false)
await turn({ type: 'files', op: 'pause' }, true)
say('resuming')
await using sandbox = await backend.open({ ...spec, program: { type: 'files', op: 'resume' } }, signal)
say(`resumed ${sandbox.id}`)
