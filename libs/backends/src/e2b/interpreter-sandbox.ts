/**
 * A sandbox whose Python programs run in the template's own code interpreter. The agent runs a program of ours that hands them over
 * (in-kernel.py): so stops, deadlines, bounds of output, files and sessions stay the agent's, and there is one way to run anything.
 */
import { readFileSync } from 'node:fs'
import { CofferdamError, type Exit, type Program, type RunIo, type SandboxSpec } from '@cofferdam/contract'
import { RemoteSandbox } from '../remote/remote-sandbox.ts'
import type { RemoteSlot } from '../remote/remote-slot.ts'
import type { Place } from '../warm/index.ts'

const IN_KERNEL = new URL('in-kernel.py', import.meta.url)

/** See `Sandbox` in the contract. */
export class InterpreterSandbox extends RemoteSandbox {
  readonly #env: Record<string, string>

  constructor(
    backend: ConstructorParameters<typeof RemoteSandbox>[0],
    spec: SandboxSpec,
    place: Place<RemoteSlot>,
  ) {
    // The kernel keeps the names; of what hands programs over nothing is to be kept.
    super(backend, spec, isForKernel(spec.program) ? { ...place, keepsInterpreter: false } : place)
    this.#env = spec.env
  }

  override async run(program: Program, io: RunIo): Promise<Exit> {
    if (!isForKernel(program)) return await super.run(program, io)
    if (io.stdin !== undefined)
      throw new CofferdamError('capability_missing', 'A code interpreter gives its programs no input.')
    const given = { source: program.source, argv: program.argv ?? [], env: this.#env }
    return await super.run(
      { type: 'script', language: 'python', source: readFileSync(IN_KERNEL, 'utf8') },
      { ...io, stdin: Buffer.from(JSON.stringify(given)) },
    )
  }
}

const isForKernel = (program: Program): program is Extract<Program, { type: 'script' }> =>
  program.type === 'script' && program.language === 'python'
