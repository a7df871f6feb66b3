/** Limits of both sides of a comparison. They are generous, so that only misbehaving programs reach them. */

import { SURROUNDINGS } from '@cofferdam/contract'
import { withoutCgroup } from '../../libs/sandbox/src/host-jail/resource-limits.ts'

/** Debian's own interpreter is below /usr, which both sandboxes show. */
export const PYTHON = '/usr/bin/python3'

export const LIMITS = {
  memory_mib: 768,
  cpus: 2,
  pids: 256,
  disk_mib: 256,
  stdout_bytes: 4 * 1024 * 1024,
  stderr_bytes: 4 * 1024 * 1024,
} as const

/** Limits that the `process` backend sets without a cgroup. Programs can read them (`ulimit -a`). */
export const bwrapLimits: Record<string, number> = {
  ...withoutCgroup(LIMITS),
  core: 0,
  nofile: SURROUNDINGS.openFiles,
}
