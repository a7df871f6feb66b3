/** How our agent runs in a sandbox of E2B: as its user, with everything that a signal could reach inside of the machine. */
import { agentArgv } from '@cofferdam/guest'
import type { SlotSpec } from '../warm/index.ts'
import type { E2bConfig } from './config.ts'

/** Where the agent's files go; the home of E2B's default user. */
export const GUEST = '/home/user/.cofferdam'
const WORK = '/tmp/work'
const MiB = 1024 * 1024

/** Command and arguments. */
export function agentCommand(config: E2bConfig, spec: SlotSpec): string[] {
  return agentArgv({
    python: config.python,
    node: config.node,
    guestDir: GUEST,
    language: spec.language,
    preload: spec.preload,
    cell: spec.cell,
    work: WORK,
    // Not `confined`: all that a signal could reach is inside the machine, which is the program's own, but envd is in it as well.
    scope: true,
    env: { HOME: '/home/user', TMPDIR: '/tmp' },
    rlimits: { fsize: spec.limits.disk_mib * MiB },
  })
}
