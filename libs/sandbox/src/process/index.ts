/**
 * The `process` backend: jails without Docker. It probes once for the best rung: bubblewrap, then a jail that
 * isolates itself with Landlock and seccomp. A plain subprocess only if configured.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Backend } from '@cofferdam/contract'
import type { BackendDeps } from '../deps.ts'
import { openHost, type Refusal } from '../host-jail/open-host.ts'
import { createPlainRung } from '../host-jail/plain.ts'
import type { HostParts } from '../host-jail/prepare-host.ts'
import type { Rung } from '../host-jail/rung.ts'
import { createBwrapRung } from './bwrap.ts'
import type { ProcessConfig } from './config.ts'
import { createSelfJailRung } from './self-jail.ts'

const FIX =
  'Install bubblewrap (apt install bubblewrap) and allow unprivileged user namespaces ' +
  '(sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu), or use a kernel with Landlock (5.13, lsm=…,landlock).'

/** Creates the backend on the best rung of this host. */
export function createBackend(config: ProcessConfig, deps: BackendDeps, name = 'process'): Promise<Backend> {
  return openHost(name, config, deps, async (parts, root, signal): Promise<Rung | Refusal> => {
    if (config.jail === 'plain') return createPlainRung(parts, 'process')
    const reasons: string[] = []
    if (config.jail !== 'self') {
      const rung = await tryBwrap(config.bwrap, parts, signal)
      if (!('missing' in rung)) return rung
      reasons.push(`bwrap: ${rung.missing}`)
    }
    if (config.jail !== 'bwrap') {
      const rung = await trySelf(config, parts, root, signal)
      if (!('missing' in rung))
        return { ...rung, features: [...rung.features, ...reasons.map((r) => `not used: ${r}`)] }
      reasons.push(`self-jail: ${rung.missing}`)
    }
    return { why: reasons.join('; '), fix: FIX }
  })
}

async function tryBwrap(
  named: string | undefined,
  parts: HostParts,
  signal: AbortSignal,
): Promise<Rung | { missing: string }> {
  const { filters } = parts
  if (filters === null) return { missing: `no seccomp filter for ${process.arch}` }
  for (const bwrap of named === undefined ? ['/usr/bin/bwrap', 'bwrap'] : [named]) {
    const answer = await promisify(execFile)(bwrap, ['--version'], { signal }).catch(() => null)
    signal.throwIfAborted()
    if (answer !== null) return createBwrapRung({ ...parts, filters, bwrap }, signal)
  }
  return { missing: 'bubblewrap is not installed (apt install bubblewrap)' }
}

async function trySelf(
  { namespaces }: ProcessConfig,
  parts: HostParts,
  root: string,
  signal: AbortSignal,
): Promise<Rung | { missing: string }> {
  const { filters } = parts
  if (filters === null) return { missing: `no seccomp filter for ${process.arch}` }
  return createSelfJailRung({ ...parts, filters, root }, namespaces, signal)
}
