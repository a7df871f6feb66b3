import type { SandboxSpec } from './backend.ts'
import { missingCapabilities, type Capabilities } from './capabilities.ts'
import { CofferdamError } from './errors.ts'

/**
 * The first step of every backend's `open`. Throws `capability_missing`, naming everything that is missing.
 */
export function refuseMissing(name: string, capabilities: Capabilities, spec: SandboxSpec): void {
  const missing = missingCapabilities(capabilities, {
    program: spec.program,
    network: spec.network,
    stdin: false,
    files: false,
    artifacts: false,
    reuse: spec.reuse,
    sessionScope: spec.session?.scope ?? null,
    preload: spec.preload,
    cpuTime: spec.limits.cpu_time_ms !== undefined,
    hardTimeoutMs: spec.limits.hard_timeout_ms,
    heartbeat: spec.limits.heartbeat_timeout_ms !== undefined,
  })
  if (missing.length > 0)
    throw new CofferdamError('capability_missing', `${name} lacks ${missing.join(', ')}.`)
}
