/** Shared by tests of remote backends: the sandbox of an execution, and a program run in it. */
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type Program,
  type Sandbox,
  type SandboxSpec,
} from '@cofferdam/contract'

export const python = (source: string): Program => ({ type: 'script', language: 'python', source })

/** Spec of an execution of this fleet (twelve hex digits) with default limits. */
export const jobSpec = (fleet: string, program: Program): SandboxSpec => ({
  sandboxId: newSandboxId(),
  executionId: newExecutionId(),
  attempt: 1,
  tenantId: 't',
  owner: newWorkerId(fleet),
  program,
  limits: DEFAULT_LIMITS,
  network: 'none',
  env: {},
  preload: null,
  reuse: 'job',
  session: null,
})

/** The program's output on both streams. */
export async function printed(sandbox: Sandbox, program: Program): Promise<string> {
  const parts: Buffer[] = []
  await sandbox.run(program, {
    // The bytes are valid only until this returns.
    onOutput: (_stream, chunk) => void parts.push(Buffer.from(chunk)),
    maxOutputBytes: { stdout: 1 << 20, stderr: 1 << 20 },
    signal: AbortSignal.timeout(20_000),
  })
  return Buffer.concat(parts).toString()
}
