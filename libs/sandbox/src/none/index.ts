/** The `none` backend: the agent in a subprocess without isolation. A tenant's policy must allow it. */
import type { Backend } from '@cofferdam/contract'
import type { BackendDeps } from '../deps.ts'
import { openHost } from '../host-jail/open-host.ts'
import { createPlainRung } from '../host-jail/plain.ts'
import type { NoneConfig } from './config.ts'

export function createBackend(config: NoneConfig, deps: BackendDeps, name = 'none'): Promise<Backend> {
  return openHost(name, config, deps, (parts) => Promise.resolve(createPlainRung(parts, 'none')))
}
