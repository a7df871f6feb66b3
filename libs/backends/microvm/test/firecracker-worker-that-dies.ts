/**
 * Runs as its own process, to be killed: a worker with the arguments `SETTINGS SPEC PHASE FOLDER ID`. Runs up
 * to the phase, prints the name of the phase, and waits.
 */
import { createFirecrackerEngine, type FirecrackerSettings } from '@cofferdam/backend-microvm/firecracker'
import type { MachineSpec } from '../src/engine.ts'

const [settings = '', spec = '', phase = '', folder = '', id = ''] = process.argv.slice(2)
const engine = await createFirecrackerEngine(JSON.parse(settings) as FirecrackerSettings, {
  double: true,
  timings: { jailerMs: 60_000, apiMs: 60_000, connectMs: 60_000, handshakeMs: 60_000, answerMs: 60_000 },
})
const never = new AbortController().signal
const machine = JSON.parse(spec) as MachineSpec
const reached = (): Promise<never> => {
  console.log(phase)
  setInterval(() => {}, 60_000)
  return new Promise(() => {})
}

if (phase === 'template') await engine.createTemplate(machine, folder, reached, never)
const template = { spec: machine, state: `${folder}/state`, memory: `${folder}/memory` }
const started = (): Promise<void> => (phase === 'started' ? reached() : Promise.resolve())
await engine.restore(template, { folder, id, started }, never)
await reached()
