/**
 * The rung without isolation: a subprocess with limits and clean-up. It runs as the worker's user, or, if the
 * worker is root, as the slot's own uid or one shared unprivileged user.
 */
import { spawn } from 'node:child_process'
import type { Isolation } from '@cofferdam/contract'
import { agentArgv } from '../guest/index.ts'
import type { HostParts } from './prepare-host.ts'
import { dataLimit } from './resource-limits.ts'
import type { Rung } from './rung.ts'

const MiB = 1024 * 1024

/** `isolation`: `process` or `none`, whichever name the configured backend has. Both mean the same here. */
export function createPlainRung(parts: HostParts, isolation: Isolation): Rung {
  const noNetworkFilter = parts.filters?.noNetwork ?? null
  return {
    isolation,
    ownsPids: false,
    usesFolder: true,
    ownDisks: [],
    showsProc: true,
    enforces: [],
    network: noNetworkFilter === null ? ['public'] : ['none'],
    features: [
      'plain subprocess: the program can read what its user can read and see all processes',
      'own session, environment from the request alone, the process tree is killed at the end',
      ...(noNetworkFilter === null
        ? []
        : ['network none by a seccomp filter on socket(2); unix sockets stay reachable']),
    ],
    start({ spec, folder, hasCgroup, user }) {
      const [command = parts.python.executable, ...args] = agentArgv({
        python: parts.python.executable,
        node: parts.node,
        guestDir: parts.guestDir,
        language: spec.language,
        preload: spec.preload,
        cell: spec.cell,
        work: `${folder}/work`,
        hold: true,
        // From Linux 6.12 on, stops a program from killing the agent. Without the agent, its children would
        // leave the process tree.
        scope: true,
        env: { HOME: `${folder}/tmp`, TMPDIR: `${folder}/tmp` },
        rlimits: {
          fsize: spec.limits.disk_mib * MiB,
          // RLIMIT_NPROC counts all processes of the user, who may run other sandboxes too. So it is not set.
          ...(hasCgroup ? {} : { data: dataLimit(spec.limits.memory_mib) }),
        },
        ...(noNetworkFilter === null ? {} : { seccomp: noNetworkFilter }),
      })
      const child = spawn(command, args, {
        stdio: ['pipe', 'pipe', 'pipe'],
        env: {},
        cwd: '/',
        detached: true,
        ...user,
      })
      const agentPid =
        child.pid === undefined
          ? Promise.reject(new Error('the agent did not start'))
          : Promise.resolve(child.pid)
      agentPid.catch(() => {})
      return { child, agentPid }
    },
  }
}
