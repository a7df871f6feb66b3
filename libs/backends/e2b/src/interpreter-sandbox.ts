/**
 * A sandbox whose Python programs run in the template's own code interpreter. The agent runs in-kernel.py,
 * which passes them on, so that stops, deadlines, output limits, files and sessions stay with the agent.
 */
import { readFileSync } from 'node:fs'
import { CofferdamError, type Exit, type Program, type RunIo, type SandboxSpec } from '@cofferdam/contract'
import type { RemoteSlot } from '@cofferdam/backend-remote'
import { GuestSandbox } from '@cofferdam/sandbox/backend'
import type { BoundSlot } from '@cofferdam/sandbox/warm'
import { accessTokenOf } from './access-token.ts'

const IN_KERNEL = new URL('in-kernel.py', import.meta.url)

export class InterpreterSandbox extends GuestSandbox {
  readonly #env: Record<string, string>
  readonly #slot: RemoteSlot

  constructor(
    backend: ConstructorParameters<typeof GuestSandbox>[0],
    spec: SandboxSpec,
    bound: BoundSlot<RemoteSlot>,
  ) {
    // The kernel keeps the variables. The process of in-kernel.py is not kept.
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
      // The interpreter needs the sandbox's access token.
      token: accessTokenOf(this.#slot),
    }
    const exit = await super.run(
      { type: 'script', language: 'python', source: readFileSync(IN_KERNEL, 'utf8') },
      { ...io, stdin: Buffer.from(JSON.stringify(given)) },
    )
    // in-kernel.py was killed before the kernel was free, or it killed itself because the kernel failed. Do
    // not reuse the sandbox.
    if (exit.signal !== null) this.retire()
    if (this.session === null) return exit
    // The kernel lives as long as the session. So every run but the session's first has a kept kernel.
    return { ...exit, interpreter: this.session.fresh ? 'none' : 'kept' }
  }
}

const isForKernel = (program: Program): program is Extract<Program, { type: 'script' }> =>
  program.type === 'script' && program.language === 'python'
