/** The `none` backend: a plain subprocess through the same agent. Isolation `none`; only a tenant policy that says so may use it. */
import type { Backend } from '@cofferdam/contract'
import type { BackendDeps } from '../deps.ts'
import { openHost } from '../host-jail/open-host.ts'
import { createPlainRung } from '../host-jail/plain.ts'
import type { NoneConfig } from './config.ts'

/** Makes the backend. */
export function createBackend(config: NoneConfig, deps: BackendDeps, name = 'none'): Promise<Backend> {
  return openHost(name, config, deps, (parts) => Promise.resolve(createPlainRung(parts, 'none')))
}
