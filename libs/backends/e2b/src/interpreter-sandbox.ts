/**
 * A sandbox whose Python programs run in the template's own code interpreter. The agent runs a program of ours that hands them over
 * (in-kernel.py): so stops, deadlines, bounds of output, files and sessions stay the agent's, and there is one way to run anything.
 */
import { readFileSync } from 'node:fs'
import { CofferdamError, type Exit, type Program, type RunIo, type SandboxSpec } from '@cofferdam/contract'
import type { RemoteSlot } from '@cofferdam/backend-remote'
import { GuestSandbox } from '@cofferdam/sandbox/backend'
import type { BoundSlot } from '@cofferdam/sandbox/warm'
import { accessTokenOf } from './access-token.ts'

const IN_KERNEL = new URL('in-kernel.py', import.meta.url)

/** See `Sandbox` in the contract. */
export class InterpreterSandbox extends GuestSandbox {
  readonly #env: Record<string, string>
  readonly #slot: RemoteSlot

  constructor(
    backend: ConstructorParameters<typeof GuestSandbox>[0],
    spec: SandboxSpec,
    bound: BoundSlot<RemoteSlot>,
  ) {
    // The kernel keeps the names; of what hands programs over nothing is to be kept.
    super(backend, spec, isForKernel(spec.program) ? { ...bound, keepsInterpreter: false } : bound)
    this.#env = spec.env
    this.#slot = bound.slot
  }

  override async run(program: Program, io: RunIo): Promise<Exit> {
    if (!isForKernel(program)) return await super.run(program, io)
    if (io.stdin !== undefined)
      throw new CofferdamError('capability_missing', 'A code interpreter gives its programs no input.')
    const given = {
      source: program.source,
      argv: program.argv ?? [],
      env: this.#env,
      // The interpreter asks for what its own sandbox is opened with.
      token: accessTokenOf(this.#slot),
    }
    const exit = await super.run(
      { type: 'script', language: 'python', source: readFileSync(IN_KERNEL, 'utf8') },
      { ...io, stdin: Buffer.from(JSON.stringify(given)) },
    )
    // Killed before the kernel was known to be free, or because it had ended: nothing goes on in it.
    if (exit.signal !== null) this.retire()
    if (this.session === null) return exit
    // The kernel is there from the sandbox's first moment, and the session ends with it.
    return { ...exit, interpreter: this.session.fresh ? 'none' : 'kept' }
  }
}

const isForKernel = (program: Program): program is Extract<Program, { type: 'script' }> =>
  program.type === 'script' && program.language === 'python'
